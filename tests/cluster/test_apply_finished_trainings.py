"""Finished trainings run again only if the user asks for it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster_tools import Place, training

ENDS = {"annotations": {"gpuctl.test/outcome": "complete"}}
LABELLED = {**ENDS, "labels": {"cost-center": "42"}}
CHANGED = training(job=ENDS, environment={"image": "registry.example.com/training:v2"})
BRIEF = {**ENDS, "ttl": "1s"}


def test_finished_training_runs_again_only_after_confirmation(place: Place) -> None:
    """A changed image needs confirmation in apply, diff, JSON and --dry-run; a new label is updated in place. `rerun`
    needs no confirmation, pruning does.
    """
    place.apply(training(job=ENDS))
    place.ended("train")
    uid = place.uid("Job", "train")

    changed = place.file(CHANGED)
    refused = place.gpuctl("apply", "-f", changed, code=2)
    assert "(Complete): runs again; its pods and logs are deleted" in refused.err
    assert "use --yes" in refused.err
    assert "(Complete): runs again" in place.gpuctl("diff", "-f", changed, code=1).out
    (step,) = [step for step in place.plan(CHANGED).value["steps"] if step["kind"] == "Job"]
    assert (step["action"], step["running"]) == ("replace", None)
    assert step["finished"].endswith("(Complete): runs again; its pods and logs are deleted")
    assert place.uid("Job", "train") == uid

    labelled = training(job=LABELLED)
    assert place.gpuctl("apply", "-f", place.file(labelled)).out.startswith("updated   job.batch/train")
    job = place.get("Job", "train")
    assert (job["metadata"]["uid"], job["metadata"]["labels"]["cost-center"]) == (uid, "42")
    assert place.gpuctl("diff", "-f", place.file(labelled), code=0).out.startswith("unchanged job.batch/train")
    assert "no drift" in place.gpuctl("drift", place.file(labelled)).err
    place.gpuctl("rerun", "train")
    place.ended("train")
    for document in (training(job=ENDS), labelled):
        place.apply(document)
        assert "no drift" in place.gpuctl("drift", place.file(document)).err

    place.gpuctl("rerun", "train")
    place.ended("train")
    job = place.get("Job", "train")
    assert job["metadata"]["uid"] != uid
    assert job["spec"]["template"]["metadata"]["labels"]["cost-center"] == "42"

    place.apply(labelled, flags=("--set", "all"))
    pruned = place.gpuctl(
        "apply", "-f", place.file(training("other")), "--set", "all", "--prune", "--allow-source", code=2
    )
    assert "prunes training/train (job.batch/train" in pruned.err
    assert "(Complete)" in pruned.err
    assert place.gpuctl("delete", "job", "train").out.startswith("deleted")


def wait_for_ttl(place: Place, *names: str) -> None:
    """Wait until the ttl has removed finished trainings."""
    for name in names:
        place.until(lambda name=name: not place.exists("Job", name), f"the ttl of {name}")


def respellings(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield equal trainings that are written differently: explicit defaults, other spellings of values."""
    yield {**job, "job": {**job["job"], "priority": "medium"}}
    yield {**job, "resources": {**job["resources"], "nodes": 1}}
    yield {**job, "resources": {**job["resources"], "cpu": "2000m", "memory": "4096Mi"}}
    yield {**job, "environment": {**job["environment"], "env": {}}}


@pytest.mark.slow
def test_training_removed_by_its_ttl_is_not_run_again(place: Place) -> None:
    """apply, diff, drift and --wait treat it as finished, also with new labels; rerun, rollback and another image run
    it again.
    """
    job = training(job=BRIEF)
    place.apply(job)
    wait_for_ttl(place, "train")

    kept = place.apply(job, flags=("--wait",))
    assert kept.out.startswith("unchanged job.batch/train")
    assert "kept: applied on " in kept.out
    assert f"`gpuctl rerun train -n {place.namespace}` runs it again" in kept.out
    assert not place.exists("Job", "train")
    assert place.gpuctl("diff", "-f", place.file(job), code=0).out.startswith("unchanged")
    labelled = training(job={**BRIEF, "labels": {"team": "a"}, "ttl": "2s"})
    assert set(place.plan(labelled).actions.values()) == {"unchanged"}
    for respelt in respellings(job):
        assert set(place.plan(respelt).actions.values()) == {"unchanged"}
    drift = place.gpuctl("drift", place.file(job), "--fail")
    assert "gone" not in drift.out
    assert "presumably it finished and its ttl (1s) removed it" in drift.err

    assert "runs training/train in" in place.gpuctl("rerun", "train", code=2).err
    assert place.gpuctl("rerun", "train", "--yes").out.startswith("created   job.batch/train")
    wait_for_ttl(place, "train")
    assert place.gpuctl("rollback", "train", "--yes").out.startswith("created")
    wait_for_ttl(place, "train")
    changed = copy.deepcopy(job)
    changed["environment"]["image"] = "registry.example.com/training:v2"
    assert place.plan(changed).actions["Job/train"] == "create"
    higher = {**job, "job": {**job["job"], "priority": "high"}}
    assert place.plan(higher).actions["Job/train"] == "create"
    assert place.gpuctl("rerun", "nobody", code=1).err.count("no job") == 1


@pytest.mark.slow
def test_deleted_training_is_created_again(place: Place) -> None:
    """Deleted by name, file or prune, or gone before its ttl can have removed it."""
    long = training(job={**ENDS, "ttl": "1h"})
    place.apply(long)
    place.ended("train")
    place.kubectl("delete", "job", "train")
    assert place.apply(long).out.startswith("created")

    once = training("once", job={"ttl": "1s"})
    for flags in (("delete", "job", "once"), ("delete", "-f", place.file(once, name="once.yaml"))):
        place.apply(once)
        place.gpuctl(*flags)
        assert place.plan(once).actions["Job/once"] == "create"
    place.apply(once, long, flags=("--set", "all"))
    place.apply(long, flags=("--set", "all", "--prune", "--yes"))
    assert place.plan(once).actions["Job/once"] == "create"


@pytest.mark.slow
def test_copied_history_does_not_stop_another_training(place: Place) -> None:
    """A history copied to another name is ignored. A document with masked credentials cannot be compared."""
    job = training(job=BRIEF)
    place.apply(job)
    wait_for_ttl(place, "train")
    (secret,) = [
        item
        for item in json.loads(place.kubectl("get", "secrets", "-o", "json"))["items"]
        if "history" in item["metadata"]["name"]
    ]
    secret["metadata"] = {
        "name": secret["metadata"]["name"].replace("train", "other"),
        "labels": {key: value.replace("train", "other") for key, value in secret["metadata"]["labels"].items()},
    }
    place.create(secret)
    other = training("other", job=BRIEF)
    assert place.plan(other).actions["Job/other"] == "create"

    token = training("token", job=BRIEF, environment={"env": [{"name": "HF_TOKEN", "value": "hf_" + "a1" * 17}]})
    place.apply(token)
    wait_for_ttl(place, "token")
    plan = place.plan(token)
    assert plan.actions["Job/token"] == "create"
    assert "whether its document is the same is unknown" in plan.value["notes"][0]
