"""A job that is ended without a plan saves its progress first; a journal knows that it has until it has been ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from gpuctl.apply.run import journal as journals
from gpuctl.apply.run.checkpointing import Saving, save, saving_of
from gpuctl.apply.run.entries import SavedNote, not_noted
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.options import RunCallbacks
from gpuctl.apply.run.unfinished_runs import Pending
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object, annotations_of, key_of
from gpuctl.objects.ownership_metadata import Records


def unsaved(
    session: Session, lives: list[Object], keys: Records, pending: Pending, tell: Callable[[str], None]
) -> list[Saving]:
    """Workloads that are about to be ended, without those of their pods that a killed run has let save just now."""
    before = pending.just_saved(session)
    savings = [saving_of(live, keys, before.get(live["metadata"]["uid"], frozenset())) for live in lives]
    for saving in savings:
        if saving.saved:
            tell(f"checkpoint of {saving.title} has just run, in a run that did not finish: not again")
    return savings


@contextlib.contextmanager
def saved_first(session: Session, workload: Object, keys: Records, callbacks: RunCallbacks) -> Iterator[None]:
    """A block in which a workload is ended, after it has saved its progress.

    Whoever may not write the journal ends it without one.

    :raises CheckpointFailed: it could not, and nobody agreed to losing it.
    """
    if keys.checkpoint not in annotations_of(workload):
        yield
        return
    uid, key = workload["metadata"]["uid"], key_of(workload)
    pending = Pending.read(session, keys, {key.namespace})
    savings = unsaved(session, [workload], keys, pending, callbacks.say)
    saved = frozenset(save(session, savings, keys, callbacks).get(uid, ()))
    written = _note(session, SavedNote(uid, key, saved), keys, callbacks) if saved else []
    try:
        yield
    finally:
        left = [item for item in pending.journals if not item.entries and {note.uid for note in item.notes} == {uid}]
        for journal in [*written, *left]:
            # It says nothing any more; the next run takes it away.
            with contextlib.suppress(ClusterError):
                journals.remove(session, journal)


def _note(session: Session, note: SavedNote, keys: Records, callbacks: RunCallbacks) -> list[Journal]:
    try:
        return journals.write(session, [note], keys)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        callbacks.say(not_noted({note.key.namespace}))
        return []
