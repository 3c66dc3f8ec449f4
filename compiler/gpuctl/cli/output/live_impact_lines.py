"""Printing the impact of a change of documents on the current cluster: lists with headings."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.apply.plan.jobs_stopped_by_change import RerunTraining, StoppedJob
from gpuctl.cli.output.fit_lines import VERDICT_TEXTS
from gpuctl.gitops.declared_state import JobId
from gpuctl.gitops.impact_report import LiveSections
from gpuctl.language.display_text import count_text
from gpuctl.reading.live_impact import CausedEviction, LiveImpact

_MANNERS = {
    "replaced": "Running jobs that would be replaced:",
    "removed": "Running jobs whose documents are removed; pruning would end them:",
    "kept": "Running jobs that `gpuctl apply` keeps, but a GitOps controller replaces:",
}
_AGAIN = {
    "replaced": "Finished trainings that would run again; their pods and logs are deleted:",
    "kept": "Finished trainings that `gpuctl apply` keeps, but a GitOps controller would run again:",
}
_UNKNOWN = "Unknown: which finished trainings would run again. The user may not list Jobs."
_CONTROLLERS = {"argocd": "Argo CD", "flux": "Flux"}
_LOST = {"training": "its progress is lost", "notebook": "what is not on a volume is lost"}


def live_lists(live: LiveImpact) -> LiveSections:
    """Return the lists, each with its heading."""
    return list(_lists(live))


def _lists(live: LiveImpact) -> Iterator[tuple[str, list[str]]]:
    if not live.ended:
        yield "No running job would be replaced.", []
    for manner, heading in _MANNERS.items():
        items = [_ended_text(item) for item in live.ended if item.manner == manner]
        if items:
            yield heading, items
    if live.runs_again is None:
        yield _UNKNOWN, []
    for manner, heading in _AGAIN.items():
        again = [_run_again_text(item) for item in live.runs_again or () if item.manner == manner]
        if again:
            yield heading, again
    if live.finished[1]:
        yield f"{count_text(len(live.finished[1]), 'finished training')}: not counted against pools and quotas.", []
    if live.gitops is not None and live.fits:
        yield (
            f"Judged for {_CONTROLLERS[live.gitops]}: new pods of a training are created while its old ones still run.",
            [],
        )
    if live.evictions:
        jobs, pods = count_text(len(live.evictions), "job"), count_text(live.evicted_pods, "pod")
        yield f"Would be evicted, {jobs} with {pods}:", [_eviction_text(item) for item in live.evictions]
    if live.queues:
        yield "Changed queues of quotas:", live.queues
    placed = [
        f"{live.title(answer)}: {VERDICT_TEXTS[answer.verdict]}"
        + (f": {answer.reason}" if answer.reason else "")
        + ("; evicts others while its old pods still run" if live.evicts_early(answer) else "")
        for answer in live.fits
    ]
    if placed:
        yield "New and changed jobs in the current cluster:", placed
    if live.absent_nodes:
        yield "Nodes of pools that the cluster does not have:", live.absent_nodes


def _ended_text(item: StoppedJob) -> str:
    job = JobId(item.kind, item.namespace, item.name)
    lost = _LOST.get(
        item.kind, "it stops serving until its new pods are ready" if item.manner != "removed" else "it stops serving"
    )
    return f"{job}: running for {item.runtime} on {count_text(item.gpus, 'GPU')}, {lost} ({item.reason})"


def _run_again_text(item: RerunTraining) -> str:
    job = JobId(item.kind, item.namespace, item.name)
    return f"{job}: finished {item.ago} ago ({item.condition}); {item.reason}"


def _eviction_text(item: CausedEviction) -> str:
    job = item.job
    early = ", whose old pods still run" if item.early else ""
    return f"{job}, of priority {job.priority}, for {', '.join(map(str, dict.fromkeys(item.by)))}{early}"
