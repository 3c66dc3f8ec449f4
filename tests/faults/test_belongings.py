"""Related objects stay together if a run ends early: workloads and their companions, the namespaces of a set."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fault_tools.documents import NEW, OLD, text, training
from fault_tools.proxy import after, before, first_of, hang, matching, meanwhile, nth, on, refuse
from fault_tools.site import Base, Site, ends_workload, site
from fault_tools.world import FOREIGN, Snapshot, is_bookkeeping, rest, unlike
from properties.scale import part_of

pytestmark = pytest.mark.usefixtures("shared_objects")

# More deletions than a run has under way at a time, most of them of companions.
TRAININGS = [f"t{number}" for number in range(9)]


def several_nodes(name: str) -> dict[str, Any]:
    """A training with two companions: a headless Service and a hostfile."""
    document = training(name=name)
    document["resources"] = {**document["resources"], "nodes": 2}
    document["environment"] = {**document["environment"], "command": ["deepspeed", "--no_ssh", "train.py"]}
    return document


def in_namespace(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """A document that says where its job goes."""
    return {**document, "job": {**document["job"], "namespace": namespace}}


@pytest.fixture
def place(base: Base, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A namespace with nothing in it."""
    namespace = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[-30:].strip("-")
    with site(base, namespace, tmp_path) as made:
        base.api.create_namespace(made.namespace)
        yield made


@pytest.mark.slow
def test_unreplaced_jobs_keep_their_companions(place: Site) -> None:
    """Interrupted while steps are queued: jobs that are no longer replaced stay unchanged, with their hostfiles."""
    place.file.write_text(text(*map(several_nodes, TRAININGS)))
    assert place.apply(place.direct).code == 0
    old = place.snapshot()
    place.file.write_text(text(*(training(name=name) for name in TRAININGS)))
    result = place.disturb(
        place.apply_arguments,
        lambda victim: on(nth(1, matching("DELETE", writes=True)), meanwhile(lambda: victim().signal(signal.SIGINT))),
    )
    assert result.code == 128 + signal.SIGINT
    now = place.snapshot()
    for name in TRAININGS:
        companions = {("Service", name), ("ConfigMap", f"{name}-hostfile")}
        replaced = now["Job", name].uid != old["Job", name].uid
        assert replaced or companions <= now.keys(), f"{name} has lost {companions - now.keys()}: {result.stdout}"
    assert rest(now) == []
    assert place.apply(place.direct).code == 0
    assert {key for key in place.snapshot() if key[0] in ("Service", "ConfigMap")} == set()


@pytest.mark.slow
def test_set_finishes_a_killed_replacement_in_a_left_namespace(place: Site) -> None:
    """Killed with a job gone in a namespace that the set then leaves: nothing brings that job back later."""
    api, away = place.base.api, f"{place.namespace}-b"
    api.create_namespace(away)
    arguments = [*place.apply_arguments, "--set", "jobs", "--prune"]
    place.file.write_text(text(training(), in_namespace(training(name="far"), away)))
    assert place.run(arguments, place.direct).code == 0
    place.file.write_text(text(training(), in_namespace(training("v2", name="far"), away)))
    killed = place.disturb(arguments, lambda victim: on(nth(1, ends_workload), after(lambda: victim().kill())))
    assert killed.code == -signal.SIGKILL
    place.file.write_text(text(training()))
    assert place.run(arguments, place.direct).code == 0
    there = api.snapshot(away)
    assert ("Job", "far") not in there
    assert rest(there) == []
    recovered = place.run(["recover", "-n", away], place.direct)
    assert recovered.code == 0
    assert ("Job", "far") not in api.snapshot(away)


@pytest.mark.slow
def test_force_is_forbidden_for_pods(place: Site) -> None:
    """They end by themselves, and the new job comes."""
    document = training()
    document["job"]["annotations"] = {"gpuctl.test/termination": "slow"}
    place.file.write_text(text(document))
    assert place.apply(place.direct).code == 0
    api = place.base.api

    def is_running() -> bool:
        return any(pod["status"].get("phase") == "Running" for pod in api.list_objects("Pod", place.namespace))

    # A pod without a node would be deleted at once.
    api.wait(is_running, "a pod that runs")
    place.file.write_text(text(training("v2")))
    place.proxy.reset(
        on(
            lambda request: request.method == "DELETE" and "/pods/" in request.path,
            refuse(403, "Forbidden", "pods are protected"),
        )
    )
    result = place.apply(None, "--force")
    assert result.code == 0, result.stdout + result.stderr
    assert "the pods of job.batch/train in" in result.stderr
    assert "pods are protected" in result.stderr
    now = place.snapshot()
    assert "train:v2" in now["Job", "train"].spec
    assert rest(now) == []


@pytest.mark.parametrize("number", part_of((1, 2), 2))
def test_next_apply_finishes_a_killed_apply(place: Site, base: Base, wanted: Snapshot, number: int) -> None:
    """Without `recover` in between: what is there is as wanted, once."""
    place.file.write_text(OLD)
    assert place.apply(place.direct).code == 0
    place.file.write_text(NEW)
    killed = place.disturb(
        place.apply_arguments, lambda victim: on(nth(number, ends_workload), after(lambda: victim().kill()))
    )
    assert killed.code == -signal.SIGKILL
    shown = place.run(["diff", "-f", str(place.file), "-n", place.namespace], place.direct)
    assert shown.code == 1, shown.stderr
    done = place.apply(place.direct)
    assert done.code == 0, done.stderr
    assert [*unlike(place.snapshot(), _ours(wanted)), *rest(place.snapshot())] == []
    assert place.run(["diff", "-f", str(place.file), "-n", place.namespace], place.direct).code == 0


def _ours(wanted: Snapshot) -> Snapshot:
    return {
        key: live for key, live in wanted.items() if not is_bookkeeping(key, live) and not key[1].startswith(FOREIGN)
    }


@pytest.mark.slow
def test_object_deleted_before_its_prune_stage(place: Site) -> None:
    """Another process deletes an object to prune while the stage before it still waits."""
    api, space = place.base.api, place.namespace
    arguments = [*place.apply_arguments, "--set", "jobs", "--prune", "--timeout", "20s"]
    place.file.write_text(text(training(), training(name="other")))
    assert place.run(arguments, place.direct).code == 0
    api.patch("Job", space, "train", {"metadata": {"finalizers": ["example.com/held"]}})
    place.file.write_text(text(training("v2")))
    running = place.start(arguments, place.direct)
    api.wait(lambda: "deletionTimestamp" in (api.get("Job", space, "train") or {})["metadata"], "the delete")
    api.delete("Job", space, "other")
    api.wait(lambda: api.get("Job", space, "other") is None, "the other to go")
    api.patch("Job", space, "train", {"metadata": {"finalizers": None}})
    result = running.wait()
    assert result.code == 0, result
    assert f"pruned    job.batch/other -n {space}" in result.stdout
    assert {name for kind, name in place.snapshot() if kind == "Job"} == {"train"}
    assert rest(place.snapshot()) == []


@pytest.mark.slow
def test_replaced_job_is_already_deleted(place: Site) -> None:
    """The answer to the delete says so; no watch has to."""
    api, space = place.base.api, place.namespace
    place.file.write_text(text(training()))
    assert place.apply(place.direct).code == 0
    place.file.write_text(text(training("v2")))

    def vanish() -> None:
        api.delete("Job", space, "train")
        api.wait(lambda: api.get("Job", space, "train") is None, "the job to go")

    place.proxy.reset(first_of(on(matching(watch=True), hang), on(nth(1, ends_workload), before(vanish))))
    # Less than the ten seconds after which it would look by itself.
    result = place.start([*place.apply_arguments, "--timeout", "8s"]).wait()
    assert result.code == 0, result
    assert result.stdout.startswith(f"replaced  job.batch/train -n {space}")
    assert "train:v2" in place.snapshot()["Job", "train"].spec


@pytest.mark.slow
def test_timeout_covers_all_stages(place: Site) -> None:
    """If one object uses up the time limit, no time is left for the next stage, and each stage has a result."""
    api, space = place.base.api, place.namespace
    arguments = [*place.apply_arguments, "--set", "jobs", "--prune"]
    place.file.write_text(text(training(), training(name="other")))
    assert place.run(arguments, place.direct).code == 0
    api.patch("Job", space, "train", {"metadata": {"finalizers": ["example.com/held"]}})
    place.file.write_text(text(training("v2")))
    place.proxy.reset(on(matching(watch=True), hang))
    result = place.start([*arguments, "--timeout", "4s", "-o", "json"]).wait()
    assert result.code == 1, result
    results = {step["name"]: step["result"] for step in json.loads(result.stdout)["steps"] if step["kind"] == "Job"}
    assert results == {"train": "failed", "other": "not-run"}
    api.patch("Job", space, "train", {"metadata": {"finalizers": None}})


@pytest.mark.slow
def test_job_deleted_after_a_killed_apply_is_not_recreated(place: Site) -> None:
    """The journal lists a job to be replaced, but a user deleted it on purpose before the next apply."""
    place.file.write_text(text(training()))
    assert place.apply(place.direct).code == 0
    place.file.write_text(text(training("v2")))
    killed = place.disturb(
        place.apply_arguments, lambda victim: on(nth(1, ends_workload), before(lambda: victim().kill()))
    )
    assert killed.code == -signal.SIGKILL
    deleted = place.run(["delete", "job", "train", "-n", place.namespace, "--yes"], place.direct)
    assert deleted.code == 0, deleted.stderr
    assert rest(place.snapshot()) == []
    place.file.write_text(text(training(name="other")))
    assert place.apply(place.direct).code == 0
    assert {name for kind, name in place.snapshot() if kind == "Job"} == {"other"}
