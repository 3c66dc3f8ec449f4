"""`pause`, `resume`, `rerun` and `delete job`: their effects in the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, cut_after, matching, nth, on, refuse
from support.cluster_tools import HASH, PAUSED, Place, inference, notebook, training

SCALED = inference(autoscaling={"enabled": True, "minReplicas": 2, "maxReplicas": 4}, service={"replicas": 2})


def annotation(place: Place, kind: str, name: str) -> str | None:
    """Return the pause annotation of an object; None if it is not paused."""
    found = place.get(kind, name)["metadata"]["annotations"].get(PAUSED)
    return str(found) if found is not None else None


def spec(place: Place, kind: str, name: str) -> dict[str, Any]:
    return dict(place.get(kind, name)["spec"])


def test_pause_and_resume(place: Place) -> None:
    documents = (training(), inference(service={"replicas": 2}), notebook())
    place.apply(*documents)
    place.running("train", "note")
    place.running("serve", pods=2)
    uids = {name: uid for name, uid in place.uids().items() if not name.startswith("Service")}
    answer = place.gpuctl("pause", "train", "serve", "note", "-o", "json").value["items"]
    assert [(item["name"], item["kind"], item["status"], item["changed"]) for item in answer] == [
        ("train", "training", "paused", True),
        ("serve", "inference", "paused", True),
        ("note", "notebook", "paused", True),
    ]
    place.until(lambda: not (place.pods("train") | place.pods("serve") | place.pods("note")), "the pods to go")
    assert spec(place, "Job", "train")["suspend"] is True
    assert (spec(place, "Deployment", "serve")["replicas"], annotation(place, "Deployment", "serve")) == (0, "2")
    # A second pause keeps the recorded replica count, and an apply keeps the pause.
    again = place.gpuctl("pause", "serve", "--json").value["items"][0]
    assert (again["changed"], again["message"]) == (False, "is paused already")
    assert annotation(place, "Deployment", "serve") == "2"
    assert set(place.plan(*documents).actions.values()) == {"unchanged"}
    place.apply(*documents)
    assert spec(place, "Deployment", "serve")["replicas"] == 0
    place.gpuctl("resume", "train", "serve", "note")
    place.running("train", "note")
    place.running("serve", pods=2)
    assert annotation(place, "Deployment", "serve") is None
    assert annotation(place, "Job", "train") is None
    assert {name: uid for name, uid in place.uids().items() if not name.startswith("Service")} == uids
    assert set(place.plan(*documents).actions.values()) == {"unchanged"}
    assert place.gpuctl("resume", "serve", "--json").value["items"][0]["message"] == "is not paused"
    assert place.gpuctl("resume", "serve").out.startswith("unchanged inference/serve ")


def test_job_that_changes_its_form_stays_paused(place: Place) -> None:
    """A training is a Job, JobSet or CronJob, an inference a Deployment or LeaderWorkerSet."""
    place.platform("training: {backend: jobset}\ninference: {backend: lws}\nservice: {type: ClusterIP}")
    place.apply(training(), inference(service={"replicas": 2}))
    place.gpuctl("pause", "train", "serve")
    place.apply(training(resources={"nodes": 2}), inference(resources={"nodes": 2}, service={"replicas": 2}))
    assert (spec(place, "JobSet", "train")["suspend"], annotation(place, "JobSet", "train")) == (True, "0")
    kind = "LeaderWorkerSet"
    assert (spec(place, kind, "serve")["replicas"], annotation(place, kind, "serve")) == (0, "2")
    scheduled = training(schedule="0 2 29 2 *")
    place.apply(scheduled)
    assert place.plan(scheduled).actions["CronJob/train"] == "unchanged"
    changed = training(schedule="0 3 29 2 *")
    assert "updated   cronjob.batch/train" in place.apply(changed).out
    assert (spec(place, "CronJob", "train")["suspend"], annotation(place, "CronJob", "train")) == (True, "0")
    assert "no drift" in place.gpuctl("drift", "-f", place.file(changed)).err
    place.gpuctl("resume", "train")
    assert place.plan(changed).actions["CronJob/train"] == "unchanged"
    place.gpuctl("pause", "train")
    place.apply(training(), inference(service={"replicas": 2}))
    assert (spec(place, "Job", "train")["suspend"], annotation(place, "Job", "train")) == (True, "0")
    place.gpuctl("resume", "train", "serve")
    place.running("train")
    place.running("serve", pods=2)


@pytest.mark.slow
def test_resume_reports_a_full_quota(place: Place) -> None:
    place.limit(gpu="1")

    def is_quota_free() -> bool:
        """Return True when the quota counts no GPU; it is updated shortly after the pods are deleted."""
        return bool(place.get("ResourceQuota", "few")["status"]["used"]["requests.nvidia.com/gpu"] == "0")

    place.apply(training())
    place.running("train")
    place.gpuctl("pause", "train")
    place.until(is_quota_free, "free quota")
    place.apply(training("other"))
    place.running("other")
    (answer,) = place.gpuctl("resume", "train", "--json").value["items"]
    assert (answer["status"], answer["changed"]) == ("resumed", True)
    assert answer["message"].startswith("is resumed; but its pods are refused for now: exceeded quota: few"), answer
    place.gpuctl("pause", "other")
    place.running("train")
    place.gpuctl("pause", "train")
    place.until(is_quota_free, "free quota")
    (answer,) = place.gpuctl("resume", "train", "--json").value["items"]
    assert "refused" not in answer["message"]


@pytest.mark.slow
def test_pause_disables_the_autoscaler(place: Place) -> None:
    place.apply(SCALED)
    place.running("serve", pods=2)
    place.patch("Deployment", "serve", {"spec": {"replicas": 3}})
    place.running("serve", pods=3)
    place.gpuctl("pause", "serve")
    place.until(lambda: not place.pods("serve"), "the pods to go")

    def is_disabled() -> bool:
        conditions = place.get("HorizontalPodAutoscaler", "serve").get("status", {}).get("conditions") or []
        return any(item["reason"] == "ScalingDisabled" for item in conditions)

    place.until(is_disabled, "the autoscaler to be disabled")
    assert spec(place, "Deployment", "serve")["replicas"] == 0
    place.gpuctl("resume", "serve")
    place.running("serve", pods=3)


def test_pause_refuses_finished_jobs_and_resume_scaled_ones(place: Place) -> None:
    place.apply(training("done", job={"annotations": {"gpuctl.test/outcome": "complete"}}))
    place.ended("done")
    answer = place.gpuctl("pause", "done", code=1)
    assert "has finished" in answer.err
    assert "gpuctl rerun done" in answer.err
    assert "did you mean `done`?" in place.gpuctl("pause", "doen", code=1).err
    place.apply(inference())
    place.running("serve")
    place.kubectl("scale", "deployment/serve", "--replicas=0")
    assert "not by `gpuctl pause`" in place.gpuctl("resume", "serve", code=1).err
    assert place.gpuctl("resume", "serve", "-o", "json", code=1).value["error"].startswith("deployment.apps/serve")


@pytest.mark.slow
def test_resume_after_kubectl_scale_removes_the_pause_mark(place: Place) -> None:
    place.apply(inference())
    place.running("serve")
    place.gpuctl("pause", "serve")
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    assert "mark of its pause is removed" in place.gpuctl("resume", "serve").out
    assert (annotation(place, "Deployment", "serve"), spec(place, "Deployment", "serve")["replicas"]) == (None, 3)


@pytest.mark.slow
def test_pause_retries_on_conflict(place: Place, proxy: Proxy) -> None:
    """The Deployment changes between read and write: pause reads it again instead of overwriting the change."""
    place.apply(inference())
    place.running("serve")
    proxy.reset(on(nth(1, matching("PATCH", "/deployments"), last=3), refuse(409, "Conflict", "modified")))
    place.gpuctl("pause", "serve")
    assert annotation(place, "Deployment", "serve") == "1"


def test_lost_answer_to_a_pause_is_no_failure(place: Place, proxy: Proxy) -> None:
    place.apply(inference())
    place.running("serve")
    proxy.reset(on(nth(1, matching("PATCH", "/deployments/serve")), cut_after))
    assert "is paused; its pod ends" in place.gpuctl("pause", "serve").out
    assert annotation(place, "Deployment", "serve") == "1"


@pytest.mark.slow
def test_pause_needs_write_access(place: Place, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    place.apply(training())
    place.running("train")
    place.grant("alice", "view")
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig("alice")))
    refused = place.gpuctl("pause", "train", code=3).err
    assert "alice" in refused
    assert "patch" in refused
    assert spec(place, "Job", "train").get("suspend") is False


def test_rerun_replaces_a_failed_job(place: Place) -> None:
    document = training(job={"annotations": {"gpuctl.test/outcome": "fail"}})
    place.apply(document)
    place.ended("train")
    old = place.get("Job", "train")
    pod = place.gpuctl("get", "pods", "-o", "name").out.strip()
    answer = place.gpuctl("rerun", pod)
    assert answer.out.startswith("replaced  job.batch/train")
    assert "failed, runs again" in answer.out
    new = place.get("Job", "train")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["metadata"]["annotations"][HASH] == old["metadata"]["annotations"][HASH]
    assert not new["spec"].get("suspend")
    assert new["metadata"]["generation"] == 1
    place.ended("train")
    assert place.plan(document).actions["Job/train"] == "unchanged"


@pytest.mark.slow
def test_rerun_refuses_jobs_that_have_not_ended(place: Place) -> None:
    place.apply(training(), inference())
    place.running("train", "serve")
    before = place.uids()
    assert "has not ended" in place.gpuctl("rerun", "train", code=1).err
    assert "rollout restart" in place.gpuctl("rerun", "serve", code=1).err
    assert place.uids() == before


@pytest.mark.slow
def test_a_rerun_that_a_quota_forbids_changes_nothing(place: Place) -> None:
    place.apply(training("done", job={"annotations": {"gpuctl.test/outcome": "complete"}}))
    place.ended("done")
    place.limit("none", gpu="0")
    before = place.uids()
    assert "quota" in place.gpuctl("rerun", "done", code=1).err
    assert place.uids() == before


@pytest.mark.slow
def test_delete_job_by_the_name_of_a_pod(place: Place) -> None:
    place.apply(inference(), training())
    place.running("serve", "train")
    pod = next(iter(place.pods("serve")))
    place.gpuctl("delete", "job", pod)
    assert place.names() == {"Job/train"}
    place.gpuctl("delete", "job", "training/train")
    assert place.names() == set()
    assert "there is no job nothing" in place.gpuctl("delete", "job", "nothing", code=1).err
