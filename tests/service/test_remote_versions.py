"""A command line and a service of different versions: unknown fields are ignored, optional fields may be missing."""

from __future__ import annotations

from typing import Any

from support.cluster_tools import POOL, image, training
from support.remote import Remote, settled, timeless
from support.rest_records import NEW_FIELD, Answered, between

_LATER_FIELDS = frozenset({"address", "k8sState", "gpuLabels", "amounts", "pods", "waitingPods"})
"""Fields of nodes and pools that have a default."""


def without_later_fields(value: Any) -> Any:
    """Return an answer about nodes or pools without the fields that later versions added."""
    if isinstance(value, list):
        return [without_later_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_later_fields(item) for key, item in value.items() if key not in _LATER_FIELDS or "type" in value
    }


_OPTIONAL = frozenset(
    {
        *("node", "ip", "startedAt", "createdAt", "pool", "gpuType", "priority", "appliedBy", "reason"),
        *("uid", "statuses", "notes", "version", "description", "yamlContent", "metrics", "memoryBytes", "memory"),
        *("numbers", "ruledOut", "fix", "evidence", "also", "events", "lastTransitionTime", "nodePorts", "podIps"),
    }
)
"""Fields of jobs that have a default."""


def without_optional(value: Any) -> Any:
    """Return an answer about jobs without the fields that have a default."""
    if isinstance(value, list):
        return list(map(without_optional, value))
    if not isinstance(value, dict):
        return value
    return {key: without_optional(item) for key, item in value.items() if key not in _OPTIONAL}


NODES = (
    ("get", "nodes"),
    ("get", "nodes", "--label", "runwhere.ai/pool"),
    ("get", "nodes", "--gpu-detail"),
    ("get", "gpu-types"),
    ("get", "labels"),
    ("get", "labels", f"{POOL}-0"),
    ("get", "pools"),
    ("describe", "node", f"{POOL}-0"),
    ("describe", "pool", POOL),
)


def test_answers_of_a_newer_service_are_accepted(remote: Remote) -> None:
    place = remote.place
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "90", "requests.cpu": "9500m"}}}
    place.create({**quota, "metadata": {"name": "few", "labels": {"runwhere.ai/quota": "few"}}})
    place.apply(training("a"), training("done", resources={"cpu": "500m"}))
    settled(remote, "a", "done")
    [pod] = place.pods("done")
    place.plane.write_log(place.namespace, pod, "line\n")
    place.plane.annotate(place.namespace, pod, outcome="complete")
    place.until(lambda: place.get("Job", "done")["status"].get("succeeded"), "the job to end")
    here = ("-n", place.namespace)
    same, new = place.file(training("a"), name="same.yaml"), place.file(training("b"), name="new.yaml")
    changed = place.file(training("a", environment=image("v2")), name="changed.yaml")
    commands = (
        ("get", "jobs", *here),
        ("get", "jobs", *here, "-o", "json"),
        ("get", "jobs", "a", *here, "-o", "wide"),
        ("get", "jobs", "--jobs", *here),
        ("describe", "job", "a", *here),
        ("describe", "job", "a", *here, "-o", "json"),
        ("why", "a", *here),
        ("why", "a", *here, "-o", "json"),
        ("logs", "a", *here),
        ("logs", "done", "-f", *here),
        ("wait", "a", "--for=running", *here),
        ("history", "a", *here),
        ("get", "quotas", *here),
        ("get", "quotas", *here, "-o", "json"),
        ("describe", "quota", place.namespace),
        ("get", "namespaces", place.namespace, "-o", "json"),
        ("describe", "namespace", place.namespace),
        ("describe", "namespace", place.namespace, "-o", "json"),
        *((*words, "-o", form) for words in NODES for form in ("json", "wide") if words[0] == "get"),
        *(words for words in NODES),
        ("pause", "a", *here),
        ("resume", "a", *here),
        ("diff", "-f", same, *here),
        ("apply", "-f", same, *here),
        ("apply", "-f", changed, *here, "--yes"),
        ("apply", "-f", changed, *here, "-o", "json"),
        ("create", "-f", new, *here),
        ("rollback", "a", *here, "--dry-run"),
        ("rollback", "a", *here, "--yes"),
        ("delete", "-f", new, *here, "--yes"),
        ("recover", *here),
    )
    with between(remote.served.url, Answered.renewed) as url:
        remote.login(url=url, token=remote.served.tokens["admin"])
        for command in commands:
            told = remote.typed(*command, "--server", url, code=None)
            assert told.code == 0, (command, told.err)
            assert NEW_FIELD not in told.out + told.err
        remote.typed("delete", "job", "a", *here, "--yes", "--server", url)


def test_nodes_and_pools_of_an_older_service_are_printed(remote: Remote) -> None:
    """The command line prints the fields that the service returns."""
    with between(remote.served.url, lambda answer: answer.changed(without_later_fields)) as url:
        remote.login(url=url, token=remote.served.tokens["admin"])
        for words in (*NODES, ("get", "nodes", "-o", "wide")):
            assert remote.typed(*words, "--server", url).out
        assert "Jobs: not known" in remote.typed("describe", "node", f"{POOL}-0", "--server", url).out


def test_jobs_of_an_older_service_are_printed(remote: Remote) -> None:
    place = remote.place
    place.apply(training("a"))
    settled(remote, "a")
    with between(remote.served.url, lambda answer: answer.changed(without_optional)) as url:
        remote.login(url=url, token=remote.served.tokens["admin"])
        for command in (("get", "jobs"), ("get", "pods"), ("describe", "job", "a"), ("why", "a")):
            for form in ((), ("-o", "json"), *([("-o", "wide")] if command[0] == "get" else [])):
                told = remote.typed(*command, *form, "-n", place.namespace, "--server", url, code=None)
                assert told.code == 0, (command, told.err)
                assert "a" in told.out


def test_quotas_and_namespaces_equal_those_with_a_kubeconfig(remote: Remote) -> None:
    """They are read from the public paths."""
    place = remote.place
    for name, labels in (("few", {"runwhere.ai/quota": "few"}), ("foreign", {})):
        hard = {"pods": "90", "requests.cpu": "2500m", "requests.memory": "5Gi", "requests.nvidia.com/gpu": "16"}
        metadata = {"name": name, "labels": labels}
        place.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    place.apply(training("a"))
    settled(remote, "a")
    remote.login()
    user = place.namespace
    for form in ((), ("-o", "json"), ("-o", "wide"), ("-o", "name")):
        remote.same("get", "quotas", *form)
        remote.same_anywhere("get", "quotas", user, *form)
        remote.same_anywhere("get", "namespaces", user, *form)
    for form in ((), ("-o", "json"), ("-o", "yaml")):
        remote.same_anywhere("describe", "quota", user, *form)
        remote.same_anywhere("describe", "quota", "few", *form)
        remote.same_anywhere("describe", "namespace", user, *form)
    value = remote.served.get(f"/namespaces/{user}")
    assert [(quota["name"], quota["isManaged"]) for quota in value["quotas"]] == [("few", True), ("foreign", False)]
    assert (value["jobs"], value["allJobs"], len(value["runningJobs"])) == (1, 1, 1)
    assert remote.served.get("/namespaces/nope", status=404)["error"] == "NotFound"
    assert timeless(remote.typed("describe", "namespace", "No-Name", code=1).err).startswith(
        "error: there is no namespace"
    )
