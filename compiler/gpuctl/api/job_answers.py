"""Jobs, their pods and what they print, as JSON: ``get jobs``, ``describe job``, ``wait`` and ``logs``."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpuctl.api.json_values import listed
from gpuctl.api.why_answers import why_value
from gpuctl.language.masking import masked
from gpuctl.reading.access import Addresses
from gpuctl.reading.job_facts import JobFacts
from gpuctl.reading.job_rows import Row
from gpuctl.reading.log_streams import LogProblem
from gpuctl.reading.loglines import LogLine
from gpuctl.reading.timeline import Stage

if TYPE_CHECKING:
    from gpuctl.reading.describe_job import AlikeEvents, JobDetail, JobHistory
    from gpuctl.reading.wait_until import WaitResult


def job_list(rows: Iterable[Row]) -> dict[str, Any]:
    """``get jobs -o json`` and ``get pods -o json``."""
    return listed(map(row_value, rows))


def row_value(row: Row) -> dict[str, Any]:
    """One row: a pod, or a job; a line of ``get jobs --watch -o json``."""
    return {
        "jobId": row.job_id,
        "pod": row.pod,
        "name": row.identity.name,
        "namespace": row.identity.namespace,
        "kind": row.identity.kind,
        "status": row.status.word,
        "phase": row.status.phase,
        "ready": row.ready,
        "node": row.node,
        "ip": row.ip,
        "createdAt": row.created_at,
        "startedAt": row.started_at,
        "pool": row.pool,
        "gpu": row.gpu,
        "gpuType": row.gpu_type,
        "priority": row.priority,
        "appliedBy": row.applied_by,
        "reason": row.status.reason or None,
    }


def job_answer(detail: JobDetail) -> dict[str, Any]:
    """``describe job -o json``, without credentials."""
    value = {
        **job_facts_value(detail),
        "timeline": _timeline(detail.timeline),
        "conditions": _conditions(detail.conditions),
        "access": _addresses(detail.access),
        "why": None,
        "events": None if detail.events is None else [_events(item) for item in detail.events],
    }
    found: dict[str, Any] = masked(value)
    return {**found, "why": why_value(detail.answer) if detail.has_trouble else None}


def job_facts_value(facts: JobFacts) -> dict[str, Any]:
    """The fields of ``describe job`` that rest on the job's own objects; credentials are not masked yet."""
    identity, workload = facts.job.identity, facts.job.workload
    return {
        "jobId": facts.row.job_id,
        "name": identity.name,
        "namespace": identity.namespace,
        "kind": identity.kind,
        "version": (facts.document or {}).get("version"),
        "description": facts.description,
        "yamlContent": facts.text,
        "status": facts.row.status.word,
        "phase": facts.row.status.phase,
        "reason": facts.row.status.reason or None,
        "ready": facts.row.ready,
        "pool": facts.row.pool,
        "priority": facts.row.priority,
        "appliedBy": facts.row.applied_by,
        "resources": facts.resources,
        # Use over time is another service's.
        "metrics": None,
        "createdAt": facts.row.created_at,
        "startedAt": facts.started_at,
        "k8sResources": {
            "kind": workload["kind"] if workload is not None else None,
            "jobName": workload["metadata"]["name"] if workload is not None else None,
            "pods": [row.pod for row in facts.pods],
        },
        "images": facts.images,
        "pods": [{**row_value(row), "restarts": facts.restarts[row.pod or ""]} for row in facts.pods],
    }


def history_answer(history: JobHistory) -> dict[str, Any]:
    """What ``describe job -o json`` has of what happened to a job, without credentials."""
    found: dict[str, Any] = masked(
        {
            "timeline": _timeline(history.timeline),
            "conditions": _conditions(history.conditions),
            "events": None if history.events is None else [_events(item) for item in history.events],
        }
    )
    return found


def _timeline(stages: Mapping[str, Iterable[Stage]]) -> list[dict[str, Any]]:
    return [{"pod": name, "stages": [_stage(stage) for stage in found]} for name, found in stages.items()]


def _conditions(conditions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: item.get(key) for key in ("type", "status", "reason", "message", "lastTransitionTime")}
        for item in conditions
    ]


def _stage(stage: Stage) -> dict[str, Any]:
    seconds = int(stage.seconds) if stage.seconds == int(stage.seconds) else stage.seconds
    return {"stage": stage.name, "time": stage.time, "seconds": seconds}


def _addresses(found: Addresses) -> dict[str, Any]:
    return {
        "nodePorts": found.nodes,
        "loadBalancers": found.balancers,
        "clusterDns": found.services,
        "podIps": found.pods,
        "portForward": found.port_forward,
    }


def _events(events: AlikeEvents) -> dict[str, Any]:
    return {
        "type": events.type,
        "reason": events.reason,
        "object": events.about,
        "message": events.message,
        "count": events.count,
        "time": events.time,
    }


def wait_answer(results: Iterable[WaitResult]) -> dict[str, Any]:
    """``wait -o json``."""
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
    """A line of ``logs -f -o json``, and an item of ``logs`` in ``logs -o json``; what is not UTF-8 becomes U+FFFD."""
    return {"pod": pod, "container": container, "timestamp": line.stamp, "text": line.text.decode("utf-8", "replace")}


def log_event(pod: str, container: str, line: LogLine) -> dict[str, Any]:
    """Return a line as an event of REST: with its bytes if they are not UTF-8, and marked if more of it follows."""
    value = log_line(pod, container, line)
    if "\ufffd" in value["text"] and value["text"].encode() != line.text:
        value["base64"] = b64encode(line.text).decode()
    if not line.ends:
        value["ends"] = False
    return value


def log_problem(problem: LogProblem) -> dict[str, Any]:
    """Return why a log, or a part of it, is not shown."""
    return {"pod": problem.pod, "message": problem.message}


def log_end(last: str | None, problems: Iterable[LogProblem]) -> dict[str, Any]:
    """What ``logs -o json`` has beside ``logs``.

    :param last: the time of the last line, None where there is none.
    """
    return {
        "lastTimestamp": last,
        "problems": list(map(log_problem, problems)),
    }
