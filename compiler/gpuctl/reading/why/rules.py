"""The table of rules, in the stages that a job goes through on its way to running."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuctl.reading.why import containers, crashes, idle, open_ends, serving
from gpuctl.reading.why import node_causes as nodes
from gpuctl.reading.why import refusals as admission
from gpuctl.reading.why import waiting_pods as scheduling
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding

Rule = Callable[[Evidence], "Finding | None"]


class Stage(NamedTuple):
    """``title`` names what is ruled out when none of the rules finds anything."""

    title: str
    rules: tuple[Rule, ...]


STAGES: tuple[Stage, ...] = (
    Stage(
        "the job itself",
        (idle.succeeded, idle.terminating, idle.paused, idle.suspended, idle.queued, idle.deadline_exceeded),
    ),
    Stage("admission", (admission.refused,)),
    Stage("rollout", (serving.halted,)),
    Stage("scheduling", (scheduling.unscheduled,)),
    Stage("nodes", (nodes.lost, nodes.refused, nodes.evicted)),
    Stage("sandbox and volumes", (containers.sandbox, containers.mount)),
    Stage("images", (containers.image, containers.slow)),
    Stage("configuration", (containers.config,)),
    Stage("crashes", (crashes.crashed, idle.backoff_limit)),
    Stage("health checks", (crashes.unready,)),
    Stage("serving", (serving.unserved, serving.unscaled)),
    Stage("progress", (idle.running, open_ends.starting)),
)
