"""When a workload counts as up: `apply --wait`, `wait --for=ready`."""

from __future__ import annotations

import pytest

from gpuctl.objects.workload_start import is_up


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}, True),
        ({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, False),
        # The ready pods may be those of the former revision.
        ({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 2}, False),
        ({"replicas": 2, "updatedReplicas": 1, "readyReplicas": 2}, False),
        ({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "observedGeneration": 1}, False),
    ],
    ids=["new pods ready", "one not ready", "a former pod beside new ones", "one new pod", "older generation"],
)
def test_deployment_is_up_when_only_new_pods_are_there_and_ready(status: dict[str, int], expected: bool) -> None:
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "chat", "generation": 2},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2, **status},
    }
    assert is_up(deployment) is expected
