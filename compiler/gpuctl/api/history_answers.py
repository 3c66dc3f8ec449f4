"""The history of a job, as programs have it."""

from __future__ import annotations

from typing import Any

from gpuctl.api.json_values import listed
from gpuctl.reading.document_history import DocumentHistory, HistoryRow


def history_value(history: DocumentHistory) -> dict[str, Any]:
    """``history -o json``: the newest revision first."""
    return {
        "name": history.name,
        "namespace": history.namespace,
        **listed(revision_value(row) for row in history.rows),
    }


def revision_value(row: HistoryRow, *, whole: bool = False) -> dict[str, Any]:
    """One revision; ``whole``: with its document."""
    past = row.past
    commit = past.commit
    value: dict[str, Any] = {
        "revision": past.revision,
        "kind": past.document.get("kind"),
        "createdAt": past.when or None,
        "who": past.who,
        "commit": None if commit is None else {"id": commit.id, "dirty": commit.dirty, "repository": commit.repository},
        "gpuctl": past.gpuctl,
        "cause": past.cause,
        "to": past.to,
        "changes": changes_value(row.changes),
        "masked": list(past.masked),
    }
    if whole:
        value["document"] = past.document
    return value


def changes_value(changes: Any) -> list[dict[str, Any]]:
    """What differs between two documents."""
    return [{"path": change.path, "from": change.old, "to": change.new} for change in changes]
