"""What may be asked about logs, and whose they are."""

from __future__ import annotations

from pydantic import BaseModel, Field

from gpuctl.usecases.job_logs import LogQuery
from gpuctl_server.access.caller import Caller
from gpuctl_server.job_lookups import find_job
from gpuctl_server.log_answers import DEFAULT_TAIL, LONGEST_TAIL, LogFilter, named_pod, since
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.service_context import Service


class LogsQuery(BaseModel):
    """What may be asked about logs."""

    follow: bool = Field(
        False,
        description="Go on with what is written from now on: as a WebSocket, or with `Accept: text/event-stream`.",
    )
    tail: int | None = Field(
        None,
        ge=0,
        le=LONGEST_TAIL,
        description=f"How many of the last lines of each pod. Default: {DEFAULT_TAIL}; with `since` all.",
    )
    pod: str = Field(
        "", max_length=253, description="Only of this pod: its name, its index in the job, or the end of its name."
    )
    since: str = Field(
        "", max_length=64, description="Lines not older than this: a length of time (10m, 1h30m), or a time."
    )
    grep: str = Field("", max_length=256, description="Only lines that contain this text, exactly as it is.")
    container: str = Field("", max_length=63, description="Another container than the job's own.")
    previous: bool = Field(False, description="Of the run before the container was restarted.")
    namespace: str | None = Field(None, max_length=63, description="Where the job has to be.")

    def log_filter(self, item: ListedJob, text: str) -> LogFilter:
        """Which lines are meant, of a job that a path has named.

        :raises Problem: 400.
        """
        tail = DEFAULT_TAIL if self.tail is None and not self.since else self.tail
        pod = self.pod or named_pod(item, text)
        query = LogQuery(pod, self.container or None, tail, previous=self.previous, **since(self.since))
        return LogFilter(query, self.grep)


def found(service: Service, caller: Caller, text: str, query: LogsQuery) -> tuple[ListedJob, LogFilter]:
    """The job whose logs are meant, and which of its lines.

    :raises Problem: 400, 403, 404, 409.
    """
    item = find_job(service, caller, "get", "logs", text, query.namespace)
    return item, query.log_filter(item, text)
