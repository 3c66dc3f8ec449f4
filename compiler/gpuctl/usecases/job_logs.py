"""What the pods of a job print: as it is, and as it goes on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from gpuctl.hints import WAIT_FOR_LOG, JobHint
from gpuctl.objects.api_resources import Object
from gpuctl.reading.job_lookup import find_job
from gpuctl.reading.job_rows import Job
from gpuctl.reading.log_follower import Item, LogFollower
from gpuctl.reading.log_streams import (
    LogBatch,
    LogOptions,
    LogProblem,
    MergedLogs,
    NoLog,
    log_sources,
    select_container,
    select_pods,
)
from gpuctl.reading.why.cause_summary import cause_of
from gpuctl.usecases.read_context import ReadContext

FOLLOWED = 1000
"""Lines of the past, of each pod, of a log that is followed: the product's documents show ``kubectl logs -f
--tail=1000``."""


@dataclass(frozen=True)
class LogQuery:
    """Which lines: of all pods, or the one whose name ends like ``pod``; of the job's own container, or another.

    ``tail`` is how many of the last of each pod (-1: all; None: all, and :data:`FOLLOWED` of those that are followed);
    ``since_seconds`` and ``since_time`` (RFC 3339, UTC) leave out older ones. ``previous``: the run before the
    last restart.
    """

    pod: str | None = None
    container: str | None = None
    tail: int | None = None
    since_seconds: int | None = None
    since_time: str | None = None
    previous: bool = False

    def wanted(self, *, follow: bool) -> LogOptions:
        """What is asked of the API."""
        tail = self.tail
        if tail is None and follow and self.since_seconds is None and self.since_time is None:
            tail = FOLLOWED
        return LogOptions(
            None if tail == -1 else tail, self.since_seconds, self.since_time, self.container, self.previous
        )


class PresentLogs:
    """The logs as they are. ``pods`` are the names of those that have one; ``missing`` those that have none yet."""

    def __init__(self, reading: MergedLogs, pods: set[str], missing: list[LogProblem]) -> None:
        self._reading = reading
        self.pods = pods
        self.missing = missing

    def batches(self) -> Iterator[LogBatch]:
        """The lines, in the order of time."""
        return self._reading.batches()

    @property
    def problems(self) -> list[LogProblem]:
        """What could not be read, once the lines have been."""
        return self._reading.problems


class FollowedLogs:
    """The lines of logs so far, then the new ones, through restarts, broken connections and new pods.

    ``pods``: the names of the pods at the start. ``read_first``: the logs whose lines so far :meth:`past` yields;
    call it first.
    """

    def __init__(
        self,
        reader: ReadContext,
        job: Job,
        pods: list[Object],
        wanted: LogOptions,
        only: str | None,
        *,
        read_all: bool = False,
    ) -> None:
        session = reader.scope.session
        self.pods: set[str] = {pod["metadata"]["name"] for pod in pods}
        sources, _ = log_sources(session, pods, wanted)
        # The past of several pods in the order of time; what cannot be read is tried again when they are followed.
        self.read_first = sources if read_all or (len(sources) > 1 and wanted.tail != 0) else []
        self._reading = MergedLogs(session, self.read_first)
        self._following = LogFollower(
            session,
            job,
            wanted,
            reader.keys,
            read=self.read_first,
            only=only,
            cause=lambda job: cause_of(reader.scope, job, reader.keys, reader.settings),
        )

    def past(self) -> Iterator[LogBatch]:
        """The lines so far of the logs that are read first, in the order of time."""
        return self._reading.batches()

    @property
    def unread(self) -> set[str]:
        """The names of pods whose lines so far could not all be read, once :meth:`past` has ended."""
        return {problem.pod for problem in self._reading.problems}

    def items(self) -> Generator[Item | None, None, None]:
        """What comes, until the job has ended or the caller stops; None when nothing has come for a moment."""
        return self._following.items()

    def waiting_for(self) -> str:
        """What is being waited for, "" when lines come."""
        return self._following.waiting_for()


class JobLogs:
    """The logs of the job that a name means, as a query has them.

    ``only`` is the uid of the one pod that is meant, None where all of the job's are.
    """

    def __init__(self, reader: ReadContext, name: str, query: LogQuery) -> None:
        """:raises NotThere: there is no such job or pod, or several."""
        self._reader = reader
        self._query = query
        self.job, named = find_job(reader.scope, name, reader.keys)
        self._pods = select_pods(self.job, query.pod or named)
        self.only: str | None = self._pods[0]["metadata"]["uid"] if query.pod or named else None

    @property
    def pods(self) -> set[str]:
        """The names of the pods that there are."""
        return {pod["metadata"]["name"] for pod in self._pods}

    def present(self) -> PresentLogs:
        """As they are.

        :raises NoLog: there is none.
        """
        session = self._reader.scope.session
        sources, missing = log_sources(session, self._pods, self._query.wanted(follow=False))
        if not sources:
            name = self.job.identity.name
            hint = f"{JobHint('why', name, self.job.identity.namespace)} shows the cause{WAIT_FOR_LOG}"
            raise NoLog(f"{self.job.identity.kind}/{name} has no log yet: {self._why_none(missing)}", hint)
        return PresentLogs(MergedLogs(session, sources), {source.name for source in sources}, missing)

    def followed(self, *, read_all: bool = False) -> FollowedLogs:
        """Return the lines so far and the ones that follow.

        :param read_all: read the lines so far first, also of a single log.
        """
        wanted = self._query.wanted(follow=True)
        return FollowedLogs(self._reader, self.job, self._pods, wanted, self.only, read_all=read_all)

    def check_container(self) -> None:
        """See that all pods that there are have the container that is asked for.

        :raises NotThere: one has not.
        """
        for pod in self._pods:
            select_container(pod, self._query.container)

    def _why_none(self, missing: list[LogProblem]) -> str:
        if not missing:
            status = self.job.status(self._reader.keys)
            return f"it has no pods: {status.word}{f': {status.reason}' if status.reason else ''}"
        others = f" (and {len(missing) - 1} more pods)" if len(missing) > 1 else ""
        return f"its pod {missing[0].pod} is {missing[0].message}{others}"
