"""Queue labels of trainings: hold, release, and removal of the fields that Kueue wrote."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.apply.run.step_writes import is_unchanged
from gpuctl.apply.state.managed_fields import fields_of
from gpuctl.language.names import is_dns_subdomain, is_label_value
from gpuctl.language.settings import Settings
from gpuctl.objects.hashed_names import spec_digest
from gpuctl.objects.ownership_metadata import HELD_QUEUE, records
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.queueing import (
    as_submitted,
    forget_admission,
    hold,
    is_held,
    is_queued,
    queue_of,
    release,
    was_admitted,
)
from gpuctl.objects.recreated_objects import recreatable, restorable

KEYS = records(Settings())
QUEUE = "kueue.x-k8s.io/queue-name"
USER_LABELS = {"app": "train", "kueue.x-k8s.io/priority-class": "urgent"}


def training(kind: str = "Job", queue: str = "team", **spec: Any) -> dict[str, Any]:
    """An admitted training as the cluster returns it."""
    metadata = {
        "labels": {**USER_LABELS, "kueue.x-k8s.io/podset": "main"},
        "annotations": {"kueue.x-k8s.io/workload": "job-train-1"},
    }
    pod = {"nodeSelector": {"pool": "a", "class": "spot"}, "tolerations": [{"key": "spot"}], "containers": []}
    template = {"metadata": metadata, "spec": pod}
    job = {"template": template}
    body = job if kind == "Job" else {"replicatedJobs": [{"name": "main", "replicas": 1, "template": {"spec": job}}]}
    return {"kind": kind, "metadata": {"name": "train", "labels": {QUEUE: queue}}, "spec": {**body, **spec}}


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_hold_and_release_restore_the_job(kind: str) -> None:
    job = training(kind, suspend=True)
    assert (is_queued(job, KEYS), is_held(job)) == (True, False)
    hold(job)
    held = copy.deepcopy(job)
    hold(job)
    assert job == held
    assert (queue_of(job), is_held(job), is_queued(job, KEYS)) == ("team", True, False)
    assert job["metadata"]["labels"][QUEUE] != "team"
    release(job)
    assert job == training(kind, suspend=True)
    release(job)
    assert job == training(kind, suspend=True)


@pytest.mark.parametrize("name", ["q" * 48, "q" * 49, f"{'q' * 47}.team", f"{'q' * 46}--team", "q" * 63])
def test_hold_and_release_queue_names_of_any_length(name: str) -> None:
    """Kueue's webhook would set an empty name to the LocalQueue named default, and start the job."""
    job = training(queue=name, suspend=True)
    hold(job)
    held = copy.deepcopy(job)
    hold(job)
    assert job == held
    label = job["metadata"]["labels"][QUEUE]
    assert label not in ("", name)
    assert is_label_value(label)
    # Kueue rejects any other value: ValidateLabelAsCRDName.
    assert is_dns_subdomain(label)
    assert (queue_of(job), is_held(job), is_queued(job, KEYS)) == (name, True, False)
    release(job)
    assert job == training(queue=name, suspend=True)


def test_held_queue_annotation_of_another_queue_is_ignored() -> None:
    job = training(suspend=True)
    job["metadata"]["annotations"] = {HELD_QUEUE: "other", "note": "mine"}
    assert (queue_of(job), is_held(job)) == ("team", False)
    job["metadata"]["labels"][QUEUE] = "team.held-by-gpuctl"
    assert (queue_of(job), is_held(job)) == ("team", True)
    release(job)
    assert job["metadata"]["labels"][QUEUE] == "team"
    assert job["metadata"]["annotations"] == {"note": "mine"}


def test_running_unlabelled_and_paused_jobs_are_not_queued() -> None:
    assert not is_queued(training(suspend=False), KEYS)
    assert not is_queued({**training(suspend=True), "metadata": {"labels": {}}}, KEYS)
    paused = training(suspend=True)
    paused["metadata"]["annotations"] = {KEYS.paused: "0"}
    assert not is_queued(paused, KEYS)


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_forget_admission_removes_the_fields_of_kueue(kind: str) -> None:
    job = training(kind)
    assert was_admitted(job)
    forget_admission(job)
    assert not was_admitted(job)
    [template] = (
        [job["spec"]["template"]]
        if kind == "Job"
        else [item["template"]["spec"]["template"] for item in job["spec"]["replicatedJobs"]]
    )
    assert template["metadata"] == {"labels": USER_LABELS}
    was = {"nodeSelector": {"pool": "a"}, "containers": []}
    as_submitted(job, {"spec": {"podSets": [{"name": "main", "template": {"spec": was}}]}})
    assert (template["spec"]["nodeSelector"], "tolerations" in template["spec"]) == ({"pool": "a"}, False)


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_restorable_job_has_its_original_node_selector(kind: str) -> None:
    was = {"nodeSelector": {"pool": "a"}, "containers": []}
    workload = {"spec": {"podSets": [{"name": "main", "template": {"spec": was}}]}}
    again = restorable(training(kind, suspend=False), KEYS, workload)
    [(template, _)] = pod_templates(again)
    assert template == {"metadata": {"labels": USER_LABELS}, "spec": was}
    assert (again["spec"]["suspend"], queue_of(again), is_held(again)) == (False, "team", False)
    # Without access to Workloads the job can only run on the nodes that it ran on.
    [(template, _)] = pod_templates(restorable(training(kind), KEYS, None))
    assert template["spec"]["nodeSelector"] == {"pool": "a", "class": "spot"}
    assert not was_admitted(restorable(training(kind), KEYS, None))


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_restored_paused_job_is_held(kind: str) -> None:
    """Also if Kueue has not suspended it yet."""
    for suspend in (True, False):
        paused = training(kind, suspend=suspend)
        paused["metadata"]["annotations"] = {KEYS.paused: "0"}
        again = restorable(paused, KEYS, None)
        assert (again["spec"]["suspend"], queue_of(again), is_held(again)) == (True, "team", True)
        assert again["metadata"]["annotations"] == {KEYS.paused: "0"}


def test_recreated_ended_job_is_held() -> None:
    ended = {**training(suspend=False), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    again = recreatable(ended)
    assert (again["spec"]["suspend"], is_held(again), was_admitted(again)) == (True, True, False)
    again = recreatable(training(suspend=False))
    assert (again["spec"]["suspend"], is_held(again), was_admitted(again)) == (False, False, False)


def written(obj: dict[str, Any], manager: str, **spec: Any) -> dict[str, Any]:
    """Return an object after a manager has set fields of its spec."""
    result = copy.deepcopy(obj)
    metadata = result["metadata"]
    metadata["generation"] += 1
    result["spec"] |= spec
    held = [(entry["manager"], entry["fieldsV1"]["f:spec"]) for entry in metadata["managedFields"]]
    left = [(name, {key: tree[key] for key in tree if key.removeprefix("f:") not in spec}) for name, tree in held]
    metadata["managedFields"] = [managed(name, tree) for name, tree in (*left, (manager, fields_of(spec))) if tree]
    return result


def managed(manager: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": spec}}


def submitted(**more: Any) -> dict[str, Any]:
    """A job as gpuctl has created it in a queue."""
    spec = {"suspend": True, "parallelism": 4, "template": {"spec": {"nodeSelector": {"pool": "a"}}}, **more}
    metadata = {"uid": "1", "generation": 1, "labels": {QUEUE: "team"}}
    return {
        "kind": "Job",
        "metadata": {**metadata, "managedFields": [managed("gpuctl", fields_of(spec))]},
        "spec": spec,
    }


ADMITTED = {
    "metadata": {"labels": {"kueue.x-k8s.io/podset": "main"}},
    "spec": {"nodeSelector": {"pool": "a", "z": "b"}},
}


def test_admission_and_eviction_do_not_prevent_a_deletion() -> None:
    waiting = submitted()
    running = written(waiting, "kueue", suspend=False, parallelism=2, template=ADMITTED)
    evicted = written(running, "kueue", suspend=True, parallelism=4, template=waiting["spec"]["template"])
    for planned, now in ((waiting, running), (running, evicted), (waiting, evicted)):
        assert is_unchanged(planned, now, KEYS, by_users=True)
        # A replacement is planned again: it would end the pods that were started.
        assert not is_unchanged(planned, now, KEYS)


@pytest.mark.parametrize(
    "change",
    [
        {"suspend": False},
        {"parallelism": 2},
        {"template": ADMITTED},
        {"template": {"spec": {"nodeSelector": {"pool": "b"}}}},
        {"template": {"spec": {}}},
        {"backoffLimit": 3},
    ],
)
def test_change_by_a_user_prevents_a_deletion(change: dict[str, Any]) -> None:
    waiting = submitted()
    changed = written(waiting, "kubectl-edit", **change)
    assert not is_unchanged(waiting, changed, KEYS, by_users=True)
    assert not is_unchanged(waiting, written(changed, "kueue", activeDeadlineSeconds=9), KEYS, by_users=True)


def test_replicas_prevent_a_deletion_unless_an_autoscaler_sets_them() -> None:
    service = {**submitted(replicas=1), "kind": "Deployment"}
    scaled = written(service, "kube-controller-manager", replicas=3)
    assert is_unchanged(service, scaled, KEYS, by_users=True)
    assert not is_unchanged(service, scaled, KEYS)
    assert not is_unchanged(service, written(scaled, "kubectl", replicas=2), KEYS, by_users=True)


def test_object_applied_since_the_plan_is_not_deleted() -> None:
    waiting = submitted()
    running = written(waiting, "kueue", suspend=False)
    again = copy.deepcopy(running)
    again["metadata"]["annotations"] = {KEYS.hash: "another"}
    assert not is_unchanged(waiting, again, KEYS, by_users=True)
    running["metadata"]["uid"] = "2"
    assert not is_unchanged(waiting, running, KEYS, by_users=True)


def test_digest_of_a_job_has_its_queue_and_whether_it_has_a_priority_class() -> None:
    """Kueue's webhook lets a running job change its WorkloadPriorityClass, but not its queue."""

    def digest(**labels: str) -> str:
        named = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in labels.items()}
        return spec_digest([{**training(), "metadata": {"labels": named}}])

    queued = digest(queue_name="team")
    assert len({digest(), queued, digest(queue_name="other"), digest(queue_name="team", priority_class="high")}) == 4
    assert digest(queue_name="team", priority_class="high") == digest(queue_name="team", priority_class="low")
