"""Results of `gpuctl wait` that depend on a moment that a live test rarely meets."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.wait_until import _Wait, _Waited


@pytest.mark.parametrize(("phase", "outcome"), [("Running", None), ("Failed", "failed")])
def test_lone_pod_fails_when_it_has_ended_not_when_a_container_is_about_to_restart(
    phase: str, outcome: str | None
) -> None:
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    pod: dict[str, Any] = {
        "metadata": {"name": "lone", "namespace": "n", "uid": "1"},
        "spec": {"restartPolicy": "Always", "containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]},
    }
    item = _Waited("lone", Job(Identity("n", "lone", "notebook"), None, [pod]), None, has_app=False)
    scope: Any = None
    wait = _Wait(scope, [item], "ready", records(Settings()), Settings(), None, None)
    found = wait._lone(item)
    assert (found and found.outcome) == outcome
