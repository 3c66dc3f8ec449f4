"""`apply --wait --rollback`: what does not run in time is brought back as it was, and the reason is told."""

from __future__ import annotations

import pytest

from fault_tools.proxy import Proxy, Request, on, refuse
from support.cluster_tools import HASH, Place, compute, image, inference, outcome, training
from support.command import Start

BACK = ("--yes", "--wait", "--rollback", "--timeout=6s")
OUTCOME = "gpuctl.test/outcome"
BAD = {"environment": image("nope"), "job": outcome("image-not-found")}


def image_of(place: Place, name: str, kind: str = "Deployment") -> str:
    """The tag of a job's image."""
    found = place.get(kind, name)["spec"]["template"]["spec"]["containers"][0]["image"]
    return str(found).rpartition(":")[2]


def causes(place: Place, name: str) -> list[tuple[int, str, int | None]]:
    """What the history says of each revision."""
    items = place.gpuctl("history", name, "-o", "json").value["items"]
    return [(item["revision"], item["cause"], item["to"]) for item in items]


def test_a_bad_image_is_rolled_back(place: Place) -> None:
    """The object with what others had put into it, its Service and autoscaler; and the next apply has nothing to do."""
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
    # No document ever stated what others had put into it, so it stays, although gpuctl has created the object anew.
    assert place.plan(inference(**scaled)).actions["Deployment/serve"] == "unchanged"
    assert causes(place, "serve") == [(3, "rolled back", 1), (2, "applied", None), (1, "applied", None)]
    place.running("serve")


@pytest.mark.slow
def test_what_its_document_would_not_make_comes_back_too(place: Place) -> None:
    """A hot fix, which the apply would have undone: the former document is lowered to what does not run."""
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
def test_what_only_joins_a_set_was_changed_by_nobody(place: Place) -> None:
    place.apply(inference(**BAD))
    bad = place.apply(inference(**BAD), flags=(*BACK, "--set", "jobs"), code=1)
    assert f"deployment.apps/serve in {place.namespace} was not changed by this apply, and stays unchanged" in bad.err


@pytest.mark.slow
def test_each_job_by_itself(place: Place) -> None:
    """What runs stays, what was not changed stays, what is new stays to be looked at."""
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
    assert image_of(place, "serve") == "v1"
    assert image_of(place, "comp") == "v2"
    assert image_of(place, "new", "Job") == "nope"
    place.gpuctl("why", "new")
    place.gpuctl("delete", "job", "new", "--yes")


@pytest.mark.slow
def test_a_training_that_had_ended_does_not_run_again(place: Place) -> None:
    place.apply(training(job=outcome("complete")))
    place.ended("train")
    place.apply(training(**BAD), flags=BACK, code=1)
    back = place.get("Job", "train")
    assert back["spec"]["suspend"] is True
    assert image_of(place, "train", "Job") == "v1"


@pytest.mark.slow
def test_a_training_that_fails_is_rolled_back(place: Place) -> None:
    """Failed is not late: it is told at once, and the others are waited for. Its pods are rejected, and never run."""
    place.apply(training(), inference())
    place.running("train", "serve")
    failing = training(job=outcome("gpu-unavailable"))
    bad = place.apply(failing, inference(environment=image("v2")), flags=("--yes", "--wait", "--rollback"), code=1)
    assert f"job.batch/train in {place.namespace} failed: " in bad.err
    assert "gpuctl.test/outcome" not in place.get("Job", "train")["spec"]["template"]["metadata"].get("annotations", {})
    assert image_of(place, "serve") == "v2"


def test_a_rolling_update_rolls_back(place: Place) -> None:
    place.apply(inference(service={"replicas": 2}))
    place.running("serve", pods=2)
    uid = place.uid("Deployment", "serve")
    place.apply(inference(**BAD, service={"replicas": 2}), flags=(*BACK, "--strategy=rolling"), code=1)
    assert place.uid("Deployment", "serve") == uid
    assert image_of(place, "serve") == "v1"
    assert set(place.plan(inference(service={"replicas": 2})).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_what_runs_is_left(place: Place) -> None:
    place.apply(inference())
    place.apply(inference(environment=image("v2")), flags=("--yes", "--wait", "--rollback"))
    assert image_of(place, "serve") == "v2"
    assert "--rollback needs --wait" in place.apply(inference(), flags=("--rollback",), code=2).err


@pytest.mark.slow
def test_what_somebody_else_changed_meanwhile_stays(place: Place, start: Start) -> None:
    place.apply(inference())
    path = place.file(inference(**BAD), name="bad.yaml")
    command = start("apply", "-f", path, "-n", place.namespace, "--yes", "--wait", "--rollback", "--timeout=20s")
    command.until(b"replaced  deployment.apps/serve")
    place.apply(inference(environment=image("v3"), job=outcome("image-not-found")), flags=("--yes",))
    assert command.end() == 1
    assert b"was changed or deleted by another client, and stays unchanged" in command.err
    assert image_of(place, "serve") == "v3"


@pytest.mark.slow
def test_a_way_back_that_is_refused_is_told(place: Place, proxy: Proxy) -> None:
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
