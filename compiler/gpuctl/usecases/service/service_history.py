"""The history of a job through a service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, cast

from gpuctl.api.job_history import JobDocument, JobDocuments, JobRevision
from gpuctl.apply.state.git_repository import Commit
from gpuctl.apply.state.past_documents import Cause, PastDocument
from gpuctl.frontend.document_variant import Variant
from gpuctl.gitops.value_change import ValueChange
from gpuctl.kube.scope import Scope
from gpuctl.reading.jobs.document_history import DocumentHistory, HistoryRow, no_history, parsed_name
from gpuctl.reading.jobs.job_lookup import ambiguous_text
from gpuctl.usecases.service.service_client import ServiceClient, pages


@dataclass(frozen=True)
class ServiceHistory(DocumentHistory):
    """A history that reads each document from the service when it is needed."""

    service: ServiceClient

    def row(self, revision: int) -> HistoryRow:
        """Return the row of a revision, with its document."""
        found = super().row(revision)
        with self.service.reading() as get:
            answer = JobRevision.model_validate(get(f"/jobs/{self.name}/history/{revision}", namespace=self.namespace))
        return found._replace(past=replace(found.past, document=answer.document))


def history_of_service(service: ServiceClient, scope: Scope, text: str) -> DocumentHistory:
    """Return the history of a job by its name, id, or ``KIND/NAME``.

    :raises NoSuchJob: the job has no history, or the name is invalid.
    """
    kind, name = parsed_name(text)
    with service.reading() as get:
        answer = JobDocuments.model_validate(get(f"/jobs/{name}/history", namespace=scope.namespace or ""))
        for note in answer.notes:
            scope.note(note)
        items = answer.items
        rows = [_row(item, is_first=item is items[-1]) for item in items if kind in ("", "job", item.kind)]
        if not rows:
            raise no_history(text, scope.namespace)
        if text == name and answer.name != name:
            _refuse_two_meanings(get, answer, items[0].kind, name)
        return ServiceHistory(answer.name, answer.namespace, rows, service)


def _refuse_two_meanings(get: Callable[..., dict[str, Any]], meant: JobDocuments, kind: str, text: str) -> None:
    """Check that a job's id is not also the name of another job: the service takes it for the id.

    :raises SeveralJobs: it is both.
    """
    for job in chain.from_iterable(pages(get, "/jobs", name=text, namespace=meant.namespace)):
        if job["name"] == text:
            raise ambiguous_text(text, (job["kind"], text, meant.namespace), (kind, meant.name, meant.namespace))


def _row(item: JobDocument, *, is_first: bool) -> HistoryRow:
    commit = item.commit
    past = PastDocument(
        item.revision,
        {"kind": item.kind},
        tuple(item.masked),
        item.created_at or "",
        item.who,
        None if commit is None else Commit(commit.id, commit.dirty, commit.repository),
        item.gpuctl,
        cast(Cause, item.cause),
        item.to,
        Variant(item.profile, tuple(item.overrides)),
    )
    changes = [ValueChange(change["path"], change.get("from"), change.get("to")) for change in item.changes]
    return HistoryRow(past, changes, is_first)
