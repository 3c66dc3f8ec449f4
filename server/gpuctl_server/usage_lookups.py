"""Usage, and whose somebody may see: that of the namespaces they see, and of all together where they see all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from gpuctl.language.names import DEFAULT_POOL
from gpuctl.reading.pausable_jobs import pausable_jobs
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Wish
from gpuctl_server.lookups import demand
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.problems import Problem, forbidden, not_found
from gpuctl_server.service import Service

if TYPE_CHECKING:
    from gpuctl_usage.store.database import Database

Result = TypeVar("Result")
_OF_THE_SYSTEM = "kube-system"
"""Whoever sees it, and all that are no namespaces of the system, sees all of those as well."""
_NO_POOL = ""
"""Somebody who is limited to pools may not see what is in none."""


def usage_answer(service: Service, ask: Callable[[Database], Result]) -> Result:
    """What a question to the database is answered with.

    :raises Problem: 503 without a database that can be used, 404 for what is not in it, 400 for what is asked wrongly.
    """
    from gpuctl_usage.answers.scopes import Refused, Unanswerable
    from gpuctl_usage.store.engines import DatabaseProblem

    try:
        database = service.usage.database()
        if database is None:
            raise Problem(503, "usage is not set up: the setting usage_database names no database")
        return ask(database)
    except DatabaseProblem as error:
        raise Problem(503, str(error)) from None
    except Refused as error:
        raise Problem(400, str(error), error="InvalidRequest") from None
    except Unanswerable as error:
        raise not_found(str(error)) from None


def demand_whole(caller: Caller, instead: str) -> None:
    """See that somebody sees all namespaces: what is of all together cannot be taken apart.

    :param instead: what they may ask.
    :raises Problem: 403.
    """
    if not caller.sees_all():
        raise forbidden(f"{caller.name} may not get the usage of all namespaces together; ask {instead}")


def demand_workloads(caller: Caller) -> None:
    """See that somebody may see single workloads: it is not known of which pool each is.

    :raises Problem: 403.
    """
    if not caller.may(Wish("get", "metrics", pool=_NO_POOL)).allowed:
        raise forbidden(
            f"{caller.name} may not get the usage of single workloads: it is of all pools, and this token is limited "
            "to some; ask /gpu-aggregation/namespaces/hourly-stats"
        )


def holders_seen(service: Service, caller: Caller) -> frozenset[str] | None:
    """The namespaces whose pods the metrics for somebody may tell of; None for all.

    There are none for those who do not see all namespaces but the system's, or who are limited to pools.
    """
    if not caller.sees_all() or not caller.may(Wish("get", "metrics", pool=_NO_POOL)).allowed:
        return frozenset()
    if caller.sees(_OF_THE_SYSTEM):
        return None
    return frozenset(filter(caller.sees, service.mirror.names("Namespace")))


def namespaces_seen(
    service: Service, caller: Caller, there: Callable[[Database], Iterable[str]], namespace: str = ""
) -> frozenset[str] | None:
    """Of the namespaces that there are those that somebody may see; None for all that there are or will be.

    :param namespace: the one that they name, if they do.
    :raises Problem: 403 for one that is not theirs.
    """
    # Whose right it is not learns nothing, not even whether there is a database.
    demand(caller, Wish("get", "metrics", namespace or None))
    if caller.sees_all() and caller.sees(_OF_THE_SYSTEM):
        return None
    return frozenset(filter(caller.sees, usage_answer(service, there)))


def pausable_by(service: Service, caller: Caller, wanted: Collection[str]) -> dict[str, str]:
    """Uid of the object that runs a job -> how ``gpuctl pause`` calls it: of the jobs that somebody may pause.

    :param wanted: uids of objects; of others nothing is told.
    """
    jobs = service.board.now().jobs if wanted else ()
    theirs = {
        str(item.job.workload["metadata"]["uid"]): item
        for item in jobs
        if item.job.workload is not None and item.job.workload["metadata"]["uid"] in wanted
    }
    names = pausable_jobs((item.job for item in jobs), service.keys) if theirs else {}
    return {uid: names[uid] for uid, item in theirs.items() if uid in names and _may_change(caller, item)}


def _may_change(caller: Caller, item: ListedJob) -> bool:
    row = item.row
    return caller.may(Wish("update", "jobs", row.identity.namespace, row.pool or DEFAULT_POOL)).allowed
