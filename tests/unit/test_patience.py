"""Requests that fail, without a server: how long they are tried again, and what is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from control_plane.processes import free_ports
from fault_tools.proxy import write_kubeconfig
from gpuctl.backend.api_resources import Key
from gpuctl.kube import connection as connection_module
from gpuctl.kube.api_errors import ApiError, ConnectionFailed
from gpuctl.kube.configuration import connect
from gpuctl.kube.connection import Connection

KEY = Key("Job", "default", "train")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A connection to where nobody listens."""
    server = f"http://127.0.0.1:{free_ports(1)[0]}"
    made = connect(kubeconfig=str(write_kubeconfig(tmp_path / "c", {"server": server}, "token")))
    yield made
    made.close()


def test_what_is_being_dealt_with_meanwhile_is_no_cause(connection: Connection) -> None:
    """A request in an exception's handler that fails too: Python chains its exception to the other one."""
    try:
        raise ValueError("of something else")
    except ValueError:
        with pytest.raises(ConnectionFailed) as caught:
            connection.get(KEY)
    assert caught.value.message == f"{connection.server} (context test) cannot be reached: connection refused"


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
@pytest.mark.parametrize(("refusals", "passes"), [(6, True), (60, False)])
def test_refusals_in_a_row(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, jitter: float, refusals: int, passes: bool
) -> None:
    """Whatever the jitter; and a server that never takes the request is not asked for ever."""
    now = 0.0
    answers = [SimpleNamespace(status=429, data=b"", headers={})] * refusals

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def send(*_: object, **__: object) -> SimpleNamespace:
        ok = SimpleNamespace(status=200, data=b'{"kind": "Job"}', headers=SimpleNamespace(getlist=lambda name: []))
        return answers.pop() if answers else ok

    monkeypatch.setattr(connection_module, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr(connection_module, "random", SimpleNamespace(random=lambda: jitter))
    monkeypatch.setattr(connection, "_transport", SimpleNamespace(send=send, reached=True, close=lambda: None))
    if passes:
        assert connection.get(KEY) == {"kind": "Job"}
    else:
        with pytest.raises(ApiError):
            connection.get(KEY)
    assert now <= connection_module.PATIENCE


def test_a_server_that_never_answered_is_given_up_soon(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = 0.0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds

    monkeypatch.setattr(connection_module, "time", SimpleNamespace(monotonic=lambda: slept, sleep=sleep))
    with pytest.raises(ConnectionFailed):
        connection.get(KEY)
    assert slept < connection_module.PATIENCE / 2
