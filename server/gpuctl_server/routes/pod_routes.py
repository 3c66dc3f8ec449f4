"""``/pods`` and ``/gpu-use``: the pods of jobs, and the GPUs that they hold."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Query

from gpuctl.api.job_list_answers import GpusOfJobs, ListedPod, PodPage
from gpuctl.language.sentences import say
from gpuctl.objects.label_names import LABEL_MAX
from gpuctl.reading.jobs.job_rows import JobTableRow
from gpuctl.usecases.queries.job_queries import JobQuery, gpu_use, list_jobs
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.limits.shared_answers import MaxAge
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import LEGAL_SELECTOR, KindFilter, NamespaceFilter, Page, PoolFilter, page_of
from gpuctl_server.routes.routers import mirror_router
from gpuctl_server.service_context import Service

router = mirror_router()
Reads = Annotated[Caller, Depends(allowed("get", "jobs"))]
LARGEST = 5000
"""Maximum number of items of a page: enough for all pods of most clusters, so that the command line shows one snapshot.
"""
_MOST_NAMES = 16 * 1024


@router.get("/pods", responses={200: {"model": PodPage}})
def list_of_pods(
    service: ServiceOf,
    caller: Reads,
    names: Annotated[
        str,
        Query(
            max_length=_MOST_NAMES,
            description="Ids or names of jobs, or names of their pods, separated by commas. Each must exist.",
        ),
    ] = "",
    selector: Annotated[
        str, Query(max_length=_MOST_NAMES, description="Label selector, in the syntax of `kubectl -l`."), LEGAL_SELECTOR
    ] = "",
    kind: KindFilter = "",
    pool: PoolFilter = "",
    status: Annotated[str, Query(max_length=253, description="A status word or a phase, case-insensitive.")] = "",
    namespace: NamespaceFilter = "",
    byJob: Annotated[bool, Query(description="One item per job; `ready` counts its pods.")] = False,  # noqa: N803
    podsOnly: Annotated[bool, Query(description="Leave out the items for missing pods.")] = False,  # noqa: N803
    reasons: Annotated[
        bool, Query(description="Explain pending pods as `GET /jobs/{jobId}/why` does, which takes longer.")
    ] = False,
    sweep: Annotated[
        str,
        Query(
            max_length=LABEL_MAX,
            pattern=r"^([a-z]([-a-z0-9]*[a-z0-9])?)?$",
            description="Only the jobs of this sweep.",
        ),
    ] = "",
    page: Page = 1,
    pageSize: Annotated[int, Query(ge=1, le=LARGEST, description="Items per page.")] = 20,  # noqa: N803
) -> dict[str, Any]:
    """List the pods of the visible jobs, by namespace and name. A job with missing pods has an additional item for
    them.
    """
    if byJob and podsOnly:
        raise Problem(400, say("byJob and podsOnly exclude each other"), error="InvalidRequest")
    require_access(caller, AccessRequest("get", "jobs", namespace or None))
    named = tuple(filter(None, names.split(",")))
    query = JobQuery(named, pool, kind, status, selector, byJob, podsOnly, reasons, sweep)
    rows, statuses, notes = _listed(service, caller, query, namespace or None)
    items = list(map(ListedPod.model_validate, page_of(rows, page, pageSize)))
    return PodPage(total=len(rows), items=items, statuses=statuses, notes=notes).as_json()


def _listed(
    service: Service, caller: Caller, query: JobQuery, namespace: str | None
) -> tuple[list[JobTableRow], list[str], list[str]]:
    """Return the rows that a query selects, all status words, and notes about lists that could not be read."""
    with service.read_context(caller, namespace) as reader:
        if not query.reasons:
            listing = list_jobs(reader, query)
            return listing.rows, sorted(listing.statuses), reader.scope.notes
        # The reason for which a job waits depends on the pods of all users. It is computed from the cluster, not the
        # mirror.
        with service.simulation_context(caller, namespace) as simulation:
            listing = list_jobs(reader, query, weighing=simulation)
        return listing.rows, sorted(listing.statuses), [*reader.scope.notes, *simulation.scope.notes]


@router.get("/gpu-use", responses={200: {"model": GpusOfJobs}})
def use_of_gpus(
    service: ServiceOf,
    caller: Reads,
    namespace: NamespaceFilter = "",
    maxAge: MaxAge = 0,  # noqa: N803
) -> dict[str, Any]:
    """Return the number of GPUs that the visible jobs hold and wait for."""
    require_access(caller, AccessRequest("get", "jobs", namespace or None))
    compute = partial(_use_of_gpus, service, caller, namespace)
    found: dict[str, Any] = service.shared_answers.find(caller, ("gpu-use", namespace), maxAge, compute)
    return found


def _use_of_gpus(service: Service, caller: Caller, namespace: str) -> dict[str, Any]:
    with service.read_context(caller, namespace or None) as reader:
        use = gpu_use(reader, list_jobs(reader, JobQuery()).jobs)
        return GpusOfJobs(
            allocated=use.allocated, total=use.total, waiting=use.waiting, notes=reader.scope.notes
        ).as_json()
