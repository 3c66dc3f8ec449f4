"""Usage, and whose somebody may see: that of the namespaces they see, and of all together where they see all."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import Key
from gpuctl.reading.pausable_jobs import pausable_jobs
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.http_problems import Problem, forbidden, not_found
from gpuctl_server.job_lookups import require_access
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.service_context import Service
from gpuctl_usage.answers.name_answers import cluster_names as all_names
from gpuctl_usage.answers.name_answers import cluster_of, namespace_names
from gpuctl_usage.answers.query_scope import InvalidQuery, Unanswerable
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.engines import DatabaseProblem

Result = TypeVar("Result")
_OF_THE_SYSTEM = "kube-system"
"""Whoever sees it, and all that are no namespaces of the system, sees all of those as well."""
_NAMED = 5
_NO_POOL = ""
"""Somebody who is limited to pools may not see what is in none."""


def usage_answer(service: Service, caller: Caller, cluster: str, ask: Callable[[Database, str], Result]) -> Result:
    """Return the answer to a question about one cluster.

    :param cluster: its name; "" for the cluster of this service.
    :param ask: called with the database and the name of the cluster.
    :raises Problem: 503 without a usable database, 404 for what it does not contain, 400 for an invalid question, 403
        for another cluster unless the caller sees all namespaces and pools.
    """
    return _answered(service, lambda database: ask(database, _cluster_of(service, caller, cluster, database)))


def cluster_names(service: Service, caller: Caller) -> list[str]:
    """Return the names of the clusters that the caller may ask about, that of this service first.

    :raises Problem: 503 without a usable database.
    """

    def names(database: Database) -> list[str]:
        own = _own_cluster(service, database)
        others = [name for name in all_names(database) if name != own] if _sees_every_cluster(caller) else []
        return others if own is None else [own, *others]

    return _answered(service, names)


def _cluster_of(service: Service, caller: Caller, name: str, database: Database) -> str:
    own = _own_cluster(service, database)
    if name == own or (name and _sees_every_cluster(caller)):
        return name
    if name:
        raise forbidden(
            f"{caller.name} may not get the usage of other clusters than that of this service; leave `cluster` out"
        )
    if own is not None:
        return own
    others = all_names(database) if _sees_every_cluster(caller) else []
    raise not_found(
        f"usage of the cluster of this service is not in the database; `cluster` may be {', '.join(others[:_NAMED])}"
        if others
        else "no usage of the cluster of this service has been collected yet; is `gpuctl usage collect` running?"
    )


def _own_cluster(service: Service, database: Database) -> str | None:
    """Return the name of the service's cluster; None if its usage was never collected.

    :raises Problem: 503 if the uid of the cluster is not known yet.
    """
    system = service.mirror.find(Key("Namespace", "", _OF_THE_SYSTEM))
    if system is None:
        raise Problem(503, "the namespace kube-system, whose uid identifies the cluster, is not read yet")
    found = cluster_of(database, str(system["metadata"]["uid"]))
    return None if found is None else found.name


def _sees_every_cluster(caller: Caller) -> bool:
    # Namespaces and pools of equal names in two clusters are not the same.
    return caller.sees_all() and caller.may(AccessRequest("get", "metrics", pool=_NO_POOL)).allowed


def _answered(service: Service, ask: Callable[[Database], Result]) -> Result:
    try:
        database = service.usage.database()
        if database is None:
            raise Problem(503, "usage is not set up: the setting usage_database names no database")
        return ask(database)
    except DatabaseProblem as error:
        raise Problem(503, str(error)) from None
    except InvalidQuery as error:
        raise Problem(400, str(error), error="InvalidRequest") from None
    except Unanswerable as error:
        raise not_found(str(error)) from None


def require_all_namespaces(caller: Caller, instead: str) -> None:
    """See that somebody sees all namespaces: what is of all together cannot be taken apart.

    :param instead: what they may ask.
    :raises Problem: 403.
    """
    if not caller.sees_all():
        raise forbidden(f"{caller.name} may not get the usage of all namespaces together; ask {instead}")


def require_all_pools(caller: Caller, what: str = "workloads") -> None:
    """Require the right to see single workloads, or nodes: usage does not record the pool of each.

    :raises Problem: 403.
    """
    if not caller.may(AccessRequest("get", "metrics", pool=_NO_POOL)).allowed:
        raise forbidden(
            f"{caller.name} may not get the usage of single {what}: it is of all pools, and this token is limited "
            "to some; ask /gpu-aggregation/namespaces/hourly-stats"
        )


def holders_seen(service: Service, caller: Caller) -> frozenset[str] | None:
    """The namespaces whose pods the metrics for somebody may tell of; None for all.

    There are none for those who do not see all namespaces but the system's, or who are limited to pools.
    """
    if not caller.sees_all() or not caller.may(AccessRequest("get", "metrics", pool=_NO_POOL)).allowed:
        return frozenset()
    if caller.sees(_OF_THE_SYSTEM):
        return None
    return frozenset(filter(caller.sees, service.mirror.names("Namespace")))


def namespaces_seen(service: Service, caller: Caller, cluster: str, namespace: str = "") -> frozenset[str] | None:
    """Return the namespaces of a cluster that the caller may see; None for all, including future ones.

    :param cluster: as for :func:`usage_answer`; ``namespace``: the one that the caller asks about, if any.
    :raises Problem: 403 for a namespace, or cluster, that the caller may not see.
    """
    # A caller without the right learns nothing, not even whether there is a database.
    require_access(caller, AccessRequest("get", "metrics", namespace or None))
    if caller.sees_all() and caller.sees(_OF_THE_SYSTEM):
        return None
    return frozenset(filter(caller.sees, usage_answer(service, caller, cluster, namespace_names)))


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
    return caller.may(AccessRequest("update", "jobs", row.identity.namespace, row.pool or DEFAULT_POOL)).allowed
