"""`rollback`: apply an earlier document from a job's history, like any other document."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gpuctl.apply.plan.plan import NoSuchJob, Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.history_writer import ApplyOrigin
from gpuctl.apply.run.pod_privileges import privileges
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.state.past_documents import PastDocument, without_credentials
from gpuctl.backend.emitter import emit_object
from gpuctl.frontend.source import Source
from gpuctl.gitops.value_change import changes_text
from gpuctl.gitops.value_comparison import value_changes
from gpuctl.hints import JobHint, RevisionHint
from gpuctl.kube.api_errors import ApiError, NotPossible
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Template, clauses, say
from gpuctl.language.settings import Settings
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import key_of
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.json_digest import json_digest
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.reading.jobs.document_history import DocumentHistory, NoHistory, read_documents, to_minute
from gpuctl.reading.jobs.job_lookup import JobNotFound, find_job
from gpuctl.usecases.changes.applying import DocumentRequest, apply_request, request_for
from gpuctl.usecases.changes.named_trainings import TrainingChange, change_trainings
from gpuctl.usecases.documents.change_options import DocumentOptions

_SHORT = 10


class NotRevertible(NotPossible):
    """No other revision is stored, or it cannot be applied as stored; nothing was changed."""


class RollbackTarget(NamedTuple):
    """The revision to apply.

    :param live: the job's current document without credentials; None if the job or its document does not exist.
    :param again: a deleted training runs again, from its last document.
    """

    history: DocumentHistory
    past: PastDocument
    live: dict[str, Any] | None
    again: bool = False

    @property
    def source(self) -> Source:
        """Return the document as a source for the compiler."""
        name = f"revision {self.past.revision} of {self.history.name}"
        return Source(name, emit_object(self.past.document))

    @property
    def question(self) -> str:
        """Return the question to confirm."""
        past, history = self.past, self.history
        form = (
            Template("runs {job} in {namespace} again, by revision {revision} ({when})")
            if self.again
            else Template("rolls back {job} in {namespace} to revision {revision} ({when})")
        )
        head = say(
            form,
            job=f"{past.document['kind']}/{history.name}",
            namespace=history.namespace,
            revision=past.revision,
            when=", ".join(filter(None, (to_minute(past.when), past.who))),
        )
        changes = [] if self.live is None else value_changes(self.live, past.document)
        return say("{head}: {changes}", head=head, changes=changes_text(changes)) if changes else head


def find_target(scope: Scope, name: str, keys: Records, to: int | None) -> RollbackTarget:
    """Return the revision to apply.

    :param to: its number; None: the newest revision whose document differs from the current one.
    :raises NoSuchJob: no history, or histories in several namespaces.
    :raises NotThere: the revision does not exist.
    :raises NotRevertible: no other document was applied before, or credentials are missing.
    """
    history = read_documents(scope, name, keys)
    return choose_target(history, live_document(scope.session, history, keys), to)


def live_document(session: Session, history: DocumentHistory, keys: Records) -> dict[str, Any] | None:
    """Return the document that the job of a history was created from, without credentials; None if the job or the
    document does not exist.
    """
    # Another tool may have given a job of another kind the same name.
    title = f"{history.rows[0].past.document['kind']}/{history.name}"
    with contextlib.suppress(NoSuchJob):
        workload = find_job(Scope(session, history.namespace), title, keys)[0].workload
        if workload is not None:
            found = document_of(workload, keys.document)
            return None if found is None else without_credentials(found)[0]
    return None


def choose_target(history: DocumentHistory, live: dict[str, Any] | None, to: int | None) -> RollbackTarget:
    """Return the revision to apply from a history, as :func:`find_target`."""
    if to is not None:
        past = history.at(to)
    else:
        now = None if live is None else json_digest(live)
        others = [row.past for row in history.rows if row.past.digest != now]
        if not others:
            raise NotRevertible(
                say(
                    "no other document of {name} in {namespace} is kept", name=history.name, namespace=history.namespace
                ),
                say(
                    "{command} lists them; its files in git have older ones",
                    command=JobHint("history", history.name, history.namespace),
                ),
            )
        past = others[0]
    if past.masked:
        raise _incomplete(history, past)
    return RollbackTarget(history, past, live)


def removed_training(history: DocumentHistory) -> RollbackTarget:
    """Return the last document of a deleted training: its ttl has passed, or a user deleted it.

    :raises NotRevertible: the job was not a training, or credentials are missing.
    """
    past = history.rows[0].past
    if past.document["kind"] != "training":
        raise NotRevertible(
            say(
                "{job}/{name} in {namespace} does not exist, and only trainings can run again",
                job=past.document["kind"],
                name=history.name,
                namespace=history.namespace,
            ),
            say("{command} creates it again", command=JobHint("rollback", history.name, history.namespace)),
        )
    if past.masked:
        raise _incomplete(history, past)
    return RollbackTarget(history, past, None, again=True)


def rerun_present_or_removed(
    session: Session,
    change: TrainingChange,
    names: Sequence[str],
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    platform: str | os.PathLike[str] | None,
) -> Plan:
    """Run trainings again as :func:`change_trainings`.

    A single one may be deleted, if the user may read its history: see :func:`_rerun_removed`.
    """
    try:
        return change_trainings(session, change, names, namespace, settings, run, callbacks)
    except JobNotFound as absent:
        if len(names) > 1:
            raise
        scope = Scope(session, namespace)
        with session.within(run.timeout):
            history = history_of_absent(absent, lambda: read_documents(scope, names[0], records(settings)))
    return _rerun_removed(session, scope, history, platform, run, callbacks)


def history_of_absent(absent: JobNotFound, read: Callable[[], DocumentHistory]) -> DocumentHistory:
    """Return the history of a job that does not exist: it may have been deleted.

    :param absent: the error that no job has its name.
    :param read: reads the history.
    :raises JobNotFound: there is no history, or the user may not read it.
    """
    try:
        return read()
    except NoHistory:
        pass
    except ApiError as error:
        if not error.lacks_permission:
            raise
        unread = say("a deleted training runs again only from its history, but {refusal}", refusal=error.message)
        absent.hint = clauses(absent.hint or "", unread)
    raise absent


def _rerun_removed(
    session: Session,
    scope: Scope,
    history: DocumentHistory,
    platform: str | os.PathLike[str] | None,
    run: RunOptions,
    callbacks: RunCallbacks,
) -> Plan:
    """Run a deleted training again. The user confirms it first, because any user who may create Secrets in the
    namespace can write its history.

    :raises NotRevertible: the job was not a training, or credentials are missing.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """
    with session.within(run.timeout):
        target = removed_training(history)
        request = rollback_request(session, target, platform, PlanOptions(queue=run.queue), callbacks)
    for note in scope.notes:
        callbacks.on_message(f"note: {note}")
    return apply_request(session, request, run, callbacks)


def _incomplete(history: DocumentHistory, past: PastDocument) -> NotRevertible:
    revision = RevisionHint(history.name, history.namespace, past.revision)
    filled = say("fill them in and apply that: {command}", command=revision)
    commit = past.commit
    if commit is not None:
        where = f" of {commit.repository}" if commit.repository else ""
        changed = say(", though they were not quite as in it") if commit.dirty else ""
        filled = say(
            "its files are in commit {commit}{where}{changed}: apply those; or {filled}",
            commit=commit.id[:_SHORT],
            where=where,
            changed=changed,
            filled=filled,
        )
    return NotRevertible(
        say(
            "revision {revision} of {name} in {namespace} lacks the values of {fields}: credentials are not kept",
            revision=past.revision,
            name=history.name,
            namespace=history.namespace,
            fields=[*past.masked],
        ),
        say("{filled}. A value that refers to a Secret (`secret:`, `key:`) is kept whole", filled=filled),
    )


def rollback_request(
    session: Session,
    target: RollbackTarget,
    platform: str | os.PathLike[str] | None,
    planning: PlanOptions,
    callbacks: RunCallbacks,
) -> DocumentRequest:
    """Return the request that applies a revision.

    :raises InvalidDocuments: its document is not valid in this version.
    :raises NotRevertible: it is not a document of this job.
    """
    documents = DocumentOptions([target.source], platform, target.history.namespace, are_here=True)
    return as_rollback(request_for(session, documents, planning, callbacks), target)


def as_rollback(wanted: DocumentRequest, target: RollbackTarget) -> DocumentRequest:
    """Return the request for a compiled revision, with its question and its origin for the history.

    Any user who may create Secrets in the namespace can write the history, and another user may apply it. So a document
    of another job is rejected, and the question names privileges in it.

    :raises NotRevertible: it is not a document of this job.
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
        raise NotRevertible(
            say(
                "revision {revision} of {name} is not a document of this job", revision=past.revision, name=history.name
            )
        )
    found = list(dict.fromkeys(text for obj in own for text in privileges(obj)))
    question = target.question + (say("; has {privileges}", privileges=found) if found else "")
    return replace(
        wanted,
        request=replace(wanted.request, confirm=(question,), rerun=True),
        origin=ApplyOrigin(
            who=wanted.origin.who if wanted.origin is not None else None,
            commit=lambda: past.commit,
            to=None if target.again else {(history.namespace, history.name): past.revision},
            variants={(history.namespace, history.name): past.variant},
        ),
    )
