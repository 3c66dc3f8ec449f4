"""A database of usage in which there is something, for services that are asked about everything."""

from __future__ import annotations

from pathlib import Path

from control_plane import ControlPlane
from gpuctl_usage.facts import AllocationSnapshot
from gpuctl_usage.store.database import open_database
from gpuctl_usage.sums import Group, Level, RolledUp, Sums

START = 1_762_300_800
"""2025-11-05, 00:00 UTC."""


def usage_database(directory: Path, plane: ControlPlane) -> str:
    """Return the path of a database with an hour and a snapshot of the cluster of a control plane."""
    path = directory / "usage.db"
    database = open_database(str(path))
    cluster = database.cluster(str(plane.get("namespace", "kube-system")["metadata"]["uid"]), "cluster-1")
    sums = Sums(alloc_gpu_s=3600, cap_gpu_s=7200, obs_gpu_s=3600, util_gpu_s=180000, util_min=50, util_max=50)
    groups = [
        Group(Level.CLUSTER),
        Group(Level.NAMESPACE, value="team-a"),
        Group(Level.LABEL, "team", "a"),
        Group(Level.ANNOTATION, "cost-center", "1"),
        Group(Level.WORKLOAD, "team-a/Job/fuzz-train", "uid"),
    ]
    database.put_rolled_up(cluster, RolledUp(START, 3600.0, dict.fromkeys(groups, sums), "digest"), provisional=False)
    database.put_snapshot(cluster, AllocationSnapshot(START, 2, 0, ()))
    database.close()
    return str(path)
