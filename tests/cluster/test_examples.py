"""The documents of ``examples/jobs`` on a real API server: each is created, and applying them again changes nothing."""

from __future__ import annotations

from control_plane import ControlPlane
from support.cluster_tools import Place
from support.pages import ROOT

JOBS = ROOT / "examples" / "jobs"


def test_examples_are_created_once(plane: ControlPlane, place: Place) -> None:
    pools = (*(f"gpu-a{number}" for number in range(1, 17)), "gpu-s1", "gpu-s2", "gpu-s3", "gpu-s4", "gpu-m1")
    plane.add_nodes({name: {"gpus": 8, "cpu": "128", "memory": "1Ti"} for name in pools})
    try:
        created, again = (place.anywhere("apply", "-f", str(JOBS), "--yes", "-o", "json") for _ in range(2))
        assert len(created.actions) > 20
        assert set(created.actions.values()) == {"create"}
        assert again.actions == dict.fromkeys(created.actions, "unchanged")
    finally:
        place.anywhere("delete", "-f", str(JOBS), "--yes", "--without-checkpoint")
        plane.kubectl("delete", "pvc", "--all", "-n", "nlp")
        plane.kubectl("delete", "node", *pools)
