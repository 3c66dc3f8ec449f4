"""Scheduled trainings on the real control plane: runs, changes in place, pauses, and deletion."""

from __future__ import annotations

import pytest

from support.cluster_tools import Place, training
from support.why_records import record

OUTCOME = "gpuctl.test/outcome"
# No run is due while a test runs.
RARELY = "0 2 29 2 *"


def _status(place: Place) -> str:
    return str(place.gpuctl("get", "jobs", "train", "--jobs", "-o", "json").value["items"][0]["status"])


def test_schedule_is_changed_in_place_and_deleted(place: Place) -> None:
    document = training(schedule=RARELY)
    place.apply(document, flags=("--wait",))
    uid = place.uid("CronJob", "train")
    (row,) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert (row["name"], row["status"], row["pod"]) == ("train", "Scheduled", None)
    assert place.apply(document).out.startswith("unchanged cronjob.batch/train")
    changed = training(schedule={"cron": "0 3 29 2 *", "keep": 1})
    assert "(schedule, successfulJobsHistoryLimit, failedJobsHistoryLimit)" in place.apply(changed).out
    assert place.uid("CronJob", "train") == uid
    assert place.get("CronJob", "train")["spec"]["failedJobsHistoryLimit"] == 1
    assert "no drift" in place.gpuctl("drift", "-f", place.file(changed)).err

    assert "no further run starts" in place.gpuctl("pause", "train").out
    assert _status(place) == "Paused"
    assert place.apply(changed).out.startswith("unchanged cronjob.batch/train")
    assert place.get("CronJob", "train")["spec"]["suspend"] is True
    assert "is resumed" in place.gpuctl("resume", "train").out
    assert _status(place) == "Scheduled"
    assert "`gpuctl run train" in place.gpuctl("rerun", "train", code=1).err
    assert "deleted   cronjob.batch/train" in place.gpuctl("delete", "job", "train", "--yes").out
    assert not place.exists("CronJob", "train")


def test_run_starts_a_job_that_logs_and_wait_mean(place: Place) -> None:
    place.apply(training(schedule=RARELY))
    assert "created   job.batch/train-r" in place.gpuctl("run", "train").out
    (pod,) = place.until(lambda: place.pods("train"), "the run's pod")
    run = place.get("Pod", pod)["metadata"]["labels"]["batch.kubernetes.io/job-name"]
    place.until(lambda: _status(place) == "Running", "the run")
    (row,) = place.gpuctl("get", "jobs", "-o", "json").value["items"]
    assert (row["name"], row["pod"]) == ("train", pod)
    assert f"has the unfinished run {run}" in place.gpuctl("run", "train", code=1).err
    changed = place.apply(training(schedule={"cron": RARELY, "keep": 1})).out
    assert f"the unfinished run {run} stays as it is" in changed
    place.patch("Pod", pod, {"metadata": {"annotations": {OUTCOME: "complete"}}})
    place.ended(run)
    assert "training/train is done" in place.gpuctl("wait", "train", "--for", "done").out
    assert _status(place) == "Scheduled"
    assert f"run {run} succeeded" in place.gpuctl("describe", "job", "train").out
    answer = place.gpuctl("why", "train", "-o", "json").value
    assert (answer["cause"], answer["message"]) == (
        "scheduled",
        "nothing is wrong: the next run is at 2028-02-29T02:00:00Z",
    )
    record(place.namespace, "train", "scheduled")
    _logs_of_an_earlier_run(place, pod)
    place.gpuctl("delete", "job", "train", "--yes")
    place.until(lambda: not place.exists("Job", run) and not place.pods("train"), "the end of the run")


def _logs_of_an_earlier_run(place: Place, pod: str) -> None:
    """A pod that the user names is not taken for one of the newest run."""
    place.plane.write_log(place.namespace, pod, "of the first run\n")
    place.gpuctl("run", "train")
    (second,) = place.until(lambda: place.pods("train").keys() - {pod}, "the pod of the second run")
    place.plane.write_log(place.namespace, second, "of the second run\n")
    place.until(lambda: _status(place) == "Running", "the second run")
    assert place.gpuctl("logs", "train").out == "of the second run\n"
    for words in (["logs", pod], ["logs", "train", "--pod", pod], ["logs", "-f", pod]):
        assert place.gpuctl(*words).out == "of the first run\n"
    assert f"it has {second}\n" in place.gpuctl("logs", "train", "--pod", "zzz", code=1).err


@pytest.mark.slow
def test_schedule_and_plain_training_replace_each_other(place: Place) -> None:
    place.apply(training(), flags=("--wait",))
    scheduled = training(schedule=RARELY)
    assert place.plan(scheduled).actions["CronJob/train"] == "replace"
    place.apply(scheduled, flags=("--yes",))
    assert not place.exists("Job", "train")
    place.apply(training(), flags=("--yes", "--wait"))
    assert not place.exists("CronJob", "train")
