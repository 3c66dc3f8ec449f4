"""JSON of ``wait`` and ``logs``."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpuctl.reading.log_parsing import LogLine
from gpuctl.reading.log_streams import LogProblem

if TYPE_CHECKING:
    from gpuctl.reading.wait_until import WaitResult


def wait_answer(results: Iterable[WaitResult]) -> dict[str, Any]:
    """Return the JSON of ``wait -o json``."""
    return {"items": [wait_result(result) for result in results]}


def wait_result(result: WaitResult) -> dict[str, Any]:
    """Return an item of ``wait -o json``."""
    return {
        "name": result.identity.name if result.identity else result.name,
        "namespace": result.identity.namespace if result.identity else None,
        "kind": result.identity.kind if result.identity else None,
        "condition": result.condition,
        "met": result.met,
        "message": result.message,
        "status": result.status.word if result.status else None,
        "reason": (result.status.reason if result.status else None) or None,
    }


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
    """Return why a log, or a part of it, is missing."""
    return {"pod": problem.pod, "message": problem.message}


def log_end(last: str | None, problems: Iterable[LogProblem]) -> dict[str, Any]:
    """Return the fields of ``logs -o json`` other than ``logs``.

    :param last: time of the last line; None without lines.
    """
    return {
        "lastTimestamp": last,
        "problems": list(map(log_problem, problems)),
    }
