"""Queries about several jobs: lists, watches, the GPUs that they hold, and waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.label_names import SWEEP
from gpuctl.objects.workload_state import has_ended
from gpuctl.reading.jobs import job_rows
from gpuctl.reading.jobs.job_ids import without_general_prefix
from gpuctl.reading.jobs.job_objects import Identity, Job, read_jobs
from gpuctl.reading.jobs.job_rows import JobFilter, JobTableRow
from gpuctl.reading.jobs.row_changes import watch_rows
from gpuctl.reading.nodes.node_devices import read_claimed_devices, read_devices
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import read_nodes
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.service.service_jobs import gpu_use_of_service, pages_of_rows

if TYPE_CHECKING:
    from gpuctl.reading.jobs.document_history import DocumentHistory
    from gpuctl.reading.jobs.wait_until import WaitResult

DEFAULT_WAIT = 300.0
"""Default time to wait for jobs, seconds; `done` has no limit, since a training may take any time."""


class JobQuery(NamedTuple):
    """A query for rows of `get jobs`: one per pod, or with ``by_job`` one per job.

    :param names: names of jobs or pods, or ``KIND/NAME``; () for all. For the other filters see
        :class:`~gpuctl.reading.jobs.job_rows.JobFilter`.
    :param selector: label selector as in kubectl.
    :param pods_only: leave out rows of jobs without pods.
    :param reasons: pending rows have the reason that `why` gives.
    :param sweep: only the jobs of this sweep.
    """

    names: tuple[str, ...] = ()
    pool: str = ""
    kind: str = ""
    status: str = ""
    selector: str = ""
    by_job: bool = False
    pods_only: bool = False
    reasons: bool = False
    sweep: str = ""

    def label_selector(self, settings: Settings) -> str:
        """Return the label selector of the objects to read."""
        of_sweep = f"{settings.label(SWEEP)}={self.sweep}" if self.sweep else ""
        return ",".join(filter(None, (self.selector, of_sweep)))

    @property
    def filter(self) -> JobFilter:
        """Return the filter on rows."""
        return JobFilter(self.pool, self.kind, self.status, tuple(map(without_general_prefix, self.names)))

    @property
    def parameters(self) -> dict[str, str]:
        """Return the query parameters of ``GET /pods``."""
        flags = {"byJob": self.by_job, "podsOnly": self.pods_only, "reasons": self.reasons}
        return {
            "names": ",".join(self.names),
            "pool": self.pool,
            "kind": self.kind,
            "status": self.status,
            "selector": self.selector,
            "sweep": self.sweep,
            **{name: "true" for name, is_set in flags.items() if is_set},
        }

    @property
    def is_narrowed(self) -> bool:
        """Return True if the query does not match all jobs."""
        return any((self.names, self.pool, self.kind, self.status, self.selector, self.sweep))


class JobListing(NamedTuple):
    """Rows of jobs, by namespace and name.

    :param jobs: all jobs that were read; [] from a service.
    :param statuses: status words of all rows before the filter.
    """

    rows: list[JobTableRow]
    jobs: list[Job]
    statuses: set[str]

    @property
    def stuck(self) -> Identity | None:
        """The job of the first row that does not run."""
        waiting = (row.identity for row in self.rows if row.state.phase in ("pending", "failed", "unknown"))
        return next(waiting, None)


def list_jobs(reader: ReadContext, query: JobQuery, weighing: ReadContext | None = None) -> JobListing:
    """Return the rows of jobs.

    :param weighing: context for finding the reasons of pending rows; None: ``reader``.
    :raises JobNotFound: a name has no job.
    """
    if reader.service is not None:
        pages = list(pages_of_rows(reader.service, reader.scope, query.parameters))
        statuses = {status for page in pages for status in page.statuses}
        return JobListing([row for page in pages for row in page.rows], [], statuses)
    selector = query.label_selector(reader.settings)
    if query.names:
        from gpuctl.reading.jobs.job_lookup import find_jobs

        jobs = find_jobs(reader.scope, query.names, reader.keys, selector)
    else:
        jobs = read_jobs(reader.scope, reader.keys, selector)
    labels = job_rows.with_claimed_gpus(job_rows.platform_keys(reader.settings, reader.keys), reader.scope, jobs)
    labels = labels.by_clock_of(reader.scope.session)
    rows = list(job_rows.rows_of_jobs(jobs, labels, by_job=query.by_job, pods_only=query.pods_only))
    if query.reasons:
        rows = list(_explained(weighing or reader, jobs, rows, query))
    # A pod's name stands for its job.
    wanted = query.filter._replace(names=()) if query.by_job else query.filter
    return JobListing([row for row in rows if wanted.matches(row)], jobs, {row.state.word for row in rows})


def _explained(
    reader: ReadContext, jobs: Sequence[Job], rows: Iterable[JobTableRow], query: JobQuery
) -> Iterator[JobTableRow]:
    """Yield the rows, with the reason for waiting in those that wait."""
    from gpuctl.reading.why.waiting_reasons import WaitingReasons

    reasons = WaitingReasons(reader.scope, reader.keys, reader.settings).of(jobs)
    # Jobs that have a row for missing pods beside the rows of their pods.
    partial = set() if query.by_job else {job.identity for job in jobs if job.pods}
    for row in rows:
        found = reasons.get(row.identity)
        if found is None or row.state.phase != "pending" or row.node is not None:
            yield row
            continue
        is_pod = row.pod is not None
        said = found.not_scheduled if is_pod else found.not_created if row.identity in partial else found.summary
        yield row._replace(state=row.state._replace(reason=said or row.state.reason))


def watch_jobs(reader: ReadContext, query: JobQuery) -> Iterator[list[JobTableRow]]:
    """Yield all rows, then those that have changed, until the caller stops.

    :raises JobNotFound: a name has no job.
    """
    wanted, unchecked = query.filter, list(query.names)

    def checked(rows: list[JobTableRow]) -> list[JobTableRow]:
        # A misspelt name would otherwise be watched for ever.
        nonlocal wanted
        known = {word for row in rows for word in row.accepted_names}
        missing = tuple(name for name in unchecked if without_general_prefix(name) not in known)
        unchecked.clear()
        if missing:
            found = list_jobs(reader, query._replace(names=missing)).rows
            wanted = wanted._replace(names=(*wanted.names, *(row.job_id for row in found if query.by_job)))
        return rows

    if reader.service is not None:
        from gpuctl.usecases.queries.service_waits import watch_by_service

        # Rows are filtered here, because a row that stops passing the filter has changed as well.
        everything = query._replace(names=(), pool="", kind="", status="")

        read = watch_by_service(
            reader.service, lambda: checked(list_jobs(reader, everything).rows), lambda row: wanted.matches(row)
        )
        yield from read
        return
    shape = {"by_job": query.by_job, "pods_only": query.pods_only}
    selector = query.label_selector(reader.settings)
    for rows in watch_rows(reader.scope, reader.settings, reader.keys, selector, **shape):
        checked(rows)
        yield [row for row in rows if wanted.matches(row)]


def jobs_of_sweep(reader: ReadContext, query: JobQuery) -> list[JobTableRow]:
    """Return a row for each job of the query's sweep, in the order of their numbers."""

    def number(row: JobTableRow) -> tuple[str, int, str]:
        _, _, last = row.identity.name.rpartition("-")
        return row.identity.namespace, int(last) if last.isdecimal() else 0, row.identity.name

    return sorted(list_jobs(reader, query._replace(by_job=True)).rows, key=number)


class JobGpuUsage(NamedTuple):
    """GPUs of jobs.

    :param allocated: GPUs of pods on nodes; a card that several pods share counts once, if nodes may be read.
    :param total: GPUs of all nodes; None for a single namespace or if nodes may not be read.
    :param waiting: GPUs that unscheduled pods request.
    """

    allocated: int
    total: int | None
    waiting: int


def gpu_use(reader: ReadContext, jobs: Iterable[Job]) -> JobGpuUsage:
    """Return the GPUs that jobs hold and wait for. A service counts all jobs that the user may see."""
    if reader.service is not None:
        return JobGpuUsage(*gpu_use_of_service(reader.service, reader.scope))
    jobs, labels = list(jobs), job_rows.platform_keys(reader.settings, reader.keys)
    nodes = reader.scope.all_if_allowed("Node", why=say("the total of GPUs is not shown"))
    pods = [pod for job in jobs for pod in job.pods]
    has_total = nodes is not None and reader.scope.namespace is None
    devices = (
        read_devices(reader.scope, labels.gpus) if has_total else read_claimed_devices(reader.scope, labels.gpus, pods)
    )
    labels = labels._replace(claimed=devices.gpus_of(pods, labels.gpus))
    labels = job_rows.with_requested_gpus(labels, reader.scope, jobs)
    asked = sum({job.identity: _asked(job, labels) for job in jobs}.values())
    bound = [pod for pod in pods if pod["spec"].get("nodeName") and not has_ended(pod)]
    waiting = max(0, asked - sum(job_rows.gpus_of_pod(pod, labels) for pod in bound))
    found = read_nodes(nodes or (), pods, reader.keys, PlatformGpus(reader.settings), devices)
    total = sum(node.gpu_total for node in found) if has_total else None
    # Several pods with shares (HAMi, Volcano) use one card of their node.
    used = {node.name: node.gpu_used or 0 for node in found} if devices.is_known else {}
    others = sum(job_rows.gpus_of_pod(pod, labels) for pod in bound if pod["spec"]["nodeName"] not in used)
    return JobGpuUsage(sum(used.values()) + others, total, waiting)


def _asked(job: Job, labels: job_rows.PlatformKeys) -> int:
    """Return the GPUs that a job holds or waits for; 0 if it has ended, is paused or is being deleted."""
    row = job_rows.job_row(job, labels)
    return row.gpu if row.state.phase in ("pending", "running") else 0


def document_history(
    reader: ReadContext, name: str, shows: Callable[[dict[str, Any]], bool] = lambda document: True
) -> DocumentHistory:
    """Return the applied documents of a job by name or ``KIND/NAME``, also of a deleted job.

    :param shows: see :func:`gpuctl.reading.jobs.document_history.read_documents`; a service applies its own rule.
    :raises NoSuchJob: no history, or histories in several namespaces.
    """
    from gpuctl.reading.jobs.document_history import read_documents
    from gpuctl.usecases.service.service_history import history_of_service

    if reader.service is not None:
        return history_of_service(reader.service, reader.scope, name)
    return read_documents(reader.scope, name, reader.keys, shows)


def wait_for_jobs(
    reader: ReadContext,
    names: Sequence[str],
    condition: str,
    timeout: float | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[WaitResult]:
    """Yield a result for each name as soon as its job is running, ``ready``, ``done`` or ``deleted``.

    :param condition: one of :data:`gpuctl.reading.jobs.wait_until.CONDITIONS`.
    :param timeout: seconds for all jobs together; None: :data:`DEFAULT_WAIT`, for ``done`` without limit.
    :param tell: called with the text of what is awaited.
    :raises JobNotFound: a name has no job, unless the condition is ``deleted``.
    """
    limit = timeout if timeout is not None or condition == "done" else DEFAULT_WAIT
    if reader.service is not None:
        from gpuctl.usecases.queries.service_waits import wait_by_service

        yield from wait_by_service(reader, names, condition, limit, tell)
        return
    from gpuctl.reading.jobs.wait_until import wait_for

    yield from wait_for(reader.scope, names, condition, reader.keys, reader.settings, limit, tell)
