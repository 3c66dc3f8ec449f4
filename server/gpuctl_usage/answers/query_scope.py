"""Cluster, paging and errors of queries."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from gpuctl.language.sentences import say
from gpuctl_usage.store.usage_queries import RowKey, StoredCluster, find_clusters

_NO_CURSOR = "cursor: not a cursor of this query; start with an empty one"
_NAMED = 5
"""Maximum number of existing clusters named in an error message."""
MOST_ROWS = 10_000
"""Maximum number of rows of an answer without paging."""


class Unanswerable(Exception):
    """A query cannot be answered; ``str()`` is the message for the user, with what to query instead."""


class UnknownCluster(Unanswerable):
    """The cluster does not exist, or no cluster has been collected yet."""


class NothingKept(Unanswerable):
    """The requested data do not exist."""


class InvalidQuery(Unanswerable):
    """A parameter of the query is invalid."""


class TooMuch(InvalidQuery):
    """The answer would be too long."""


class Paging(NamedTuple):
    """Page number, from 1, and page size."""

    page: int
    size: int


class Cursor(NamedTuple):
    """Position after which rows are wanted, and their number.

    :param after: ``next_cursor`` of an earlier answer; "" for the first rows.
    """

    after: str
    size: int


def find_cluster(connection: Connection, name: str) -> StoredCluster:
    """Return the cluster with a name; for "" the only cluster.

    :raises UnknownCluster: it does not exist, or no name is given and the database has several clusters.
    """
    known = find_clusters(connection)
    if not known:
        raise UnknownCluster(say("no cluster has been collected yet; is `gpuctl usage collect` running?"))
    named = ", ".join(cluster.name for cluster in known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
    if not name:
        if len(known) > 1:
            raise UnknownCluster(
                say("the database has {number} clusters; name one of {names}", number=len(known), names=named)
            )
        return known[0]
    for cluster in known:
        if cluster.name == name:
            return cluster
    raise UnknownCluster(say("cluster {name} does not exist; the database has {names}", name=name, names=named))


def rows_after(
    cursor: Cursor,
    form: str,
    is_theirs: Callable[[RowKey], bool],
    find: Callable[[int, RowKey | None], tuple[list[dict[str, Any]], list[RowKey]]],
) -> dict[str, Any]:
    """Return rows and the cursor of the next ones; the cursor is None after the last row.

    :param form: kind and order of the rows: a cursor of another form is rejected.
    :param is_theirs: returns True if a value has the form of these rows' keys.
    :param find: returns rows and their keys, given a limit and the key after which they begin.
    :raises InvalidQuery: the cursor does not belong to this query.
    """
    after = _read_cursor(cursor.after, form) if cursor.after else None
    if after is not None and not is_theirs(after):
        raise InvalidQuery(_NO_CURSOR)
    rows, places = find(cursor.size + 1, after)
    more = len(rows) > cursor.size
    following = _write_cursor(form, places[cursor.size - 1]) if more else None
    return {"page_size": cursor.size, "next_cursor": following, "data": rows[: cursor.size]}


def _write_cursor(form: str, place: RowKey) -> str:
    text = json.dumps([form, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(text: str, form: str) -> RowKey:
    try:
        found = json.loads(base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
        if isinstance(found, list) and found[:1] == [form] and len(found) > 1 and all(map(_is_plain, found)):
            return found[1:]
    except (ValueError, RecursionError):
        pass
    raise InvalidQuery(_NO_CURSOR)


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return "\x00" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)
    return value is None or (type(value) in (int, float) and abs(value) < 2**62)


def page_or_list(
    paging: Paging | None,
    count: Callable[[], int],
    find: Callable[[int, int], Sequence[dict[str, Any]]],
) -> list[dict[str, Any]] | dict[str, Any]:
    """Return a page with the total number of rows, or all rows as a list.

    :param find: returns rows, given a limit and an offset.
    :raises TooMuch: there are too many rows for a list.
    """
    if paging is None:
        rows = list(find(MOST_ROWS + 1, 0))
        if len(rows) > MOST_ROWS:
            raise TooMuch(
                say("more than {most} rows; request a shorter time, or pages: page=1&page_size=1000", most=MOST_ROWS)
            )
        return rows
    total = count()
    return {
        "total": total,
        "page": paging.page,
        "page_size": paging.size,
        "total_pages": -(-total // paging.size),
        "data": list(find(paging.size, (paging.page - 1) * paging.size)),
    }
