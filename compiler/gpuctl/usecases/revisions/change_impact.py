"""The effect of changed documents on GPUs, from the documents alone or also on a cluster snapshot."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gpuctl.backend.lowering_context import GitOps
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.gitops.breakages import never_fits
from gpuctl.gitops.declared_state import DOES_NOT_FIT, declared_state_of, with_finished
from gpuctl.gitops.resource_impact import Impact, impact
from gpuctl.reading.live_impact import LiveImpact, live_impact, with_cluster_gpus
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.revisions.files_at_revision import rendered_between
from gpuctl.usecases.revisions.revision_pairs import RevisionPair, compiled_pair, inputs_of


class RevisionChange(NamedTuple):
    """A change of documents.

    :param rendered: namespace and name of the Jobs and JobSets whose manifests were in git before it, for a controller.
    :param kept: those of them whose manifests are unchanged after it, and that a build keeps while their documents do
        not change.
    """

    sides: RevisionPair
    rendered: frozenset[tuple[str, str]]
    kept: frozenset[tuple[str, str]]


class ChangeImpact(NamedTuple):
    """The effect of a change. ``live`` is the effect on a cluster; None without a snapshot."""

    impact: Impact
    live: LiveImpact | None


def change_between(before: str, after: str | None, documents: DocumentOptions) -> RevisionChange:
    """Return the change from one revision to another, or (without ``after``) to the documents on disk.

    :raises RevisionError: the revision or the repository does not exist, or an input exists on neither side.
    :raises InvalidRevisionDocuments: documents do not compile.
    """
    # The impact reports documents that do not fit, so they are not errors here.
    sides = compiled_pair(before, after, documents, tolerated=DOES_NOT_FIT)
    return RevisionChange(sides, *rendered_between(before, after, inputs_of(documents)))


def impact_of(
    change: RevisionChange, snapshot: Snapshot | None = None, gitops: GitOps | Literal["none"] | None = None
) -> ChangeImpact:
    """Compare both sides. With a snapshot, GPUs of its nodes and running jobs are counted.

    :param gitops: the controller that applies the change; ``none`` for gpuctl itself; None for the platform's.
    """
    before, after = change.sides
    sides = declared_state_of(before, pod_requests), declared_state_of(after, pod_requests)
    controller = _controller(after or before, gitops)
    by_controller = controller is not None
    if snapshot is None:
        return ChangeImpact(impact(*sides, change.rendered, change.kept, by_controller=by_controller), None)
    live = live_impact(before, after, snapshot, controller)
    sides = with_finished(sides[0], live.finished[0]), with_finished(sides[1], live.finished[1])
    sides = with_cluster_gpus(*sides, before, after, snapshot)
    result = impact(*sides, change.rendered, change.kept, by_controller=by_controller)
    known = sides[0].jobs
    for answer in live.never:
        job = live.title(answer)
        result.breakages.append(never_fits(job, answer.reason, known.get(job), sides[1].jobs[job]))
    return ChangeImpact(result, live)


def _controller(compilation: Compilation | None, gitops: GitOps | Literal["none"] | None) -> GitOps | None:
    if gitops is None:
        return compilation.settings.gitops if compilation is not None else None
    return None if gitops == "none" else gitops
