"""What is asked about jobs: which there are, all about one, why it does not run; and waiting for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuctl.capacity.pod_requests import amounts
from gpuctl.kube.connection import Connection
from gpuctl.language.settings import Settings
from gpuctl.reading import job_rows
from gpuctl.reading.job_rows import Identity, Job, JobFilter, Row
from gpuctl.reading.node_devices import read_devices
from gpuctl.reading.node_gpus import Gpus
from gpuctl.reading.status import pod_status
from gpuctl.reading.watching import changes
from gpuctl.usecases.looking import Reader, opened

if TYPE_CHECKING:
    from gpuctl.reading.describe_job import JobDetail, JobHistory
    from gpuctl.reading.document_history import DocumentHistory
    from gpuctl.reading.wait_until import WaitResult
    from gpuctl.reading.why.answer import Answer

PATIENCE = 300.0
"""Seconds for which jobs are waited for when nobody says; a training may take any time to be done."""


class JobQuery(NamedTuple):
    """Which rows, and of what: one a pod (``pods_only`` leaves out jobs without pods), or one a job (``by_job``).

    ``names`` are of jobs or their pods, ``selector`` is about labels as kubectl has it; the rest is as
    :class:`~gpuctl.reading.job_rows.JobFilter`. With ``reasons`` what waits says for what, as ``why`` does.
    """

    names: tuple[str, ...] = ()
    pool: str = ""
    kind: str = ""
    status: str = ""
    selector: str = ""
    by_job: bool = False
    pods_only: bool = False
    reasons: bool = False

    @property
    def filter(self) -> JobFilter:
        """What is looked at in each row."""
        return JobFilter(self.pool, self.kind, self.status, tuple(name.rpartition("/")[2] for name in self.names))

    @property
    def is_narrowed(self) -> bool:
        """Whether it is not about all jobs."""
        return any((self.names, self.pool, self.kind, self.status, self.selector))


@dataclass
class JobListing:
    """The rows, as they are read; what was seen on the way is known when they have been taken.

    ``jobs`` are all jobs, ``statuses`` the words of all rows, whether they are wanted or not; ``stuck`` is the first
    wanted one that does not run.
    """

    rows: Iterator[Row]
    jobs: list[Job] = field(default_factory=list)
    statuses: set[str] = field(default_factory=set)
    stuck: Identity | None = None


def list_jobs(reader: Reader, query: JobQuery, *, in_pages: bool = False, weighing: Reader | None = None) -> JobListing:
    """The rows of jobs, by namespace and name.

    :param in_pages: rows come as soon as a page of pods is read, and a job's need not stand together; not for rows of
        jobs, which count all their pods, nor for named ones, nor with reasons.
    :param weighing: by whom it is looked at for what jobs wait; default: ``reader``.
    :raises Absent: there is no job of a name, when the rows are taken.
    """
    if reader.service is not None:
        found = reader.service.ask("list-jobs", ListedRows, reader.scope, query=query)
        return JobListing(iter(found.rows), [], found.statuses, found.stuck)
    listing = JobListing(iter(()))
    listing.rows = _rows(reader, query, listing, weighing or reader, in_pages=in_pages and not query.reasons)
    return listing


def _rows(reader: Reader, query: JobQuery, listing: JobListing, weighing: Reader, *, in_pages: bool) -> Iterator[Row]:
    labels = job_rows.labels(reader.settings, reader.keys)
    wanted = query.filter
    for jobs in _batches(reader, query, in_pages=in_pages):
        listing.jobs.extend(jobs)
        labels = job_rows.counting_claims(labels, reader.scope, jobs)
        rows = job_rows.rows(jobs, labels, by_job=query.by_job, pods_only=query.pods_only)
        for row in _explained(weighing, jobs, rows, query) if query.reasons else rows:
            listing.statuses.add(row.status.word)
            if wanted.takes(row):
                if listing.stuck is None and row.status.phase in ("pending", "failed", "unknown"):
                    listing.stuck = row.identity
                yield row


def _explained(reader: Reader, jobs: Sequence[Job], rows: Iterable[Row], query: JobQuery) -> Iterator[Row]:
    """Rows in which what waits says for what."""
    from gpuctl.reading.why.waiting_reasons import WaitingReasons

    reasons = WaitingReasons(reader.scope, reader.keys, reader.settings).of(jobs)
    # Rows of what such jobs lack beside their pods.
    partial = set() if query.by_job else {job.identity for job in jobs if job.pods}
    for row in rows:
        found = reasons.get(row.identity)
        if found is None or row.status.phase != "pending" or row.node is not None:
            yield row
            continue
        is_pod = row.pod is not None
        said = found.unplaced if is_pod else found.unmade if row.identity in partial else found.whole
        yield row._replace(status=row.status._replace(reason=said or row.status.reason))


def _batches(reader: Reader, query: JobQuery, *, in_pages: bool) -> Iterable[list[Job]]:
    if query.names:
        from gpuctl.reading.find import find_jobs

        return [find_jobs(reader.scope, query.names, reader.keys, query.selector)]
    if query.by_job or not in_pages:
        return [job_rows.read(reader.scope, reader.keys, query.selector)]
    return job_rows.batches(reader.scope, reader.keys, query.selector)


def watch_jobs(reader: Reader, query: JobQuery) -> Iterator[list[Row]]:
    """The rows as they are, then each again when it changes, until the caller stops."""
    if reader.service is not None:
        from gpuctl.usecases.service_waits import watch_by_service

        # All rows are asked for: one that is wanted no more has to be known to have changed.
        everything = query._replace(names=(), pool="", kind="", status="")

        yield from watch_by_service(reader.service, lambda: list_jobs(reader, everything).rows, query.filter.takes)
        return
    wanted = query.filter
    shape = {"by_job": query.by_job, "pods_only": query.pods_only}
    for rows in changes(reader.scope, reader.settings, reader.keys, query.selector, **shape):
        yield [row for row in rows if wanted.takes(row)]


class ListedRows(NamedTuple):
    """A :class:`JobListing` whose rows were taken, as the service tells it."""

    rows: list[Row]
    statuses: set[str]
    stuck: Identity | None


class GpuUse(NamedTuple):
    """GPUs of pods on nodes, of all nodes (None: of one namespace, or nodes may not be read), and waited for."""

    allocated: int
    total: int | None
    waiting: int


def gpu_use(reader: Reader, jobs: Iterable[Job]) -> GpuUse:
    """How many GPUs jobs have and wait for; by the service all jobs that may be seen."""
    if reader.service is not None:
        return reader.service.ask("gpu-use", GpuUse, reader.scope)
    jobs, labels = list(jobs), job_rows.labels(reader.settings, reader.keys)
    nodes = reader.scope.maybe("Node", why="the total of GPUs is not shown")
    total = None
    if nodes is None or reader.scope.namespace is not None:
        labels = job_rows.counting_claims(labels, reader.scope, jobs)
    else:
        gpus, devices = Gpus(reader.settings), read_devices(reader.scope, labels.gpus)
        pods = [pod for job in jobs for pod in job.pods]
        labels = labels._replace(claimed=devices.gpus_of(pods, labels.gpus))
        offered = (devices.offered.get(node["metadata"]["name"], {}) for node in nodes)
        capacity = (amounts((node.get("status") or {}).get("allocatable")) for node in nodes)
        total = sum(map(gpus.count, (*capacity, *offered)))
    asked = sum({job.identity: _asked(job, labels) for job in jobs}.values())
    allocated = sum(
        job_rows.pod_row(pod, job.identity, labels).gpu
        for job in jobs
        for pod in job.pods
        if pod["spec"].get("nodeName") and pod_status(pod).phase not in ("succeeded", "failed")
    )
    return GpuUse(allocated, total, max(0, asked - allocated))


def _asked(job: Job, labels: job_rows.Labels) -> int:
    """The GPUs that a job has or waits for: none when it is over, paused or leaving."""
    row = job_rows.job_row(job, labels)
    return row.gpu if row.status.phase in ("pending", "running") else 0


def describe_job(reader: Reader, name: str) -> JobDetail:
    """Everything about the job that a name means: its own, ``KIND/NAME``, or that of one of its pods.

    :raises NoSuchJob: there is none, or several.
    """
    if reader.service is not None:
        from gpuctl.reading.describe_job import JobDetail

        return reader.service.ask("describe-job", JobDetail, reader.scope, name=name)
    from gpuctl.reading.describe_job import describe
    from gpuctl.reading.find import find_job

    job, _ = find_job(reader.scope, name, reader.keys)
    return describe(reader.scope, job, reader.keys, reader.settings)


def document_history(
    reader: Reader, name: str, shows: Callable[[dict[str, Any]], bool] = lambda document: True
) -> DocumentHistory:
    """Which documents were applied of the job that a name, or ``KIND/NAME``, means, though it need not be there.

    :param shows: as :func:`gpuctl.reading.document_history.read_documents` has it; a service decides for itself.
    :raises NoSuchJob: there is no history of it, or there are several.
    """
    from gpuctl.reading.document_history import read_documents
    from gpuctl.usecases.service_history import history_of_service

    if reader.service is not None:
        return history_of_service(reader.service, reader.scope, name)
    return read_documents(reader.scope, name, reader.keys, shows)


def job_history(reader: Reader, name: str) -> JobHistory:
    """What happened to the job that a name means.

    :raises NoSuchJob: there is none, or several.
    """
    from gpuctl.reading.describe_job import history
    from gpuctl.reading.find import find_job

    job, _ = find_job(reader.scope, name, reader.keys)
    return history(reader.scope, job)


def why(
    name: str,
    *,
    namespace: str | None = None,
    cluster: Connection | None = None,
    platform: str | os.PathLike[str] | Settings | None = None,
) -> Answer:
    """Tell why a job is as it is: one cause with its numbers, what speaks for it, what was ruled out, what helps.

    :param name: of the job, ``KIND/NAME``, or of one of its pods.
    :param namespace: where it is; default: wherever it is found.
    :param cluster: the connection to look through, which may be shared and stays open; default: the kubeconfig's.
    :param platform: the platform's settings, or their file; default: ``platform.yaml`` in the current directory or
        above, no higher than the git root.
    :raises NoSuchJob: there is no such job, or there are several.
    :raises ClusterError: the cluster, or the right to look at it, fails; what may not be read is in ``notes`` instead
        where there is an answer without it.
    :raises InvalidDocuments: the platform's file has errors.
    :raises InvalidOptions: the name is none of a namespace.
    """
    with opened(cluster, platform, namespace) as reader:
        return explain_job(reader, name)


def explain_job(reader: Reader, name: str) -> Answer:
    """As :func:`why`, for whoever looks already.

    :raises NoSuchJob: there is no such job, or there are several.
    """
    if reader.service is not None:
        from gpuctl.reading.why.answer import Answer

        return reader.service.ask("explain-job", Answer, reader.scope, name=name)
    from gpuctl.reading.find import find_job
    from gpuctl.reading.why.answer import why as cause_of_job

    job, _ = find_job(reader.scope, name, reader.keys)
    return cause_of_job(reader.scope, job, reader.keys, reader.settings)


def wait_for_jobs(
    reader: Reader,
    names: Sequence[str],
    condition: str,
    timeout: float | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[WaitResult]:
    """Wait until jobs run, are ``ready``, ``done`` or ``deleted``; a result for each name, as it comes.

    :param condition: one of :data:`gpuctl.reading.wait_until.CONDITIONS`.
    :param timeout: seconds for all of them together; default: :data:`PATIENCE`, and for ``done`` without end.
    :param tell: hears what is being waited for.
    :raises Absent: there is no job of a name, and it is not waited for that it is deleted.
    """
    limit = timeout if timeout is not None or condition == "done" else PATIENCE
    if reader.service is not None:
        from gpuctl.usecases.service_waits import wait_by_service

        yield from wait_by_service(reader, names, condition, limit, tell)
        return
    from gpuctl.reading.wait_until import wait_for

    yield from wait_for(reader.scope, names, condition, reader.keys, reader.settings, limit, tell)
