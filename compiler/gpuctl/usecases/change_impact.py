"""What a change of documents does to the machines: by the documents alone, or also to a cluster as it is."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gpuctl.backend.lowering_context import GitOps
from gpuctl.capacity.pod_requests import pod_requests
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.gitops.breakages import Breakage, asks_for_more
from gpuctl.gitops.declared_state import DOES_NOT_FIT, declared_state_of, with_finished
from gpuctl.gitops.resource_impact import Impact, impact
from gpuctl.reading.live_impact import LiveImpact, live_impact, with_cluster_gpus
from gpuctl.usecases.revision_pairs import RevisionPair, SidesOptions, compiled_pair
from gpuctl.usecases.revisions import rendered_between


class RevisionChange(NamedTuple):
    """A change of documents. ``rendered`` are namespace and name of the Jobs and JobSets whose manifests were in git
    before it, for a controller to apply, and ``kept`` those whose manifests are unchanged after it, and that a build
    keeps as long as their documents do not change."""

    sides: RevisionPair
    rendered: frozenset[tuple[str, str]]
    kept: frozenset[tuple[str, str]]


class ChangeImpact(NamedTuple):
    """``live`` is what concerns the cluster, None when none was looked at."""

    impact: Impact
    live: LiveImpact | None


def change_between(before: str, after: str | None, options: SidesOptions) -> RevisionChange:
    """The change from one revision to another; without ``after`` to the documents as they are on disk.

    :raises RevisionError: no such revision, no repository, or an input that exists on neither side.
    :raises InvalidSide: documents do not compile.
    """
    # What does not fit is what an impact tells.
    sides = compiled_pair(before, after, options, tolerated=DOES_NOT_FIT)
    return RevisionChange(sides, *rendered_between(before, after, options.inputs))


def impact_of(
    change: RevisionChange, snapshot: Snapshot | None = None, gitops: GitOps | Literal["none"] | None = None
) -> ChangeImpact:
    """Compare the two sides; with a snapshot, GPUs are counted on its nodes, and running jobs count.

    :param gitops: the controller that applies the change, ``none`` for gpuctl itself; default: the platform's.
    """
    before, after = change.sides
    sides = declared_state_of(before, pod_requests), declared_state_of(after, pod_requests)
    if snapshot is None:
        return ChangeImpact(impact(*sides, change.rendered, change.kept), None)
    live = live_impact(before, after, snapshot, _controller(after or before, gitops))
    sides = with_finished(sides[0], live.finished[0]), with_finished(sides[1], live.finished[1])
    result = impact(*with_cluster_gpus(*sides, before, after, snapshot), change.rendered, change.kept)
    known = sides[0].jobs
    for answer in live.never:
        job = live.title(answer)
        message = f"{job}: never fits in the cluster: {answer.reason}"
        result.breakages.append(Breakage(message, asks_for_more(known.get(job), sides[1].jobs[job])))
    return ChangeImpact(result, live)


def _controller(compilation: Compilation | None, gitops: GitOps | Literal["none"] | None) -> GitOps | None:
    if gitops is None:
        return compilation.settings.gitops if compilation is not None else None
    return None if gitops == "none" else gitops
