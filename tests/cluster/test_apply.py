"""Repeated applies: objects that are created, left unchanged, updated in place and replaced."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_tools import Place, compute, image, inference, notebook, training

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


def test_another_image_replaces_running_jobs_after_confirmation(place: Place) -> None:
    names = {document["job"]["name"]: document["kind"] for document in EVERYTHING}
    place.apply(*EVERYTHING)
    pods, before = place.running(*names), place.uids()
    changed = [{**document, "environment": {**document["environment"], **image("v2")}} for document in EVERYTHING]

    refused = place.apply(*changed, code=2)
    for name, kind in names.items():
        (line,) = [line for line in refused.err.splitlines() if line.startswith(f"replaces {kind}/{name} in ")]
        assert "running for" in line
        assert ("its progress is lost" if kind == "training" else "it stops serving until it is replaced") in line
    assert "--yes" in refused.err
    assert place.uids() == before

    place.apply(*changed, flags=("--yes",))
    after = place.uids()
    replaced = {key for key in before if after[key] != before[key]}
    assert replaced == {"Job/train", "Job/multi", "Deployment/serve", "StatefulSet/note", "Deployment/comp"}
    assert not place.running(*names).items() & pods.items()
    for key in replaced:
        assert image("v2")["image"] in str(place.get(*key.split("/")))


GROWING = {"enabled": True, "minReplicas": 1, "maxReplicas": 4}
IN_PLACE: tuple[tuple[Any, dict[str, Any], dict[str, Any]], ...] = (
    (training, {}, {"job": {"description": "second try"}}),
    (training, {"job": {"description": "first"}}, {}),
    (training, {"job": {"ttl": "1d"}}, {"job": {"ttl": "2d"}}),
    (training, {"job": {"ttl": "1d"}}, {}),
    (training, {}, {"job": {"retries": 3}}),
    (training, {"job": {"retries": 3}}, {}),
    (inference, {}, {"service": {"replicas": 2}}),
    (inference, {}, {"service": {"request_limit": 5}}),
    (notebook, {}, {"job": {"description": "mine"}}),
    (inference, {}, {"service": {"type": "ClusterIP"}}),
    (inference, {"autoscaling": GROWING}, {"autoscaling": {**GROWING, "maxReplicas": 6}}),
)


def test_in_place_changes_keep_running_pods(place: Place) -> None:
    names = [f"job-{number}" for number in range(len(IN_PLACE))]
    before = [make(name, **old) for name, (make, old, _) in zip(names, IN_PLACE, strict=True)]
    after = [make(name, **new) for name, (make, _, new) in zip(names, IN_PLACE, strict=True)]
    place.apply(*before)
    pods, uids, written = place.running(*names), place.uids(), place.records()
    actions = place.apply(*after, flags=("-o", "json")).actions
    assert set(actions.values()) == {"update", "unchanged"}
    for name in names:
        kind = next(kind for kind in ("Job", "Deployment", "StatefulSet") if f"{kind}/{name}" in actions)
        assert actions[f"{kind}/{name}"] == "update"
    assert actions["Service/svc-job-9"] == actions["HorizontalPodAutoscaler/job-10"] == "update"
    assert place.uids() == uids
    assert pods.items() <= place.running(*names).items()
    changed = {key for key, obj in place.records().items() if obj != written[key]}
    assert {key for key in actions if actions[key] == "update"} == changed
    assert set(place.apply(*after, flags=("-o", "json")).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_in_place_patches_reach_the_live_objects(place: Place) -> None:
    place.apply(training(job={"description": "first", "ttl": "1d"}), inference())
    place.apply(training(job={"retries": 2}), inference(service={"replicas": 3}))
    job = place.get("Job", "train")
    assert job["spec"]["backoffLimit"] == 2
    assert "ttlSecondsAfterFinished" not in job["spec"]
    assert "runwhere.ai/description" not in job["metadata"]["annotations"]
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 3


@pytest.mark.slow
def test_port_change_updates_the_service_and_replaces_the_deployment(place: Place) -> None:
    """The Service keeps its address; the pod template contains the port, so the pods are new."""
    node_port = place.node_port()
    place.apply(inference(service={"nodePort": node_port}))
    before, address = place.uids(), place.get("Service", "svc-serve")["spec"]["clusterIP"]
    place.apply(inference(service={"port": 8001, "nodePort": node_port}), flags=("--yes",))
    after = place.uids()
    assert after["Service/svc-serve"] == before["Service/svc-serve"]
    assert after["Deployment/serve"] != before["Deployment/serve"]
    service = place.get("Service", "svc-serve")["spec"]
    assert service["clusterIP"] == address
    assert [(port["port"], port["targetPort"], port["nodePort"]) for port in service["ports"]] == [
        (8001, 8001, node_port)
    ]


@pytest.mark.slow
def test_more_nodes_change_the_hostfile_in_place(place: Place) -> None:
    multi = EVERYTHING[1]
    place.apply(multi)
    uid = place.uid("ConfigMap", "multi-hostfile")
    place.apply({**multi, "resources": {**multi["resources"], "nodes": 3}}, flags=("--yes",))
    hostfile = place.get("ConfigMap", "multi-hostfile")
    assert hostfile["metadata"]["uid"] == uid
    assert "multi-2" in str(hostfile["data"])
    assert place.get("Job", "multi")["spec"]["completions"] == 3


@pytest.mark.slow
def test_service_that_is_not_headless_is_replaced(place: Place) -> None:
    """A multi-node training has a headless Service of its own name; the live Service of this test has a cluster IP."""
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


DIFFERENCES: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
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
)


def test_pod_template_differences_replace_the_job(place: Place) -> None:
    names = [f"job-{number}" for number in range(len(DIFFERENCES))]
    before = [training(name, **old) for name, (old, _, _) in zip(names, DIFFERENCES, strict=True)]
    after = [training(name, **new) for name, (_, new, _) in zip(names, DIFFERENCES, strict=True)]
    place.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
    place.apply(*before)
    steps = {step["name"]: step for step in place.plan(*after).value["steps"]}
    for name, (_, _, path) in zip(names, DIFFERENCES, strict=True):
        assert steps[name]["action"] == "replace", path
        assert any(change["path"].startswith(path) for change in steps[name]["changes"]), steps[name]["changes"]
    place.apply(*after, flags=("--yes",))
    assert set(place.plan(*after).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_equal_quantities_spelled_differently_replace_nothing(place: Place) -> None:
    makers = (training, inference, notebook)
    documents = [make(resources={"cpu": "1000m", "memory": "1024Mi", "shm": "0.5Gi"}) for make in makers]
    others = [make(resources={"cpu": 1, "memory": "1Gi", "shm": "512Mi"}) for make in makers]
    place.apply(*documents)
    before = place.uids()
    outcome = place.apply(*others, flags=("-o", "json"))
    assert set(outcome.actions.values()) == {"update", "unchanged"}
    assert place.uids() == before
    assert set(place.apply(*others, flags=("-o", "json")).actions.values()) == {"unchanged"}


def test_quota_is_created_left_alone_and_updated_in_place(place: Place) -> None:
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


@pytest.mark.slow
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
