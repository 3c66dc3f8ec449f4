"""The table of rules, by the stages through which a job starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuctl.reading.why import (
    containers,
    crashes,
    image_pulls,
    mounts,
    never_fits,
    prerequisite_causes,
    probes,
    serving,
    sidecars,
    stopped_jobs,
    unexplained,
)
from gpuctl.reading.why import node_causes as nodes
from gpuctl.reading.why import scheduling_checks as scheduling
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding

Rule = Callable[[Evidence], "Finding | None"]


class RuleGroup(NamedTuple):
    """The rules of one stage. ``title`` names what is ruled out if none of them finds anything."""

    title: str
    rules: tuple[Rule, ...]


STAGES: tuple[RuleGroup, ...] = (
    RuleGroup(
        "the job itself",
        (
            stopped_jobs.succeeded,
            stopped_jobs.terminating,
            stopped_jobs.paused,
            prerequisite_causes.waiting,
            stopped_jobs.suspended,
            stopped_jobs.scheduled,
            never_fits.queued,
            stopped_jobs.deadline_exceeded,
        ),
    ),
    RuleGroup("admission", (never_fits.refused,)),
    RuleGroup("rollout", (serving.paused_rollout,)),
    RuleGroup("scheduling", (scheduling.unscheduled,)),
    RuleGroup("nodes", (nodes.lost_node, nodes.refused_by_node, nodes.evicted_pod)),
    RuleGroup("sandbox and volumes", (containers.failed_sandbox, mounts.failed_mount)),
    RuleGroup("images", (image_pulls.failed_image, image_pulls.slow_pull)),
    RuleGroup("configuration", (containers.failed_config,)),
    RuleGroup("crashes", (crashes.crashed, stopped_jobs.backoff_limit)),
    RuleGroup("health checks", (probes.unready,)),
    RuleGroup("serving", (serving.unreachable_pods, serving.failing_autoscaler)),
    RuleGroup("sidecars", (sidecars.running_sidecar,)),
    RuleGroup("progress", (stopped_jobs.running, unexplained.starting)),
)
