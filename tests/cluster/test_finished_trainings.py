"""Trainings that have ended, and what runs them again: only what was asked for."""

from __future__ import annotations

from support.cluster_tools import Place, training

ENDS = {"annotations": {"gpuctl.test/outcome": "complete"}}
LABELLED = {**ENDS, "labels": {"cost-center": "42"}}


def test_a_finished_training_runs_again_only_when_it_is_confirmed(place: Place) -> None:
    """By apply, diff, their JSON and --dry-run; a label alone changes in place; rerun asks nothing, and a set does."""
    place.apply(training(job=ENDS))
    place.ended("train")
    uid = place.uid("Job", "train")

    changed = place.file(training("train", job=ENDS, image="app:2"))
    refused = place.gpuctl("apply", "-f", changed, code=1)
    assert "(Complete): runs again; its pods and logs are deleted" in refused.err
    assert "confirm with --yes" in refused.err
    assert "(Complete): runs again" in place.gpuctl("diff", "-f", changed, code=1).out
    (step,) = [
        step for step in place.plan(training("train", job=ENDS, image="app:2")).value["steps"] if step["kind"] == "Job"
    ]
    assert (step["action"], step["running"]) == ("replace", None)
    assert step["finished"].endswith("(Complete): runs again; its pods and logs are deleted")
    assert place.uid("Job", "train") == uid

    labelled = training(job=LABELLED)
    assert place.gpuctl("apply", "-f", place.file(labelled)).out.startswith("updated   job.batch/train")
    job = place.get("Job", "train")
    assert (job["metadata"]["uid"], job["metadata"]["labels"]["cost-center"]) == (uid, "42")
    assert place.gpuctl("diff", "-f", place.file(labelled), code=0).out.startswith("unchanged job.batch/train")
    assert "no drift" in place.gpuctl("drift", place.file(labelled)).out

    place.gpuctl("rerun", "train")
    place.ended("train")
    job = place.get("Job", "train")
    assert job["metadata"]["uid"] != uid
    assert job["spec"]["template"]["metadata"]["labels"]["cost-center"] == "42"

    place.apply(labelled, flags=("--set", "all"))
    pruned = place.gpuctl(
        "apply", "-f", place.file(training("other")), "--set", "all", "--prune", "--allow-source", code=1
    )
    assert "prunes training/train (job.batch/train" in pruned.err
    assert "(Complete)" in pruned.err
    assert place.gpuctl("delete", "job", "train").out.startswith("deleted")
