"""The plan for one of several clusters, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuctl.apply.plan.plan import Plan
from gpuctl.kube.api_errors import ClusterError

ClusterState = Literal["planned", "done", "failed", "interrupted", "not-run"]


@dataclass
class ClusterPlan:
    """The plan for one of several clusters, and its result. ``plan`` is None if it could not be made. ``error``: the
    failure of planning or execution.
    """

    name: str
    server: str = ""
    plan: Plan | None = None
    state: ClusterState = "planned"
    error: ClusterError | None = None

    @property
    def obstacles(self) -> list[str]:
        """Return the reasons why no cluster may be changed."""
        if self.error is not None:
            return self.error.message.splitlines()
        return self.plan.obstacles if self.plan is not None else []
