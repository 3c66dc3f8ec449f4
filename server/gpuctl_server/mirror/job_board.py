"""The rows of all jobs, computed once for all requests, soon after a change."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

from gpuctl.hints import Surface, surface
from gpuctl.kube.connection import Connection
from gpuctl.language.masking import redact
from gpuctl.language.sentences import current_translation
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import WORKLOADS, Object, annotations_of, labels_of
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.objects.scheduled_jobs import is_part_of_job, is_scheduled
from gpuctl.reading.jobs.job_objects import (
    Identity,
    Job,
    add_prerequisites,
    add_refusals,
    group_by_job,
    identity_of,
    job_id,
    pod_specs,
    read_jobs,
)
from gpuctl.reading.jobs.job_rows import JobTableRow, job_row, platform_keys, with_claimed_gpus
from gpuctl.reading.jobs.status import pod_status
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl_server.malloc import trim_heap
from gpuctl_server.mirror.mirror import APP, Mirror
from gpuctl_server.mirror.mirrored_session import mirrored
from gpuctl_server.request_log import LOG

_PAUSE = 0.2
"""Minimum interval between two computations, seconds."""
_NAPS = 1.0


@dataclass(frozen=True, eq=False)
class ListedJob:
    """A job, its row, and its id. The id stays the same for the lifetime of the job."""

    id: str
    job: Job
    row: JobTableRow

    @property
    def reference(self) -> str:
        """The text by which the use cases find the job in its namespace."""
        identity, pods = self.job.identity, self.job.pods
        if self.job.workload is None and APP not in labels_of(pods[0]):
            return f"pod/{pods[0]['metadata']['name']}"
        return f"{identity.kind}/{identity.object_name}"

    @property
    def schedule(self) -> Object | None:
        """The CronJob of a scheduled training. If a run is skipped, its time passes and no object changes."""
        workload = self.job.workload
        return workload if workload is not None and is_scheduled(workload) else None

    def row_for_request(self, keys: Records, ahead: float) -> JobTableRow:
        """Return the row with its reason at this time, in the language and for the surface of the request: rows are
        computed once, in English, for clients of the REST API.

        :param ahead: seconds by which the API server's clock is ahead of this machine's.
        """
        job = self.job
        # The row of a pod without a workload, and of most workloads, does not depend on the time.
        is_lasting = job.workload is None or (
            self.schedule is None and keys.max_lifetime not in annotations_of(job.workload)
        )
        if current_translation() is None and surface() is Surface.REST and is_lasting:
            return self.row
        status = job.status(keys, ahead) if job.workload is not None else pod_status(job.pods[-1])
        return self.row._replace(state=status)

    def is_about(self, job: Job) -> bool:
        """Return True if the row was made from the same objects. Objects are replaced, never modified."""
        mine = self.job
        return (
            mine.workload is job.workload
            and mine.refusal == job.refusal
            and mine.prerequisites == job.prerequisites
            and len(mine.pods) == len(job.pods)
            and all(map(is_, mine.pods, job.pods))
        )


@dataclass(frozen=True)
class Board:
    """All jobs at one time, newest first, indexed by id, name and pod name.

    ``left_out`` are the jobs that could not be read, or whose row could not be computed.
    """

    version: int = -1
    jobs: tuple[ListedJob, ...] = ()
    left_out: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    ids: Mapping[str, Sequence[ListedJob]] = field(default_factory=dict)
    names: Mapping[str, Sequence[ListedJob]] = field(default_factory=dict)
    pods: Mapping[str, Sequence[ListedJob]] = field(default_factory=dict)

    def find(self, text: str, takes: Callable[[ListedJob], bool]) -> Sequence[ListedJob]:
        """Return the jobs with an id, else with a name, else with a pod of this name, that satisfy ``takes``."""
        for index in (self.ids, self.names, self.pods):
            found = [item for item in index.get(text, ()) if takes(item)]
            if found:
                return found
        return ()

    def shows(self, job: str) -> bool:
        """Return True if the main object of a job with this id is seen: its pods may be seen earlier."""
        return any(item.job.workload is not None for item in self.ids.get(job, ()))

    def called(self, text: str) -> list[ListedJob]:
        """Return the jobs with an id or name, and those with a pod of this name, newest first."""
        found = {item for index in (self.ids, self.names, self.pods) for item in index.get(text, ())}
        return [item for item in self.jobs if item in found] if found else []


def id_of_workload(obj: Object, keys: Records) -> str:
    """Return the :func:`job_id` of a job by its main object."""
    identity = identity_of(obj, keys)
    assert identity is not None
    return job_id(Job(identity, obj))


class JobBoard:
    """Keeps the board up to date, in its own thread."""

    def __init__(self, connection: Connection, mirror: Mirror, platform: Settings) -> None:
        self._connection = connection
        self._mirror = mirror
        self._platform = platform
        self._stopped = threading.Event()
        self._board = Board()
        self._rows: dict[Identity, ListedJob] = {}
        self._names = platform_keys(platform, records(platform))
        self._claiming: list[Object] = []
        self._problems: dict[str, str] = {}
        self._former_problems: dict[str, str] = {}
        self._made_new = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True, name="gpuctl-board")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    @property
    def ready(self) -> bool:
        """True once a board was computed."""
        return self._board.version >= 0

    def now(self) -> Board:
        """Return the newest board."""
        return self._board

    def wait_for(self, holds: Callable[[Board], bool], timeout: float) -> bool:
        """Wait until a board satisfies a condition. Return False after ``timeout`` seconds."""
        with self._made_new:
            return self._made_new.wait_for(lambda: holds(self._board), timeout)

    def _work(self) -> None:
        version = -1
        while not self._stopped.is_set():
            version = self._mirror.wait_until_changed(version, _NAPS)
            if not self._mirror.listed or version == self._board.version:
                continue
            begun = time.thread_time()
            try:
                first = not self.ready
                board = self._made(version)
                with self._made_new:
                    self._board = board
                    self._made_new.notify_all()
                if first:
                    _settle()
            except Exception:
                # A single malformed pod must not end the thread for all users.
                LOG.exception("the list of jobs could not be computed")
            # Permanent changes must not use more than a third of a CPU.
            self._stopped.wait(max(_PAUSE, 2 * (time.thread_time() - begun)))

    def _made(self, version: int) -> Board:
        with mirrored(self._connection, self._mirror, self._platform) as reader:
            return self._read(reader, version)

    def _read(self, reader: ReadContext, version: int) -> Board:
        self._former_problems, self._problems = self._problems, {}
        found = list(_jobs(reader, self._warn))
        before = self._names.claimed
        self._count_claims(reader, found)
        names = self._names
        moved = {uid for uid, _ in before.items() ^ names.claimed.items()}
        rows: dict[Identity, ListedJob] = {}
        for job in found:
            listed = self._rows.get(job.identity)
            if listed is None or not listed.is_about(job) or (moved and not moved.isdisjoint(map(_uid, job.pods))):
                try:
                    listed = ListedJob(job_id(job), job, job_row(job, names))
                except Exception as error:
                    self._warn(error, f"{job.identity.namespace}/{job.identity.kind}/{job.identity.object_name}")
                    continue
            rows[job.identity] = listed
        self._rows = rows
        jobs = sorted(rows.values(), key=lambda item: (item.row.identity.name, item.row.identity.namespace))
        jobs.sort(key=lambda item: item.row.created_at or "", reverse=True)
        return Board(
            version,
            tuple(jobs),
            frozenset(filter(None, self._problems)),
            frozenset(item.row.identity.namespace for item in jobs),
            _index(jobs, lambda item: (item.id,)),
            _index(jobs, lambda item: {item.row.identity.name, item.row.identity.object_name}),
            _index(jobs, lambda item: (str(pod["metadata"]["name"]) for pod in item.job.pods)),
        )

    def _count_claims(self, reader: ReadContext, jobs: Iterable[Job]) -> None:
        """Count the GPUs of resource claims again if a job or a pod with claims has changed."""
        try:
            claiming = [spec for job in jobs for spec in pod_specs(job) if spec.get("resourceClaims")]
            if len(claiming) == len(self._claiming) and all(map(is_, claiming, self._claiming)):
                return
            self._names = with_claimed_gpus(self._names, reader.scope, jobs)
            self._claiming = claiming
        except Exception as error:
            # A list without these GPUs is better than no list; the next computation tries again.
            self._warn(error)

    def _warn(self, error: Exception, job: str = "") -> None:
        """Log in one line why a job is left out, unless the last computation met the same error.

        :param job: "" if the GPUs of resource claims could not be counted.
        """
        problem = self._problems[job] = redact(f"{type(error).__name__}: {error}")
        if self._former_problems.get(job) == problem:
            return
        if job:
            LOG.warning("a job is left out of the list", extra={"job": job, "problem": problem})
        else:
            LOG.warning("the GPUs of resource claims could not be counted", extra={"problem": problem})


def _uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def _jobs(reader: ReadContext, warn: Callable[[Exception, str], None]) -> Iterable[Job]:
    """Return all jobs. If reading them together fails, read each one separately, and leave out those that fail.

    :param warn: called with the error and the name of a job that is left out.
    """
    try:
        return read_jobs(reader.scope, reader.keys)
    except Exception:
        return _one_by_one(reader, warn)


def _one_by_one(reader: ReadContext, warn: Callable[[Exception, str], None]) -> Iterator[Job]:
    apps: dict[tuple[str, str], tuple[list[Object], list[Object]]] = {}
    for kind in (*WORKLOADS, "Pod"):
        for obj in reader.scope.all(kind, labels=reader.keys.job_type):
            if kind == "Pod" or is_part_of_job(obj):
                key = (obj["metadata"].get("namespace") or "", labels_of(obj).get(APP) or obj["metadata"]["name"])
                apps.setdefault(key, ([], []))[kind == "Pod"].append(obj)
    for key, (mains, pods) in apps.items():
        try:
            found = group_by_job(mains, pods, reader.keys)
            add_refusals(reader.scope, found)
            add_prerequisites(reader.scope, found, reader.keys)
        except Exception as error:
            warn(error, f"{key[0]}/{key[1]}")
            continue
        yield from found


def _settle() -> None:
    """Exclude the objects of the first list from garbage collection, because most of them stay. Return free memory."""
    gc.collect()
    gc.freeze()
    trim_heap()


def _index(jobs: Iterable[ListedJob], words: Callable[[ListedJob], Iterable[str]]) -> dict[str, list[ListedJob]]:
    found: dict[str, list[ListedJob]] = {}
    for item in jobs:
        for word in words(item):
            found.setdefault(word, []).append(item)
    return found
