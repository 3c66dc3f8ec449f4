"""The collector's clock follows the API server's `Date` header."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest

from control_plane import ControlPlane
from gpuctl.kube.configuration import connect
from gpuctl.kube.session import Session
from gpuctl_usage.gathering.server_clock import ServerClock


@pytest.mark.parametrize("wrong", [120.0, -3600.0])
def test_wrong_local_clock_is_corrected(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, wrong: float) -> None:
    session = Session(connect(kubeconfig=str(plane.kubeconfig())), alone=True)
    true = time.time
    assert session.clock_ahead() == 0, "differences below the one-second resolution of `Date` are ignored"
    monkeypatch.setattr(time, "time", lambda: true() + wrong)
    assert session.clock_ahead() == pytest.approx(-wrong, abs=5)
    clock = ServerClock(session)
    assert clock.now() == pytest.approx(true() + wrong, abs=1)
    clock.compare()
    if wrong < 0:
        assert clock.now() == pytest.approx(true(), abs=5)
        assert clock.then(time.monotonic() - 60) == pytest.approx(true() - 60, abs=5)
    session.close()


@pytest.mark.parametrize("step", [500.0, -500.0])
def test_step_of_the_local_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    server = [1000.0]
    clock = ServerClock(cast(Session, SimpleNamespace(clock_ahead=lambda: server[0] - time.time())))
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    clock.compare()
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + step)
    monkeypatch.setattr(time, "monotonic", lambda: 8.0)
    assert (clock.now(), clock.then(5.0)) == pytest.approx((1001.0, 998.0), abs=0.1)
    server[0] = 990.0
    assert clock.compare() == pytest.approx(11.0, abs=0.1)
    assert clock.now() == pytest.approx(1001.0, abs=0.1), "the clock never runs backwards"
    monkeypatch.setattr(time, "monotonic", lambda: 20.0)
    assert clock.now() == pytest.approx(1002.0, abs=0.1)
