"""The revisions of a job: which documents were applied, when, by whom, and what each changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuctl.apply.plan.plan import NoSuchJob, SeveralJobs
from gpuctl.apply.state.past_documents import PastDocument, read_history
from gpuctl.gitops.value_change import ValueChange
from gpuctl.gitops.value_comparison import value_changes
from gpuctl.hints import APPLY, IN_NAMESPACE
from gpuctl.kube.api_errors import ApiError, NotThere
from gpuctl.kube.scope import Scope
from gpuctl.language.display_text import visible
from gpuctl.language.kinds import WORKLOADS as JOB_KINDS
from gpuctl.language.names import is_dns_label
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.jobs.job_lookup import name_of_id


class NoHistory(NoSuchJob):
    """No revision of the job is stored."""


class HistoryRow(NamedTuple):
    """A revision and its difference from the previous one.

    :param is_first: no earlier revision is stored, so ``changes`` is empty.
    """

    past: PastDocument
    changes: list[ValueChange]
    is_first: bool


@dataclass(frozen=True)
class DocumentHistory:
    """The revisions of a job, newest first."""

    name: str
    namespace: str
    rows: list[HistoryRow]

    def at(self, revision: int) -> PastDocument:
        """Return the document of a revision.

        :raises NotThere: the revision is not stored.
        """
        return self.row(revision).past

    def row(self, revision: int) -> HistoryRow:
        """Return a revision with its document.

        :raises NotThere: the revision is not stored.
        """
        for row in self.rows:
            if row.past.revision == revision:
                return row
        kept = [str(row.past.revision) for row in self.rows]
        raise NotThere(
            say(
                "there is no revision {revision} of {name} in {namespace}",
                revision=revision,
                name=self.name,
                namespace=self.namespace,
            ),
            say("there {number:is/are} {names}", number=len(kept), names=kept),
        )


def read_documents(
    scope: Scope, text: str, keys: Records, shows: Callable[[dict[str, Any]], bool] = lambda document: True
) -> DocumentHistory:
    """Read the history of a job by its name, id, or ``KIND/NAME``. By name, also of a job that was deleted.

    Add a note for Secrets that have the history label but are not valid revisions.

    :param shows: return True for a document that the caller may see; other revisions are left out.
    :raises NoSuchJob: no history, or histories in several namespaces.
    :raises ApiError: the user may not list Secrets.
    """
    kind, name = parsed_name(name_of_id(scope, text, keys))
    found: dict[str, list[Object]] = {}
    try:
        secrets = scope.all("Secret", labels=f"{keys.history}={name}")
    except ApiError as error:
        if error.lacks_permission:
            error.hint = clauses(say("the history of a job is in Secrets of its namespace"), error.hint or "")
        raise
    for secret in secrets:
        found.setdefault(secret["metadata"]["namespace"], []).append(secret)
    histories = {}
    for namespace in sorted(found):
        rows = _rows(scope, namespace, read_history(found[namespace], name, keys), shows)
        rows = [row for row in rows if kind in ("", "job", row.past.document["kind"])]
        if rows:
            histories[namespace] = DocumentHistory(name, namespace, rows)
    if len(histories) > 1:
        raise SeveralJobs(
            say("there is a history of {name} in several namespaces: {namespaces}", name=name, namespaces=[*histories]),
            say("say which {how}", how=IN_NAMESPACE),
        )
    if not histories:
        raise no_history(text, scope.searched, scope.elsewhere)
    return next(iter(histories.values()))


def parsed_name(text: str) -> tuple[str, str]:
    """Return the kind ("" for any) and the name in ``NAME`` or ``KIND/NAME``.

    :raises NoSuchJob: the text has neither form.
    """
    kind, _, name = text.rpartition("/")
    if not is_dns_label(name) or kind not in ("", "job", *JOB_KINDS):
        raise NoSuchJob(
            say("`{text}` is not the name of a job", text=visible(text)), say("write its name, or `training/NAME`")
        )
    return kind, name


def no_history(text: str, namespace: str | None, more: str = "") -> NoHistory:
    """Return the error for a job without history.

    :param namespace: None for all namespaces that the user may read.
    :param more: a further hint, as a clause.
    """
    where = say("in {namespace}", namespace=namespace) if namespace else say("in any namespace that you may read")
    return NoHistory(
        say("there is no history of {job} {where}", job=text, where=where),
        clauses(
            say(
                "it begins when {command} next changes the job; what Argo CD or Flux apply has its history in git",
                command=APPLY,
            ),
            more,
        ),
    )


def _rows(
    scope: Scope, namespace: str, pasts: Sequence[PastDocument], shows: Callable[[dict[str, Any]], bool]
) -> list[HistoryRow]:
    shown = [past for past in pasts if past.invalid_reason is not None or shows(past.document)]
    # If all valid revisions are hidden, return nothing: a note on the invalid Secrets would reveal that the job exists.
    pasts = [] if len(shown) < len(pasts) and all(past.invalid_reason is not None for past in shown) else shown
    for past in pasts:
        if past.invalid_reason is not None:
            where = say("Secret {name} in {namespace}", name=past.secret, namespace=namespace)
            scope.note(
                say("{secret} is marked as history and is ignored: {reason}", secret=where, reason=past.invalid_reason)
            )
    sound = [past for past in pasts if past.invalid_reason is None]
    rows = []
    for past, before in zip(sound, [*sound[1:], None], strict=False):
        changes = [] if before is None else value_changes(before.document, past.document)
        rows.append(HistoryRow(past, changes, before is None))
    return rows


def to_minute(when: str) -> str:
    """Return an RFC 3339 time cut to the minute, or "-" if it is too short."""
    return when[:16].replace("T", " ") + " UTC" if len(when) >= 16 else "-"
