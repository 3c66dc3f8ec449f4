"""Rank what all rules found, and explain a job by the cause to remove first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpuctl.kube.scope import Scope
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.hidden_names import unique_names
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.workload_state import has_ended
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.status import pod_status
from gpuctl.reading.why import unexplained
from gpuctl.reading.why.container_exits import container_exits
from gpuctl.reading.why.evidence import Evidence, gather
from gpuctl.reading.why.finding import Finding
from gpuctl.reading.why.rules import STAGES
from gpuctl.reading.why.scheduling_checks import ruled_out as of_nodes
from gpuctl.reading.why.stopped_jobs import running_size

WELL = frozenset({"running", "scheduled", "succeeded"})
_IDLE = frozenset(
    {"waiting-for-jobs", "dependency-missing", "dependency-failed"}
    | {"scheduled", "succeeded", "terminating", "paused", "suspended", "queued", "queue-unusable", "deadline-exceeded"}
)

# Stages whose findings are about pods that exist; crashes and evictions may be in the past.
_OF_LIVE_PODS = (
    "rollout",
    "scheduling",
    "sandbox and volumes",
    "images",
    "configuration",
    "health checks",
    "serving",
    "sidecars",
)


@dataclass(frozen=True)
class Explanation:
    """The explanation of a job's state.

    :param also: other causes, in the order in which to remove them.
    :param ruled_out: what was checked and is in order.
    :param notes: what could not be read.
    """

    job: Job
    finding: Finding
    also: list[Finding]
    ruled_out: list[str]
    notes: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Return True if there is nothing to fix."""
        return self.finding.cause in WELL


def why(scope: Scope, job: Job, keys: Records, settings: Settings) -> Explanation:
    """Read the evidence about a job and explain its state.

    :raises ApiError: the API server fails. What may not be read is noted instead, also in ``scope``.
    """
    answer = explain(gather(scope, job, keys, settings))
    return replace(answer, notes=tuple(scope.notes))


def explain(evidence: Evidence) -> Explanation:
    """Return the explanation for evidence."""
    # The rules add what they compute.
    evidence = replace(evidence, scheduling_inputs=dict(evidence.scheduling_inputs))
    found = {stage.title: [item for rule in stage.rules if (item := rule(evidence)) is not None] for stage in STAGES}
    every = sorted((item for items in found.values() for item in items), key=lambda item: item.rank)
    # Of jobs with missing pods, only elastic trainings run.
    lacks = any(found[title] for title in ("admission", *_OF_LIVE_PODS))
    if _is_shaky(evidence) or lacks or _has(found, "node-lost"):
        every = [item for item in every if item.cause != "running"]
    if not every:
        return Explanation(evidence.job, unexplained.unknown(evidence), [], list(_ruled_out(evidence, found)))
    first, *others = every
    size = running_size(evidence)
    if size and first.cause not in WELL | _IDLE:
        first = replace(first, message=say("runs {size}; {message}", size=size, message=first.message))
    if first.cause in _IDLE:
        # The job should have no pods: findings about its earlier pods are obsolete.
        others = []
    others = [item for item in others if item.cause not in ("running", "starting") and item.cause != first.cause]
    if len(found["crashes"]) > 1 or first.cause in WELL:
        # "The Job gave up" is a consequence of the crash, not another cause.
        others = [item for item in others if item.cause != "backoff-limit"]
    # Without a problem, nothing needs to be ruled out.
    return Explanation(evidence.job, first, others, [] if first.cause in WELL else list(_ruled_out(evidence, found)))


def _has(found: dict[str, list[Finding]], cause: str) -> bool:
    return any(item.cause == cause for items in found.values() for item in items)


def _is_shaky(evidence: Evidence) -> bool:
    """Return True if a running container was restarted recently: between two crashes a pod looks healthy."""
    alive = [pod for pod in evidence.pods if not has_ended(pod)]
    return bool(container_exits(alive, evidence.now))


def _ruled_out(evidence: Evidence, found: dict[str, list[Finding]]) -> Iterator[str]:
    """Yield what was checked and is in order, up to the stage that the job has reached."""
    pods, wanted = evidence.pods, evidence.wanted
    if not wanted or any(item.cause in _IDLE for items in found.values() for item in items):
        return
    if not found["admission"] and pods:
        yield say("admission: {pods:pod} made, {wanted} wanted", pods=len(pods), wanted=wanted)
    placed = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName")]
    if found["scheduling"]:
        yield from of_nodes(evidence)
    elif placed:
        nodes = unique_names(sorted({pod["spec"]["nodeName"] for pod in placed}))
        names = f"{', '.join(nodes[:3])}{' ...' if len(nodes) > 3 else ''}"
        yield say("scheduling: {pods:pod} on {nodes}", pods=len(placed), nodes=names)
    if placed and evidence.nodes and not found["nodes"]:
        yield say("nodes: {nodes:node} ready", nodes=len(evidence.nodes))
    if placed and all(map(_has_started, placed)):
        # Omit a stage with findings: they may be about another container or pod.
        stages = {
            "images": say("images"),
            "sandbox and volumes": say("volumes"),
            "configuration": say("configuration"),
        }
        well = [what for title, what in stages.items() if not found[title]]
        if well:
            yield say("{stages:list}: its containers have started", stages=well)
    elif placed and not found["images"] and _is_past_pull(evidence):
        yield say("image: pulled")


def _has_started(pod: dict[str, Any]) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return pod_status(pod).phase == "running" or (bool(statuses) and all(map(_has_run, statuses)))


def _has_run(status: dict[str, Any]) -> bool:
    states = [status.get(field) or {} for field in ("state", "lastState")]
    return any("running" in state or (state.get("terminated") or {}).get("startedAt") for state in states)


def _is_past_pull(evidence: Evidence) -> bool:
    return bool(evidence.events_with("Pulled", "Created"))
