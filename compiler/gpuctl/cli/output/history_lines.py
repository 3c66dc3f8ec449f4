"""Printing a job's history: a line per revision, and the diff of two revisions."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.state.past_documents import PastDocument
from gpuctl.gitops.value_change import changes_text
from gpuctl.reading.jobs.document_history import HistoryRow, to_minute

HEADERS = ("REVISION", "WHEN", "WHO", "COMMIT", "CHANGE")
_SHORT = 10


def cells(row: HistoryRow) -> tuple[str, ...]:
    """Return the table cells of a revision."""
    past = row.past
    return (str(past.revision), to_minute(past.when), past.who or "-", commit(past), change(row))


def commit(past: PastDocument) -> str:
    """Return the short commit id of the sources, with ``-dirty`` if they had uncommitted changes; "-" if unknown."""
    found = past.commit
    return "-" if found is None else found.id[:_SHORT] + ("-dirty" if found.dirty else "")


def change(row: HistoryRow) -> str:
    """Return a short description of what the revision changed, and by which options."""
    options = _options(row.past)
    return f"{_change(row)} ({options})" if options else _change(row)


def _options(past: PastDocument) -> str:
    profile, overrides = past.variant
    return ", ".join([*([f"profile {profile}"] if profile else []), *(f"with {text}" for text in overrides)])


def _change(row: HistoryRow) -> str:
    past = row.past
    if past.cause == "rolled back":
        return f"rolled back to {past.to}" if past.to is not None else "rolled back"
    if past.cause == "found":
        return "existed already"
    if row.is_first:
        return "created" if past.revision == 1 else "previous revision no longer kept"
    if not row.changes:
        return "masked values or no change" if past.masked else "no change"
    return changes_text(row.changes)


def notes(past: PastDocument) -> Iterable[str]:
    """Yield notes on one revision."""
    options = _options(past)
    if options:
        yield f"made by {options}"
    if past.masked:
        yield f"the values of {', '.join(past.masked)} are credentials and are not kept"
