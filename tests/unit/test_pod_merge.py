"""Lists of a podPatch that are added to those of the pod, and the patch that a lift finds for them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.backend.pod_merge import diff_spec, merge_spec

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("path", "own", "added"),
    [
        (("affinity", "nodeAffinity", PREFERRED), {"weight": 1}, {"weight": 2}),
        (("affinity", "podAffinity", REQUIRED), {"topologyKey": "rack"}, {"topologyKey": "zone"}),
        (("affinity", "podAntiAffinity", PREFERRED), {"weight": 1}, {"weight": 2}),
        (("securityContext", "supplementalGroups"), 1, 2),
        (("tolerations",), {"key": "a"}, {"key": "b"}),
    ],
)
def test_patch_adds_to_a_list_of_the_pod(path: tuple[str, ...], own: Any, added: Any) -> None:
    def nested(items: list[Any]) -> dict[str, Any]:
        value: Any = items
        for name in reversed(path):
            value = {name: value}
        assert isinstance(value, dict)
        return value

    pod, patch = nested([own]), nested([own, added])
    merged = copy.deepcopy(pod)
    merge_spec(merged, patch)
    assert merged == nested([own, added])
    assert diff_spec(pod, merged) == nested([added])
