"""Commands in the second in which Kueue, an autoscaler or a user changes the job, after the command has read it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fault_tools.proxy import Policy, Proxy, matching, meanwhile, nth, on
from properties.scale import part_of
from support.cluster_tools import GPU, PAUSED, Document, Place, image, inference, training
from support.queues import ROOM, Queues

KINDS = {"job": "Job", "jobset": "JobSet"}
FLAVOR = {"runwhere.ai/pool": "drill", "kubernetes.io/os": "linux"}
TWO = {"nodes": 2}


class Waiting:
    """The training `train` of two nodes in a queue without quota. Its flavor has labels and tolerations of its own."""

    def __init__(self, place: Place, queues: Queues, backend: str) -> None:
        self.place, self.queues, self.kind = place, queues, KINDS[backend]
        self._flavor = queues.flavor("labelled", FLAVOR, tolerations=[{"key": "special", "operator": "Exists"}])
        self._queue = queues.team(gpus=0, backend=backend, flavor=self._flavor)
        place.apply(training(resources=TWO))
        queues.waits("train", kind=self.kind)

    def admit(self) -> None:
        """Give the queue quota, and wait until the training runs."""
        amounts = [{"name": name, "nominalQuota": amount} for name, amount in {**ROOM, GPU: 2}.items()]
        flavors = [{"name": self._flavor, "resources": amounts}]
        groups = [{"coveredResources": [*ROOM, GPU], "flavors": flavors}]
        self.queues.change(self._queue, {"resourceGroups": groups})
        self.place.until(lambda: len(self.place.pods("train")) == 2, "the pods")
        self.place.until(self._runs, "the training to run")

    def _runs(self) -> bool:
        rows = self.place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]
        return [row["status"] for row in rows] == ["Running"]

    def evict(self) -> None:
        """Close the queue, and wait until Kueue has suspended the training again."""
        self.queues.change(self._queue, {"stopPolicy": "HoldAndDrain"})
        self.place.until(lambda: self.place.get(self.kind, "train")["spec"]["suspend"], "the eviction")


@pytest.fixture(params=part_of(KINDS, 2))
def waiting(request: pytest.FixtureRequest, queue_place: Place, queues: Queues) -> Waiting:
    return Waiting(queue_place, queues, request.param)


def after_the_plan(hook: Callable[[], None]) -> Policy:
    """Call a hook when a command takes the lease: its plan is made, and nothing is deleted yet."""
    return on(nth(1, matching("POST", "/leases")), meanwhile(hook))


def test_job_is_deleted_though_kueue_admits_it_since_the_plan(
    queue_place: Place, queue_proxy: Proxy, waiting: Waiting
) -> None:
    queue_proxy.reset(after_the_plan(waiting.admit))
    deleted = queue_place.gpuctl("delete", "job", "train")
    assert f"deleted   {'job.batch' if waiting.kind == 'Job' else 'jobset.jobset.x-k8s.io'}/train" in deleted.out
    assert not queue_place.exists(waiting.kind, "train")


@pytest.mark.slow
def test_job_is_deleted_though_kueue_evicts_it_since_the_plan(
    queue_place: Place, queue_proxy: Proxy, waiting: Waiting
) -> None:
    waiting.admit()
    queue_proxy.reset(after_the_plan(waiting.evict))
    queue_place.gpuctl("delete", "job", "train", "--yes")
    assert not queue_place.exists(waiting.kind, "train")


@pytest.mark.slow
def test_job_that_a_user_changes_after_its_admission_is_not_deleted(
    queue_place: Place, queues: Queues, queue_proxy: Proxy
) -> None:
    waiting = Waiting(queue_place, queues, "job")

    def change() -> None:
        waiting.admit()
        queue_place.patch("Job", "train", {"spec": {"backoffLimit": 7}})

    queue_proxy.reset(after_the_plan(change))
    refused = queue_place.gpuctl("delete", "job", "train", code=3)
    assert f"job.batch/train in {queue_place.namespace} was changed by another client" in refused.err
    assert queue_place.exists("Job", "train")


def test_apply_does_not_stop_a_job_that_kueue_has_started_since_the_plan(
    queue_place: Place, queue_proxy: Proxy, waiting: Waiting
) -> None:
    """The user was not asked, because the waiting job had nothing to lose."""
    place = queue_place
    changed = training(resources=TWO, environment=image("v2"))
    uid = place.uid(waiting.kind, "train")
    queue_proxy.reset(after_the_plan(waiting.admit))
    refused = place.apply(changed, code=3).err
    assert f"/train in {place.namespace} was changed by Kueue, and the plan now replaces training/train" in refused
    assert "running for" in refused
    assert "run it again to confirm this" in refused
    assert place.uid(waiting.kind, "train") == uid
    queue_proxy.reset()
    place.apply(changed, flags=("--yes",))
    assert place.uid(waiting.kind, "train") != uid


def test_pause_waits_for_the_workload_of_a_new_job(queue_place: Place, queues: Queues, queue_proxy: Proxy) -> None:
    """A quota keeps Kueue from creating it until the command has looked for it once."""
    place = queue_place
    queues.team(gpus=1)
    place.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": {"count/workloads.kueue.x-k8s.io": "0"}},
        }
    )
    place.apply(training())
    assert not queues.has_workload("train")
    allow = meanwhile(lambda: place.kubectl("delete", "resourcequota", "none"))
    queue_proxy.reset(on(nth(2, matching("GET", "/workloads")), allow))
    assert "training/train" in place.gpuctl("pause", "train").out
    assert queues.workload("train")["spec"]["active"] is False
    place.until(lambda: place.get("Job", "train")["spec"]["suspend"], "Kueue to suspend it")


@pytest.fixture
def scaled(place: Place) -> Callable[[], None]:
    """Create the service `serve`; return a function that lets an autoscaler change its replicas from 1 to 3."""
    place.apply(inference())
    place.running("serve")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}
    spec = {"minReplicas": 3, "maxReplicas": 4, "scaleTargetRef": target}
    body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "theirs"}}

    def scale() -> None:
        place.create({**body, "spec": spec})
        place.until(lambda: place.get("Deployment", "serve")["spec"]["replicas"] == 3, "the autoscaler")

    return scale


def test_service_is_deleted_though_an_autoscaler_scales_it_since_the_plan(
    place: Place, proxy: Proxy, scaled: Callable[[], None]
) -> None:
    proxy.reset(after_the_plan(scaled))
    place.gpuctl("delete", "job", "serve")
    assert not place.exists("Deployment", "serve")


def test_apply_keeps_a_pause_a_resume_and_a_label_that_are_set_since_the_plan(place: Place, proxy: Proxy) -> None:
    def document(**job: object) -> Document:
        return inference(job={"labels": {"example.com/team": "a"}, **job})

    def serve() -> tuple[int, str | None, str]:
        """Return the replicas, the mark of a pause, and the label."""
        found = place.get("Deployment", "serve")
        metadata = found["metadata"]
        return found["spec"]["replicas"], metadata["annotations"].get(PAUSED), metadata["labels"]["example.com/team"]

    def write(replicas: int, mark: str | None, team: str) -> None:
        metadata = {"annotations": {PAUSED: mark}, "labels": {"example.com/team": team}}
        place.patch("Deployment", "serve", {"metadata": metadata, "spec": {"replicas": replicas}}, manager="gpuctl")

    place.apply(document())
    patch = matching("PATCH", "/deployments/serve", writes=True)
    proxy.reset(on(nth(1, patch), meanwhile(lambda: write(0, "1", "b"))))
    place.apply(document(description="new"))
    assert serve() == (0, "1", "b")
    write(0, "1", "a")
    proxy.reset(on(nth(1, patch), meanwhile(lambda: write(1, None, "a"))))
    place.apply(document(description="newer"))
    assert serve() == (1, None, "a")
    proxy.reset(on(nth(1, patch), meanwhile(lambda: write(0, "1", "a"))))
    failed = place.apply({**document(), "service": {"replicas": 3, "port": 8000}}, code=1).out
    assert "(was changed by another client (check it, and run again))" in failed
    assert serve() == (0, "1", "a")


@pytest.mark.slow
def test_rolling_update_keeps_the_replicas_that_an_autoscaler_sets_since_the_plan(
    place: Place, proxy: Proxy, scaled: Callable[[], None]
) -> None:
    proxy.reset(on(nth(1, matching("PUT", "/deployments/serve", writes=True)), meanwhile(scaled)))
    place.apply(inference(environment=image("v2")), flags=("--strategy=rolling",))
    spec = place.get("Deployment", "serve")["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"][-3:]) == (3, ":v2")
