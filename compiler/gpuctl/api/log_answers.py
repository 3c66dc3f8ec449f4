"""JSON of ``logs``."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from gpuctl.reading.logs.log_parsing import LogLine
from gpuctl.reading.logs.log_streams import LogProblem


def log_line(pod: str, container: str, line: LogLine) -> dict[str, Any]:
    """Return a line of ``logs -f -o json``, or an item of ``logs -o json``; bytes that are not UTF-8 become U+FFFD."""
    return {"pod": pod, "container": container, "timestamp": line.stamp, "text": line.text.decode("utf-8", "replace")}


def log_event(pod: str, container: str, line: LogLine) -> dict[str, Any]:
    """Return a line as an event of the REST API: with its bytes if they are not UTF-8, and a mark if the line
    continues.
    """
    value = log_line(pod, container, line)
    if "\ufffd" in value["text"] and value["text"].encode() != line.text:
        value["base64"] = b64encode(line.text).decode()
    if not line.ends:
        value["ends"] = False
    return value


def log_problem(problem: LogProblem) -> dict[str, Any]:
    """Return why a log, or a part of it, is missing; without a pod, why all pods' are."""
    return {"pod": problem.pod or None, "message": problem.message}


def log_end(last: str | None, problems: Iterable[LogProblem]) -> dict[str, Any]:
    """Return the fields of ``logs -o json`` other than ``logs``.

    :param last: time of the last line; None without lines.
    """
    return {
        "lastTimestamp": last,
        "problems": list(map(log_problem, problems)),
    }
