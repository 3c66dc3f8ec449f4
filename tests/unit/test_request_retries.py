"""Failing requests without a server: the duration of retries, and the error messages."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from control_plane.processes import free_ports
from fault_tools.proxy import write_kubeconfig
from gpuctl.kube import api_requests
from gpuctl.kube.api_errors import ApiError, ConnectionFailed
from gpuctl.kube.configuration import connect, open_session
from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key
from gpuctl.usecases.service import service_client
from gpuctl.usecases.service.saved_logins import SavedLogin
from gpuctl.usecases.service.service_client import ServiceClient, ServiceRefusal

KEY = Key("Job", "default", "train")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session to a port on which no server listens."""
    server = f"http://127.0.0.1:{free_ports(1)[0]}"
    made = open_session(kubeconfig=str(write_kubeconfig(tmp_path / "c", {"server": server}, "token")))
    yield made
    made.close()


def test_error_message_omits_an_exception_being_handled(session: Session) -> None:
    """A request fails inside an exception handler, and Python chains its exception to the handled one."""
    try:
        raise ValueError("of something else")
    except ValueError:
        with pytest.raises(ConnectionFailed) as caught:
            session.get(KEY)
    assert caught.value.message == f"{session.server} (context test) cannot be reached: connection refused"


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
@pytest.mark.parametrize(("refusals", "passes"), [(6, True), (60, False)])
def test_retries_of_429_stay_within_the_patience(
    session: Session, monkeypatch: pytest.MonkeyPatch, jitter: float, refusals: int, passes: bool
) -> None:
    """For any jitter the waits add up to at most PATIENCE, and a request that is always refused fails."""
    now = 0.0
    answers = [SimpleNamespace(status=429, data=b"", headers={})] * refusals

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def send(*_: object, **__: object) -> SimpleNamespace:
        ok = SimpleNamespace(status=200, data=b'{"kind": "Job"}', headers=SimpleNamespace(getlist=lambda name: []))
        return answers.pop() if answers else ok

    monkeypatch.setattr(api_requests, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr("random.random", lambda: jitter)
    monkeypatch.setattr(session, "_transport", SimpleNamespace(send=send, reached=True, close=lambda: None))
    if passes:
        assert session.get(KEY) == {"kind": "Job"}
    else:
        with pytest.raises(ApiError):
            session.get(KEY)
    assert now <= api_requests.PATIENCE


@pytest.mark.parametrize(("seconds", "waits"), [("2", [2.0, 2.0]), ("9", []), ("soon", [0.25, 0.5])])
def test_service_client_waits_as_long_as_a_busy_service_asks(
    monkeypatch: pytest.MonkeyPatch, seconds: str, waits: list[float]
) -> None:
    """A time beyond its patience ends the retries at once."""
    now, slept = 0.0, list[float]()
    busy = SimpleNamespace(status=429, data=b'{"error": "TooManyRequests"}', headers={"Retry-After": seconds})
    answers = [busy, busy, SimpleNamespace(status=200, data=b'{"allowed": true}', headers={})]

    def sleep(wait: float) -> None:
        nonlocal now
        now += wait
        slept.append(wait)

    client = ServiceClient(SavedLogin("http://127.0.0.1:9", "token"))
    send = SimpleNamespace(send=lambda *_, **__: answers.pop(0), close=lambda: None)
    monkeypatch.setattr(service_client, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr("random.random", lambda: 0.5)
    monkeypatch.setattr(client, "_transport", send)
    if waits:
        assert client.request("GET", "/jobs") == {"allowed": True}
    else:
        with pytest.raises(ServiceRefusal) as caught:
            client.request("GET", "/jobs")
        assert client.is_busy(caught.value)
    assert slept == waits


def test_unreachable_server_fails_before_half_the_patience(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = 0.0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds

    monkeypatch.setattr(api_requests, "time", SimpleNamespace(monotonic=lambda: slept, sleep=sleep))
    with pytest.raises(ConnectionFailed):
        session.get(KEY)
    assert slept < api_requests.PATIENCE / 2


@pytest.fixture
def silent_server(tmp_path: Path) -> Iterator[Connection]:
    """A connection to a server that accepts requests but never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        made = connect(kubeconfig=str(write_kubeconfig(tmp_path / "mute", {"server": address}, "token")))
        yield made
        made.close()


def test_no_wait_and_no_retry_after_the_deadline(silent_server: Connection) -> None:
    """A request ends 3 s after the deadline, without the read timeout of 60 s and without another attempt."""
    session = Session(silent_server, patience=120, deadline=time.monotonic() + 0.5)
    with pytest.raises(ConnectionFailed, match="gave no answer within 3 s"):
        session.get(KEY)
    session.close()


def test_sessions_have_their_own_patience_and_warnings(silent_server: Connection) -> None:
    """Sessions of one connection have their own warnings and patience."""
    one, other = Session(silent_server), Session(silent_server)
    one.patience = 100.0
    one.warnings["of one"] = None
    assert (other.patience, other.warnings) == (api_requests.PATIENCE, {})
    assert one.with_time_limit(2.0).patience == 2.0
    assert one.patience == 100.0
    assert one.executor is not other.executor
    one.close()
    other.close()
    with pytest.raises(dataclasses.FrozenInstanceError):
        silent_server.namespace = "another"  # type: ignore[misc]
