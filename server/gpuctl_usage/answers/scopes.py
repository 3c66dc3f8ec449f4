"""Of what is asked: which cluster, what may be seen of it, and how much at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from gpuctl_usage.store.usage_queries import NamedCluster, find_clusters

MOST_ROWS = 10_000
"""Of a list that is not asked for page by page."""


class Unanswerable(Exception):
    """What was asked cannot be answered; ``str()`` says why and what to ask instead."""


class UnknownCluster(Unanswerable):
    """There is no such cluster, or none yet."""


class NothingKept(Unanswerable):
    """There is nothing of what was asked for."""


class Refused(Unanswerable):
    """It was not asked as it can be answered."""


class TooMuch(Refused):
    """The list would be too long."""


class Paging(NamedTuple):
    """Which page is wanted, from 1, of how many."""

    page: int
    size: int


def cluster_named(connection: Connection, name: str) -> NamedCluster:
    """The cluster of a name; of "" the first that was collected.

    :raises UnknownCluster: there is none.
    """
    known = find_clusters(connection)
    if not name:
        if not known:
            raise UnknownCluster("no cluster has been collected yet; is `gpuctl usage collect` running?")
        return known[0]
    for cluster in known:
        if cluster.name == name:
            return cluster
    raise UnknownCluster(f"there is no cluster {name}; /clusters lists those that there are")


def page_or_list(
    paging: Paging | None,
    count: Callable[[], int],
    find: Callable[[int, int], Sequence[dict[str, Any]]],
    most: int = MOST_ROWS,
) -> list[dict[str, Any]] | dict[str, Any]:
    """A page with how many there are, or all as a list.

    :param find: what is found, given a limit and an offset.
    :raises TooMuch: all would be too many.
    """
    if paging is None:
        rows = list(find(most + 1, 0))
        if len(rows) > most:
            raise TooMuch(
                f"there are more than {most} rows; ask for a shorter time, or for pages: page=1&page_size=1000"
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
