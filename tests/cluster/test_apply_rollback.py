"""`apply --wait --rollback`: jobs that do not start in time are restored, and the reason is printed."""

from __future__ import annotations

import pytest

from fault_tools.proxy import Proxy, Request, on, refuse
from support.cluster_tools import HASH, Place, compute, image, image_tag, inference, outcome, revision_causes, training
from support.command import Start

BACK = ("--yes", "--wait", "--rollback", "--timeout=6s")
OUTCOME = "gpuctl.test/outcome"
LWS = "leaderworkerset.leaderworkerset.x-k8s.io"
BAD = {"environment": image("nope"), "job": outcome("image-not-found")}


def test_a_bad_image_is_rolled_back(place: Place) -> None:
    """The object with fields of other clients, its Service and its autoscaler are restored; the next apply changes
    nothing.
    """
    scaled = {"autoscaling": {"enabled": True, "minReplicas": 1, "maxReplicas": 2}}
    place.apply(inference(**scaled))
    place.patch("Deployment", "serve", {"metadata": {"labels": {"theirs": "kept"}}})
    place.running("serve")
    before = place.get("Deployment", "serve")
    bad = place.apply(inference(**BAD, service={"port": 8001}), flags=BACK, code=1)
    assert f"deployment.apps/serve in {place.namespace} did not start within 6 s: " in bad.err
    assert "image" in bad.err.partition("did not start within 6 s: ")[2]
    assert f"deployment.apps/serve in {place.namespace} was restored\n" in bad.err
    assert f"rolled back deployment.apps/serve -n {place.namespace}\n" in bad.out
    assert (bad.out + bad.err).count("did not start within 6 s") == 1
    after = place.get("Deployment", "serve")
    assert after["metadata"]["labels"]["theirs"] == "kept"
    assert after["metadata"]["annotations"][HASH] == before["metadata"]["annotations"][HASH]
    assert after["spec"]["template"] == before["spec"]["template"]
    assert place.get("Service", "svc-serve")["spec"]["ports"][0]["port"] == 8000
    assert place.exists("HorizontalPodAutoscaler", "serve")
    # The foreign label was never part of a document, so it stays, although gpuctl has recreated the object.
    assert place.plan(inference(**scaled)).actions["Deployment/serve"] == "unchanged"
    assert revision_causes(place, "serve") == [(3, "rolled back", 1), (2, "applied", None), (1, "applied", None)]
    place.running("serve")


@pytest.mark.slow
def test_rollback_restores_a_manual_fix(place: Place) -> None:
    """The manual fix is not in the document, and the former document lowers to an object that does not run."""
    document = inference(**BAD, service={"port": 8001})
    place.apply(document)
    template = {"metadata": {"annotations": {OUTCOME: None}}}
    place.patch("Deployment", "serve", {"spec": {"template": template}})
    place.running("serve")
    assert place.plan(document).actions["Deployment/serve"] == "replace"
    bad = place.apply(document, flags=BACK, code=1)
    assert f"deployment.apps/serve in {place.namespace} was restored\n" in bad.err
    assert OUTCOME not in place.get("Deployment", "serve")["spec"]["template"]["metadata"].get("annotations", {})
    place.running("serve")


@pytest.mark.slow
def test_job_that_only_joins_a_set_is_not_rolled_back(place: Place) -> None:
    place.apply(inference(**BAD))
    bad = place.apply(inference(**BAD), flags=(*BACK, "--set", "jobs"), code=1)
    assert f"deployment.apps/serve in {place.namespace} was not changed by this apply, and stays unchanged" in bad.err


@pytest.mark.slow
def test_rollback_restores_only_changed_jobs_that_do_not_start(place: Place) -> None:
    """Jobs that run, unchanged jobs and new jobs stay."""
    place.apply(inference(), compute(), training("old", resources={"gpu": 65}))
    place.running("serve", "comp")
    documents = (
        inference(**BAD),
        compute(environment=image("v2")),
        training("new", **BAD),
        training("old", resources={"gpu": 65}),
    )
    bad = place.apply(*documents, flags=(*BACK, "-o", "json"), code=1)
    results = {f"{step['kind']}/{step['name']}": step["result"] for step in bad.value["steps"]}
    assert results["Deployment/serve"] == "rolled-back"
    assert results["Deployment/comp"] == results["Job/new"] == results["Job/old"] == "done"
    assert f"job.batch/new in {place.namespace} is new, and stays unchanged" in bad.value["error"]
    assert f"job.batch/old in {place.namespace} was not changed by this" in bad.value["error"]
    assert f"`gpuctl delete job new -n {place.namespace}` deletes it" in bad.err
    assert image_tag(place, "serve") == "v1"
    assert image_tag(place, "comp") == "v2"
    assert image_tag(place, "new", "Job") == "nope"
    place.gpuctl("why", "new")
    place.gpuctl("delete", "job", "new", "--yes")


@pytest.mark.slow
def test_rollback_restores_a_finished_training_suspended(place: Place) -> None:
    place.apply(training(job=outcome("complete")))
    place.ended("train")
    place.apply(training(**BAD), flags=BACK, code=1)
    back = place.get("Job", "train")
    assert back["spec"]["suspend"] is True
    assert image_tag(place, "train", "Job") == "v1"


@pytest.mark.slow
def test_a_training_that_fails_is_rolled_back(place: Place) -> None:
    """A failure is reported before the timeout, and the other jobs are still waited for. The pods are rejected, never
    run.
    """
    place.apply(training(), inference())
    place.running("train", "serve")
    failing = training(job=outcome("gpu-unavailable"))
    bad = place.apply(failing, inference(environment=image("v2")), flags=("--yes", "--wait", "--rollback"), code=1)
    assert f"job.batch/train in {place.namespace} failed: " in bad.err
    assert "gpuctl.test/outcome" not in place.get("Job", "train")["spec"]["template"]["metadata"].get("annotations", {})
    assert image_tag(place, "serve") == "v2"


def test_a_job_that_changed_its_form_is_rolled_back(place: Place) -> None:
    """No controller starts the LeaderWorkerSet that takes the place of the Deployment."""
    place.platform("inference: {backend: lws}\nservice: {type: ClusterIP}")
    place.apply(inference())
    place.running("serve")
    bad = place.apply(inference(resources={"nodes": 2}), flags=BACK, code=1)
    groups, deployment = (f"{kind}/serve in {place.namespace}" for kind in (LWS, "deployment.apps"))
    assert f"{groups} did not start within 6 s" in bad.err
    assert f"{deployment} was restored\n" in bad.err
    assert f"rolled back {LWS}/serve -n {place.namespace}\n" in bad.out
    place.running("serve")
    assert not place.exists("LeaderWorkerSet", "serve")


@pytest.mark.slow
def test_a_rolling_update_rolls_back(place: Place) -> None:
    place.apply(inference(service={"replicas": 2}))
    place.running("serve", pods=2)
    uid = place.uid("Deployment", "serve")
    place.apply(inference(**BAD, service={"replicas": 2}), flags=(*BACK, "--strategy=rolling"), code=1)
    assert place.uid("Deployment", "serve") == uid
    assert image_tag(place, "serve") == "v1"
    assert set(place.plan(inference(service={"replicas": 2})).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_rollback_leaves_jobs_that_start(place: Place) -> None:
    place.apply(inference())
    place.apply(inference(environment=image("v2")), flags=("--yes", "--wait", "--rollback"))
    assert image_tag(place, "serve") == "v2"
    assert "--rollback needs --wait" in place.apply(inference(), flags=("--rollback",), code=2).err


@pytest.mark.slow
def test_rollback_leaves_jobs_changed_by_another_client(place: Place, start: Start) -> None:
    place.apply(inference())
    path = place.file(inference(**BAD), name="bad.yaml")
    command = start("apply", "-f", path, "-n", place.namespace, "--yes", "--wait", "--rollback", "--timeout=20s")
    command.until(b"replaced  deployment.apps/serve")
    place.apply(inference(environment=image("v3"), job=outcome("image-not-found")), flags=("--yes",))
    assert command.end() == 1
    assert b"was changed or deleted by another client, and stays unchanged" in command.err
    assert image_tag(place, "serve") == "v3"


@pytest.mark.slow
def test_rollback_reports_a_rejected_restore(place: Place, proxy: Proxy) -> None:
    place.apply(inference())
    place.running("serve")

    def is_old(request: Request) -> bool:
        return request.method == "POST" and b"inference:v1" in request.body and request.query.get("dryRun") != "All"

    proxy.policy = on(is_old, refuse(403, "Forbidden", "admission webhook denied the request: not on a Friday"))
    bad = place.apply(inference(**BAD), flags=BACK, code=1)
    assert f"deployment.apps/serve in {place.namespace} could not be restored: " in bad.err
    assert "not on a Friday" in bad.err
    assert f"failed    deployment.apps/serve -n {place.namespace}\n" in bad.out
    assert place.exists("Deployment", "serve")
