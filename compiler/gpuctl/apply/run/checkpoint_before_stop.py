"""Checkpoints of a job that is stopped without a plan. A journal records them until the job has been stopped."""

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
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, annotations_of, key_of
from gpuctl.objects.ownership_metadata import Records


def checkpoint_targets(
    session: Session, lives: list[Object], keys: Records, unfinished: UnfinishedRuns, tell: Callable[[str], None]
) -> list[CheckpointTarget]:
    """Return checkpoint targets for workloads that are about to be stopped, without pods that an interrupted run has
    just saved.
    """
    before = unfinished.just_saved(session)
    targets = [checkpoint_target(live, keys, before.get(live["metadata"]["uid"], frozenset())) for live in lives]
    for target in targets:
        if target.saved:
            tell(say("checkpoint of {job} has just run, in an interrupted run: not repeated", job=target.title))
    return targets


@contextlib.contextmanager
def checkpoint_before(session: Session, workload: Object, keys: Records, callbacks: RunCallbacks) -> Iterator[None]:
    """Run a workload's checkpoint, then the block that stops the workload.

    If the user may not write the journal, the block runs without one.

    :raises CheckpointFailed: the checkpoint failed, and the user did not accept the loss.
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
            # The journal is obsolete; if this fails, the next run removes it.
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
