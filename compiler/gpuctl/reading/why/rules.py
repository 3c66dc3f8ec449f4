"""The table of rules, in the stages that a job goes through on its way to running."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuctl.reading.why import containers, crashes, idle, never_fits, open_ends, serving, sidecars
from gpuctl.reading.why import node_causes as nodes
from gpuctl.reading.why import waiting_pods as scheduling
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding

Rule = Callable[[Evidence], "Finding | None"]


class RuleGroup(NamedTuple):
    """``title`` names what is ruled out when none of the rules finds anything."""

    title: str
    rules: tuple[Rule, ...]


STAGES: tuple[RuleGroup, ...] = (
    RuleGroup(
        "the job itself",
        (idle.succeeded, idle.terminating, idle.paused, idle.suspended, never_fits.queued, idle.deadline_exceeded),
    ),
    RuleGroup("admission", (never_fits.refused,)),
    RuleGroup("rollout", (serving.halted,)),
    RuleGroup("scheduling", (scheduling.unscheduled,)),
    RuleGroup("nodes", (nodes.lost, nodes.refused, nodes.evicted)),
    RuleGroup("sandbox and volumes", (containers.sandbox, containers.mount)),
    RuleGroup("images", (containers.image, containers.slow)),
    RuleGroup("configuration", (containers.config,)),
    RuleGroup("crashes", (crashes.crashed, idle.backoff_limit)),
    RuleGroup("health checks", (crashes.unready,)),
    RuleGroup("serving", (serving.unserved, serving.unscaled)),
    RuleGroup("sidecars", (sidecars.kept_alive,)),
    RuleGroup("progress", (idle.running, open_ends.starting)),
)
