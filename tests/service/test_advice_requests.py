"""The request or command that an error message recommends works in the state in which the error occurs.

Both forms are tested: REST requests, and commands of a client without a kubeconfig.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.cluster_tools import Document, Place, compute, outcome, training
from support.remote import Remote, settled
from support.served import Served


def advised(value: dict[str, Any]) -> tuple[str, str]:
    """Return the method and path that an answer recommends; assert that the answer names no command."""
    text = json.dumps(value, ensure_ascii=False)
    assert not re.search(r"gpuctl (?!.s)|--[a-z]", text.replace("not gpuctl's", "")), text
    found = re.search(r"`(GET|POST|PUT|DELETE) (/[^`]*)`", text)
    assert found is not None, text
    return found[1], found[2]


def submit(served: Served, document: Document, status: int, path: str = "/jobs") -> Any:
    return served.call("POST", path, status=status, json={"yamlContent": json.dumps(document)})


def in_test_namespace(place: Place, document: Document) -> Document:
    """Put a document into the test's namespace and return it."""
    document["job"]["namespace"] = place.namespace
    return document


def run_to_completion(served: Served, place: Place, name: str) -> None:
    place.apply(training(name, job=outcome("complete")))
    served.until(
        "/jobs", lambda value: [item["status"] for item in value["items"]] == ["succeeded"], namespace=place.namespace
    )


@pytest.mark.slow
def test_pause_of_ended_job_names_the_rerun_request(served: Served, place: Place) -> None:
    run_to_completion(served, place, "done")
    refused = served.call("POST", "/jobs/done/pause", status=409, params={"namespace": place.namespace})
    method, path = advised(refused)
    assert (method, path) == ("POST", f"/jobs/done/rerun?namespace={place.namespace}")
    assert served.call(method, path)["status"] == "pending"


def test_rollback_without_earlier_revision_names_the_history(served: Served, place: Place) -> None:
    place.apply(compute("one"))
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    query = {"namespace": place.namespace, "confirm": "true"}
    refused = served.call("POST", "/jobs/one/rollback", status=409, params=query)
    method, path = advised(refused)
    assert (method, path) == ("GET", f"/jobs/one/history?namespace={place.namespace}")
    assert len(served.call(method, path)["items"]) == 1


def test_paused_job_names_no_command(served: Served, place: Place) -> None:
    place.apply(compute("one"))
    place.gpuctl("pause", "one")
    found = served.until(
        "/jobs", lambda value: [item["status"] for item in value["items"]] == ["paused"], namespace=place.namespace
    )
    assert found["items"][0]["reason"] is None


def test_name_conflict_with_another_kind_names_the_delete_request(served: Served, place: Place) -> None:
    place.apply(compute("a"))
    place.running("a")
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    refused = submit(served, in_test_namespace(place, training("a")), 409)
    method, path = advised(refused)
    assert (method, path) == ("DELETE", f"/jobs/a?namespace={place.namespace}")
    plan = submit(served, in_test_namespace(place, training("a")), 200, "/plan")
    assert advised({"errors": plan["errors"]}) == (method, path)
    served.call(method, path)
    place.until(lambda: not place.exists("Deployment", "a"), "the Deployment to be deleted")
    place.until(lambda: not place.pods("a"), "its pods to be deleted")
    submit(served, in_test_namespace(place, training("a")), 201)


def create_foreign_job(place: Place, name: str) -> None:
    """Create a Job that gpuctl does not manage."""
    container = {"name": "main", "image": "registry.example.com/x:v1"}
    place.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": place.namespace},
            "spec": {"suspend": True, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
        }
    )


def test_foreign_object_error_advises_renaming_the_job(remote: Remote) -> None:
    place, served = remote.place, remote.served
    create_foreign_job(place, "a")
    plan = submit(served, in_test_namespace(place, training("a")), 200, "/plan")
    assert "rename the job, or have its manager release it" in plan["errors"][0]
    assert "gpuctl apply" not in json.dumps(plan)
    submit(served, in_test_namespace(place, training("renamed")), 201)
    remote.login()
    path = place.file(training("a"))
    for words in (("apply", "-f", path), ("apply", "-f", path, "-o", "json"), ("diff", "-f", path)):
        said = remote.typed(*words, "-n", place.namespace, code=None)
        assert "rename the job, or have its manager release it" in said.out + said.err
        assert "--adopt" not in said.out + said.err
    place.kubectl("delete", "job", "a")
    remote.typed("apply", "-f", path, "-n", place.namespace)


def test_missing_namespace_error_names_create_namespace(remote: Remote) -> None:
    """A REST client names the namespace in the document; the command line has `--create-namespace`."""
    remote.login()
    place, name = remote.place, f"{remote.place.namespace}-new"
    path = place.file(training("a"))
    said = remote.typed("apply", "-f", path, "-n", name, code=1)
    assert "--create-namespace creates it" in said.err
    try:
        remote.typed("apply", "-f", path, "-n", name, "--create-namespace")
    finally:
        place.api.call("DELETE", f"/api/v1/namespaces/{name}")


def run_advised(remote: Remote, said: str, command: str, *more: str) -> None:
    """Run the recommended command."""
    found = re.search(rf"`gpuctl ({command} [^`]*)`", said)
    assert found is not None, said
    remote.typed(*found[1].split(), *more)


def test_advised_why_command_works(remote: Remote) -> None:
    remote.login()
    place = remote.place
    place.apply(training("a", resources={"gpu": 65}), flags=("--yes",), code=None)
    remote.served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    run_advised(remote, remote.typed("logs", "a", "-n", place.namespace, code=1).err, "why")


def test_advised_rerun_command_works(remote: Remote) -> None:
    remote.login()
    run_to_completion(remote.served, remote.place, "a")
    run_advised(remote, remote.typed("pause", "a", "-n", remote.place.namespace, code=1).err, "rerun", "--yes")


def test_advised_delete_command_works(remote: Remote) -> None:
    remote.login()
    place = remote.place
    place.apply(compute("a"))
    settled(remote, "a")
    path = place.file(training("a"))
    run_advised(remote, remote.typed("apply", "-f", path, "-n", place.namespace, code=1).err, "delete job", "--yes")
    remote.typed("apply", "-f", path, "-n", place.namespace)
