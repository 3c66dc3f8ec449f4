"""``gpuctl describe job`` on a real control plane: every value is compared with the API server's objects."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from support.cluster_tools import POOL, Place, inference, merged, training

OOM = {"annotations": {"gpuctl.test/outcome": "oom"}, "retries": 0}


def detail(place: Place, name: str) -> dict[str, Any]:
    """Return the job as JSON."""
    found: dict[str, Any] = place.gpuctl("describe", "job", name, "-o", "json").value
    return found


def sections(text: str) -> dict[str, list[str]]:
    """Return the lines of each titled section; "" holds the facts at the top."""
    found: dict[str, list[str]] = {"": []}
    title = ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z]\w+:", line):
            title = line.rstrip(":")
            found[title] = []
        else:
            found[title].append(line.strip())
    return found


def test_describe_running_service(place: Place) -> None:
    document = inference(
        job={"description": "通义千问在线推理服务", "priority": "high"},
        service={"replicas": 2, "type": "NodePort"},
        environment={"env": [{"name": "HF_TOKEN", "secret": "hf", "key": "token"}, {"name": "MODE", "value": "fast"}]},
        resources={"cpu": "1500m", "memory": "4Gi"},
    )
    place.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf"}, "stringData": {"token": "s3cret"}})
    place.apply(document)
    place.running("serve", pods=2)
    live, service = place.get("Deployment", "serve"), place.get("Service", "svc-serve")
    pods = {name: place.get("Pod", name) for name in place.pods("serve")}
    found = detail(place, "serve")
    assert (found["name"], found["namespace"]) == ("serve", place.namespace)
    assert {pod["jobId"] for pod in found["pods"]} == {found["jobId"]}
    assert re.fullmatch("serve-[0-9a-z]{5}", found["jobId"])
    assert (found["kind"], found["version"], found["status"], found["phase"]) == (
        "inference",
        "v0.1",
        "Running",
        "running",
    )
    assert (found["ready"], found["pool"], found["priority"], found["why"]) == ("2/2", POOL, "high", None)
    assert found["description"] == "通义千问在线推理服务"
    assert found["resources"] == {"gpu": 1, "gpuType": None, "cpu": 1.5, "memory": "4Gi", "memoryBytes": 4 << 30}
    assert found["metrics"] is None
    assert found["createdAt"] == live["metadata"]["creationTimestamp"]
    resources = found["k8sResources"]
    assert {**resources, "pods": sorted(resources["pods"])} == {
        "kind": "Deployment",
        "jobName": "serve",
        "pods": sorted(pods),
    }
    assert yaml.safe_load(found["yamlContent"])["environment"]["env"] == document["environment"]["env"]
    node_port, port = service["spec"]["ports"][0]["nodePort"], service["spec"]["ports"][0]["port"]
    assert found["access"]["nodePorts"] == [f"127.0.0.1:{node_port}"]
    assert found["access"]["clusterDns"] == [f"svc-serve.{place.namespace}.svc:{port}"]
    assert set(found["access"]["podIps"]) == {f"{pod['status']['podIP']}:{port}" for pod in pods.values()}
    assert found["access"]["portForward"] == f"gpuctl port-forward serve {port} -n {place.namespace}"
    for entry in found["timeline"]:
        pod = pods[entry["pod"]]
        stages = {stage["stage"]: stage for stage in entry["stages"]}
        assert list(stages) == ["created", "scheduled", "started", "ready"]
        assert stages["created"]["time"] == pod["metadata"]["creationTimestamp"]
        assert stages["started"]["time"] == pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        assert all(0 <= stage["seconds"] < 60 for stage in entry["stages"])
    for row in found["pods"]:
        pod = pods[row["pod"]]
        assert (row["node"], row["ip"], row["restarts"]) == (pod["spec"]["nodeName"], pod["status"]["podIP"], 0)
    assert {item["type"]: item["status"] for item in found["conditions"]}["Available"] == "True"
    assert [event["reason"] for event in found["events"]].count("Scheduled") == 2
    outcome = place.gpuctl("describe", "job", "serve")
    assert "s3cret" not in outcome.out + json.dumps(found)
    parts = sections(outcome.out)
    facts = dict(re.split(r":\s+", line, maxsplit=1) for line in parts[""] if line)
    assert facts["Kind"] == "inference (Deployment)"
    assert facts["Resources"] == "1 GPU, 1.5 cpu, 4Gi memory per pod"
    assert facts["Description"] == "通义千问在线推理服务"
    assert facts["Created"].startswith(found["createdAt"])
    assert "Why" not in parts
    assert parts["Pods"][0].split() == ["JOB", "ID", "STATUS", "READY", "RESTARTS", "NODE", "IP"]
    assert {line.split()[0] for line in parts["Pods"][1:] if line} == set(pods)
    assert f"Node:             127.0.0.1:{node_port}" in parts["Access"]
    assert "kind: inference" in parts["Document"]
    assert place.gpuctl("describe", "job", "serve", "-o", "yaml").out.count("yamlContent:") == 1
    by_pod = place.gpuctl("describe", "job", next(iter(pods)), "-o", "json").value
    assert by_pod["name"] == "serve"


def test_describe_pending_and_failed_jobs(place: Place) -> None:
    place.apply(training("large", resources={"gpu": 60}), training("first", resources={"gpu": 60}))
    place.apply(training("oom", job=OOM))
    place.until(lambda: detail(place, "oom")["phase"] == "failed", "the end")
    found = detail(place, "oom")
    assert found["status"] == "Failed"
    assert found["why"]["cause"] == "out-of-memory"
    stages = [stage["stage"] for stage in found["timeline"][0]["stages"]]
    assert stages == ["created", "scheduled", "started", "finished"]
    assert found["access"]["portForward"] is None
    place.apply(*(training(f"more-{number}", resources={"gpu": 60}) for number in range(3)))
    waiting = place.until(
        lambda: [
            name
            for name in ("large", "first", "more-0", "more-1", "more-2")
            if (detail(place, name)["why"] or {}).get("cause") == "gpu-shortage"
        ],
        "one without room",
    )
    name = waiting[0]
    found = detail(place, name)
    assert found["why"]["message"] == f"needs 60 GPUs on one node of {POOL}; the best node has 4 free"
    parts = sections(place.gpuctl("describe", "job", name).out)
    assert parts["Why"][0] == found["why"]["message"]
    assert f"`gpuctl why {name} -n {place.namespace}` shows the evidence" in parts["Why"]
    assert "Access" not in parts
    assert any("FailedScheduling" in line for line in parts["Events"])


@pytest.mark.slow
def test_document_of_a_foreign_job_is_derived_from_its_fields(place: Place) -> None:
    """A job from `render` without an embedded document. A name without a job is an error."""
    job = place.gpuctl("render", "-f", place.file(training()), "--no-shared", "-o", "json").value
    job = job.get("items", [job])[0]
    place.create(merged(job, {"spec": {"template": {"spec": {"priorityClassName": None}}}}))
    place.running("train")
    found = detail(place, "train")
    assert yaml.safe_load(found["yamlContent"])["resources"]["gpu"] == 1
    missing = place.gpuctl("describe", "job", "nothing", code=1)
    assert "there is no job or pod nothing" in missing.err


@pytest.mark.slow
def test_equal_events_are_merged(place: Place) -> None:
    place.apply(inference("loops", job={"annotations": {"gpuctl.test/outcome": "crash"}}))
    place.until(lambda: detail(place, "loops")["status"] == "CrashLoopBackOff", "a second crash")
    found = [event for event in detail(place, "loops")["events"] if event["reason"] == "BackOff"]
    assert len(found) == 1
    assert found[0]["count"] == 2
    events = detail(place, "loops")["events"]
    # Some times have fractions of seconds, others do not.
    seconds = [event["time"][:19] for event in events]
    assert seconds == sorted(seconds)
    assert detail(place, "loops")["pods"][0]["restarts"] == 1


@pytest.mark.slow
def test_pods_that_do_not_run_are_listed_first(place: Place) -> None:
    place.apply(inference("many", resources={"gpu": 0}, service={"replicas": 22}))
    place.running("many", pods=22)
    lost = detail(place, "many")["pods"][20]["pod"]
    place.plane.annotate(place.namespace, lost, outcome="evicted")

    def statuses() -> list[str]:
        return [pod["status"] for pod in detail(place, "many")["pods"]]

    place.until(lambda: sorted(statuses()) == ["Evicted", *["Running"] * 22], "the eviction, and its replacement")
    shown = [row for row in sections(place.gpuctl("describe", "job", "many").out)["Pods"][1:] if row.strip()]
    assert shown[0].split()[:2] == [lost, "Evicted"]
    assert len(shown) == 21
    assert shown[-1].strip() == "(3 more: -o json)"
