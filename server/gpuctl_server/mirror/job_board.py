"""The rows of all jobs, worked out once for everybody who asks, soon after something has changed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuctl.kube.connection import Connection
from gpuctl.language.settings import Settings
from gpuctl.reading.job_rows import Job, Row
from gpuctl.usecases.job_queries import JobQuery, list_jobs
from gpuctl.usecases.looking import reader_of
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.mirrored_session import MirroredSession
from gpuctl_server.request_log import LOG

_PAUSE = 0.2
"""Seconds between two workings-out while things change all the time."""
_NAPS = 1.0


@dataclass(frozen=True)
class ListedJob:
    """A job, its row, and its id, which is the same as long as the job is."""

    id: str
    job: Job
    row: Row


@dataclass(frozen=True)
class Board:
    """All jobs at one moment, the newest first. ``ids``, ``names`` and ``pods`` find them."""

    version: int = -1
    jobs: tuple[ListedJob, ...] = ()
    ids: Mapping[str, Sequence[ListedJob]] = field(default_factory=dict)
    names: Mapping[str, Sequence[ListedJob]] = field(default_factory=dict)
    pods: Mapping[str, Sequence[ListedJob]] = field(default_factory=dict)

    def find(self, text: str, takes: Callable[[ListedJob], bool]) -> Sequence[ListedJob]:
        """The jobs that are meant by an id, else by a name, else by a pod's name: of those that ``takes`` takes."""
        for index in (self.ids, self.names, self.pods):
            found = [item for item in index.get(text, ()) if takes(item)]
            if found:
                return found
        return ()


def job_id(job: Job) -> str:
    """``NAME-xxxxx``: of the very job, so that the one which is created again under its name has another.

    Nothing is stored for it. Of a job that only pods are left of, it is by the oldest of them.
    """
    main = job.workload if job.workload is not None else job.pods[0]
    identity = job.identity
    told = "\0".join((identity.namespace, identity.kind, identity.name, str(main["metadata"]["uid"])))
    digest = hashlib.sha256(told.encode()).digest()
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return f"{identity.name}-{''.join(letters[byte % len(letters)] for byte in digest[:5])}"


class JobBoard:
    """Keeps the board up to date, in a thread of its own."""

    def __init__(self, connection: Connection, mirror: Mirror, platform: Settings) -> None:
        self._connection = connection
        self._mirror = mirror
        self._platform = platform
        self._stopped = threading.Event()
        self._board = Board()
        self._made_new = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True, name="gpuctl-board")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stopped.set()

    @property
    def ready(self) -> bool:
        """Whether there is a board."""
        return self._board.version >= 0

    def now(self) -> Board:
        """The newest board."""
        return self._board

    def wait_for(self, holds: Callable[[Board], bool], timeout: float) -> bool:
        """Wait until a board is as wanted, for ``timeout`` seconds at most; whether it is."""
        with self._made_new:
            return self._made_new.wait_for(lambda: holds(self._board), timeout)

    def _work(self) -> None:
        version = -1
        while not self._stopped.is_set():
            version = self._mirror.wait_until_changed(version, _NAPS)
            if not self._mirror.ready or version == self._board.version:
                continue
            try:
                board = self._made(version)
                with self._made_new:
                    self._board = board
                    self._made_new.notify_all()
            except Exception:
                # Whoever may write a pod must not be able to end it for all.
                LOG.exception("the list of jobs could not be worked out")
            self._stopped.wait(_PAUSE)

    def _made(self, version: int) -> Board:
        session = MirroredSession(self._connection, self._mirror)
        listing = list_jobs(reader_of(session, self._platform), JobQuery(by_job=True))
        rows = list(listing.rows)
        jobs = [ListedJob(job_id(job), job, row) for job, row in zip(listing.jobs, rows, strict=True)]
        jobs.sort(key=lambda item: (item.row.identity.name, item.row.identity.namespace))
        jobs.sort(key=lambda item: item.row.created_at or "", reverse=True)
        return Board(
            version,
            tuple(jobs),
            _index(jobs, lambda item: (item.id,)),
            _index(jobs, lambda item: {item.row.identity.name, item.row.identity.object_name}),
            _index(jobs, lambda item: (str(pod["metadata"]["name"]) for pod in item.job.pods)),
        )


def _index(jobs: Iterable[ListedJob], words: Callable[[ListedJob], Iterable[str]]) -> dict[str, list[ListedJob]]:
    found: dict[str, list[ListedJob]] = {}
    for item in jobs:
        for word in words(item):
            found.setdefault(word, []).append(item)
    return found
