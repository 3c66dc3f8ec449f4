"""Decisions about single objects, without a cluster."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from fault_tools.proxy import write_kubeconfig
from gpuctl.apply.plan.apply_request import ApplyRequest, SetOptions
from gpuctl.apply.plan.decision_inputs import PendingDecision
from gpuctl.apply.plan.object_decision import DecisionOptions, Target, decide, decide_with_answer
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.plan.set_run import SetRun
from gpuctl.apply.plan.workload_steps import _lasting_queue, _removed
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.apply.state.controller_changes import is_unchanged
from gpuctl.kube.configuration import open_session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.ownership_metadata import records
from support.byte_server import Server

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "team"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def test_persistent_volume_claim_is_never_changed() -> None:
    """The volume may hold a user's only copy of the data."""
    larger = {**CLAIM, "spec": {**CLAIM["spec"], "resources": {"requests": {"storage": "2Gi"}}}}  # type: ignore[dict-item]
    options = DecisionOptions(ApplyRequest())
    step = decide(Target(larger, False, "training/x", False), CLAIM, options)
    assert (step.action, step.reason) == ("unchanged", "has the size 1Gi, not 2Gi")
    same = decide(Target(CLAIM, False, "training/x", False), CLAIM, options)
    assert (same.action, same.reason) == ("unchanged", "")


def test_each_set_has_its_own_lease() -> None:
    run = SetRun(SetOptions("team", ("git:jobs",), PlanOptions(set_name="web")), None, None)
    assert run.lease == Key("Lease", "team", "gpuctl-set-web")


def test_set_without_a_secret_is_new(tmp_path: Path) -> None:
    missing = b'{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}'
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    server = Server(head % len(missing) + missing)
    config = write_kubeconfig(tmp_path / "c", {"server": server.url}, "token")
    with contextlib.closing(server), contextlib.closing(open_session(kubeconfig=str(config))) as session:
        run = SetRun.read(session, SetOptions("team", ("git:jobs",), PlanOptions(set_name="web")))
    assert (run.parent, run.recorded) == (None, None)
    (request,) = server.requests
    assert request.startswith(b"GET /api/v1/namespaces/team/secrets/")


def test_pause_of_a_job_in_a_queue_is_a_change_before_kueue_suspends_it() -> None:
    keys = records(Settings())

    def job(**annotations: str) -> dict[str, Any]:
        metadata = {"name": "a", "uid": "1", "generation": 1, "annotations": {keys.hash: "1", **annotations}}
        return {"kind": "Job", "metadata": metadata, "spec": {}}

    assert is_unchanged(job(), job(note="1"), keys)
    assert not is_unchanged(job(), job(**{keys.paused: "0"}), keys)
    assert not is_unchanged(job(**{keys.paused: "0"}), job(), keys, by_users=True)


def test_removed_labels_and_annotations_are_listed() -> None:
    gone = [
        FieldOutcome("metadata.labels[example.com/a]", "1", None),
        FieldOutcome("metadata.annotations.note", "x", None),
        FieldOutcome("metadata.labels.kept", "1", "2"),
    ]
    assert _removed(gone, "labels") == ["example.com/a"]
    assert _removed(gone, "annotations") == ["note"]


def test_queue_of_a_running_job_is_kept() -> None:
    """Kueue refuses another queue for a running job; a suspended job may change its queue."""

    def job(queue: str, suspended: bool) -> dict[str, Any]:
        labels = {"kueue.x-k8s.io/queue-name": queue}
        return {"kind": "Job", "metadata": {"name": "a", "labels": labels}, "spec": {"suspend": suspended}}

    assert _lasting_queue(job("other", False), job("team", False)) == "team"
    assert _lasting_queue(job("other", False), job("team", True)) is None
    assert _lasting_queue(job("team", False), job("team", False)) is None


@pytest.mark.parametrize(("is_autoscaled", "paths"), [(True, []), (False, ["spec.replicas"])])
def test_replicas_set_by_an_autoscaler_are_kept(is_autoscaled: bool, paths: list[str]) -> None:
    """Also if the plan contains the server's answer to a dry run."""
    keys = records(Settings())

    def deployment(replicas: int) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "chat", "namespace": "team", "uid": "1", "annotations": {keys.hash: "1"}},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main", "image": "a:1"}]}}},
        }

    desired, live = deployment(2), deployment(5)
    target = Target(desired, False, "inference/chat", False)
    wish = DecisionOptions(ApplyRequest(), autoscaled=frozenset({target.key} if is_autoscaled else ()))
    step = decide_with_answer(PendingDecision(target, live, desired), desired, wish)
    assert [change.path for change in step.changes] == paths
    assert (step.action == "unchanged") is is_autoscaled


@pytest.mark.parametrize("mark", [True, False])
def test_paused_autoscaler_from_0_is_not_changed(mark: bool) -> None:
    """`pause` sets `minReplicas: 1`, because a HorizontalPodAutoscaler starts a service with 0 pods only if it may."""
    keys = records(Settings())

    def autoscaler(least: int, annotations: dict[str, str]) -> dict[str, Any]:
        metadata = {
            "name": "chat",
            "namespace": "team",
            "uid": "1",
            "labels": {"app.kubernetes.io/managed-by": "gpuctl"},
        }
        return {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {**metadata, "annotations": {keys.hash: "1", **annotations}},
            "spec": {"minReplicas": least, "maxReplicas": 3},
        }

    target = Target(autoscaler(0, {}), False, "inference/chat", False)
    step = decide(target, autoscaler(1, {keys.paused: "0"} if mark else {}), DecisionOptions(ApplyRequest()))
    assert not isinstance(step, PendingDecision)
    assert [change.path for change in step.changes] == ([] if mark else ["spec.minReplicas"])
    assert (step.action == "unchanged") is mark
