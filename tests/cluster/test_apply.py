"""Apply, again and again: what is created, left alone, changed in place and replaced."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_tools import Place, compute, image, inference, notebook, training

EVERYTHING: tuple[dict[str, Any], ...] = (
    training(),
    training("multi", resources={"nodes": 2}, environment={"command": ["deepspeed", "--no_ssh", "train.py"]}),
    inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 4}, service={"health_check": "/health"}),
    notebook(),
    compute(),
)
OBJECTS = {
    "ConfigMap/multi-hostfile": "create",
    "Service/multi": "create",
    "Service/svc-comp": "create",
    "Service/svc-note": "create",
    "Service/svc-serve": "create",
    "Job/multi": "create",
    "Deployment/serve": "create",
    "StatefulSet/note": "create",
    "Job/train": "create",
    "Deployment/comp": "create",
    "HorizontalPodAutoscaler/serve": "create",
}


def test_first_apply_creates_and_the_second_writes_nothing(place: Place) -> None:
    first = place.apply(*EVERYTHING, flags=("-o", "json"))
    assert first.actions == OBJECTS
    assert {step["result"] for step in first.value["steps"]} == {"done"}
    assert place.names() == set(OBJECTS)
    pods = place.running("train", "multi", "serve", "note", "comp")
    before = place.records()
    second = place.apply(*EVERYTHING, flags=("-o", "json"))
    assert set(second.actions.values()) == {"unchanged"}
    assert "created" not in place.apply(*EVERYTHING).out
    assert place.records() == before
    assert place.running("train", "multi", "serve", "note", "comp") == pods


@pytest.mark.parametrize("document", EVERYTHING, ids=lambda document: document["job"]["name"])
def test_another_image_replaces_what_runs_when_that_is_agreed_to(place: Place, document: dict[str, Any]) -> None:
    name, kind = document["job"]["name"], document["kind"]
    place.apply(document)
    pods, before = place.running(name), place.uids()
    changed = {**document, "environment": {**document["environment"], **image("v2")}}

    refused = place.apply(changed, code=2)
    lost = "its progress is lost" if kind == "training" else "it stops serving meanwhile"
    assert f"replaces {kind}/{name} in {place.namespace}: running for" in refused.err
    assert lost in refused.err
    assert "--yes" in refused.err
    assert place.uids() == before

    place.apply(changed, flags=("--yes",))
    after = place.uids()
    replaced = {key for key in before if after[key] != before[key]}
    assert {key.partition("/")[0] for key in replaced} <= {"Job", "Deployment", "StatefulSet"}
    assert len(replaced) == 1
    assert not place.running(name).items() & pods.items()
    assert "registry.example.com/app:v2" in str(place.get(*next(iter(replaced)).split("/")))


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        (training(), training(job={"description": "second try"}), "Job/train"),
        (training(job={"description": "first"}), training(), "Job/train"),
        (training(job={"ttl": "1d"}), training(job={"ttl": "2d"}), "Job/train"),
        (training(job={"ttl": "1d"}), training(), "Job/train"),
        (training(), training(job={"retries": 3}), "Job/train"),
        (training(job={"retries": 3}), training(), "Job/train"),
        (inference(), inference(service={"replicas": 2}), "Deployment/serve"),
        (inference(), inference(service={"request_limit": 5}), "Deployment/serve"),
        (notebook(), notebook(job={"description": "mine"}), "StatefulSet/note"),
        (inference(), inference(service={"type": "ClusterIP"}), "Service/svc-serve"),
        (
            inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 4}),
            inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 6}),
            "HorizontalPodAutoscaler/serve",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_changed_in_place_without_touching_what_runs(
    place: Place, before: dict[str, Any], after: dict[str, Any], key: str
) -> None:
    name = before["job"]["name"]
    place.apply(before)
    pods, uids = place.running(name), place.uids()
    written = place.get(*key.split("/"))
    outcome = place.apply(after, flags=("-o", "json"))
    assert outcome.actions[key] == "update"
    assert set(outcome.actions.values()) <= {"update", "unchanged"}
    assert place.get(*key.split("/"))["metadata"]["resourceVersion"] != written["metadata"]["resourceVersion"]
    assert place.uids() == uids
    assert pods.items() <= place.pods(name).items()
    again = place.apply(after, flags=("-o", "json"))
    assert set(again.actions.values()) == {"unchanged"}


def test_what_is_patched_in_place_arrives(place: Place) -> None:
    place.apply(training(job={"description": "first", "ttl": "1d"}), inference())
    place.apply(training(job={"retries": 2}), inference(service={"replicas": 3}))
    job = place.get("Job", "train")
    assert job["spec"]["backoffLimit"] == 2
    assert "ttlSecondsAfterFinished" not in job["spec"]
    assert "runwhere.ai/description" not in job["metadata"]["annotations"]
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 3


def test_service_port_is_changed_in_place_and_the_deployment_with_it(place: Place) -> None:
    """The container's port is a part of what runs: the Service keeps its address, the pods are new."""
    place.apply(inference(service={"nodePort": 30123}))
    before, address = place.uids(), place.get("Service", "svc-serve")["spec"]["clusterIP"]
    place.apply(inference(service={"port": 8001, "nodePort": 30123}), flags=("--yes",))
    after = place.uids()
    assert after["Service/svc-serve"] == before["Service/svc-serve"]
    assert after["Deployment/serve"] != before["Deployment/serve"]
    service = place.get("Service", "svc-serve")["spec"]
    assert service["clusterIP"] == address
    assert [(port["port"], port["targetPort"], port["nodePort"]) for port in service["ports"]] == [(8001, 8001, 30123)]


def test_more_nodes_change_the_hostfile_in_place(place: Place) -> None:
    multi = EVERYTHING[1]
    place.apply(multi)
    uid = place.uid("ConfigMap", "multi-hostfile")
    place.apply({**multi, "resources": {**multi["resources"], "nodes": 3}}, flags=("--yes",))
    hostfile = place.get("ConfigMap", "multi-hostfile")
    assert hostfile["metadata"]["uid"] == uid
    assert "multi-2" in str(hostfile["data"])
    assert place.get("Job", "multi")["spec"]["completions"] == 3


def test_a_service_becomes_headless_and_back_by_replacement(place: Place) -> None:
    """A multi-node training has a headless Service of its own name; here the live one is not."""
    multi = EVERYTHING[1]
    place.apply(multi)
    service = place.get("Service", "multi")
    place.api.call("DELETE", f"/api/v1/namespaces/{place.namespace}/services/multi")
    body = {key: service[key] for key in ("apiVersion", "kind")}
    metadata = {key: service["metadata"][key] for key in ("name", "labels", "annotations")}
    place.create({**body, "metadata": metadata, "spec": {"selector": {"app": "multi"}, "ports": [{"port": 29500}]}})
    before = place.uids()
    outcome = place.apply(multi, flags=("-o", "json"))
    assert outcome.actions == {
        "ConfigMap/multi-hostfile": "unchanged",
        "Service/multi": "replace",
        "Job/multi": "unchanged",
    }
    after = place.uids()
    assert {key for key in before if before[key] != after[key]} == {"Service/multi"}
    assert place.get("Service", "multi")["spec"]["clusterIP"] == "None"
    assert set(place.apply(multi, flags=("-o", "json")).actions.values()) == {"unchanged"}


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        (
            {"environment": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}},
            {"environment": {"env": [{"name": "A", "value": "1"}]}},
            "spec.template.spec.containers[main].env[B]",
        ),
        (
            {"environment": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}},
            {"environment": {"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]}},
            "spec.template.spec.containers[main].env (order)",
        ),
        (
            {"environment": {"env": [{"name": "A", "value": "1"}]}},
            {"environment": {"env": [{"name": "A", "secret": "s", "key": "k"}]}},
            "spec.template.spec.containers[main].env[A].value",
        ),
        (
            {"podPatch": {"nodeSelector": {"example.com/disk": "fast"}}},
            {},
            "spec.template.spec.nodeSelector[example.com/disk]",
        ),
        ({"job": {"labels": {"team": "nlp"}}}, {}, "spec.template.metadata.labels.team"),
        ({"environment": {"workdir": "/work"}}, {}, "spec.template.spec.containers[main].workingDir"),
        ({"podPatch": {"tolerations": [{"key": "a", "operator": "Exists"}]}}, {}, "spec.template.spec.tolerations"),
        (
            {"storage": {"workdirs": [{"path": "/data", "readOnly": True}]}},
            {"storage": {"workdirs": [{"path": "/data"}]}},
            "spec.template.spec.containers[main].volumeMounts[/data].readOnly",
        ),
        ({}, {"environment": {"command": ["run", "--fast"]}}, "spec.template.spec.containers[main].command"),
        ({"environment": {"args": ["--fast"]}}, {}, "spec.template.spec.containers[main].args"),
        ({"job": {"max_runtime": "1h"}}, {}, "spec.template.spec.activeDeadlineSeconds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_difference_is_noticed(place: Place, before: dict[str, Any], after: dict[str, Any], path: str) -> None:
    place.apply(training(**before))
    plan = place.plan(training(**after))
    assert plan.actions["Job/train"] == "replace"
    (step,) = [step for step in plan.value["steps"] if step["kind"] == "Job"]
    assert any(change["path"].startswith(path) for change in step["changes"]), step["changes"]
    place.apply(training(**after), flags=("--yes",))
    assert place.plan(training(**after)).actions["Job/train"] == "unchanged"


@pytest.mark.parametrize("make", [training, inference, notebook])
def test_equal_quantities_in_another_spelling_change_nothing_that_runs(place: Place, make: Any) -> None:
    document = make(resources={"cpu": "1000m", "memory": "1024Mi", "shm": "0.5Gi"})
    other = make(resources={"cpu": 1, "memory": "1Gi", "shm": "512Mi"})
    place.apply(document)
    before = place.uids()
    outcome = place.apply(other, flags=("-o", "json"))
    assert set(outcome.actions.values()) <= {"update", "unchanged"}
    assert place.uids() == before
    assert set(place.apply(other, flags=("-o", "json")).actions.values()) == {"unchanged"}


def test_jobsets_are_created_left_alone_and_replaced(place: Place, jobset: None) -> None:
    place.platform("training: {backend: jobset}")
    document = training("ranks", resources={"nodes": 2})
    assert place.apply(document, flags=("-o", "json")).actions == {"JobSet/ranks": "create"}
    uid = place.uid("JobSet", "ranks")
    assert place.apply(document, flags=("-o", "json")).actions == {"JobSet/ranks": "unchanged"}
    described = training("ranks", resources={"nodes": 2}, job={"description": "x"})
    assert place.apply(described, flags=("-o", "json")).actions == {"JobSet/ranks": "update"}
    assert place.uid("JobSet", "ranks") == uid
    changed = training("ranks", resources={"nodes": 2}, environment=image("v2"))
    assert place.apply(changed, flags=("-o", "json")).actions == {"JobSet/ranks": "replace"}
    assert place.uid("JobSet", "ranks") != uid


def test_another_backend_replaces_only_changed_documents(place: Place, jobset: None) -> None:
    document = training("ranks", resources={"nodes": 2})
    place.apply(document)
    before = place.uids()
    place.running("ranks", pods=2)
    place.platform("training: {backend: jobset}")
    kept = place.apply(document)
    assert "kept" in kept.out
    assert place.uids() == before
    assert not place.exists("JobSet", "ranks")

    changed = training("ranks", resources={"nodes": 2}, environment=image("v2"))
    assert "replaces training/ranks" in place.apply(changed, code=2).err
    outcome = place.apply(changed, flags=("--yes", "-o", "json"))
    assert outcome.actions == {"Service/ranks": "delete", "JobSet/ranks": "replace"}
    assert place.exists("JobSet", "ranks")
    assert not place.names() & before.keys()


def test_quotas_and_pools(place: Place) -> None:
    quota = {"kind": "quota", "version": "v0.1", "metadata": {"name": "team"}, "users": {place.namespace: {"gpu": 4}}}
    assert place.apply(quota, flags=("-o", "json")).actions == {
        f"ResourceQuota/team-{place.namespace}": "create",
        f"LimitRange/team-{place.namespace}": "create",
    }
    before = place.records()
    assert set(place.apply(quota, flags=("-o", "json")).actions.values()) == {"unchanged"}
    assert place.records() == before
    quota["users"] = {place.namespace: {"gpu": 8, "cpu": 100}}
    assert place.apply(quota, flags=("-o", "json")).actions[f"ResourceQuota/team-{place.namespace}"] == "update"
    hard = place.get("ResourceQuota", f"team-{place.namespace}")["spec"]["hard"]
    assert hard == {"requests.nvidia.com/gpu": "8", "requests.cpu": "100"}
    quota["users"] = {place.namespace: {"gpu": 8}}
    place.apply(quota)
    hard = place.get("ResourceQuota", f"team-{place.namespace}")["spec"]["hard"]
    assert hard == {"requests.nvidia.com/gpu": "8"}
    assert place.uids().keys() == before.keys()
