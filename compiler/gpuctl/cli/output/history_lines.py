"""The history of a job for people: a line a revision, and the difference between two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from gpuctl.backend.emitter import emit_object
from gpuctl.language.wording import visible

if TYPE_CHECKING:
    from gpuctl.apply.run.past_documents import PastDocument
    from gpuctl.gitops.objects import ValueChange
    from gpuctl.reading.document_history import HistoryRow

HEADERS = ("REVISION", "WHEN", "WHO", "COMMIT", "CHANGE")
_SHORT = 10
_NAMED = 3
_LONGEST = 24


def cells(row: HistoryRow) -> tuple[str, ...]:
    """A revision as a row of the table."""
    past = row.past
    return (str(past.revision), moment(past.when), past.who or "-", commit(past), change(row))


def moment(when: str) -> str:
    """A time of the server, to the minute."""
    return when[:16].replace("T", " ") + " UTC" if len(when) >= 16 else "-"


def commit(past: PastDocument) -> str:
    """The commit of the sources; ``-dirty`` as git has it: they were not as in it."""
    found = past.commit
    return "-" if found is None else found.id[:_SHORT] + ("-dirty" if found.dirty else "")


def change(row: HistoryRow) -> str:
    """What was done, in a few words."""
    past = row.past
    if past.cause == "rolled back":
        return f"rolled back to {past.to}" if past.to is not None else "rolled back"
    if past.cause == "found":
        return "was there already"
    if row.is_first:
        return "created" if past.revision == 1 else "what changed is no longer kept"
    if not row.changes:
        return "masked values, or nothing" if past.masked else "the same again"
    return summary(row.changes)


def summary(changes: list[ValueChange]) -> str:
    """The first few fields that differ, with short values."""
    more = f" and {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    return ", ".join(map(_named, changes[:_NAMED])) + more


def _named(one: ValueChange) -> str:
    if isinstance(one.old, (dict, list)) or isinstance(one.new, (dict, list)):
        return visible(one.path)
    old, new = _value(one.old), _value(one.new)
    if len(old) > _LONGEST or len(new) > _LONGEST:
        # Of two references to images only the end differs, as a rule.
        start = _common(old, new)
        old, new = (f"...{text[start:]}" if start else text for text in (old, new))
    if len(old) > _LONGEST or len(new) > _LONGEST:
        return visible(one.path)
    return visible(f"{one.path}: {old} -> {new}")


def _value(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _common(old: str, new: str) -> int:
    """Where two texts that name something begin to differ, at the last separator before."""
    length = next((place for place, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    return max((old.rfind(sign, 0, length) for sign in "/:@"), default=0) + 1


def difference(old: PastDocument, new: PastDocument) -> Iterator[str]:
    """The lines of a unified difference of two documents."""
    one, other = (emit_object(past.document).splitlines(keepends=True) for past in (old, new))
    yield from unified_diff(one, other, f"revision {old.revision}", f"revision {new.revision}")


def notes(past: PastDocument) -> Iterable[str]:
    """What is to be known of one revision."""
    if past.masked:
        yield f"the values of {', '.join(past.masked)} are credentials, and not kept"
