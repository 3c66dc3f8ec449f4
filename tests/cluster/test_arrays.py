"""Arrays on the real control plane: indexes, their logs and failures, and a rerun of what has not succeeded."""

from __future__ import annotations

from typing import Any

from support.cluster_tools import Place, outcome, training

OUTCOME = "gpuctl.test/outcome"


def _pods(place: Place) -> dict[str, str]:
    """Index -> name of the running pods of the array."""
    found = {}
    for name in place.pods("train"):
        pod: dict[str, Any] = place.get("Pod", name)
        if pod["status"].get("phase") == "Running":
            found[pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]] = name
    return found


def _end(place: Place, index: str, how: str) -> None:
    """Let the pod of an index end."""
    place.until(lambda: index in _pods(place), f"index {index}")
    place.patch("Pod", _pods(place)[index], {"metadata": {"annotations": {OUTCOME: how}}})


def test_rerun_of_failed_indexes_keeps_the_finished_ones(place: Place) -> None:
    document = training(array={"size": 4, "parallelism": 2})
    place.apply(document, flags=("--wait",))
    _end(place, "0", "complete")
    _end(place, "1", "fail")
    _end(place, "2", "complete")
    place.until(lambda: place.get("Job", "train")["status"].get("succeeded") == 2, "two indexes")
    (row,) = place.gpuctl("get", "jobs", "train", "--jobs", "-o", "json").value["items"]
    assert (row["status"], row["ready"]) == ("Running", "2/4 (1 failed)")
    assert "has no pod 9" in place.gpuctl("logs", "train", "--pod", "9", code=1).err
    assert "has not ended" in place.gpuctl("rerun", "train", "--failed", code=1).err
    assert place.apply(document).out.startswith("unchanged job.batch/train")
    _end(place, "3", "complete")
    place.ended("train")
    assert f"`gpuctl rerun train -n {place.namespace} --failed`" in place.gpuctl("why", "train").out
    uid = place.uid("Job", "train")

    done = place.gpuctl("rerun", "train", "--failed")
    assert "failed; 1 of 4 indexes run again: 1" in done.out
    job = place.get("Job", "train")
    assert job["metadata"]["uid"] != uid
    assert "gpuctl/finished-indexes" not in job["metadata"]["annotations"]
    _end(place, "1", "complete")
    place.ended("train")
    job = place.get("Job", "train")
    assert (job["status"]["completedIndexes"], job["status"]["succeeded"]) == ("0-3", 4)
    assert len(place.pods("train")) == 1
    assert place.apply(document).out.startswith("unchanged job.batch/train")


def test_interrupted_rerun_is_finished_by_resume(place: Place) -> None:
    """A run that is killed leaves the suspended Job with the indexes that must not run again."""
    place.apply(training(array=3))
    job = place.get("Job", "train")
    annotations = {"gpuctl/finished-indexes": "0,2"}
    place.kubectl("delete", "job", "train")
    own = {key: job["metadata"][key] for key in ("name", "namespace", "labels")}
    own["annotations"] = {**job["metadata"]["annotations"], **annotations}
    spec = {key: value for key, value in job["spec"].items() if key != "selector"}
    for label in [key for key in spec["template"]["metadata"]["labels"] if "job-name" in key or "controller" in key]:
        del spec["template"]["metadata"]["labels"][label]
    place.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": {**spec, "suspend": True}})
    place.gpuctl("resume", "train")
    place.until(lambda: _pods(place).keys() == {"1"}, "only index 1")


def test_array_takes_the_quota_that_is_left(place: Place) -> None:
    """Two of three pods have room in the quota. A changed number of pods restarts nothing."""
    place.limit(gpu="2")
    place.apply(training(array={"size": 3, "parallelism": 3}))
    place.until(lambda: len(_pods(place)) == 2, "two pods")
    pods, uid = place.pods("train"), place.uid("Job", "train")
    fewer = training(array={"size": 3, "parallelism": 2, "max_failed": 1})
    assert place.apply(fewer).out.startswith("updated   job.batch/train")
    assert (place.uid("Job", "train"), place.pods("train")) == (uid, pods)
    assert place.get("Job", "train")["spec"]["maxFailedIndexes"] == 1
    assert place.apply(fewer).out.startswith("unchanged job.batch/train")


def test_array_with_a_failing_program_is_explained(place: Place) -> None:
    place.apply(training(job=outcome("fail"), array={"size": 3, "max_failed": 0}))
    place.ended("train")
    (row,) = place.gpuctl("get", "jobs", "train", "--jobs", "-o", "json").value["items"]
    assert row["reason"].startswith("MaxFailedIndexesExceeded: ")
    assert "Ready:        0/3 (" in place.gpuctl("describe", "job", "train").out
