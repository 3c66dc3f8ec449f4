"""`/quotas`: the values of the command line, limited to the namespaces that the user may see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.api.quota_answers import Quota, QuotaList
from support import node_world
from support.cluster_tools import Place
from support.served import Served

QUOTA = "team-resource-quota"
DOCUMENT = {
    "kind": "quota",
    "version": "v0.1",
    "metadata": {"name": QUOTA, "description": "团队资源配额配置"},
    "users": {
        "elon-musk": {"cpu": 10, "memory": "20Gi", "gpu": 4},
        "sam-altman": {"cpu": 10, "memory": "20Gi", "gpu": {"nvidia": 4, "ascend": 8}, "maxJobs": 3},
        "team-a": {"cpu": 10, "memory": "20Gi", "gpu": 4},
    },
}


@pytest.fixture
def quotas(
    plane: ControlPlane,
    served: Served,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Place:
    """The quotas of the product's example, and one of a team with users; a pod counts in one of them."""
    place = node_world.place(plane, tmp_path, capsys, monkeypatch)
    place.anywhere("apply", "-f", place.file(DOCUMENT))
    # A pod that is created before Kubernetes has counted a new quota may be counted minutes later.
    place.until(lambda: _used_gpus(place) is not None, "the first count of the quotas")
    amounts = {"cpu": "2", "memory": "5Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"containers": [container], "nodeSelector": {"none": "such"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "namespace": "elon-musk"}, "spec": spec}
    if place.api.get("Pod", "elon-musk", "held") is None:
        plane.create(pod)
    place.until(lambda: _used_gpus(place) == 1, "the usage of the quotas")
    served.until("/quotas", lambda value: value == _listed(place))
    return place


@pytest.fixture(scope="module", autouse=True)
def delete_quotas(plane: ControlPlane) -> Iterator[None]:
    """Delete the quotas afterwards."""
    yield
    for namespace in DOCUMENT["users"]:
        plane.kubectl("delete", "resourcequota,limitrange", "--all", "-n", namespace)


def _listed(place: Place) -> Any:
    return place.anywhere("get", "quotas", "-o", "json").value


def _used_gpus(place: Place) -> int | None:
    """Return the GPUs that elon-musk uses; None until the use of all quotas is known."""
    found = {item["namespace"]: item for item in _listed(place)["items"] if item["namespace"] in DOCUMENT["users"]}
    known = all(limit["used"] is not None for item in found.values() for limit in item["resources"])
    return found["elon-musk"]["gpuUsed"] if known else None


def test_quotas_are_listed_by_namespace(served: Served, quotas: Place) -> None:
    """The list equals that of the command line, which the fixture waits for."""
    value = served.get("/quotas")
    # Namespaces of other tests may have quotas as well.
    shown = [item["namespace"] for item in value["items"]]
    assert [namespace for namespace in shown if namespace in DOCUMENT["users"]] == ["elon-musk", "sam-altman", "team-a"]
    QuotaList.model_validate(value)


def test_quota_details_equal_those_of_the_command_line(served: Served, quotas: Place) -> None:
    for name in ("elon-musk", "sam-altman", "team-a", QUOTA):
        # Pods of other tests may still be terminating.
        served.until(
            f"/quotas/{name}",
            lambda value, name=name: value == quotas.anywhere("describe", "quota", name, "-o", "json").value,
        )


def test_quota_has_used_total_free_and_percent(served: Served, quotas: Place) -> None:
    value = served.get("/quotas/elon-musk")
    Quota.model_validate(value)
    shown = {
        item["name"]: (item["used"], item["total"], item["free"], item["usedPercent"]) for item in value["resources"]
    }
    gi = 1 << 30
    assert shown == {"cpu": (2, 10, 8, 20.0), "memory": (5 * gi, 20 * gi, 15 * gi, 25.0), "gpu": (1, 4, 3, 25.0)}
    assert (value["name"], value["description"], value["gpuUsed"]) == (QUOTA, "团队资源配额配置", 1)


def test_users_see_only_quotas_of_their_namespaces(served: Served, quotas: Place) -> None:
    """Quotas of other namespaces get the same 404 as quotas that do not exist."""
    for name in ("anna", "viktor"):
        everything = served.get("/quotas", name)
        assert [item["namespace"] for item in everything["items"]] == ["team-a"]
        for one in ("team-a", QUOTA):
            served.until(
                f"/quotas/{one}", lambda value, name=name: [value] == served.get("/quotas", name)["items"], name
            )
        hidden, absent = (served.get(f"/quotas/{user}", name, status=404) for user in ("elon-musk", "elon-mask"))
        assert {**hidden, "message": hidden["message"].replace("elon-musk", "elon-mask")} == absent
        assert hidden["message"] == "there is no quota elon-musk"
        assert "sam-altman" not in str(hidden)
    assert served.get("/quotas", "otto") == {"total": 0, "items": []}
    assert served.get("/quotas/team-a", "otto", status=404)["hint"] == "there are none"
    served.until("/quotas", lambda value: value == served.get("/quotas"), "vera")
