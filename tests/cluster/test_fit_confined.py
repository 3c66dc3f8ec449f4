"""``gpuctl fit`` without files by those who may look at one namespace only."""

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
def waiting(place: Place, api: Api, away: str) -> None:
    """A job that can wait for room, one that never gets any, and one of somebody else."""
    place.apply(training("large", resources={"gpu": 64}), training("never", resources={"gpu": 999}))
    place.anywhere(
        "apply", "-f", place.file(training("theirs", resources={"gpu": 998}), name="theirs.yaml"), "-n", away
    )


def test_their_own_jobs_alone(
    place: Place, api: Api, away: str, waiting: None, monkeypatch: pytest.MonkeyPatch
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
    assert jobs == {"never": ("unknown", False, "the room that is free is not known: nodes may not be listed")}
    assert f"note: only namespace {place.namespace} could be looked at" in found.err
    assert "nodes" in found.err
    assert "Traceback" not in found.err
    with sees_nodes(place.plane, "nobody"):
        place.until(lambda: place.gpuctl("fit", code=None).code == 1, "the right to list nodes")
        found = place.gpuctl("fit", "-o", "json", code=1)
    assert {job["name"]: job["verdict"] for job in found.value["jobs"]} == {"never": "never"}
    assert "theirs" not in found.out + found.err


@contextmanager
def sees_nodes(plane: ControlPlane, user: str) -> Iterator[None]:
    """Let somebody list nodes meanwhile."""
    name = f"{user}-lists-nodes"
    plane.kubectl("create", "clusterrole", name, "--verb=list", "--resource=nodes")
    plane.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", f"--user={user}")
    yield
    plane.kubectl("delete", "clusterrolebinding,clusterrole", name)
