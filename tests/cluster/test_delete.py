"""Delete: exactly the objects that belong to documents or to a job name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from support.cluster_tools import DOMAIN, JOB_TYPE, Place, compute, inference, notebook, training
from support.command import on_a_terminal

MULTI = training("multi", resources={"nodes": 2}, environment={"command": ["deepspeed", "--no_ssh", "x.py"]})
AUTOSCALED = inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 4})
PARTS = {
    "train": {"Job/train"},
    "multi": {"Job/multi", "Service/multi", "ConfigMap/multi-hostfile"},
    "serve": {"Deployment/serve", "Service/svc-serve", "HorizontalPodAutoscaler/serve"},
    "note": {"StatefulSet/note", "Service/svc-note"},
    "comp": {"Deployment/comp", "Service/svc-comp"},
}
DOCUMENTS = {"train": training(), "multi": MULTI, "serve": AUTOSCALED, "note": notebook(), "comp": compute()}


def test_delete_removes_exactly_the_objects_of_a_job(place: Place) -> None:
    place.apply(*DOCUMENTS.values())
    for name in PARTS:
        place.running(name)
        for number, labels in enumerate(({}, {"app.kubernetes.io/managed-by": "gpuctl", JOB_TYPE: "other"})):
            metadata = {"name": f"foreign-{name}-{number}", "labels": {"app": name, **labels}}
            body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
            place.create(body)
    for turn, (name, parts) in enumerate(PARTS.items()):
        before = place.uids()
        by = ("job", name) if turn % 2 else ("-f", place.file(DOCUMENTS[name]))
        outcome = place.gpuctl("delete", *by)
        after = place.uids()
        assert before.keys() - after.keys() == parts
        assert {key: before[key] for key in after} == after
        assert [line.split()[0] for line in outcome.out.splitlines()] == ["deleted"] * len(parts)
        assert not place.pods(name)
    assert place.objects(("Secret", "Lease")) == {}
    assert place.plane.kubectl("get", "namespace", place.namespace, "--ignore-not-found")
    assert place.plane.kubectl("get", "priorityclass", "gpuctl-medium", "--ignore-not-found")


@pytest.mark.slow
def test_delete_removes_several_jobs_by_name(place: Place) -> None:
    place.apply(*DOCUMENTS.values())
    place.gpuctl("delete", "job", "train", "comp")
    assert place.names() == set.union(*PARTS.values()) - PARTS["train"] - PARTS["comp"]


@pytest.mark.slow
def test_missing_job_is_an_error_by_name_and_skipped_by_file(place: Place) -> None:
    absent = place.gpuctl("delete", "job", "nothing", code=1)
    assert absent.err.startswith(f"error: there is no job nothing in namespace {place.namespace}\n")
    again = place.gpuctl("delete", "-f", place.file(compute()))
    assert again.out.splitlines() == [
        f"skipped   deployment.apps/comp -n {place.namespace}  (does not exist)",
        f"skipped   service/svc-comp -n {place.namespace}  (does not exist)",
    ]


def test_foreign_object_of_the_same_name_is_not_deleted(place: Place) -> None:
    metadata = {"name": "svc-comp", "labels": {"app": "comp"}}
    place.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}})
    outcome = place.gpuctl("delete", "-f", place.file(compute()))
    assert f"skipped   service/svc-comp -n {place.namespace}  (is not gpuctl's)" in outcome.out
    assert place.names() == {"Service/svc-comp"}


def test_service_of_a_job_without_the_label_is_not_deleted(place: Place) -> None:
    """The job that lost its label still uses it."""
    place.apply(compute())
    place.kubectl("label", "deployment", "comp", "app.kubernetes.io/managed-by-")
    before = place.uids()
    outcome = place.gpuctl("delete", "job", "comp", code=1)
    assert f"comp in {place.namespace} is not gpuctl's" in outcome.err
    assert place.uids() == before
    outcome = place.gpuctl("delete", "-f", place.file(compute()), "--yes")
    user = f"deployment.apps/comp in {place.namespace}, which is not gpuctl's"
    assert outcome.out.splitlines() == [
        f"skipped   deployment.apps/comp -n {place.namespace}  (is not gpuctl's)",
        f"skipped   service/svc-comp -n {place.namespace}  (is used by {user})",
    ]
    assert place.uids() == before


@pytest.mark.slow
def test_document_of_another_kind_deletes_nothing(place: Place) -> None:
    """The document's kind is compute, the live job is an inference."""
    place.apply(inference("twin"))
    before = place.uids()
    outcome = place.gpuctl("delete", "-f", place.file(compute("twin")))
    assert f"skipped   deployment.apps/twin -n {place.namespace}  (belongs to inference/twin)" in outcome.out
    assert place.uids() == before


def test_job_name_in_two_namespaces_needs_the_namespace(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    other = f"{place.namespace[-50:].strip('-')}-too"
    name = f"twin-{place.namespace[-8:].strip('-')}".replace("--", "-")
    place.plane.kubectl("create", "namespace", other)
    try:
        place.apply(training(name))
        place.apply(training(name, job={"namespace": other}))
        anywhere = place.anywhere("delete", "job", name, code=1)
        assert f"there are several jobs {name}: training/{name} in {place.namespace}, training/{name} in {other}" in (
            anywhere.err
        )
        assert "-n NAMESPACE" in anywhere.err
        assert place.exists("Job", name)
        place.gpuctl("delete", "job", name)
        place.anywhere("delete", "job", name)
        assert "No resources found" in place.plane.kubectl("get", "jobs", "-n", other)
    finally:
        place.plane.kubectl("delete", "namespace", other, "--wait=false")


@pytest.mark.slow
def test_job_name_of_two_kinds_is_ambiguous(place: Place) -> None:
    """gpuctl does not create two jobs of one name, but kubectl can."""
    place.kubectl("apply", "-f", "-", input=place.gpuctl("render", "-f", place.file(training("twin"))).out)
    place.kubectl("apply", "-f", "-", input=place.gpuctl("render", "-f", place.file(inference("twin"))).out)
    outcome = place.gpuctl("delete", "job", "twin", code=1)
    assert "inference/twin" in outcome.err
    assert "training/twin" in outcome.err
    assert place.exists("Job", "twin")
    place.gpuctl("delete", "-f", place.file(training("twin")))
    assert place.names() == {"Deployment/twin", "Service/svc-twin"}


@pytest.mark.slow
def test_force_ends_pods_without_their_grace(place: Place) -> None:
    stuck = training(job={"annotations": {"gpuctl.test/termination": "stuck"}})
    place.apply(stuck)
    place.running("train")
    late = place.gpuctl("delete", "job", "train", "--timeout=1s", code=1)
    assert "its pods are still terminating: train-" in late.out
    outcome = place.gpuctl("delete", "job", "train", "--force")
    assert "processes may still hold their GPUs" in outcome.err
    assert not place.exists("Job", "train")
    assert not place.pods("train")


@pytest.mark.slow
def test_delete_waits_until_the_pods_are_gone(place: Place) -> None:
    slow = training(job={"annotations": {"gpuctl.test/termination": "slow"}})
    place.apply(slow)
    place.running("train")
    begun = time.monotonic()
    place.gpuctl("delete", "job", "train")
    assert time.monotonic() - begun > 2
    assert not place.exists("Job", "train")
    assert not place.pods("train")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["delete", "prune"])
def test_companions_stay_while_their_job_is_not_deleted(place: Place, how: str) -> None:
    """Other jobs are deleted in the same run; the companions are deleted by the next run."""
    stays, goes, left = AUTOSCALED, compute(), training()
    in_set = ("--set", "jobs", "--yes")
    place.apply(stays, goes, left, flags=in_set)
    place.running("serve", "comp", "train")
    place.patch("Deployment", "serve", {"metadata": {"finalizers": ["example.com/hold"]}})
    before = place.uids()

    def run(*flags: str, code: int = 0) -> str:
        if how == "prune":
            return place.apply(left, flags=(*in_set, "--prune", *flags), code=code).out
        return place.gpuctl("delete", "-f", place.file(stays, goes), *flags, code=code).out

    said = run("--timeout", "5", code=1)
    assert "still exists after 5 s: blocked by finalizer example.com/hold" in said
    assert (
        said.count(f"(it stays because deployment.apps/serve in {place.namespace} was not deleted; run it again)") == 2
    )
    assert place.names() == PARTS["serve"] | PARTS["train"]
    assert place.uids().items() <= before.items()
    place.patch("Deployment", "serve", {"metadata": {"finalizers": None}})
    place.until(lambda: not place.exists("Deployment", "serve"), "it to go")
    if how == "delete":
        # Delete by name works although the job itself no longer exists.
        place.gpuctl("delete", "job", "serve")
    else:
        run()
    assert place.names() == PARTS["train"]


@pytest.mark.slow
def test_terminating_service_is_replaced(place: Place) -> None:
    """The Service of a load balancer exists until the provider removes its finalizer; a new job must not rely on it."""
    place.apply(compute())
    place.patch("Service", "svc-comp", {"metadata": {"finalizers": ["example.com/balancer"]}})
    place.kubectl("delete", "service/svc-comp", "deployment/comp", "--wait=false")
    place.until(lambda: not place.exists("Deployment", "comp"), "it to go")
    planned = place.plan(compute())
    assert planned.actions == {"Service/svc-comp": "replace", "Deployment/comp": "create"}
    place.patch("Service", "svc-comp", {"metadata": {"finalizers": None}})


@pytest.mark.slow
def test_delete_prints_json(place: Place) -> None:
    place.apply(compute())
    value = place.gpuctl("delete", "-f", place.file(compute()), "-o", "json").value
    assert [(step["action"], step["kind"], step["result"]) for step in value["steps"]] == [
        ("delete", "Deployment", "done"),
        ("delete", "Service", "done"),
    ]
    assert value["summary"] == {"delete": 2}
    failed = place.gpuctl("delete", "job", "comp", "-o", "json", code=1).value
    assert failed["error"].startswith("there is no job comp")
    assert failed["steps"] == []


def test_delete_of_a_quota_keeps_the_namespace_and_its_jobs(place: Place) -> None:
    quota = {"kind": "quota", "version": "v0.1", "metadata": {"name": "team"}, "users": {place.namespace: {"gpu": 4}}}
    place.apply(quota, training())
    uid = place.uid("Job", "train")
    place.gpuctl("delete", "-f", place.file(quota))
    assert place.names() == {"Job/train"}
    assert place.uid("Job", "train") == uid


@pytest.fixture
def pool(place: Place) -> Iterator[dict[str, Any]]:
    """A pool with its own node."""
    name = place.namespace[-12:].strip("-")
    place.plane.add_node(f"node-{name}", gpus=8)
    yield {
        "kind": "pool",
        "version": "v0.1",
        "metadata": {"name": f"pool-{name}"},
        "nodes": {f"node-{name}": {"gpu-type": "A100-80G"}},
    }
    place.plane.kubectl("delete", "node", f"node-{name}")
    place.plane.kubectl("delete", "configmap", "-n", "gpuctl-system", f"pool-pool-{name}", "--ignore-not-found")


def labels(plane: ControlPlane, pool: dict[str, Any]) -> dict[str, str]:
    """Return gpuctl's labels on the pool's node."""
    (node,) = pool["nodes"]
    found = plane.get("node", node)["metadata"]["labels"]
    return {key: value for key, value in found.items() if key.startswith(DOMAIN)}


@pytest.mark.slow
def test_delete_of_an_unused_pool_removes_its_labels(place: Place, pool: dict[str, Any]) -> None:
    place.apply(pool)
    assert labels(place.plane, pool) == {f"{DOMAIN}/pool": pool["metadata"]["name"], f"{DOMAIN}/gpu-type": "A100-80G"}
    place.gpuctl("delete", "-f", place.file(pool))
    assert labels(place.plane, pool) == {f"{DOMAIN}/gpu-type": "A100-80G"}
    place.apply(pool)
    place.gpuctl("delete", "-f", place.file(pool), "--keep-labels")
    assert labels(place.plane, pool) == {f"{DOMAIN}/pool": pool["metadata"]["name"], f"{DOMAIN}/gpu-type": "A100-80G"}
    configmaps = place.plane.kubectl("get", "configmaps", "-n", "gpuctl-system", "-o", "name")
    assert pool["metadata"]["name"] not in configmaps


def test_delete_of_a_used_pool_asks_and_ends_no_job(place: Place, pool: dict[str, Any]) -> None:
    name = pool["metadata"]["name"]
    place.apply(pool)
    job = training(resources={"pool": name, "gpu-type": "A100-80G"})
    place.apply(job)
    place.running("train")
    uid = place.uid("Job", "train")
    asked = place.gpuctl("delete", "-f", place.file(pool), code=2)
    assert f"deletes pool {name}" in asked.err
    assert f"training/train in {place.namespace}" in asked.err
    assert "--yes" in asked.err
    assert labels(place.plane, pool)[f"{DOMAIN}/pool"] == name
    place.gpuctl("delete", "-f", place.file(pool), "--yes")
    assert f"{DOMAIN}/pool" not in labels(place.plane, pool)
    assert place.uid("Job", "train") == uid
    assert place.pods("train")


def test_delete_of_running_jobs_asks_only_on_a_terminal(place: Place) -> None:
    place.apply(training(), notebook(), training("waits", resources={"gpu": 65}))
    place.running("train", "note")
    before = place.uids()
    code, shown = on_a_terminal("delete", "job", "train", "note", "-n", place.namespace, answer="n")
    assert code == 1
    assert f"deletes training/train in {place.namespace}: running for " in shown
    assert ", its progress is lost" in shown
    assert f"deletes notebook/note in {place.namespace}: running for " in shown
    code, shown = on_a_terminal("delete", "-f", place.file(training()), "-n", place.namespace, answer="n")
    assert (code, place.uids()) == (1, before)
    assert "its progress is lost" in shown
    # A pending job has no progress to lose.
    code, shown = on_a_terminal("delete", "job", "waits", "-n", place.namespace, answer="n")
    assert code == 0
    assert "Continue?" not in shown
    assert on_a_terminal("delete", "job", "note", "--yes", "-n", place.namespace, answer="n")[0] == 0
    place.gpuctl("delete", "job", "train")
    assert place.names() == set()


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["image-not-found", "unschedulable"])
def test_jobs_whose_pods_never_ran_are_replaced_without_asking(place: Place, outcome: str) -> None:
    changes: dict[str, Any] = {"job": {"annotations": {"gpuctl.test/outcome": outcome}}}
    if outcome == "unschedulable":
        changes = {"resources": {"gpu": 65}}
    place.apply(training(**changes), flags=("--yes",))
    place.until(lambda: place.get("Job", "train").get("status", {}).get("active"), "the job to have a pod")
    if outcome != "unschedulable":
        pod = next(iter(place.until(lambda: place.pods("train"), "the pod")))
        place.until(lambda: "waiting" in str(place.get("Pod", pod)["status"].get("containerStatuses")), "its refusal")
    preview = place.apply(
        training(**changes, environment={"image": "registry.example.com/x:2"}), flags=("--dry-run=server",)
    )
    assert "replace" in preview.out
    assert "running for" not in preview.out + preview.err
    place.apply(training(**changes, environment={"image": "registry.example.com/x:2"}))


@pytest.mark.slow
def test_job_with_another_label_domain_is_found_with_its_platform(place: Place, tmp_path: Path) -> None:
    platform = tmp_path / "other.yaml"
    platform.write_text("kind: platform\nversion: v0.1\nlabels: {domain: other.example.com}\n")
    place.apply(training("a"), inference("b"), flags=("--platform", str(platform)))
    assert "no job a" in place.gpuctl("delete", "job", "a", code=1).err
    place.gpuctl("delete", "job", "a", "b", "--platform", str(platform), "--yes")
    assert place.names() == set()
    assert place.gpuctl("delete", "job", "a/", "--platform", str(platform), code=2).err.startswith("Usage: ")
