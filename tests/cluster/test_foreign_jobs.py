"""Jobs and pods with gpuctl's labels that this gpuctl did not create: by an older version or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import DOMAIN, Place
from support.command import Start

POD = {"containers": [{"name": "main", "image": "registry.example.com/i:v1"}], "restartPolicy": "Never"}


def create_foreign_object(place: Place, kind: str, name: str, labels: Mapping[str, str]) -> None:
    """Create a pod, or a workload without `managed-by` as an older gpuctl did."""
    metadata: dict[str, Any] = {"name": name, "namespace": place.namespace, "labels": dict(labels)}
    if kind == "Pod":
        place.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD})
    else:
        spec = {"backoffLimit": 0, "template": {"metadata": {"labels": dict(labels)}, "spec": POD}}
        place.create({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec})


def is_running(place: Place, name: str) -> bool:
    """Return True if `get jobs` shows the job as running."""
    items = place.gpuctl("get", "jobs", name, "-o", "json").value["items"]
    return [item["status"] for item in items] == ["Running"]


@pytest.mark.slow
@pytest.mark.parametrize("labels", [{}, {"app": "lone"}], ids=["without app", "with app"])
def test_commands_refuse_to_change_a_lone_pod(place: Place, labels: dict[str, str]) -> None:
    create_foreign_object(place, "Pod", "lone", {f"{DOMAIN}/job-type": "notebook", **labels})
    place.until(lambda: is_running(place, "lone"), "the pod to run")
    told = place.gpuctl("why", "lone", "-o", "json").value
    assert (told["cause"], told["pod"]) == ("running", None)
    assert place.gpuctl("describe", "job", "lone", "-o", "json").value["why"] is None
    for command in (("pause",), ("rerun",), ("delete", "job")):
        refused = place.gpuctl(*command, "lone", code=1).err
        assert refused == (
            f"error: only pods of lone in {place.namespace} are left\n"
            f"  = `kubectl delete pod lone -n {place.namespace}` ends what runs\n"
        )
    assert is_running(place, "lone")


def test_job_without_managed_by_is_shown_but_not_deleted(place: Place) -> None:
    create_foreign_object(place, "Job", "old", {f"{DOMAIN}/job-type": "training", "app": "old"})
    place.until(lambda: is_running(place, "old"), "the job to run")
    refused = place.gpuctl("delete", "job", "old", code=1).err
    assert refused == (
        f"error: training/old in {place.namespace} is not gpuctl's: "
        "it has no label app.kubernetes.io/managed-by=gpuctl\n"
        f"  = `kubectl delete job.batch old -n {place.namespace}` deletes it\n"
    )
    assert place.gpuctl("why", "old", "-o", "json").value["cause"] == "running"


def test_pod_without_app_label_is_waited_for_and_followed(place: Place, start: Start) -> None:
    create_foreign_object(place, "Pod", "lone", {f"{DOMAIN}/job-type": "notebook"})
    place.until(lambda: is_running(place, "lone"), "the pod to run")
    for condition in ("running", "ready"):
        assert place.gpuctl("wait", "lone", f"--for={condition}").out == f"notebook/lone is {condition}\n"
    place.plane.write_log(place.namespace, "lone", "first\n")
    still = place.gpuctl("wait", "lone", "--for=deleted", "--timeout=1s", code=1)
    assert still.err.startswith("error: notebook/lone is not deleted after 1 s: Running\n")
    follower = start("logs", "lone", "-f", "-n", place.namespace)
    place.until(lambda: follower.out == b"first\n", "the first line")
    place.plane.write_log(place.namespace, "lone", "second\n")
    place.plane.annotate(place.namespace, "lone", outcome="complete")
    assert follower.end() == 0
    assert follower.out == b"first\nsecond\n"
    assert place.gpuctl("wait", "lone", "--for=done").out == "notebook/lone is done\n"


def test_job_without_app_label_is_found_by_name(place: Place) -> None:
    create_foreign_object(place, "Job", "theirs", {f"{DOMAIN}/job-type": "training"})
    place.gpuctl("wait", "theirs", "--for=running")
    assert is_running(place, "theirs")
    assert place.gpuctl("why", "training/theirs", "-o", "json").value["cause"] == "running"
    refused = place.gpuctl("logs", "notebook/theirs", code=1).err
    assert refused == f"error: theirs in {place.namespace} is not a notebook but training/theirs\n"


@pytest.mark.parametrize("name", ["theirs", "theirs-v2"], ids=["label app", "name of the object"])
def test_job_named_unlike_its_app_is_waited_for_and_followed(place: Place, start: Start, name: str) -> None:
    create_foreign_object(place, "Job", "theirs-v2", {f"{DOMAIN}/job-type": "training", "app": "theirs"})
    assert place.gpuctl("wait", name, "--for=running").out == "training/theirs is running\n"
    still = place.gpuctl("wait", name, "--for=deleted", "--timeout=1s", code=1)
    assert still.err.startswith("error: training/theirs is not deleted after 1 s: Running\n")
    assert place.gpuctl("why", name, "-o", "json").value["cause"] == "running"
    (pod,) = place.gpuctl("get", "jobs", name, "-o", "json").value["items"]
    assert pod["name"] == "theirs"
    follower = start("logs", name, "-f", "-n", place.namespace)
    place.plane.annotate(place.namespace, pod["pod"], outcome="complete")
    assert follower.end() == 0
    assert follower.err.endswith(b"training/theirs has finished\n")


def test_objects_with_one_app_label_are_shown_each_and_only_gpuctls_is_deleted(place: Place) -> None:
    """A copy of gpuctl's object under another name keeps its labels."""
    labels = {f"{DOMAIN}/job-type": "training", "app": "one", "app.kubernetes.io/managed-by": "gpuctl"}
    for name in ("one-copy", "one"):
        create_foreign_object(place, "Job", name, labels)
    rows = place.gpuctl("get", "jobs", "--jobs").out.splitlines()[1:]
    assert [tuple(row.split()[:2]) for row in rows] == [("one", "one"), ("one-copy", "one")]
    assert (
        "note: training/one is Job/one here; Job/one-copy has its label `app`, too\n"
        in place.gpuctl("describe", "job", "one").err
    )
    assert place.gpuctl("wait", "one-copy", "--for=running").out == "training/one is running\n"
    refused = place.gpuctl("delete", "job", "one-copy", "--yes", code=1).err
    assert refused == (
        f"error: training/one in {place.namespace} is not gpuctl's: "
        "the name of job.batch/one-copy differs from its label `app`\n"
        f"  = `kubectl delete job.batch one-copy -n {place.namespace}` deletes it\n"
    )
    place.gpuctl("delete", "job", "one", "--yes")
    assert place.gpuctl("delete", "job", "one", "--yes", code=1).err == refused
    assert place.exists("Job", "one-copy")


def test_ambiguous_name_needs_kind_and_name(place: Place) -> None:
    create_foreign_object(place, "Job", "twice", {f"{DOMAIN}/job-type": "training", "app": "twice"})
    create_foreign_object(place, "Pod", "twice", {f"{DOMAIN}/job-type": "notebook", "app": "twice"})
    refused = place.gpuctl("why", "twice", code=1).err
    assert refused.endswith("\n  = say which as KIND/NAME\n")
    place.gpuctl("why", "notebook/twice")


@pytest.mark.slow
def test_user_of_one_namespace_must_name_it(place: Place, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("alice")))
    for command in (("get", "jobs"), ("why", "x"), ("logs", "x"), ("describe", "job", "x"), ("pause", "x")):
        refused = place.anywhere(*command, code=3).err
        assert refused.startswith("error: user alice may not list ")
        assert refused.endswith(" in namespace default\n  = name a namespace that you may read with -n NAMESPACE\n")


FOREIGN = {"containers": [{"name": "web", "image": "registry.example.com/i:v1"}]}
"""A foreign pod spec: no container is named `main`, and most fields are missing."""


def _create_foreign_workload(place: Place, kind: str, job_type: str) -> None:
    labels = {"app": "theirs", f"{DOMAIN}/job-type": job_type, "app.kubernetes.io/managed-by": "gpuctl"}
    metadata: dict[str, Any] = {"name": "theirs", "namespace": place.namespace, "labels": labels}
    template = {"metadata": {"labels": labels}, "spec": FOREIGN}
    versions = {"Pod": "v1", "Job": "batch/v1"}
    obj: dict[str, Any] = {"apiVersion": versions.get(kind, "apps/v1"), "kind": kind, "metadata": metadata}
    if kind == "Pod":
        obj["spec"] = FOREIGN
    elif kind == "Job":
        obj["spec"] = {"template": {**template, "spec": {**FOREIGN, "restartPolicy": "Never"}}}
    else:
        obj["spec"] = {"selector": {"matchLabels": {"app": "theirs"}}, "template": template}
    place.create(obj)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "job_type"),
    [
        ("Deployment", "inference"),
        ("Deployment", "training"),
        ("Deployment", "something"),
        ("StatefulSet", "notebook"),
        ("Job", "training"),
        ("Pod", "compute"),
    ],
)
def test_reading_commands_accept_foreign_objects_with_our_labels(place: Place, kind: str, job_type: str) -> None:
    _create_foreign_workload(place, kind, job_type)
    place.until(lambda: is_running(place, "theirs"), "the pods to run")
    for command in (
        ("get", "jobs"),
        ("get", "jobs", "theirs", "--pods"),
        ("describe", "job", "theirs"),
        ("describe", "job", "theirs", "-o", "json"),
        ("why", "theirs"),
        ("logs", "theirs"),
    ):
        assert "Traceback" not in place.gpuctl(*command).err
    found = place.gpuctl("describe", "job", "theirs", "-o", "json").value
    assert (found["name"], found["images"]) == ("theirs", ["registry.example.com/i:v1"])
