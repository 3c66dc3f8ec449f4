"""Jobs and pods with our labels that this gpuctl did not make: an older one's, and those made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cluster_tools import DOMAIN, Place
from control_plane import ControlPlane

POD = {"containers": [{"name": "main", "image": "registry.example.com/i:v1"}], "restartPolicy": "Never"}


def stranger(place: Place, kind: str, name: str, labels: Mapping[str, str]) -> None:
    """A pod, or the workload of an older gpuctl: without `managed-by`."""
    metadata: dict[str, Any] = {"name": name, "namespace": place.namespace, "labels": dict(labels)}
    if kind == "Pod":
        place.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD})
    else:
        spec = {"backoffLimit": 0, "template": {"metadata": {"labels": dict(labels)}, "spec": POD}}
        place.create({"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec})


def runs(place: Place, name: str) -> bool:
    """Whether `get jobs` says so."""
    items = place.gpuctl("get", "jobs", name, "-o", "json", code=None).value["items"]
    return [item["status"] for item in items] == ["Running"]


@pytest.mark.parametrize("labels", [{}, {"app": "lone"}], ids=["without app", "with app"])
def test_a_pod_without_a_workload(place: Place, labels: dict[str, str]) -> None:
    stranger(place, "Pod", "lone", {f"{DOMAIN}/job-type": "notebook", **labels})
    place.until(lambda: runs(place, "lone"), "the pod to run")
    told = place.gpuctl("why", "lone", "-o", "json").value
    assert (told["cause"], told["pod"]) == ("running", None)
    assert place.gpuctl("describe", "job", "lone", "-o", "json").value["why"] is None
    for command in (("pause",), ("rerun",), ("delete", "job")):
        refused = place.gpuctl(*command, "lone", code=1).err
        assert refused == (
            f"error: of lone in {place.namespace} only pods are left\n"
            f"  = `kubectl delete pod lone -n {place.namespace}` ends what runs\n"
        )
    assert runs(place, "lone")


def test_an_older_gpuctls_job_is_seen_but_not_deleted(place: Place) -> None:
    stranger(place, "Job", "old", {f"{DOMAIN}/job-type": "training", "app": "old"})
    place.until(lambda: runs(place, "old"), "the job to run")
    refused = place.gpuctl("delete", "job", "old", code=1).err
    assert refused == (
        f"error: training/old in {place.namespace} is not gpuctl's: "
        "it has no label app.kubernetes.io/managed-by=gpuctl\n"
        f"  = `kubectl delete job.batch old -n {place.namespace}` deletes it\n"
    )
    assert place.gpuctl("why", "old", "-o", "json").value["cause"] == "running"


def test_how_to_say_which_job_is_meant(place: Place) -> None:
    stranger(place, "Job", "twice", {f"{DOMAIN}/job-type": "training", "app": "twice"})
    stranger(place, "Pod", "twice", {f"{DOMAIN}/job-type": "notebook", "app": "twice"})
    refused = place.gpuctl("why", "twice", code=1).err
    assert refused.endswith("\n  = say which as KIND/NAME\n")
    place.gpuctl("why", "notebook/twice")


def test_who_may_not_look_everywhere_is_told_to_name_a_namespace(
    place: Place, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("alice")))
    for command in (("get", "jobs"), ("why", "x"), ("logs", "x"), ("describe", "job", "x"), ("pause", "x")):
        refused = place.anywhere(*command, code=3).err
        assert refused.startswith("error: user alice may not list ")
        assert refused.endswith(" in namespace default\n  = name a namespace that you may read with -n NAMESPACE\n")
