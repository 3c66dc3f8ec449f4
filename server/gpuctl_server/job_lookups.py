"""Which job is meant by a path, and by whom: what somebody may not see is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from gpuctl.language.names import DEFAULT_POOL
from gpuctl_server.access.caller import Caller, TokenCaller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.http_problems import Problem, forbidden, not_found
from gpuctl_server.mirror.job_board import Board, ListedJob
from gpuctl_server.service_context import Service

Result = TypeVar("Result")
_PATIENCE = 50.0
"""Seconds that a plan waits for others."""
REVIEWS = CapacityLimiter(40)
"""Threads in which it is found out who somebody is, and what they may: most often that is known already, and has not to
wait for requests that ask the cluster."""


def require_access(caller: Caller, access: AccessRequest) -> None:
    """See that somebody may do something.

    :raises Problem: 403.
    """
    decision = caller.may(access)
    if not decision.allowed:
        raise forbidden(decision.message)


@contextmanager
def simulating(service: Service) -> Iterator[None]:
    """Hold one of the few places for what places all pods of the cluster.

    :raises Problem: 429, none became free in time.
    """
    if not service.simulations.acquire(timeout=_PATIENCE):
        raise Problem(429, "other plans are being worked out; try again in a moment")
    try:
        yield
    finally:
        service.simulations.release()


def board_of(service: Service) -> Board:
    """All jobs.

    :raises Problem: 503, before they were read for the first time: an empty list would not be true.
    """
    if not service.board.ready:
        raise Problem(503, "the cluster is not read yet; /readyz says how far it is")
    return service.board.now()


async def decided(caller: Caller, function: Callable[[], Result]) -> Result:
    """What a function of somebody's rights answers: at once, unless somebody else has to be asked about them."""
    return function() if isinstance(caller, TokenCaller) else await anyio.to_thread.run_sync(function, limiter=REVIEWS)


class SeenJobs(NamedTuple):
    """Which jobs a caller sees: those of some namespaces and pools (None: of all)."""

    namespaces: frozenset[str] | None
    pools: frozenset[str] | None

    def takes(self, item: ListedJob) -> bool:
        """Return True if the caller sees a job."""
        row = item.row
        return (self.namespaces is None or row.identity.namespace in self.namespaces) and (
            self.pools is None or (row.pool or DEFAULT_POOL) in self.pools
        )


async def seen_by(caller: Caller, board: Board) -> SeenJobs:
    """Return which jobs a caller sees."""
    if isinstance(caller, TokenCaller):
        if caller.rights.is_unlimited:
            return SeenJobs(None, None)
        there = board.namespaces if caller.rights.namespaces is None else caller.rights.namespaces
        return SeenJobs(frozenset(filter(caller.sees, there)), caller.rights.pools)
    seen = await anyio.to_thread.run_sync(lambda: frozenset(filter(caller.sees, board.namespaces)), limiter=REVIEWS)
    return SeenJobs(seen, None)


MOST_REVIEWED = 100
"""Namespaces that are looked through for one that a caller may see."""


async def require_visible_namespace(service: Service, caller: Caller) -> None:
    """Check that a user of the cluster may see the jobs of at least one namespace, where these are not too many.

    An empty list would hide that the user has no rights.

    :raises Problem: 403.
    """
    if isinstance(caller, TokenCaller):
        return
    names = service.mirror.names("Namespace")
    if len(names) <= MOST_REVIEWED and not await decided(caller, lambda: any(map(caller.sees, names))):
        raise forbidden(
            f"{caller.name} may see jobs in no namespace: Kubernetes does not allow to list pods in any; an "
            "administrator binds roles, as docs/operations.md shows"
        )


def sees_job(caller: Caller, namespace: str, pool: str | None) -> bool:
    """Return True if a caller sees the jobs of a namespace and pool (None means ``default``)."""
    return caller.sees(namespace) and (caller.pools is None or (pool or DEFAULT_POOL) in caller.pools)


def no_job(text: str, namespace: str | None) -> Problem:
    """404: the same where there is none as where it may not be seen."""
    return not_found(f"there is no job {text}" + (f" in the namespace {namespace}" if namespace else ""))


def several_jobs(text: str, found: Sequence[ListedJob]) -> Problem:
    """Return the 409 of a text that means several jobs."""
    listed = [
        {"jobId": item.id, "namespace": item.row.identity.namespace, "kind": item.row.identity.kind} for item in found
    ]
    where = ", ".join(f"{item['jobId']} in {item['namespace']}" for item in listed)
    said = f"{text} means several jobs: {where}; name one by its jobId"
    return Problem(409, said, error="SeveralFound", details=listed)


def find_job(
    service: Service, caller: Caller, action: Action, resource: str, text: str, namespace: str | None = None
) -> ListedJob:
    """The job that a path means: by its id, its name, or the name of one of its pods.

    :param namespace: where it has to be, as far as that was said.
    :raises Problem: 403 for a namespace that is not theirs; 404 for what is not there, or not to be seen; 409 where
        several are meant; 503 before the cluster was read.
    """
    require_access(caller, AccessRequest(action, resource, namespace))

    def takes(item: ListedJob) -> bool:
        where = item.row.identity.namespace
        return sees_job(caller, where, item.row.pool) and namespace in (None, where)

    found = board_of(service).find(text, takes)
    if not found:
        raise no_job(text, namespace)
    if len(found) > 1:
        raise several_jobs(text, found)
    (job,) = found
    require_access(caller, AccessRequest(action, resource, job.row.identity.namespace, job.row.pool))
    return job
