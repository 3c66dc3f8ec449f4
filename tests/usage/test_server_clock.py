"""The collector's clock follows the API server's `Date` header."""

from __future__ import annotations

import time

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
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: true() + wrong - 500)
    assert clock.now() == before, "the clock never runs backwards"
    session.close()
