"""Prerequisites of trainings (`job.after`): how sweeps end, and the names in forged annotations."""

from __future__ import annotations

import json
from typing import Any

from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.prerequisites import ends_of, judge, prerequisites_of, release_patch

KEYS = records(Settings())


def training(name: str, sweep: str | None = None, end: str | None = None, **annotations: str) -> dict[str, Any]:
    labels = {"app": name, KEYS.job_type: "training", **({KEYS.sweep: sweep} if sweep else {})}
    status = {"conditions": [{"type": end, "status": "True"}]} if end else {}
    metadata = {"name": name, "namespace": "nlp", "labels": labels, "annotations": annotations}
    return {"kind": "Job", "metadata": metadata, "spec": {"suspend": bool(annotations)}, "status": status}


def waiting(**annotations: str) -> dict[str, Any]:
    return training("evaluate", **{KEYS.after: json.dumps({"tune": "ok"}), **annotations})


def recorded(obj: dict[str, Any], *others: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the state of `tune`, and the training after the patch of the service."""
    states = judge(obj, ends_of(others, KEYS), KEYS)
    patch = release_patch(obj, states, KEYS, "2026-01-01T00:00:00Z")
    metadata = {**obj["metadata"], "annotations": dict(obj["metadata"]["annotations"])}
    metadata["annotations"].update(patch["metadata"]["annotations"] if patch else {})
    return states[0].state, {**obj, "metadata": metadata}


def test_failed_job_of_a_sweep_counts_until_it_has_run_again() -> None:
    succeeded = training("tune-1", "tune", "Complete")
    state, obj = recorded(waiting(), training("tune-0", "tune", "Failed"), succeeded)
    assert state == "unmet"
    # `gpuctl rerun` deletes the job before it creates it again.
    state, obj = recorded(obj, succeeded)
    assert state == "unmet"
    state, obj = recorded(obj, training("tune-0", "tune"), succeeded)
    assert state == "waiting"
    state, obj = recorded(obj, training("tune-0", "tune", "Complete"), succeeded)
    assert state == "met"


def test_failed_job_of_a_sweep_that_its_ttl_removed_counts() -> None:
    state, obj = recorded(waiting(), training("tune-0", "tune", "Failed"), training("tune-1", "tune"))
    assert state == "waiting"
    state, obj = recorded(obj, training("tune-1", "tune", "Complete"))
    assert state == "unmet"


def test_failure_before_a_rerun_is_forgotten() -> None:
    running = training("tune-1", "tune")
    _, obj = recorded(waiting(), training("tune-0", "tune", "Failed"), running)
    _, obj = recorded(obj, training("tune-0", "tune", "Complete"), running)
    state, _ = recorded(obj, training("tune-1", "tune", "Complete"))
    assert state == "met"


def test_forged_names_are_not_read() -> None:
    names = json.dumps({"\x1b[31mred": "ok", "\ud800": "ok", "a/b": "ok", "prepare": "ok"})
    assert prerequisites_of(training("x", **{KEYS.after: names}), KEYS.after) == {"prepare": "ok"}
    forged = waiting(**{KEYS.ended_before: json.dumps({"tune/\x1b[31mred": "failed"})})
    assert judge(forged, ends_of([training("tune-0", "tune", "Complete")], KEYS), KEYS)[0].failed_jobs == ()
