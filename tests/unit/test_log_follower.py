"""Following the log of a job whose pods come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from gpuctl.kube.reflector import Event, WatchedList
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.logs.log_follower import Item, LogFollower, Notice, PodEnded
from gpuctl.reading.logs.log_streams import LogOptions

KEYS = records(Settings())


def pod_event(of_type: str, number: int) -> Event:
    labels = {"app": "train", KEYS.job_type: "training"}
    metadata = {"name": f"train-{number}", "namespace": "nlp", "uid": f"uid-{number}", "labels": labels}
    pod: dict[str, Any] = {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": {}}
    return Event(of_type, "Pod", pod, WatchedList("Pod", "nlp"))


def handled(follower: LogFollower, *events: Event) -> Iterator[Item]:
    for event in events:
        yield from follower._handle(event)
        yield from follower._ended_pods()


def test_deleted_pods_are_forgotten_and_new_ones_announced() -> None:
    """A job that is restarted for weeks needs no more memory."""
    job = Job(Identity("nlp", "train", "training"), None, [])
    follower = LogFollower(cast(Session, None), job, LogOptions(), KEYS)
    begun = list(handled(follower, pod_event("ADDED", 0), Event("LISTED", "Pod", {}, WatchedList("Pod", "nlp"))))
    assert begun == []
    for number in range(1, 50):
        items = list(handled(follower, pod_event("DELETED", number - 1), pod_event("ADDED", number)))
        ended, new = items
        assert isinstance(ended, PodEnded)
        assert (ended.uid, ended.gone) == (f"uid-{number - 1}", True)
        assert isinstance(new, Notice)
        assert new.uid == f"uid-{number}"
    assert len(follower._pods) == 1
