"""Pod events while jobs are created one after another: work per event, and wake-ups."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.run.sequential_create import SequentialCreation
from gpuctl.kube.reflector import Event, WatchedList
from gpuctl.objects.api_resources import Key

PODS = WatchedList("Pod", "n")


def create_steps(number: int) -> list[Step]:
    """Return steps that create Jobs and Deployments in alternation."""
    spec = {"template": {"spec": {}}}
    keys = [Key(("Job", "Deployment")[index % 2], "n", f"x-{index}") for index in range(number)]
    objects = [{"kind": key.kind, "metadata": {"name": key.name}, "spec": spec} for key in keys]
    return [Step("create", key, desired=obj, method="post") for key, obj in zip(keys, objects, strict=True)]


def pod(kind: str, owner: str) -> dict[str, Any]:
    """A pod with a controller."""
    owners = [{"kind": kind, "name": owner, "uid": "u", "controller": True}]
    return {"metadata": {"namespace": "n", "name": f"{owner}-x2x5z", "ownerReferences": owners}}


@pytest.mark.parametrize(("kind", "owner"), [("Job", "x-8"), ("ReplicaSet", "x-9-5d4f"), ("Job", "unrelated")])
def test_work_per_event_is_independent_of_the_number_of_jobs(kind: str, owner: str) -> None:
    def calls(number: int) -> int:
        turns = SequentialCreation(None, [create_steps(number)], lambda: None)  # type: ignore[arg-type]
        made = 0

        def count(*_: Any) -> None:
            nonlocal made
            made += 1

        # A collection of garbage calls hypothesis, which measures it.
        gc.disable()
        sys.setprofile(count)
        try:
            turns._on_event(Event("ADDED", "Pod", pod(kind, owner), PODS))
        finally:
            sys.setprofile(None)
            gc.enable()
        return made

    assert calls(1000) == calls(10)


def test_only_the_first_event_of_a_pod_wakes_the_creation() -> None:
    wakeups: list[str] = []
    turns = SequentialCreation(None, [create_steps(10)], lambda: wakeups.append("woken"))  # type: ignore[arg-type]
    for kind in ("ADDED", "MODIFIED", "MODIFIED", "DELETED"):
        turns._on_event(Event(kind, "Pod", pod("Job", "x-8"), PODS))
    assert wakeups == ["woken"]
