"""Lookup of jobs by id, name or pod, limited to the jobs that a caller may see; and checks of rights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.sentences import say
from gpuctl_server.access.caller import Caller, TokenCaller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.http.http_problems import Problem, forbidden, not_found
from gpuctl_server.mirror.job_board import Board, ListedJob
from gpuctl_server.service_context import Service

Result = TypeVar("Result")
REVIEWS = CapacityLimiter(40)
"""Threads for reviews of tokens and rights. The result is usually cached, so it must not wait for requests that call
the API server.
"""


def require_access(caller: Caller, access: AccessRequest) -> None:
    """Raise an error if the caller may not do something.

    :raises Problem: 403.
    """
    decision = caller.may(access)
    if not decision.allowed:
        raise forbidden(decision.message)


def board_of(service: Service) -> Board:
    """Return all jobs.

    :raises Problem: 503 until the cluster was read for the first time: an empty list would be wrong.
    """
    if not service.board.ready:
        raise Problem(503, say("the cluster has not been read yet; see /readyz"))
    return service.board.now()


async def check_rights(caller: Caller, function: Callable[[], Result]) -> Result:
    """Return the result of a function that checks rights. Only checks that may call the API server run in a thread."""
    return function() if isinstance(caller, TokenCaller) else await anyio.to_thread.run_sync(function, limiter=REVIEWS)


class VisibleJobs(NamedTuple):
    """The jobs that a caller may see: those in some namespaces and pools (None: all)."""

    namespaces: frozenset[str] | None
    pools: frozenset[str] | None

    def takes(self, item: ListedJob) -> bool:
        """Return True if the caller may see a job."""
        row = item.row
        return (self.namespaces is None or row.identity.namespace in self.namespaces) and (
            _sees_pools(self.pools, row.pools)
        )


async def visible_jobs(caller: Caller, board: Board) -> VisibleJobs:
    """Return the jobs that a caller may see."""
    if isinstance(caller, TokenCaller):
        if caller.rights.is_unlimited:
            return VisibleJobs(None, None)
        there = board.namespaces if caller.rights.namespaces is None else caller.rights.namespaces
        return VisibleJobs(frozenset(filter(caller.sees, there)), caller.rights.pools)
    seen = await anyio.to_thread.run_sync(lambda: frozenset(filter(caller.sees, board.namespaces)), limiter=REVIEWS)
    return VisibleJobs(seen, None)


MOST_REVIEWED = 100
"""Maximum number of namespaces that are searched for one that a caller may see."""


async def require_visible_namespace(service: Service, caller: Caller) -> None:
    """Check that a user of the cluster may see the jobs of at least one namespace, unless there are too many to check.

    An empty list would hide that the user has no rights.

    :raises Problem: 403.
    """
    if isinstance(caller, TokenCaller):
        return
    names = service.mirror.names("Namespace")
    if len(names) <= MOST_REVIEWED and not await check_rights(caller, lambda: any(map(caller.sees, names))):
        raise forbidden(
            say(
                "{name} may not see jobs in any namespace: RBAC does not allow to list pods; ask an administrator "
                "for a role binding, see docs/operations.md",
                name=caller.name,
            )
        )


def sees_job(caller: Caller, namespace: str, pools: Sequence[str]) -> bool:
    """Return True if a caller may see the jobs of a namespace whose pods are in these pools (none: ``default``)."""
    return caller.sees(namespace) and _sees_pools(caller.pools, pools)


def _sees_pools(allowed: Collection[str] | None, pools: Sequence[str]) -> bool:
    return allowed is None or all(pool in allowed for pool in pools or (DEFAULT_POOL,))


def job_not_found(text: str, namespace: str | None) -> Problem:
    """Return a 404, the same for a job that does not exist and for one that the caller may not see."""
    if not namespace:
        return not_found(say("there is no job {name}", name=text))
    return not_found(say("there is no job {name} in the namespace {namespace}", name=text, namespace=namespace))


def ambiguous_job(text: str, found: Sequence[ListedJob]) -> Problem:
    """Return the 409 for a text that matches several jobs."""
    listed = [
        {"jobId": item.id, "namespace": item.row.identity.namespace, "kind": item.row.identity.kind} for item in found
    ]
    where = [say("{job} in {namespace}", job=item["jobId"], namespace=item["namespace"]) for item in listed]
    said = say("{text} matches several jobs: {jobs}; name one by its jobId", text=text, jobs=where)
    return Problem(409, said, error="SeveralFound", details=listed)


def find_job(
    service: Service, caller: Caller, action: Action, resource: str, text: str, namespace: str | None = None
) -> ListedJob:
    """Return the job that a path names by its id, its name, or the name of one of its pods.

    :param namespace: namespace of the job; None if not given.
    :raises Problem: 403 for a namespace that the caller may not use; 404 for a job that does not exist or that the
        caller may not see; 409 for several jobs; 503 until the cluster was read.
    """
    require_access(caller, AccessRequest(action, resource, namespace))

    def takes(item: ListedJob) -> bool:
        where = item.row.identity.namespace
        return sees_job(caller, where, item.row.pools) and namespace in (None, where)

    found = board_of(service).find(text, takes)
    if not found:
        raise job_not_found(text, namespace)
    if len(found) > 1:
        raise ambiguous_job(text, found)
    (job,) = found
    require_access(caller, AccessRequest(action, resource, job.row.identity.namespace, job.row.pool))
    return job
