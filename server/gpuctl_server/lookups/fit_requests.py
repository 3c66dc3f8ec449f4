"""Fit of the jobs of documents, and of waiting jobs, in the cluster of the service."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.language.sentences import say
from gpuctl.reading.jobs.job_rows import JobFilter
from gpuctl.usecases.fit.fit_documents import FitDocuments, FitResult, fit_waiting_seen
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.http.heavy_requests import search_slot, simulation_slot
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.merged_answers import visible_job_filter
from gpuctl_server.lookups.job_lookups import board_of, require_access
from gpuctl_server.mirror.shared_lists import READ_ONLY_AGE, MaxListAge
from gpuctl_server.service_context import Service

MOST_SUGGESTED = 20
"""Maximum number of documents of one search for changes. Each is compiled and judged many times."""


def fit_documents(
    service: Service, caller: Caller, found: FitDocuments, *, suggest: bool, list_age: float = 0
) -> FitResult:
    """Return the fit of documents. Objects that the caller may not see count, but their names are hidden.

    :param suggest: search for changes with which jobs would fit.
    :param list_age: maximum age of the lists of pods and nodes, seconds; 0: they are read now.
    :raises Problem: 400 for too many documents to search for changes, 429 while another search runs.
    """
    if not suggest:
        return _by_cluster(service, caller, found, MaxListAge(READ_ONLY_AGE, before=list_age), suggest=False)
    number = len(found.compilation.documents)
    if number > MOST_SUGGESTED:
        raise Problem(
            400,
            say(
                "a search for changes takes at most {most} documents, got {number}", most=MOST_SUGGESTED, number=number
            ),
            error="TooManyDocuments",
        )
    with search_slot():
        return _by_cluster(service, caller, found, MaxListAge(READ_ONLY_AGE, before=list_age), suggest=True)


def _by_cluster(
    service: Service, caller: Caller, found: FitDocuments, max_age: MaxListAge, *, suggest: bool
) -> FitResult:
    with service.simulation_context(caller, max_age=max_age) as reader, simulation_slot(service):
        return found.fit(take_snapshot(reader.scope.session), suggest=suggest)


def fit_waiting_jobs(service: Service, caller: Caller, namespace: str | None) -> FitResult:
    """Return the fit of jobs whose pods wait for a node. All such jobs count; the answer has those that the caller may
    see.

    :raises Problem: 403.
    """
    require_access(caller, AccessRequest("get", "jobs", namespace))
    with service.simulation_context(caller, max_age=MaxListAge(READ_ONLY_AGE)) as reader, simulation_slot(service):
        session = reader.scope.session
        result = fit_waiting_seen(session, namespace, caller.home or session.namespace)
    sees = visible_job_filter(caller)
    return replace(result, jobs=[job for job in result.jobs if sees(job.demand.namespace, job.demand.name)])


def listed_jobs(service: Service, wanted: JobFilter, names: Collection[str] | None) -> set[tuple[str, str]]:
    """Return namespace and main object's name of the jobs that match a filter. The caller's rights are not checked.

    :param names: ids and names of jobs, and names of pods; None for all jobs.
    :raises Problem: 503 until the cluster was read.
    """
    board = board_of(service)
    found = board.jobs if names is None else [item for name in names for item in board.called(name)]
    matching = (item.row for item in found if wanted.matches(item.row))
    return {(row.identity.namespace, row.identity.object_name) for row in matching}
