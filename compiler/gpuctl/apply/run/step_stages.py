"""In which order the steps of a plan are carried out, and what stands around a job that cannot be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.apply.plan.plan import Step
from gpuctl.backend.object_order import RANKS, deletion_rank
from gpuctl.objects.api_resources import WORKLOADS, Key, labels_of

_LEAVING = 1000
"""The first stage of what is deleted for good: after all that comes."""


class _Job(NamedTuple):
    """What all objects of a job have in common."""

    namespace: str
    app: str


def stages_of(steps: Iterable[Step]) -> list[list[Step]]:
    """Steps that may be carried out at once, stage by stage.

    Workloads of all kinds go together, with the companions that leave with them. What is deleted for good is last.
    """
    groups: dict[int, list[Step]] = {}
    for step in steps:
        groups.setdefault(_stage(step), []).append(step)
    return [groups[number] for number in sorted(groups)]


class JobDeletions:
    """Jobs that are deleted for good: what stands around one goes after its workloads, or stays with them."""

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
        """Whether a step comes when the workloads of its job have gone."""
        return step.key.kind not in WORKLOADS and _job_that_leaves(step) in self._around

    def ended(self, step: Step) -> list[Step]:
        """Take note of how a step ended; the steps that are not carried out because of it."""
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
        """The steps that may begin now, each told once."""
        found, self._due = self._due, []
        return found


def _stage(step: Step) -> int:
    if _job_that_leaves(step) is not None:
        return _LEAVING
    if _is_for_good(step):
        return _LEAVING + 1 + deletion_rank(step.key.kind)
    if step.companion_of is not None or step.key.kind in WORKLOADS:
        return RANKS["Job"]
    rank = RANKS.get(step.key.kind, 100)
    return rank if rank < RANKS["ResourceQuota"] else rank // 10 * 10


def _job_that_leaves(step: Step) -> _Job | None:
    """The job of which a step deletes an object for good."""
    if not _is_for_good(step) or step.live is None:
        return None
    app = labels_of(step.live).get("app")
    return _Job(step.key.namespace, app) if app else None


def _is_for_good(step: Step) -> bool:
    return step.action in ("delete", "prune") and step.companion_of is None
