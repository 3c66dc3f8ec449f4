"""``rollback``: a document of a job's history is applied again, as any other document is."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import Any, NamedTuple

from gpuctl.apply.plan.plan import NoSuchJob, Plan
from gpuctl.apply.run.history_writer import ApplyOrigin
from gpuctl.apply.run.pod_privileges import privileges
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.state.past_documents import PastDocument, digest_of, without_credentials
from gpuctl.backend.emitter import emit_object
from gpuctl.frontend.source import Source
from gpuctl.gitops.value_changes import value_changes
from gpuctl.hints import JobHint, RevisionHint
from gpuctl.kube.api_errors import NotPossible
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import key_of
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.document_history import DocumentHistory, changes_text, read_documents, to_minute
from gpuctl.reading.job_lookup import find_job
from gpuctl.usecases.applying import DocumentRequest, apply_request, request_for
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions

_SHORT = 10


class NotRevertible(NotPossible):
    """There is nothing to go back to, or it cannot be applied as it is kept; nothing was changed."""


class RollbackTarget(NamedTuple):
    """What is gone back to. ``live`` is the document that the job has now, without credentials; None: no job is there,
    or one without a document. ``again``: a training that is not there any more runs again, by its last document."""

    history: DocumentHistory
    past: PastDocument
    live: dict[str, Any] | None
    again: bool = False

    @property
    def source(self) -> Source:
        """The document as a text, for the compiler."""
        name = f"revision {self.past.revision} of {self.history.name}"
        return Source(name, emit_object(self.past.document))

    @property
    def question(self) -> str:
        """What is to be confirmed."""
        past, history = self.past, self.history
        by = f", {past.who}" if past.who else ""
        title = f"{past.document['kind']}/{history.name} in {history.namespace}"
        act = f"runs {title} again, by" if self.again else f"rolls back {title} to"
        head = f"{act} revision {past.revision} ({to_minute(past.when)}{by})"
        changes = [] if self.live is None else value_changes(self.live, past.document)
        return f"{head}: {changes_text(changes)}" if changes else head


def find_target(scope: Scope, name: str, keys: Records, to: int | None) -> RollbackTarget:
    """The revision that is gone back to.

    :param to: its number; default: the newest whose document is not the one that the job has now.
    :raises NoSuchJob: there is no history of the job, or there are several.
    :raises NotThere: there is no such revision.
    :raises NotRevertible: nothing else was applied before, or credentials are missing.
    """
    history = read_documents(scope, name, keys)
    return choose_target(history, live_document(Scope(scope.session, history.namespace), history.name, keys), to)


def live_document(scope: Scope, name: str, keys: Records) -> dict[str, Any] | None:
    """The document that a job was made from, without credentials; None where no job, or no document, is there."""
    with contextlib.suppress(NoSuchJob):
        workload = find_job(scope, name, keys)[0].workload
        if workload is not None:
            found = document_of(workload, keys.document)
            return None if found is None else without_credentials(found)[0]
    return None


def choose_target(history: DocumentHistory, live: dict[str, Any] | None, to: int | None) -> RollbackTarget:
    """As :func:`find_target`, of a history that was read."""
    if to is not None:
        past = history.at(to)
    else:
        now = None if live is None else digest_of(live)
        others = [row.past for row in history.rows if row.past.digest != now]
        if not others:
            raise NotRevertible(
                f"no other document of {history.name} in {history.namespace} is kept",
                f"{JobHint('history', history.name, history.namespace)} lists them; its files in git have older ones",
            )
        past = others[0]
    if past.masked:
        raise _incomplete(history, past)
    return RollbackTarget(history, past, live)


def removed_training(history: DocumentHistory) -> RollbackTarget:
    """The last document of a training that is not there any more: its ttl has removed it, or somebody deleted it.

    :raises NotRevertible: it was no training, or credentials are missing.
    """
    past = history.rows[0].past
    if past.document["kind"] != "training":
        raise NotRevertible(
            f"{past.document['kind']}/{history.name} in {history.namespace} is not there, and only trainings run again",
            f"{JobHint('rollback', history.name, history.namespace)} creates it again",
        )
    if past.masked:
        raise _incomplete(history, past)
    return RollbackTarget(history, past, None, again=True)


def rerun_removed(
    session: Session,
    name: str,
    namespace: str | None,
    platform: str | os.PathLike[str] | None,
    keys: Records,
    run: RunOptions,
    callbacks: RunCallbacks,
) -> Plan:
    """Run a training again that is not there any more. It is asked first: whoever may create Secrets in the namespace
    can have written its history.

    :raises NoSuchJob: there is no history of it, or there are several.
    :raises NotRevertible: it was no training, or credentials are missing.
    :raises Refused: something stands against it, or it was not confirmed; nothing was changed.
    """
    scope = Scope(session, namespace)
    with session.within(run.timeout):
        target = removed_training(read_documents(scope, name, keys))
        request = rollback_request(session, target, platform, PlanOptions(queue=run.queue), callbacks)
    for note in scope.notes:
        callbacks.on_message(f"note: {note}")
    return apply_request(session, request, run, callbacks)


def _incomplete(history: DocumentHistory, past: PastDocument) -> NotRevertible:
    revision = RevisionHint(history.name, history.namespace, past.revision)
    filled = f"fill them in and apply that: {revision}"
    commit = past.commit
    if commit is not None:
        where = f" of {commit.repository}" if commit.repository else ""
        changed = ", though they were not quite as in it" if commit.dirty else ""
        filled = f"its files are in commit {commit.id[:_SHORT]}{where}{changed}: apply those; or {filled}"
    return NotRevertible(
        f"revision {past.revision} of {history.name} in {history.namespace} lacks the values of "
        f"{', '.join(past.masked)}: credentials are not kept",
        f"{filled}. A value that refers to a Secret (`secret:`, `key:`) is kept whole",
    )


def rollback_request(
    session: Session,
    target: RollbackTarget,
    platform: str | os.PathLike[str] | None,
    planning: PlanOptions,
    callbacks: RunCallbacks,
) -> DocumentRequest:
    """The request that brings about what a revision says.

    :raises InvalidDocuments: it is no valid document, or not any more.
    :raises NotRevertible: it is not what a job's history holds.
    """
    documents = DocumentOptions([target.source], platform, target.history.namespace, are_here=True)
    return as_rollback(request_for(session, documents, planning, callbacks), target)


def as_rollback(wanted: DocumentRequest, target: RollbackTarget) -> DocumentRequest:
    """What was compiled from a target, to be confirmed and remembered as one.

    Whoever may create Secrets in the namespace can have written it, and somebody else goes back to it: it is of the
    very job or it is refused, and what stands out in it is said.

    :raises NotRevertible: it is of something else.
    """
    history, past = target.history, target.past
    compiled = wanted.compilation
    (document,) = compiled.documents if len(compiled.documents) == 1 else (None,)
    model = document.model if document is not None else None
    is_it = (
        document is not None
        and isinstance(model, Workload)
        and (document.kind, model.job.name, document.namespace)
        == (past.document["kind"], history.name, history.namespace)
    )
    own = [item.object for item in compiled.lowered if not item.shared]
    if not is_it or any(key_of(obj).namespace != history.namespace for obj in own):
        raise NotRevertible(f"revision {past.revision} of {history.name} is not a document of this job")
    found = list(dict.fromkeys(text for obj in own for text in privileges(obj)))
    question = target.question + (f"; has {', '.join(found)}" if found else "")
    return replace(
        wanted,
        request=replace(wanted.request, confirm=(question,), rerun=True),
        origin=ApplyOrigin(
            who=wanted.origin.who if wanted.origin is not None else None,
            commit=lambda: past.commit,
            to=None if target.again else {(history.namespace, history.name): past.revision},
        ),
    )
