"""The logs of a job's pods: the present lines, or followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuctl.hints import WAIT_FOR_LOG, JobHint
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.reading.jobs.job_lookup import at_run_of, find_job
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.pod_selection import select_container, select_pods
from gpuctl.reading.logs.log_follower import LogFollower
from gpuctl.reading.logs.log_streams import LogBatch, LogOptions, LogProblem, MergedLogs, NoLog, log_sources
from gpuctl.reading.why.cause_summary import cause_of
from gpuctl.usecases.queries.read_context import ReadContext

FOLLOWED_TAIL = 1000
"""Number of last lines per pod shown before following, as in ``kubectl logs -f --tail=1000``."""


@dataclass(frozen=True)
class LogQuery(LogOptions):
    """A query for log lines of a job.

    :param tail: number of last lines per pod; -1 for all; None for all, or :data:`FOLLOWED_TAIL` if followed.
    :param container: name of the container; None for the job's own.
    :param pod: name, index or end of the name of one pod; None for all pods.
    """

    pod: str | None = None

    def wanted(self, *, follow: bool) -> LogOptions:
        """Return the options of the API request."""
        tail = self.tail
        if tail is None and follow and self.since_seconds is None and self.since_time is None:
            tail = FOLLOWED_TAIL
        return replace(self, tail=None if tail == -1 else tail)


class FollowedLogs(LogFollower):
    """The lines so far, then new lines, across restarts, broken connections and new pods.

    :ivar pods: names of the pods at the start.
    :ivar read_first: logs whose present lines :meth:`past` yields; call it before :meth:`items`.
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
        # Read the past of several pods first, to merge it by time. What cannot be read is retried when the logs are
        # followed.
        self.read_first = sources if read_all or (len(sources) > 1 and wanted.tail != 0) else []
        self._reading = MergedLogs(session, self.read_first)
        super().__init__(
            session,
            job,
            wanted,
            reader.keys,
            pods=pods,
            read=self.read_first,
            only=only,
            cause=lambda job: cause_of(reader.scope, job, reader.keys, reader.settings),
        )

    def past(self) -> Iterator[LogBatch]:
        """Yield the present lines of the logs that are read first, in order of time."""
        return self._reading.batches()

    @property
    def unread(self) -> set[str]:
        """Return the names of pods whose present lines could not all be read. Complete after :meth:`past`."""
        return {problem.pod for problem in self._reading.problems}


class JobLogs:
    """The logs of the job that a name means. ``only`` is the uid of the one selected pod; None for all pods."""

    def __init__(self, reader: ReadContext, name: str, query: LogQuery) -> None:
        """:raises NotThere: no job or pod matches, or several do."""
        self._reader = reader
        self._query = query
        found, named = find_job(reader.scope, name, reader.keys)
        wanted = query.pod or named
        self.job = at_run_of(reader.scope, found, wanted)
        self._pods = select_pods(self.job, wanted)
        self.only: str | None = self._pods[0]["metadata"]["uid"] if wanted else None

    @property
    def pods(self) -> set[str]:
        """Return the names of the selected pods."""
        return {pod["metadata"]["name"] for pod in self._pods}

    def present(self) -> MergedLogs:
        """Return the present lines.

        :raises NoLog: no pod has a log yet.
        """
        session = self._reader.scope.session
        sources, missing = log_sources(session, self._pods, self._query.wanted(follow=False))
        if not sources:
            name = self.job.identity.name
            hint = say(
                "{command} shows the cause{more}",
                command=JobHint("why", name, self.job.identity.namespace),
                more=WAIT_FOR_LOG,
            )
            raise NoLog(
                say("{job} has no log yet: {reason}", job=self.job.identity.title, reason=self._why_none(missing)),
                hint,
            )
        return MergedLogs(session, sources, missing)

    def followed(self, *, read_all: bool = False) -> FollowedLogs:
        """Return the lines so far and those that follow.

        :param read_all: read the lines so far first, also of a single log.
        """
        wanted = self._query.wanted(follow=True)
        return FollowedLogs(self._reader, self.job, self._pods, wanted, self.only, read_all=read_all)

    def check_container(self) -> None:
        """Check that all selected pods have the requested container.

        :raises NotThere: a pod lacks it.
        """
        for pod in self._pods:
            select_container(pod, self._query.container)

    def _why_none(self, missing: list[LogProblem]) -> str:
        if not missing:
            return say("it has no pods: {status}", status=self.job.status(self._reader.keys).described)
        others = say(" (and {pods} more pods)", pods=len(missing) - 1) if len(missing) > 1 else ""
        return say("its pod {pod} is {state}{others}", pod=missing[0].pod, state=missing[0].message, others=others)
