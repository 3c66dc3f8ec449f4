"""``gpuctl fit`` without files for users who may list pods of one namespace only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from control_plane import ControlPlane
from control_plane.users import Rule
from fault_tools.world import Api
from support.cluster_tools import Place, training

OWN: Rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}


@pytest.fixture
def waiting_jobs(place: Place, api: Api, away: str) -> None:
    """A job that runs, a job that never fits, and a job in another namespace."""
    place.apply(training("large", resources={"gpu": 64}), training("never", resources={"gpu": 999}))
    place.anywhere(
        "apply", "-f", place.file(training("theirs", resources={"gpu": 998}), name="theirs.yaml"), "-n", away
    )


def test_fit_covers_only_the_namespace_that_the_user_may_read(
    place: Place, api: Api, away: str, waiting_jobs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.running("large")
    place.until(lambda: place.pods("never") and api.list_objects("Pod", away), "the pods that wait")
    place.grant("nobody", [OWN])
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("nobody")))
    refused = place.anywhere("fit", code=3)
    assert "may not list pods" in refused.err
    assert refused.out == ""
    found = place.gpuctl("fit", "-o", "json", code=2)
    jobs = {job["name"]: (job["verdict"], job["certain"], job["reason"]) for job in found.value["jobs"]}
    assert jobs == {"never": ("unknown", False, "free resources are unknown: nodes may not be listed")}
    assert f"note: only namespace {place.namespace} may be read" in found.err
    assert "nodes" in found.err
    assert "Traceback" not in found.err
    with may_list(place.plane, "nobody", "nodes"):
        # A DeviceClass may offer more GPUs under the resource's name than the nodes report.
        unread = (
            "it is unknown whether nodes have more nvidia.com/gpu than they report: DeviceClasses could not be read"
        )
        place.until(lambda: unread in place.gpuctl("fit", code=None).out, "the right to list nodes")
    with may_list(place.plane, "nobody", "nodes,deviceclasses.resource.k8s.io"):
        place.until(lambda: place.gpuctl("fit", code=None).code == 1, "the right to list nodes and device classes")
        found = place.gpuctl("fit", "-o", "json", code=1)
    assert {job["name"]: job["verdict"] for job in found.value["jobs"]} == {"never": "never"}
    assert "theirs" not in found.out + found.err


@contextmanager
def may_list(plane: ControlPlane, user: str, resources: str) -> Iterator[None]:
    """Let a user list resources of the whole cluster inside the block."""
    name = f"{user}-lists"
    plane.kubectl("create", "clusterrole", name, "--verb=list", f"--resource={resources}")
    plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={user}")
    yield
    plane.kubectl("delete", "clusterrolebinding,clusterrole", name)
