"""Sweeps on the real control plane: one job for each combination, and what a changed list replaces."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_tools import Place, training


def sweep(**values: Any) -> dict[str, Any]:
    return training("tune", environment={"args": ["--lr={{sweep.lr}}"]}, sweep=values)


@pytest.mark.slow
def test_changed_value_replaces_only_its_job(place: Place) -> None:
    created = place.apply(sweep(lr=["1e-5", "2e-5", "3e-5"]), flags=("-o", "json"))
    assert created.actions == dict.fromkeys(("Job/tune-0", "Job/tune-1", "Job/tune-2"), "create")
    kept = place.uid("Job", "tune-0")
    changed = place.apply(sweep(lr=["1e-5", "4e-5", "3e-5", "5e-5"]), flags=("--yes", "-o", "json"))
    # The first job states the number of jobs.
    assert changed.actions == {
        "Job/tune-0": "update",
        "Job/tune-1": "replace",
        "Job/tune-2": "unchanged",
        "Job/tune-3": "create",
    }
    assert place.uid("Job", "tune-0") == kept
    assert place.get("Job", "tune-0")["metadata"]["annotations"]["runwhere.ai/sweep-size"] == "4"
    assert place.get("Job", "tune-1")["metadata"]["annotations"]["runwhere.ai/sweep-values"] == '{"lr": "4e-5"}'


def test_apply_asks_before_a_shifted_value_replaces_a_running_job(place: Place) -> None:
    place.apply(sweep(lr=["1e-5", "2e-5"]), flags=("--wait",))
    refused = place.apply(sweep(lr=["2e-5", "1e-5"]), code=2)
    assert f"replaces training/tune-0 in {place.namespace}: running for" in refused.err
    moved = f"tune-0 in {place.namespace} has the values of the former tune-1, and starts anew: lr=2e-5"
    told = place.plan(sweep(lr=["2e-5", "1e-5"])).value["notes"]
    assert moved in told
    assert told[-1].startswith("the jobs of the sweep tune keep their numbers if new combinations are appended to `inc")
    for more in ({"lr": ["1e-5", "2e-5"], "include": [{"lr": "3e-5"}]}, {"lr": ["1e-5", "2e-5", "3e-5"]}):
        kept = place.plan(sweep(**more))
        assert kept.actions == {"Job/tune-0": "update", "Job/tune-1": "unchanged", "Job/tune-2": "create"}
        assert kept.value["notes"] == []
    assert place.get("Job", "tune-0")["metadata"]["annotations"]["runwhere.ai/sweep-values"] == '{"lr": "1e-5"}'


def test_jobs_that_left_the_sweep_are_pruned(place: Place) -> None:
    place.apply(sweep(lr=["1e-5", "2e-5"]), flags=("--set", "tuning"))
    pruned = place.apply(sweep(lr=["1e-5"]), flags=("--set", "tuning", "--prune", "--yes", "-o", "json"))
    assert pruned.actions == {"Job/tune-0": "update", "Job/tune-1": "prune"}
    assert not place.exists("Job", "tune-1")


def test_preview_names_the_jobs_that_left_the_sweep(place: Place) -> None:
    """Without --prune they stay, and the printed command removes them."""
    place.apply(sweep(lr=[f"{number}e-5" for number in range(1, 10)]), flags=("--set", "tuning"))
    shorter = sweep(lr=["1e-5"])
    command = f"gpuctl delete job tune-{{1..8}} -n {place.namespace}"
    left = f"the sweep tune in {place.namespace} no longer has tune-1, tune-2, tune-3 and 5 more: they stay until `{command}`"
    assert left in place.plan(shorter).value["notes"]
    assert left in place.apply(shorter, flags=("--dry-run",)).err
    moved = f"tune-0 in {place.namespace} has the values of the former tune-1, and starts anew: lr=2e-5"
    assert moved in place.plan(sweep(lr=["2e-5"])).value["notes"]
    assert not place.plan(shorter, flags=("--set", "tuning", "--prune")).value["notes"]
    place.gpuctl("delete", "job", *(f"tune-{number}" for number in range(3, 9)), "--yes")
    two = f"no longer has tune-1 and tune-2: they stay until `gpuctl delete job tune-1 tune-2 -n {place.namespace}`"
    assert two in place.apply(shorter).err
    place.gpuctl("delete", "job", "tune-1", "tune-2", "--yes")
    assert "no longer has" not in place.apply(shorter).err


@pytest.mark.slow
def test_failed_indexes_of_the_arrays_of_a_sweep_run_again(place: Place) -> None:
    """The job that has succeeded, and the indexes that have, do not run."""
    place.apply({**sweep(lr=["1e-5", "2e-5"]), "array": 2}, flags=("--wait",))
    for job, failed in (("tune-0", ()), ("tune-1", ("tune-1-1",))):
        for pod in place.pods(job):
            how = "fail" if pod.startswith(failed) and failed else "complete"
            place.patch("Pod", pod, {"metadata": {"annotations": {"gpuctl.test/outcome": how}}})
        place.ended(job)
    finished = place.uid("Job", "tune-0")
    done = place.gpuctl("rerun", "--sweep", "tune", "--failed")
    assert "1 of 2 indexes run again: 1" in done.out
    assert place.uid("Job", "tune-0") == finished
    place.until(lambda: len(place.pods("tune-1")) == 1, "the pod of the failed index")


@pytest.mark.slow
def test_rollback_of_one_job_keeps_it_in_the_sweep(place: Place) -> None:
    for value in ("1e-5", "2e-5"):
        place.apply(sweep(lr=[value]), flags=("--yes",))
    place.gpuctl("rollback", "tune-0", "--yes")
    job = place.get("Job", "tune-0")
    assert job["metadata"]["labels"]["runwhere.ai/sweep"] == "tune"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["--lr=1e-5"]


def test_sweep_is_listed_waited_for_run_again_and_deleted(place: Place) -> None:
    place.apply(sweep(lr=["1e-5", "2e-5"]), training("other"), flags=("--wait",))
    place.end("tune-0", "complete")
    place.end("tune-1", "fail")

    listed = place.gpuctl("get", "jobs", "--sweep", "tune", "-o", "json").value
    assert (listed["sweep"], listed["total"]) == ("tune", 2)
    assert [(item["name"], item["sweepValues"], item["status"]) for item in listed["items"]] == [
        ("tune-0", {"lr": "1e-5"}, "Succeeded"),
        ("tune-1", {"lr": "2e-5"}, "Failed"),
    ]
    table = place.gpuctl("get", "jobs", "--sweep", "tune").out.splitlines()
    assert [line.split()[:4:2] for line in table] == [["NAME", "lr"], ["tune-0", "1e-5"], ["tune-1", "2e-5"]]
    assert place.gpuctl("get", "jobs", "--sweep", "tune", "-o", "name").out == "training/tune-0\ntraining/tune-1\n"
    assert "there are no jobs of a sweep nope" in place.gpuctl("wait", "--sweep", "nope", "--for=done", code=1).err
    assert "not both" in place.gpuctl("delete", "job", "tune-0", "--sweep", "tune", code=2).err

    finished, failed = place.uid("Job", "tune-0"), place.uid("Job", "tune-1")
    place.gpuctl("rerun", "--sweep", "tune", "--failed")
    assert place.uid("Job", "tune-0") == finished
    assert place.uid("Job", "tune-1") != failed
    place.end("tune-1", "complete")
    waited = place.gpuctl("wait", "--sweep", "tune", "--for=done")
    assert len(waited.out.splitlines()) == 2

    place.gpuctl("delete", "--sweep", "tune", "--yes")
    assert not place.exists("Job", "tune-0")
    assert place.exists("Job", "other")


@pytest.mark.slow
def test_sweep_is_paused_and_resumed(place: Place) -> None:
    place.apply(sweep(lr=["1e-5", "2e-5"]), flags=("--wait",))
    place.gpuctl("pause", "--sweep", "tune")
    assert all(place.get("Job", name)["spec"]["suspend"] for name in ("tune-0", "tune-1"))
    place.gpuctl("resume", "--sweep", "tune")
    place.running("tune-0", "tune-1")
