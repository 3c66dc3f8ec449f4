"""``apply`` names the jobs that its pods evict and asks first; the real scheduler evicts exactly those."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, matching, on, refuse
from fault_tools.world import Api
from support.cluster_tools import Place, merged, outcome, places, training
from support.command import Start

_numbers = itertools.count(1)


class Pool(NamedTuple):
    """A pool with two nodes of 8 GPUs. No other test uses it, because pods of a terminating namespace linger."""

    name: str

    def job(self, name: str, priority: str, gpus: int) -> dict[str, Any]:
        """Return a training in the pool."""
        return training(name, job={"name": name, "priority": priority}, resources={"pool": self.name, "gpu": gpus})


@pytest.fixture
def contested(plane: ControlPlane, jobset: None) -> Pool:
    """A pool per test."""
    pool = Pool(f"contested-{next(_numbers)}")
    node = {"labels": {"runwhere.ai/pool": pool.name}, "gpus": 8, "cpu": "64", "memory": "256Gi"}
    plane.add_nodes({f"{pool.name}-{number}": node for number in range(2)})
    plane.wait_for_nodes()
    return pool


@pytest.fixture
def theirs(
    plane: ControlPlane, api: Api, contested: Pool, place: Place, tmp_path: Any, capsys: Any, monkeypatch: Any
) -> Iterator[Place]:
    """Another team's namespace."""
    directory = tmp_path / "theirs"
    directory.mkdir()
    yield from places(plane, api, directory, capsys, monkeypatch, f"theirs-{place.namespace[-50:].strip('-')}")


def step_of(outcome: Any) -> dict[str, Any]:
    """Return the step of the only Job."""
    (step,) = [step for step in outcome.value["steps"] if step["kind"] == "Job"]
    return dict(step)


def test_running_jobs_are_evicted_only_after_confirmation(place: Place, theirs: Place, contested: Pool) -> None:
    theirs.apply(contested.job("important", "high", 8))
    theirs.running("important")
    owned = contested.job("sft", "low", 4)
    owned["job"]["labels"] = {"creator": "anna"}
    theirs.apply(owned, contested.job("eval", "low", 4))
    victims = theirs.running("sft", "eval")
    mine = contested.job("urgent", "medium", 8)
    planned = place.plan(mine)
    step = step_of(planned)
    assert step["verdict"] == "preempts"
    named = {pod for loss in step["victims"] for pod in loss["pods"]}
    assert named == set(victims)
    jobs = {(loss["namespace"], loss["job"]) for loss in step["victims"]}
    assert jobs == {(theirs.namespace, "training/sft"), (theirs.namespace, "training/eval")}
    assert all(loss["runtime"] for loss in step["victims"])
    assert {loss["job"]: loss["owner"] for loss in step["victims"]} == {"training/sft": "anna", "training/eval": None}
    shown = place.gpuctl("diff", "-f", place.file(mine), code=1)
    assert "evicts training/" in shown.out
    assert f"training/sft in {theirs.namespace} (owner anna, 1 pod, running for " in shown.out
    assert "will ask: training/urgent" in place.gpuctl("apply", "-f", place.file(mine), "--dry-run=server").err
    refused = place.apply(mine, contested.job("later", "low", 8), code=2)
    assert f"training/later in {place.namespace} will wait: 8 nvidia.com/gpu on one node of pool" in refused.err
    assert f"training/urgent in {place.namespace} evicts " in refused.err
    assert "cannot ask for confirmation" in refused.err
    assert "Job/urgent" not in place.names()
    assert theirs.running("sft", "eval") == victims
    place.apply(mine, flags=("--yes",))
    place.running("urgent")
    theirs.until(lambda: not set(victims) & set(theirs.pods("sft") | theirs.pods("eval")), "the victims to go")
    assert theirs.running("important")
    # A job that already runs evicts no pods and needs no confirmation.
    assert "evicts" not in place.apply(mine).err


@pytest.mark.slow
def test_resume_and_rerun_evict_only_after_confirmation(place: Place, theirs: Place, contested: Pool) -> None:
    done = contested.job("done", "medium", 8)
    done["job"]["annotations"] = {"gpuctl.test/outcome": "complete"}
    place.apply(done)
    place.ended("done")
    place.apply(contested.job("urgent", "medium", 8), contested.job("later", "low", 8))
    place.running("urgent", "later")
    place.gpuctl("pause", "urgent", "later")
    place.until(lambda: not (place.pods("urgent") | place.pods("later")), "the pods to go")
    theirs.apply(contested.job("sft", "low", 8), contested.job("eval", "low", 8))
    victims = theirs.running("sft", "eval")
    (goes_on,) = place.gpuctl("resume", "later", "--json").value["items"]
    lacks = f"8 nvidia.com/gpu on one node of pool {contested.name}; largest has 0 free"
    assert goes_on["message"] == f"is resumed; will wait: {lacks}"
    for command in (("resume", "urgent"), ("rerun", "done")):
        refused = place.gpuctl(*command, code=2)
        assert f"training/{command[1]} in {place.namespace} evicts training/" in refused.err
        assert "cannot ask for confirmation: use --yes" in refused.err
    assert theirs.running("sft", "eval") == victims
    assert place.get("Job", "urgent")["spec"]["suspend"] is True
    place.gpuctl("resume", "urgent", "--yes")
    place.running("urgent")
    theirs.until(lambda: len(victims.keys() - (theirs.pods("sft") | theirs.pods("eval")).keys()) == 1, "a victim to go")
    place.gpuctl("rerun", "done", "--yes")
    theirs.until(lambda: not victims.keys() & (theirs.pods("sft") | theirs.pods("eval")).keys(), "both to go")


@pytest.mark.slow
def test_resumed_job_needs_room_only_for_its_remaining_pods(place: Place, theirs: Place, contested: Pool) -> None:
    wide = training("wide", job={"priority": "low"}, resources={"pool": contested.name, "gpu": 8, "nodes": 2})
    place.apply(wide)
    first, _ = place.running("wide", pods=2)
    place.patch("Pod", first, {"metadata": outcome("complete")})
    place.until(lambda: place.get("Job", "wide")["status"].get("succeeded") == 1, "one pod to have done its part")
    assert "its pod ends" in place.gpuctl("pause", "wide").out
    place.until(lambda: place.get("Job", "wide")["status"].get("active", 0) == 0, "the other to go")
    theirs.apply(contested.job("sft", "low", 8))
    theirs.running("sft")
    (answer,) = place.gpuctl("resume", "wide", "--json").value["items"]
    assert answer["message"] == "is resumed; it starts from its beginning, or its last checkpoint"
    place.until(lambda: place.get("Job", "wide")["status"].get("ready") == 1, "the rest to run")


def test_plan_shows_jobs_that_will_wait_for_room(place: Place, theirs: Place, contested: Pool) -> None:
    theirs.apply(contested.job("one", "high", 8), contested.job("two", "high", 8))
    theirs.running("one", "two")
    waits = place.plan(contested.job("later", "low", 8))
    assert (step_of(waits)["verdict"], step_of(waits)["victims"]) == ("fits-when-empty", [])
    lacks = f"8 nvidia.com/gpu on one node of pool {contested.name}; largest has 0 free"
    assert step_of(waits)["waits"] == [{"cause": "room", "message": lacks, "likelihood": 1.0}]
    assert (
        f"(will wait: {lacks})" in place.gpuctl("diff", "-f", place.file(contested.job("later", "low", 8)), code=1).out
    )
    four = training("four", job={"priority": "low"}, resources={"pool": contested.name, "gpu": 4, "nodes": 2})
    (wait,) = step_of(place.plan(four))["waits"]
    said = f"2 of 2 pods need 4 nvidia.com/gpu on one node of pool {contested.name}; largest has 0 free"
    assert wait["message"] == said
    # The GPUs of the replaced job count as free.
    again = contested.job("one", "high", 8)
    again["environment"]["image"] = "registry.example.com/app:v2"
    replaced = step_of(theirs.plan(again))
    assert (replaced["action"], replaced["verdict"], replaced["waits"]) == ("replace", "fits", [])
    never = place.plan(contested.job("huge", "low", 16))
    assert step_of(never)["verdict"] == "never"


@pytest.mark.slow
def test_all_pods_of_a_job_that_fails_by_eviction_are_victims(place: Place, theirs: Place, contested: Pool) -> None:
    """A training on two nodes fails with its first pod, so the pod on the other node ends too and frees that node."""
    wide = training("wide", job={"priority": "low"}, resources={"pool": contested.name, "gpu": 8, "nodes": 2})
    theirs.apply(wide)
    lost = theirs.running("wide")
    jobs = [contested.job("urgent", "high", 8), contested.job("later", "low", 8)]
    steps = {step["name"]: step for step in place.plan(*jobs).value["steps"] if step["kind"] == "Job"}
    (victim,) = steps["urgent"]["victims"]
    assert (victim["job"], set(victim["pods"])) == ("training/wide", set(lost))
    assert (steps["urgent"]["verdict"], steps["later"]["verdict"]) == ("preempts", "fits")
    place.apply(*jobs, flags=("--yes",))
    place.running("urgent", "later")
    assert not theirs.pods("wide")


@pytest.mark.slow
@pytest.mark.parametrize(("left", "goes_on"), [(1, False), (2, True)], ids=["over backoffLimit", "within backoffLimit"])
def test_backoff_limit_decides_whether_all_pods_are_victims(
    place: Place, theirs: Place, contested: Pool, left: int, goes_on: bool
) -> None:
    """A foreign Job has two pods on each node. Evicting the two pods of one node fails the Job if its backoffLimit is
    1.
    """
    rendered = theirs.gpuctl("render", "-f", theirs.file(contested.job("wide", "low", 4)), "-o", "json").value
    spec = {"parallelism": 4, "completions": 4, "backoffLimit": left, "podFailurePolicy": None}
    items = [merged(item, {"spec": spec}) if item["kind"] == "Job" else item for item in rendered["items"]]
    theirs.kubectl("apply", "-f", "-", input=json.dumps({**rendered, "items": items}))
    before = theirs.running("wide", pods=4)
    jobs = [contested.job("urgent", "high", 8), contested.job("later", "low", 8)]
    steps = {step["name"]: step for step in place.plan(*jobs).value["steps"] if step["kind"] == "Job"}
    told = {pod for loss in steps["urgent"]["victims"] for pod in loss["pods"]}
    assert (len(told), steps["later"]["verdict"]) == ((2, "fits-when-empty") if goes_on else (4, "fits"))
    assert told <= set(before)
    place.apply(*jobs, flags=("--yes",))
    place.running(*(["urgent"] if goes_on else ["urgent", "later"]))
    theirs.until(lambda: len(set(before) & set(theirs.pods("wide"))) == 4 - len(told), "the predicted victims to go")
    ends = {item["type"] for item in theirs.get("Job", "wide")["status"].get("conditions") or []}
    assert ("FailureTarget" in ends) is not goes_on
    theirs.until(lambda: len(theirs.pods("wide")) == (4 if goes_on else 0), "the others to go, or to be made again")


@pytest.mark.slow
def test_last_of_three_jobs_for_two_nodes_waits(place: Place, contested: Pool) -> None:
    """The jobs are equal and are created one after another."""
    jobs = [contested.job(name, "low", 8) for name in ("a", "b", "c")]
    steps = [step for step in place.plan(*jobs).value["steps"] if step["kind"] == "Job"]
    lacks = f"8 nvidia.com/gpu on one node of pool {contested.name}; largest has 0 free"
    waits = {step["name"]: step["waits"] for step in steps}
    assert waits == {"a": [], "b": [], "c": [{"cause": "room", "message": lacks, "likelihood": 1.0}]}
    place.apply(*jobs)
    place.running("a", "b")


@pytest.mark.slow
def test_wait_that_depends_on_scheduling_order_is_uncertain(place: Place, plane: ControlPlane, contested: Pool) -> None:
    """Two nodes are equal except for the GPU type that the second job needs: the first job may take that node."""
    plane.kubectl("label", "node", f"{contested.name}-0", "runwhere.ai/gpu-type=H100")
    second = contested.job("second", "low", 8)
    second["resources"]["gpu-type"] = "H100"
    jobs = [contested.job("first", "low", 8), second]
    steps = [step for step in place.plan(*jobs).value["steps"] if step["kind"] == "Job"]
    assert [wait["likelihood"] for step in steps for wait in step["waits"]] == [None]
    (line,) = [
        line
        for line in place.gpuctl("diff", "-f", place.file(*jobs), code=1).out.splitlines()
        if line.startswith("create    job.batch/second ")
    ]
    assert "may wait: " in line
    assert "depends on order" in line
    assert "will wait" not in line


@pytest.mark.slow
def test_apply_without_new_pods_does_not_list_pods(place: Place, contested: Pool, proxy: Proxy) -> None:
    document = contested.job("small", "medium", 4)
    place.apply(document)

    def lists_of_pods() -> list[str]:
        return [str(record.request) for record in proxy.records if record.request.path == "/api/v1/pods"]

    assert len(lists_of_pods()) == 1
    place.apply(document)
    assert len(lists_of_pods()) == 1


@pytest.mark.slow
def test_missing_right_to_list_nodes_is_noted_once(
    place: Place, plane: ControlPlane, contested: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.grant("alice", "edit")
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("alice")))
    note = "whether these jobs find room, and which jobs they evict, is not known: this needs the rights to list nodes and all pods"
    told = place.apply(contested.job("a", "medium", 4), contested.job("b", "medium", 4))
    assert told.err.count(note) == 1


@pytest.mark.slow
def test_failed_eviction_check_does_not_stop_the_apply(place: Place, contested: Pool, proxy: Proxy) -> None:
    everybody = matching("GET", "/api/v1/pods")
    proxy.reset(on(everybody, refuse(400, "BadRequest", "no pods today")))
    done = place.apply(contested.job("small", "medium", 4))
    assert "Job/small" in place.names()
    assert done.err.startswith("note: whether these jobs fit, and which jobs they evict, is not known: ")
    assert "no pods today" in done.err


@pytest.mark.slow
def test_rollback_evicts_no_job_that_was_not_confirmed(
    place: Place, theirs: Place, contested: Pool, start: Start
) -> None:
    """The GPUs of the former job are taken by another job since, which was not part of any confirmation."""
    theirs.apply(contested.job("important", "high", 8))
    theirs.running("important")
    place.apply(contested.job("urgent", "medium", 8))
    place.running("urgent")
    smaller = contested.job("urgent", "medium", 4)
    smaller["job"].update(outcome("image-not-found"))
    path = place.file(smaller, name="smaller.yaml")
    back = ("--yes", "--wait", "--rollback", "--timeout=25s")
    command = start("apply", "-f", path, "-n", place.namespace, *back)
    command.until(b"replaced  job.batch/urgent")
    theirs.apply(contested.job("sft", "low", 4))
    there = theirs.running("sft")
    assert command.end() == 1
    assert b"could not be restored: it would evict others: training/sft in " in command.err
    assert theirs.running("sft") == there
