"""Usage within the rights of a caller: of visible namespaces, and of all together for callers who see all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key
from gpuctl.reading.jobs.pausable_jobs import pausable_jobs
from gpuctl.usecases.service.service_client import USAGE_NOT_CONFIGURED
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.http.http_problems import Problem, forbidden, not_found
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.service_context import Service
from gpuctl_usage.answers.name_answers import cluster_names as all_names
from gpuctl_usage.answers.name_answers import cluster_of, namespace_names
from gpuctl_usage.answers.query_scope import InvalidQuery, Unanswerable
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.store.usage_queries import StoredCluster

Result = TypeVar("Result")
_OF_THE_SYSTEM = "kube-system"
"""A caller who sees all other namespaces and this one sees all system namespaces."""
_NAMED = 5


def usage_answer(service: Service, caller: Caller, cluster: str, ask: Callable[[Database, str], Result]) -> Result:
    """Return the answer to a request about one cluster.

    :param cluster: name of the cluster; "": that of this service.
    :param ask: called with the database and the name of the cluster.
    :raises Problem: 503 without a usable database, 404 for data that does not exist, 400 for an invalid request, 403
        for another cluster unless the caller sees all namespaces and pools.
    """
    return _answered(service, lambda database: ask(database, _cluster_of(service, caller, cluster, database)))


def cluster_names(service: Service, caller: Caller) -> list[str]:
    """Return the names of the clusters that the caller may see, that of this service first.

    :raises Problem: 503 without a usable database.
    """

    def names(database: Database) -> list[str]:
        own = _own_name(service, database)
        others = [name for name in all_names(database) if name != own] if _sees_every_cluster(caller) else []
        return others if own is None else [own, *others]

    return _answered(service, names)


def is_collected(service: Service) -> bool:
    """Return True if the database has usage of the service's cluster. True also if that cannot be read: a request for
    usage returns the reason.
    """
    try:
        database = service.usage.database()
        cluster = None if database is None else _own_cluster(service, database)
    except (DatabaseProblem, Problem):
        return True
    return cluster is not None and cluster.last_seen is not None


def _cluster_of(service: Service, caller: Caller, name: str, database: Database) -> str:
    own = _own_name(service, database)
    if name == own or (name and _sees_every_cluster(caller)):
        return name
    if name:
        raise forbidden(
            say("{name} may only get the usage of the cluster of this service; leave `cluster` out", name=caller.name)
        )
    if own is not None:
        return own
    others = all_names(database) if _sees_every_cluster(caller) else []
    raise not_found(
        say(
            "the database has no usage of the cluster of this service; `cluster` may be {names}",
            names=[*others[:_NAMED]],
        )
        if others
        else say("no usage of the cluster of this service has been collected yet; is `gpuctl usage collect` running?")
    )


def _own_name(service: Service, database: Database) -> str | None:
    found = _own_cluster(service, database)
    return None if found is None else found.name


def _own_cluster(service: Service, database: Database) -> StoredCluster | None:
    """Return the service's cluster; None if its usage was never collected.

    :raises Problem: 503 if the uid of the cluster is not known yet.
    """
    system = service.mirror.find(Key("Namespace", "", _OF_THE_SYSTEM))
    if system is None:
        raise Problem(503, say("the namespace kube-system, whose uid identifies the cluster, has not been read yet"))
    return cluster_of(database, str(system["metadata"]["uid"]))


def _sees_every_cluster(caller: Caller) -> bool:
    # Namespaces and pools of different clusters may have the same name.
    return caller.sees_all() and caller.pools is None


def _answered(service: Service, ask: Callable[[Database], Result]) -> Result:
    try:
        database = service.usage.database()
        if database is None:
            message = say("usage is not configured: the setting `usage_database` is empty")
            raise Problem(503, message, error=USAGE_NOT_CONFIGURED)
        return ask(database)
    except DatabaseProblem as error:
        raise Problem(503, str(error)) from None
    except InvalidQuery as error:
        raise Problem(400, str(error), error="InvalidRequest") from None
    except Unanswerable as error:
        raise not_found(str(error)) from None


def require_all_namespaces(caller: Caller, instead: str) -> None:
    """Check that the caller sees all namespaces: a sum over all cannot be filtered.

    :param instead: a path that the caller may use.
    :raises Problem: 403.
    """
    if not caller.sees_all():
        raise forbidden(
            say("{name} may not get the usage of all namespaces together; use {path}", name=caller.name, path=instead)
        )


def require_all_pools(caller: Caller) -> None:
    """Check that the caller sees all pools: usage does not record pools, so it cannot be limited to some.

    :raises Problem: 403.
    """
    if caller.pools is not None:
        raise forbidden(
            say(
                "{name} may not get usage: it is not recorded by pool, and the pools of this token are {pools}; use "
                "/gpu-use for the GPUs that its jobs hold now",
                name=caller.name,
                pools=sorted(caller.pools) or say("none"),
            )
        )


def visible_holders(service: Service, caller: Caller) -> frozenset[str] | None:
    """Return the namespaces whose pods the metrics of the collector may include for a caller; None: all.

    Empty for a caller who does not see all namespaces except those of the system, or who is limited to pools.
    """
    if not _sees_every_cluster(caller):
        return frozenset()
    if caller.sees(_OF_THE_SYSTEM):
        return None
    return frozenset(filter(caller.sees, service.mirror.names("Namespace")))


def visible_namespaces(service: Service, caller: Caller, cluster: str, namespace: str = "") -> frozenset[str] | None:
    """Return the namespaces of a cluster that the caller may see; None: all, including future ones.

    :param cluster: as for :func:`usage_answer`; ``namespace``: the requested namespace, if any.
    :raises Problem: 403 for a namespace, or cluster, that the caller may not see.
    """
    # Checked first: a caller without the right must not learn if a database exists.
    require_access(caller, AccessRequest("get", "metrics", namespace or None))
    if caller.sees_all() and caller.sees(_OF_THE_SYSTEM):
        return None
    return frozenset(filter(caller.sees, usage_answer(service, caller, cluster, namespace_names)))


def pausable_by(service: Service, caller: Caller, wanted: Collection[str]) -> dict[str, str]:
    """Return uid of a workload -> name for ``gpuctl pause``, for the jobs that the caller may pause.

    :param wanted: uids of workloads; others are left out.
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
