"""What depends on the age of objects uses the API server's clock, not that of the machine on which it runs."""

from __future__ import annotations

import time
from contextlib import closing
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any, cast

import pytest

import gpuctl
from gpuctl.cli.commands.usage.usage_options import TimeOptions, parse_range
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key, Object, Resource
from gpuctl.objects.durations import HOUR
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.timestamps import format_timestamp, parse_timestamp
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.usage.gpu_time import LedgerLine
from gpuctl.reading.usage.usage_records import UsageRange
from gpuctl.reading.why.evidence import gather
from gpuctl.usecases.policies.idle_policy import judge_idle_jobs
from gpuctl.usecases.policies.idle_verdicts import IdleVerdict
from gpuctl.usecases.policies.notebook_use import recorded_use
from gpuctl.usecases.queries.read_context import ReadContext, context_of
from gpuctl.usecases.service.saved_logins import SavedLogin
from gpuctl.usecases.service.service_client import ServiceClient
from gpuctl.usecases.usage.job_usage import job_usage
from gpuctl.usecases.usage.usage_backends import UsageService
from gpuctl_server.lookups.job_metrics import metrics_over_time
from gpuctl_server.lookups.log_responses import begins_at
from gpuctl_server.routes.log_query import LogsQuery
from support.byte_server import Server as ByteServer

DOCUMENT = """\
kind: notebook
version: v0.1
job: {name: desk, namespace: nlp}
environment: {image: "jupyter:1"}
resources: {gpu: 1, cpu: 1, memory: 1Gi}
notebook: {max_lifetime: 8h, stop_after: 2h}
"""
SERVER = time.time() + 100 * HOUR
RESULT = gpuctl.compile(gpuctl.Source("desk.yaml", DOCUMENT), platform=gpuctl.Source("p.yaml", "kind: platform\n"))
KEYS = records(RESULT.settings)


def notebook(started: float) -> list[Object]:
    """Return a live notebook and its pod, which started at a time."""
    assert RESULT.objects, RESULT.diagnostics
    (main,) = (obj for obj in RESULT.objects if obj["kind"] == "StatefulSet")
    main = {**main, "metadata": {**main["metadata"], "uid": "1", "creationTimestamp": format_timestamp(started)}}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "desk", "uid": "1", "controller": True}
    metadata = {**main["spec"]["template"]["metadata"], "name": "desk-0", "namespace": "nlp", "uid": "2"}
    status = {"phase": "Running", "startTime": format_timestamp(started)}
    pod = {
        "kind": "Pod",
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": main["spec"]["template"]["spec"],
    }
    return [main, {**pod, "status": status}]


class Server:
    """A session with live objects, whose server's clock is 100 hours ahead."""

    namespace = "nlp"
    known_clock_ahead = 100.0 * HOUR

    def __init__(self, objects: list[Object]) -> None:
        self.objects = objects
        self.patches: list[Object] = []

    def server_time(self) -> float:
        return SERVER

    def list_objects(self, resource: Resource, namespace: str | None = None, **_: str) -> tuple[list[Object], str]:
        return [obj for obj in self.objects if obj["kind"] == resource.kind], "1"

    def each(self, task: Any, items: Any) -> list[Any]:
        return [task(item) for item in items]

    def get(self, key: Key) -> None:
        return None

    def text(self, path: str, query: dict[str, str]) -> str:
        return ""

    def patch(self, key: Key, patch: Object) -> None:
        self.patches.append(patch)


@pytest.mark.parametrize(("hours", "verdicts"), [(1, []), (7.5, [IdleVerdict.WARN]), (9, [IdleVerdict.PAUSE])])
def test_lifetime_of_a_notebook(hours: float, verdicts: list[IdleVerdict]) -> None:
    session = cast(Session, Server(notebook(SERVER - hours * HOUR)))
    reader = SimpleNamespace(scope=Scope(session, "nlp"), keys=KEYS, settings=RESULT.settings)
    found = judge_idle_jobs(None, cast(ReadContext, reader), None).jobs
    assert [job.verdict for job in found if job.limit == "max_lifetime"] == verdicts


def test_use_of_a_notebook_is_recorded() -> None:
    """The policy does not take a time in the future, and pauses the notebook for one in the past."""
    session = Server([])
    with recorded_use(cast(Session, session), notebook(SERVER)[0], KEYS):
        pass
    assert [patch["metadata"]["annotations"] for patch in session.patches] == [
        {KEYS.last_used: format_timestamp(SERVER)}
    ]


def test_ages_of_why() -> None:
    main, pod = notebook(SERVER - 600)
    session = cast(Session, Server([main, pod]))
    evidence = gather(
        Scope(session, "nlp"), Job(Identity("nlp", "desk", "notebook"), main, [pod]), KEYS, RESULT.settings
    )
    assert evidence.now == parse_timestamp(format_timestamp(SERVER, "microseconds"))
    assert evidence.since(main["metadata"]["creationTimestamp"]) == "10m"


@pytest.mark.parametrize("by_service", [False, True])
def test_ages_in_tables(by_service: bool) -> None:
    server: Any = Server([])
    reader = context_of(cast(Session, server), RESULT.settings)
    if by_service:
        reader = context_of(cast(Session, None), RESULT.settings)._replace(service=cast(ServiceClient, server))
    now = time.time() + server.known_clock_ahead
    assert reader.age(format_timestamp(now - 3.5 * HOUR)) == "3h"
    assert [reader.age(unknown) for unknown in (None, "")] == ["", ""]


def test_series_of_a_job_end_now() -> None:
    """A job may have started after the time of a slow local clock."""
    asked: list[tuple[int, int]] = []

    def query_range(query: str, first: int, last: int, step: int, timeout: float) -> list[Any]:
        asked.append((first, last))
        return []

    row = SimpleNamespace(
        started_at=format_timestamp(SERVER - HOUR), created_at=None, identity=Identity("nlp", "desk", "notebook")
    )
    item: Any = SimpleNamespace(row=row, job=SimpleNamespace(pods=[{"metadata": {"name": "desk-0"}}]))
    service: Any = SimpleNamespace(
        server_time=lambda: SERVER,
        settings=SimpleNamespace(metrics={}),
        prometheus=SimpleNamespace(query_range=query_range),
    )
    metrics_over_time(service, item, ["gpuUtilization"], None, None)
    assert asked == [(int(SERVER - HOUR), int(SERVER))]


def test_usage_of_a_job_is_that_of_the_last_day() -> None:
    asked: list[UsageRange] = []

    def ledger(level: str, found: UsageRange, step: str, **_: str) -> list[LedgerLine]:
        asked.append(found)
        return []

    backend: Any = SimpleNamespace(ledger=ledger)
    reader = context_of(cast(Session, Server([])), RESULT.settings)
    assert job_usage(backend, "1", "nlp", reader.now()) is None
    # The server's clock goes on while other tests run.
    assert SERVER - 600 < asked[0].end < SERVER + HOUR


@pytest.mark.parametrize("end", [None, "2026-10-01"])
def test_usage_through_a_service_ends_now_by_the_date_of_its_responses(end: str | None) -> None:
    """A request asks for the time before the first response, if the range ends now."""
    date, body = formatdate(SERVER, usegmt=True), b'{"allowed": true}'
    server = ByteServer(f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    with closing(server), closing(UsageService(ServiceClient(SavedLogin(server.url, "token")))) as usage:
        asked = parse_range(TimeOptions(None, None, end, "UTC"), usage.now)
        if end is not None:
            assert (asked.end, server.requests) == (parse_timestamp(end).timestamp(), [])
        else:
            assert (asked.end, usage.now()) == pytest.approx((SERVER, SERVER), abs=10)
            assert sum(request.startswith(b"POST /api/v1/auth/check ") for request in server.requests) == 1


def test_first_line_of_a_followed_log() -> None:
    item: Any = SimpleNamespace(id="desk-a", row=SimpleNamespace(identity=Identity("nlp", "desk", "notebook")))
    wanted = LogsQuery(since="10m").log_filter(item, "desk")
    assert begins_at(wanted.query, SERVER) == pytest.approx((SERVER - 600) * 1e9, abs=1e9)
