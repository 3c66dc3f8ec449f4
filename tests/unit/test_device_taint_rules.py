"""Reading DeviceTaintRules, which Kubernetes 1.36 has only if their API is enabled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.dynamic_resources import taint_rule_resource
from gpuctl.objects.api_resources import Object, Resource

GROUP = "/apis/resource.k8s.io"
REFUSAL = 'User "dora" cannot list resource "devicetaintrules" in API group "resource.k8s.io" at the cluster scope'


class Discovery:
    """A session whose API server has some versions of the group, each with its kinds, and some objects of kinds.

    A kind without objects may not be listed.
    """

    def __init__(
        self, versions: dict[str, list[str]], status: int = 0, objects: dict[str, list[Object] | None] | None = None
    ) -> None:
        self._versions = versions
        self._status = status
        self._objects = objects or {}

    def list_objects(self, resource: Resource, namespace: str | None = None, fields: str = "") -> Any:
        found = self._objects.get(resource.plural, [])
        if found is None:
            raise ApiError(403, "Forbidden", REFUSAL)
        return found, "1"

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        return list(map(function, items))

    def server_time(self) -> float:
        return 0.0

    def request(self, method: str, path: str) -> Any:
        assert method == "GET"
        if self._status:
            raise ApiError(self._status, "Forbidden", REFUSAL)
        if path == GROUP:
            return {"versions": [{"version": version} for version in self._versions]}
        return {"resources": [{"name": name} for name in self._versions.get(path.removeprefix(f"{GROUP}/"), [])]}


@pytest.mark.parametrize(
    ("versions", "version"),
    [
        ({"v1": ["deviceclasses", "resourceslices"]}, None),
        ({"v1": ["deviceclasses"], "v1beta2": ["devicetaintrules", "devicetaintrules/status"]}, "v1beta2"),
        ({"v1": ["devicetaintrules"], "v1beta2": ["devicetaintrules"]}, "v1"),
    ],
)
def test_taint_rules_have_the_version_that_the_server_prefers(
    versions: dict[str, list[str]], version: str | None
) -> None:
    found = taint_rule_resource(Discovery(versions))  # type: ignore[arg-type]
    assert (found and found.version) == version


def test_taint_rules_are_listed_if_the_versions_may_not_be_read() -> None:
    found = taint_rule_resource(Discovery({}, 403))  # type: ignore[arg-type]
    assert found is not None
    assert found.path() == f"{GROUP}/v1beta2/devicetaintrules"


@pytest.mark.parametrize("may_list", [True, False])
def test_snapshot_has_the_taints_of_rules_or_that_they_may_not_be_read(may_list: bool) -> None:
    taint = {"key": "broken", "effect": "NoSchedule"}
    rule = {"spec": {"taint": taint, "deviceSelector": {"device": "gpu-1"}}}
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    objects: dict[str, list[Object] | None] = {
        "deviceclasses": [{"metadata": {"name": "gpu"}, "spec": {}}],
        "resourceslices": [{"spec": {"driver": "gpu", "pool": pool, "nodeName": "a", "devices": devices}}],
        "devicetaintrules": [rule] if may_list else None,
    }
    session = Discovery({"v1beta2": ["devicetaintrules"]}, objects=objects)
    found = take_snapshot(session, left_out=frozenset({"kueue"}))  # type: ignore[arg-type]
    assert found.unreadable == ([] if may_list else ["deviceTaintRules"])
    tainted = {"name": "gpu-1", "taints": [taint]} if may_list else {"name": "gpu-1"}
    assert found.resource_slices[0]["devices"] == [{"name": "gpu-0"}, tainted]
