"""A job that is ended without a plan saves its progress first; a journal knows that it has until it has been ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from gpuctl.apply.run import journal as journals
from gpuctl.apply.run.checkpointing import CheckpointTarget, checkpoint_target, run_checkpoints
from gpuctl.apply.run.journal_entries import CheckpointNote, checkpoints_not_recorded
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.apply.run.unfinished_runs import UnfinishedRuns
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object, annotations_of, key_of
from gpuctl.objects.ownership_metadata import Records


def checkpoint_targets(
    session: Session, lives: list[Object], keys: Records, unfinished: UnfinishedRuns, tell: Callable[[str], None]
) -> list[CheckpointTarget]:
    """Workloads that are about to be ended, without those of their pods that a killed run has let save just now."""
    before = unfinished.just_saved(session)
    targets = [checkpoint_target(live, keys, before.get(live["metadata"]["uid"], frozenset())) for live in lives]
    for target in targets:
        if target.saved:
            tell(f"checkpoint of {target.title} has just run, in a run that did not finish: not again")
    return targets


@contextlib.contextmanager
def checkpoint_before(session: Session, workload: Object, keys: Records, callbacks: RunCallbacks) -> Iterator[None]:
    """A block in which a workload is ended, after it has saved its progress.

    Whoever may not write the journal ends it without one.

    :raises CheckpointFailed: it could not, and nobody agreed to losing it.
    """
    if keys.checkpoint not in annotations_of(workload):
        yield
        return
    uid, key = workload["metadata"]["uid"], key_of(workload)
    unfinished = UnfinishedRuns.read(session, keys, {key.namespace})
    targets = checkpoint_targets(session, [workload], keys, unfinished, callbacks.on_message)
    saved = frozenset(run_checkpoints(session, targets, keys, callbacks).get(uid, ()))
    written = _note(session, CheckpointNote(uid, key, saved), keys, callbacks) if saved else []
    try:
        yield
    finally:
        left = [item for item in unfinished.journals if not item.entries and {note.uid for note in item.notes} == {uid}]
        for journal in [*written, *left]:
            # It says nothing any more; the next run takes it away.
            with contextlib.suppress(ClusterError):
                journals.remove(session, journal)


def _note(session: Session, note: CheckpointNote, keys: Records, callbacks: RunCallbacks) -> list[Journal]:
    try:
        return journals.write(session, [note], keys)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        callbacks.on_message(checkpoints_not_recorded({note.key.namespace}))
        return []
