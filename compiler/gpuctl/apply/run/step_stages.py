"""The order in which the steps of a plan run, and the companions of a job that cannot be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.apply.plan.plan import Step
from gpuctl.backend.object_order import RANKS, deletion_rank, rank_of
from gpuctl.objects.api_resources import WORKLOADS, Key, labels_of

_LEAVING = 1000
"""The first stage of final deletions: after all creations."""


class _Job(NamedTuple):
    """The key that all objects of a job have in common."""

    namespace: str
    app: str


def stages_of(steps: Iterable[Step]) -> list[list[Step]]:
    """Return the steps in stages; the steps of a stage may run at the same time.

    Workloads of all kinds share a stage with the companions that are deleted with them. Final deletions come last.
    """
    groups: dict[tuple[int, int], list[Step]] = {}
    for step in steps:
        groups.setdefault((_stage(step), step.turn), []).append(step)
    return [groups[number] for number in sorted(groups)]


class JobDeletions:
    """Jobs that are deleted for good: companions are deleted after the workloads, or stay with them."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._workloads: dict[_Job, set[Key]] = {}
        self._around: dict[_Job, list[Step]] = {}
        self._due: list[Step] = []
        leaving = [(job, step) for step in steps if (job := _job_that_leaves(step)) is not None]
        for job, step in leaving:
            if step.key.kind in WORKLOADS:
                self._workloads.setdefault(job, set()).add(step.key)
        for job, step in leaving:
            if step.key.kind not in WORKLOADS and job in self._workloads:
                self._around.setdefault(job, []).append(step)

    def holds(self, step: Step) -> bool:
        """Return True if a step must wait for the workloads of its job."""
        return step.key.kind not in WORKLOADS and _job_that_leaves(step) in self._around

    def ended(self, step: Step) -> list[Step]:
        """Record the result of a step, and return the steps that must not run because of it."""
        job = _job_that_leaves(step)
        if job is None or step.key not in self._workloads.get(job, ()):
            return []
        self._workloads[job].discard(step.key)
        if step.result != "done":
            return self._around.pop(job, [])
        if not self._workloads[job]:
            self._due += self._around.pop(job, [])
        return []

    def due(self) -> list[Step]:
        """Return the steps that may start now, each once."""
        found, self._due = self._due, []
        return found


def _stage(step: Step) -> int:
    if _job_that_leaves(step) is not None:
        return _LEAVING
    if _is_for_good(step):
        return _LEAVING + 1 + deletion_rank(step.key.kind)
    if step.companion_of is not None or step.key.kind in WORKLOADS:
        return RANKS["Job"]
    rank = rank_of(step.key.kind)
    return rank if rank < RANKS["ResourceQuota"] else rank // 10 * 10


def _job_that_leaves(step: Step) -> _Job | None:
    """Return the job of which a step deletes an object for good."""
    if not _is_for_good(step) or step.live is None:
        return None
    app = labels_of(step.live).get("app")
    return _Job(step.key.namespace, app) if app else None


def _is_for_good(step: Step) -> bool:
    return step.action in ("delete", "prune") and step.companion_of is None
