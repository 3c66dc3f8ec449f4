"""The history of a job as a service's REST API answers it. Fields that are not known here are ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from gpuctl.apply.state.past_documents import PastDocument
from gpuctl.apply.state.repository import Commit
from gpuctl.gitops.value_changes import ValueChange
from gpuctl.kube.scope import Scope
from gpuctl.reading.document_history import DocumentHistory, HistoryRow, no_history, parsed_name
from gpuctl.reading.find import two_meanings
from gpuctl.usecases.service_client import ServiceClient, pages


@dataclass(frozen=True)
class ServiceHistory(DocumentHistory):
    """A history that gets each document from the service when it is used."""

    service: ServiceClient

    def row(self, revision: int) -> HistoryRow:
        """Return the row of a revision, with its document."""
        found = super().row(revision)
        with self.service.reading() as get:
            document = get(f"/jobs/{self.name}/history/{revision}", namespace=self.namespace)["document"]
        return found._replace(past=replace(found.past, document=document))


def history_of_service(service: ServiceClient, scope: Scope, text: str) -> DocumentHistory:
    """Return the history of a job by its name, id, or ``KIND/NAME``.

    :raises NoSuchJob: the job has no history, or the name is invalid.
    """
    kind, name = parsed_name(text)
    with service.reading() as get:
        value = get(f"/jobs/{name}/history", namespace=scope.namespace or "")
        for note in value.get("notes") or ():
            scope.note(str(note))
        items = value["items"]
        rows = [_row(item, is_first=item is items[-1]) for item in items if kind in ("", "job", item["kind"])]
        if not rows:
            raise no_history(text, scope.namespace)
        if text == name and value["name"] != name:
            _refuse_two_meanings(get, value, items[0]["kind"], name)
        return ServiceHistory(value["name"], value["namespace"], rows, service)


def _refuse_two_meanings(get: Callable[..., dict[str, Any]], meant: Mapping[str, Any], kind: str, text: str) -> None:
    """Check that the id of a job is not the name of another one: the service takes it for the id.

    :raises SeveralJobs: it is.
    """
    namespace = meant["namespace"]
    for job in chain.from_iterable(pages(get, "/jobs", namespace=namespace)):
        if job["name"] == text:
            raise two_meanings(text, (job["kind"], text, namespace), (kind, meant["name"], namespace))


def _row(item: Mapping[str, Any], *, is_first: bool) -> HistoryRow:
    commit = item.get("commit")
    past = PastDocument(
        int(item["revision"]),
        {"kind": item["kind"]},
        tuple(item.get("masked") or ()),
        item.get("createdAt") or "",
        item.get("who"),
        None if commit is None else Commit(commit["id"], commit["dirty"], commit.get("repository")),
        item.get("gpuctl") or "",
        item.get("cause") or "applied",
        item.get("to"),
    )
    changes = [
        ValueChange(change["path"], change.get("from"), change.get("to")) for change in item.get("changes") or ()
    ]
    return HistoryRow(past, changes, is_first)
