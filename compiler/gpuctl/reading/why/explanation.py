"""The one answer: of what all rules found, what has to be solved first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.hidden_names import unique_names
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.job_rows import Job
from gpuctl.reading.status import pod_status
from gpuctl.reading.why import unexplained
from gpuctl.reading.why.container_exits import container_exits
from gpuctl.reading.why.evidence import Evidence, gather
from gpuctl.reading.why.finding import Finding, count_text
from gpuctl.reading.why.rules import STAGES
from gpuctl.reading.why.scheduling_checks import ruled_out as of_nodes

WELL = frozenset({"running", "succeeded"})
_IDLE = frozenset({"succeeded", "terminating", "paused", "suspended", "queued", "queue-unusable", "deadline-exceeded"})

# What these stages find is about pods that are there to stay; of crashes and evictions it may be history.
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
    """Why a job is as it is.

    ``also`` are other causes, in the order in which they have to be solved; ``ruled_out`` what is in order; ``notes``
    what could not be looked at.
    """

    job: Job
    finding: Finding
    also: list[Finding]
    ruled_out: list[str]
    notes: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to solve."""
        return self.finding.cause in WELL


def why(scope: Scope, job: Job, keys: Records, settings: Settings) -> Explanation:
    """Look at everything that a job's state makes necessary, and tell its cause.

    :raises ApiError: the API server fails; what may not be read is noted instead, in ``scope`` too.
    """
    answer = explain(gather(scope, job, keys, settings))
    return replace(answer, notes=tuple(scope.notes))


def explain(evidence: Evidence) -> Explanation:
    """The answer that evidence gives."""
    found = {stage.title: [item for rule in stage.rules if (item := rule(evidence)) is not None] for stage in STAGES}
    every = sorted((item for items in found.values() for item in items), key=lambda item: item.rank)
    if _is_shaky(evidence) or any(found[title] for title in _OF_LIVE_PODS) or _has(found, "node-lost"):
        every = [item for item in every if item.cause != "running"]
    if not every:
        return Explanation(evidence.job, unexplained.unknown(evidence), [], list(_ruled_out(evidence, found)))
    first, *others = every
    if first.cause in _IDLE:
        # A job that is to have no pods has no other cause; what its pods went through is over.
        others = []
    others = [item for item in others if item.cause not in ("running", "starting") and item.cause != first.cause]
    if len(found["crashes"]) > 1 or first.cause in WELL:
        # That the Job gave up is no other cause, but what became of this one.
        others = [item for item in others if item.cause != "backoff-limit"]
    # Where nothing is wrong there is nothing to rule out.
    return Explanation(evidence.job, first, others, [] if first.cause in WELL else list(_ruled_out(evidence, found)))


def _has(found: dict[str, list[Finding]], cause: str) -> bool:
    return any(item.cause == cause for items in found.values() for item in items)


def _is_shaky(evidence: Evidence) -> bool:
    """Whether a container that runs was restarted a moment ago: between two crashes everything looks well."""
    alive = [pod for pod in evidence.pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    return bool(container_exits(alive, evidence.now))


def _ruled_out(evidence: Evidence, found: dict[str, list[Finding]]) -> Iterator[str]:
    """What is in order, as far as the job has come."""
    pods, wanted = evidence.pods, evidence.wanted
    if not wanted or any(item.cause in _IDLE for items in found.values() for item in items):
        return
    if not found["admission"] and pods:
        yield f"admission: {count_text(len(pods), 'pod')} made, {wanted} wanted"
    placed = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName")]
    if found["scheduling"]:
        yield from of_nodes(evidence)
    elif placed:
        nodes = unique_names(sorted({pod["spec"]["nodeName"] for pod in placed}))
        names = f"{', '.join(nodes[:3])}{' ...' if len(nodes) > 3 else ''}"
        yield f"scheduling: {count_text(len(placed), 'pod')} on {names}"
    if placed and evidence.nodes and not found["nodes"]:
        yield f"nodes: {count_text(len(evidence.nodes), 'node')} ready"
    if placed and all(map(_has_started, placed)):
        # Another container of a pod, or another pod, may have what these have not.
        stages = {"images": "images", "sandbox and volumes": "volumes", "configuration": "configuration"}
        well = [what for title, what in stages.items() if not found[title]]
        if well:
            *others, last = well
            yield f"{', '.join(others)}{' and ' if others else ''}{last}: its containers have started"
    elif placed and not found["images"] and _is_past_pull(evidence):
        yield "image: pulled"


def _has_started(pod: dict[str, Any]) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return pod_status(pod).phase == "running" or (bool(statuses) and all(map(_has_run, statuses)))


def _has_run(status: dict[str, Any]) -> bool:
    states = [status.get(field) or {} for field in ("state", "lastState")]
    return any("running" in state or (state.get("terminated") or {}).get("startedAt") for state in states)


def _is_past_pull(evidence: Evidence) -> bool:
    return bool(evidence.events_with("Pulled", "Created"))
