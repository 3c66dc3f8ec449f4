"""The plan for one of several clusters, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuctl.apply.plan.plan import Plan
from gpuctl.kube.api_errors import ClusterError

ClusterState = Literal["planned", "done", "failed", "interrupted", "not-run"]


@dataclass
class ClusterPlan:
    """One of several clusters: ``state`` is what became of the plan there, ``error`` why it could not be made or
    carried out. ``plan`` is None where none could be made."""

    name: str
    server: str = ""
    plan: Plan | None = None
    state: ClusterState = "planned"
    error: ClusterError | None = None

    @property
    def obstacles(self) -> list[str]:
        """What forbids that anything is changed, here or elsewhere."""
        if self.error is not None:
            return self.error.message.splitlines()
        return self.plan.obstacles if self.plan is not None else []
