"""What the command line asks as a client of room: for the jobs of documents, and for those that wait."""

from __future__ import annotations

import threading
from dataclasses import replace

from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.usecases.fit_documents import FitDocuments, FitResult, fit_waiting_seen
from gpuctl.usecases.service_documents import SentDocuments, unlike
from gpuctl.usecases.service_fit import ToldFits, told_fits
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Wish
from gpuctl_server.command_line import Asked
from gpuctl_server.lookups import demand, simulating
from gpuctl_server.mirror.survey import READING, Lookback
from gpuctl_server.others import seen_names
from gpuctl_server.problems import Problem
from gpuctl_server.service import Service
from gpuctl_server.submissions import compile_to_fit

MOST_SUGGESTED = 20
"""Documents whose changes are looked for at once: each is compiled and judged many times."""
_SUGGESTING = threading.Lock()
_PATIENCE = 30.0
"""Seconds that somebody waits for the suggestions of somebody else: two would not be faster side by side."""


def fit(asked: Asked, documents: SentDocuments, suggest: bool) -> ToldFits:
    """Whether the jobs of documents would find room; what may not be seen counts, but has no name."""
    demand(asked.caller, Wish("get", "plans"))
    sources = [source._replace(path=None) for source in documents.sources]
    found = compile_to_fit(asked.service, asked.caller, sources, documents.namespace, strict=documents.strict)
    platform = unlike(documents, asked.service.platform)
    return told_fits(judged(asked.service, asked.caller, found, suggest=suggest), platform)


def judged(service: Service, caller: Caller, found: FitDocuments, *, suggest: bool) -> FitResult:
    """The answer for documents by the cluster as it is, with changes that would fit where these are asked for.

    :raises Problem: 400: these are too many documents to look for changes; 429: others are looking for some.
    """
    if not suggest:
        return _by_cluster(service, caller, found, suggest=False)
    number = len(found.compilation.documents)
    if number > MOST_SUGGESTED:
        raise Problem(
            400,
            f"changes are looked for in {MOST_SUGGESTED} documents at most, and these are {number}",
            error="TooManyDocuments",
        )
    if not _SUGGESTING.acquire(timeout=_PATIENCE):
        raise Problem(429, "changes of other documents are being looked for; try again in a moment")
    try:
        return _by_cluster(service, caller, found, suggest=True)
    finally:
        _SUGGESTING.release()


def _by_cluster(service: Service, caller: Caller, found: FitDocuments, *, suggest: bool) -> FitResult:
    with service.weighing(caller, lookback=Lookback(READING)) as reader, simulating(service):
        return found.fit(take_snapshot(reader.scope.session), suggest=suggest)


def fit_waiting_jobs(asked: Asked) -> ToldFits:
    """Whether the jobs whose pods wait for a node would find room. All that wait count, as far as the cluster lets who
    asks look; told is what may be seen."""
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    with asked.service.weighing(asked.caller, lookback=Lookback(READING)) as reader, simulating(asked.service):
        session = reader.scope.session
        result = fit_waiting_seen(session, asked.namespace, asked.caller.home or session.namespace)
    sees = seen_names(asked.caller)
    seen = [job for job in result.jobs if sees(job.demand.namespace, job.demand.name)]
    return told_fits(replace(result, jobs=seen))
