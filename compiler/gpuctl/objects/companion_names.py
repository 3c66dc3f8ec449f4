"""Names of the objects that stand beside a job's workload."""

from __future__ import annotations

from gpuctl.objects.generations import HOSTFILE


def service_name(name: str) -> str:
    """The Service of a job: ``svc-{name}``."""
    return f"svc-{name}"


def hostfile_name(name: str) -> str:
    """The ConfigMap with the hostfile."""
    return name + HOSTFILE
