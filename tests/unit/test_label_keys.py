"""Node labels that the service may set, with and without a limit to configured keys."""

from __future__ import annotations

import pytest

from gpuctl.language.settings import Settings
from gpuctl_server.access.label_keys import LabelKeys

KEYS = LabelKeys(Settings(), ("node-role.kubernetes.io/gpu",), ("rack", "example.com/", "zone.k8s.io/"))


@pytest.mark.parametrize(
    ("key", "limited", "unlimited"),
    [
        ("runwhere.ai/pool", True, True),
        ("nvidia.com/gpu-type", True, True),
        ("nvidia.com/gpu.product", True, True),
        ("rack", True, True),
        ("example.com/disk", True, True),
        ("sub.example.com/disk", False, True),
        ("racks", False, True),
        ("kubernetes.io/hostname", False, False),
        ("node-role.kubernetes.io/control-plane", False, False),
        ("zone.k8s.io/x", False, False),
        ("kubernetes.io/gpu-type", False, False),
        ("node-role.kubernetes.io/gpu", False, True),
        ("x-k8s.io/a", False, True),
        ("notkubernetes.io/a", False, True),
    ],
)
def test_label_keys_with_and_without_limits(key: str, limited: bool, unlimited: bool) -> None:
    assert (KEYS.problem(key, is_limited=True) is None) is limited
    assert (KEYS.problem(key, is_limited=False) is None) is unlimited
