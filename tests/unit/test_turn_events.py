"""What is heard of pods while jobs are created in turn: how much work an event is."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.run.sequential_create import SequentialCreation
from gpuctl.kube.reflector import Event, WatchedList
from gpuctl.objects.api_resources import Key

PODS = WatchedList("Pod", "n")


def lane(number: int) -> list[Step]:
    """New Jobs and Deployments."""
    spec = {"template": {"spec": {}}}
    keys = [Key(("Job", "Deployment")[index % 2], "n", f"x-{index}") for index in range(number)]
    objects = [{"kind": key.kind, "metadata": {"name": key.name}, "spec": spec} for key in keys]
    return [Step("create", key, desired=obj, method="post") for key, obj in zip(keys, objects, strict=True)]


def pod(kind: str, owner: str) -> dict[str, Any]:
    """A pod of something."""
    owners = [{"kind": kind, "name": owner, "uid": "u", "controller": True}]
    return {"metadata": {"namespace": "n", "name": f"{owner}-x2x5z", "ownerReferences": owners}}


@pytest.mark.parametrize(("kind", "owner"), [("Job", "x-8"), ("ReplicaSet", "x-9-5d4f"), ("Job", "somebody")])
def test_an_event_is_as_much_work_among_many_jobs_as_among_few(kind: str, owner: str) -> None:
    def calls(number: int) -> int:
        turns = SequentialCreation(None, [lane(number)], lambda: None)  # type: ignore[arg-type]
        made = 0

        def count(*_: Any) -> None:
            nonlocal made
            made += 1

        sys.setprofile(count)
        try:
            turns._on_event(Event("ADDED", "Pod", pod(kind, owner), PODS))
        finally:
            sys.setprofile(None)
        return made

    assert calls(1000) == calls(10)


def test_what_pods_do_once_they_are_made_wakes_nobody() -> None:
    heard: list[str] = []
    turns = SequentialCreation(None, [lane(10)], lambda: heard.append("woken"))  # type: ignore[arg-type]
    for kind in ("ADDED", "MODIFIED", "MODIFIED", "DELETED"):
        turns._on_event(Event(kind, "Pod", pod("Job", "x-8"), PODS))
    assert heard == ["woken"]
