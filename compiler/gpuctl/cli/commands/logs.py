"""``gpuctl logs``."""

from __future__ import annotations

import json
import re
import select
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import click

from gpuctl.api.log_answers import log_end
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import ClusterFailure, Progress, json_option
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.duration_values import read_duration
from gpuctl.cli.options.reading_options import ReadingOptions, open_context, reading_options
from gpuctl.cli.output.log_lines import LinePrinter
from gpuctl.cli.output.terminal import is_coloured
from gpuctl.kube.api_errors import ClusterError
from gpuctl.objects.timestamps import format_timestamp, parse_timestamp
from gpuctl.reading.jobs.job_objects import Identity
from gpuctl.reading.jobs.pod_selection import short_name
from gpuctl.reading.logs.log_follower import Interruption, Notice, PodEnded
from gpuctl.reading.logs.log_streams import LogBatch, LogProblem, MergedLogs
from gpuctl.usecases.queries.job_logs import FollowedLogs, JobLogs, LogQuery
from gpuctl.usecases.queries.service_logs import FollowedServiceLogs, PresentServiceLogs, ServiceBatch


def _moment(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return a time in the API's format; without a time zone it is local time."""
    if value is None:
        return None
    try:
        return format_timestamp(parse_timestamp(value, zone=None))
    except ValueError:
        raise click.BadParameter(
            f"`{value}` is not a time such as 2026-01-31T08:00:00Z or 2026-01-31T08:00:00", context, parameter
        ) from None


def _tail(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return a number of lines; -1 means ``all``, as in kubectl."""
    if value in (None, "all", "-1"):
        return None if value is None else -1
    if not re.fullmatch(r"\d{1,9}", str(value)):
        raise click.BadParameter(f"`{value}` is not a number of lines or `all`", context, parameter)
    return int(str(value))


def _pattern(text: str | None, *, ignore_case: bool) -> re.Pattern[str] | None:
    if text is None:
        if ignore_case:
            raise click.UsageError("-i needs --grep")
        return None
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        where = f" at character {error.pos + 1}" if error.pos is not None else ""
        raise click.UsageError(f"--grep `{text}` is not a regular expression: {error.msg}{where}") from None


@click.command(
    "logs",
    short_help="Print the logs of a job's pods.",
    epilog="Examples:\n\n  $ gpuctl logs qwen2-sft -f\n\n  $ gpuctl logs qwen2-sft --since 10m --grep 'loss|nan' -i\n\n"
    "  $ gpuctl logs qwen2-sft --previous",
)
@click.argument("name", shell_complete=complete_job)
@click.option("-f", "--follow", is_flag=True, help="Follow: print new lines as they are written.")
@click.option(
    "--tail", callback=_tail, metavar="N", help="Last N lines of each pod, or `all`. Default: all; 1000 with -f."
)
@click.option(
    "--since",
    "since_seconds",
    callback=read_duration,
    metavar="TIME",
    help="Only lines newer than this: 90s, 5m, 1h30m.",
)
@click.option("--since-time", callback=_moment, metavar="DATE", help="Only lines since a time: 2026-01-31T08:00:00Z.")
@click.option("--grep", metavar="PATTERN", help="Only lines that match this regular expression.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case in --grep.")
@click.option("--pod", metavar="POD", help="Only this pod: its name, index, or the end of its name.")
@click.option("-c", "--container", metavar="NAME", help="The container. Default: the job's own.")
@click.option("-p", "--previous", is_flag=True, help="Logs of the previous run of a restarted container.")
@click.option("--timestamps", is_flag=True, help="Prefix lines with their time.")
@click.option("--prefix/--no-prefix", default=None, help="Prefix lines with their pod. Default: with several pods.")
@job_namespace_option
@json_option
@reading_options
@bound("query", LogQuery)
def command(
    name: str,
    follow: bool,
    query: LogQuery,
    grep: str | None,
    ignore_case: bool,
    timestamps: bool,
    prefix: bool | None,
    namespace: str | None,
    as_json: bool,
    reading: ReadingOptions,
) -> int:
    """Print the logs of a job's pods. NAME is a job, a pod, or KIND/NAME.

    All pods of the job are included, also those that have ended. Without -f lines are sorted by time. With -f the
    command continues through restarts, broken connections and replaced pods, and ends when a training has ended: with
    exit code 0 also if the training failed, because its logs were printed (`gpuctl wait` reports the result). Ctrl-C
    ends it with 130.

    Exit code 1: there is no log, or a part of it is missing. --grep searches the lines that --tail and --since select.
    """
    if query.since_seconds is not None and query.since_time is not None:
        raise click.UsageError("--since and --since-time exclude each other")
    if follow and query.previous:
        raise click.UsageError("--previous shows an ended run, which cannot be followed: leave out -f")
    pattern = _pattern(grep, ignore_case=ignore_case)
    try:
        with open_context(reading, namespace, as_json=as_json) as read_context:
            printer = LinePrinter(pattern, timestamps, sys.stdout.isatty(), is_coloured())
            if read_context.service is not None:
                if follow:
                    followed = FollowedServiceLogs(read_context, name, query)
                    return LogWriter(followed.job, printer, prefix, as_json).follow(followed)
                present = PresentServiceLogs(read_context, name, query)
                return LogWriter(present.job, printer, prefix, as_json).now(present)
            logs = JobLogs(read_context, name, query)
            show = LogWriter(logs.job.identity, printer, prefix, as_json)
            return show.follow(logs.followed()) if follow else show.now(logs.present())
    except KeyboardInterrupt:
        return 130


class LogWriter:
    """Prints batches of log lines; problems go to standard error and set the exit code to 1."""

    def __init__(self, job: Identity, printer: LinePrinter, prefix: bool | None, as_json: bool) -> None:
        self._job = job
        self._printer = printer
        self._prefix = prefix
        self._as_json = as_json
        self._names: set[str] = set()
        self._separator = b"\n"
        self._last = ""
        self._follows = False
        self._failed = False
        self._progress = Progress()

    def now(self, logs: MergedLogs | PresentServiceLogs) -> int:
        """Print the present logs. Return the exit code.

        :raises ClusterError: the logs cannot be read.
        :raises ClusterFailure: they cannot be read to the end; with JSON the value is complete, and names the problem.
        """
        self._names = logs.pods
        batches: Iterator[LogBatch | ServiceBatch] = logs.batches()
        # The first batch opens the logs. If that fails, the error is the one value on standard output.
        first = list(islice(batches, 1))
        if self._as_json:
            self._write(b'{"logs": [')
        cut: list[LogProblem] = []
        try:
            for batch in chain(first, batches):
                self._show(batch)
        except ClusterError as error:
            if not self._as_json:
                raise
            cut.append(LogProblem("", error.message))
        if self._as_json:
            tail = _json(log_end(self._last or None, (*logs.problems, *cut, *logs.missing)))
            self._write(b"\n], " + tail[1:] + b"\n")
        sys.stdout.flush()
        if cut:
            raise ClusterFailure(cut[0].message)
        for problem in logs.problems:
            self._report(problem)
        for missing in logs.missing:
            click.echo(f"note: pod {missing.pod} has no log yet: {missing.message}", err=True)
        return 1 if self._failed else 0

    def follow(self, logs: FollowedLogs | FollowedServiceLogs) -> int:
        """Print the present logs, then each new line. Return the exit code."""
        self._follows = True
        self._names = logs.pods
        for batch in logs.past():
            self._show(batch)
        sys.stdout.flush()
        for item in logs.items():
            if isinstance(item, (LogBatch, ServiceBatch)):
                self._names.add(item.source.name)
                self._progress.clear()
                self._show(item)
                sys.stdout.flush()
            elif isinstance(item, LogProblem):
                self._report(item)
            elif isinstance(item, (Notice, Interruption)):
                self._progress.say(f"note: {item.text}")
            elif isinstance(item, PodEnded):
                continue
            elif _is_closed():
                return 141
            elif text := logs.waiting_for():
                self._progress.wait(text)
        self._progress.clear()
        return 1 if self._failed else 0

    def _show(self, batch: LogBatch | ServiceBatch) -> None:
        source, lines = batch
        if self._as_json:
            for value in self._printer.json(source.name, source.container, lines):
                self._write(_json(value) + b"\n" if self._follows else self._separator + _json(value))
                self._separator = b",\n"
                self._last = value["timestamp"]
            return
        shown = len(self._names) > 1 if self._prefix is None else self._prefix
        self._write(self._printer.text(short_name(source.name, self._job) if shown else "", lines))

    def _report(self, problem: LogProblem) -> None:
        self._failed = True
        self._progress.say(f"error: pod {problem.pod}: {problem.message}")

    def _write(self, data: bytes) -> None:
        if data:
            sys.stdout.buffer.write(data)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def _is_closed() -> bool:
    """Return True if the reader of standard output is gone (``| head``)."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), select.POLLERR)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError, AttributeError):
        return False
