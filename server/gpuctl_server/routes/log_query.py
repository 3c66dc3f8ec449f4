"""Query parameters of logs."""

from __future__ import annotations

from pydantic import BaseModel, Field

from gpuctl.usecases.queries.job_logs import LogQuery
from gpuctl_server.access.caller import Caller
from gpuctl_server.lookups.job_lookups import find_job
from gpuctl_server.lookups.log_responses import DEFAULT_TAIL, LONGEST_TAIL, LogFilter, named_pod, since
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.routes.query_parameters import NamespaceOfJob
from gpuctl_server.service_context import Service


class LogsQuery(BaseModel):
    """Query parameters of logs."""

    follow: bool = Field(
        False,
        description="Stream new lines: by a WebSocket, or with `Accept: text/event-stream`.",
    )
    tail: int | None = Field(
        None,
        ge=0,
        le=LONGEST_TAIL,
        description=f"Number of last lines of each pod. Default: {DEFAULT_TAIL}; with `since`: all.",
    )
    pod: str = Field(
        "", max_length=253, description="Only this pod: its name, its index in the job, or the end of its name."
    )
    since: str = Field(
        "", max_length=64, description="Only lines that are not older: a duration (10m, 1h30m), or a time (RFC 3339)."
    )
    grep: str = Field("", max_length=256, description="Only lines that contain this text, case-sensitive.")
    container: str = Field("", max_length=63, description="Container name. Default: the main container of the job.")
    previous: bool = Field(False, description="Lines of the previous run, before the last restart of the container.")
    namespace: NamespaceOfJob = None

    def log_filter(self, item: ListedJob, text: str) -> LogFilter:
        """Return the requested lines of a job that the path ``text`` names.

        :raises Problem: 400.
        """
        tail = DEFAULT_TAIL if self.tail is None and not self.since else self.tail
        pod = self.pod or named_pod(item, text)
        query = LogQuery(
            pod=pod, container=self.container or None, tail=tail, previous=self.previous, **since(self.since)
        )
        return LogFilter(query, self.grep)


def found(service: Service, caller: Caller, text: str, query: LogsQuery) -> tuple[ListedJob, LogFilter]:
    """Return the job of a path, and the requested lines of its logs.

    :raises Problem: 400, 403, 404, 409.
    """
    item = find_job(service, caller, "get", "logs", text, query.namespace)
    return item, query.log_filter(item, text)
