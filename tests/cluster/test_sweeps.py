"""Sweeps on the real control plane: one job for each combination, and what a changed list replaces."""

from __future__ import annotations

from typing import Any

from support.cluster_tools import Place, training


def sweep(**values: Any) -> dict[str, Any]:
    return training("tune", environment={"args": ["--lr={{sweep.lr}}"]}, sweep=values)


def test_changed_value_replaces_only_its_job(place: Place) -> None:
    created = place.apply(sweep(lr=["1e-5", "2e-5", "3e-5"]), flags=("-o", "json"))
    assert created.actions == dict.fromkeys(("Job/tune-0", "Job/tune-1", "Job/tune-2"), "create")
    kept = place.uid("Job", "tune-0")
    changed = place.apply(sweep(lr=["1e-5", "4e-5", "3e-5", "5e-5"]), flags=("--yes", "-o", "json"))
    assert changed.actions == {
        "Job/tune-0": "unchanged",
        "Job/tune-1": "replace",
        "Job/tune-2": "unchanged",
        "Job/tune-3": "create",
    }
    assert place.uid("Job", "tune-0") == kept
    assert place.get("Job", "tune-1")["metadata"]["annotations"]["runwhere.ai/sweep-values"] == '{"lr": "4e-5"}'


def test_apply_asks_before_a_shifted_value_replaces_a_running_job(place: Place) -> None:
    place.apply(sweep(lr=["1e-5", "2e-5"]), flags=("--wait",))
    refused = place.apply(sweep(lr=["2e-5"]), code=2)
    assert f"replaces training/tune-0 in {place.namespace}: running for" in refused.err
    assert place.get("Job", "tune-0")["metadata"]["annotations"]["runwhere.ai/sweep-values"] == '{"lr": "1e-5"}'


def test_jobs_that_left_the_sweep_are_pruned(place: Place) -> None:
    place.apply(sweep(lr=["1e-5", "2e-5"]), flags=("--set", "tuning"))
    pruned = place.apply(sweep(lr=["1e-5"]), flags=("--set", "tuning", "--prune", "--yes", "-o", "json"))
    assert pruned.actions == {"Job/tune-0": "unchanged", "Job/tune-1": "prune"}
    assert not place.exists("Job", "tune-1")


def test_rollback_of_one_job_keeps_it_in_the_sweep(place: Place) -> None:
    for value in ("1e-5", "2e-5"):
        place.apply(sweep(lr=[value]), flags=("--yes",))
    place.gpuctl("rollback", "tune-0", "--yes")
    job = place.get("Job", "tune-0")
    assert job["metadata"]["labels"]["runwhere.ai/sweep"] == "tune"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["--lr=1e-5"]
