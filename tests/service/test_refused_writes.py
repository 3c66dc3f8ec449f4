"""Writes that are rejected by admission policies, pool limits or foreign objects, and what the rejection must not
reveal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import Place, image, inference, training
from support.documents_sent import sent
from support.served import Served

VERSION = "admissionregistration.k8s.io/v1"
POLICIES = f"/apis/{VERSION}/validatingadmissionpolicies"
BINDINGS = f"/apis/{VERSION}/validatingadmissionpolicybindings"
TEAM = "team-a"


@pytest.fixture
def v2_policy_message(place: Place) -> Iterator[str]:
    """The message of an admission policy that rejects jobs with an image of tag v2."""
    name, message = f"{place.namespace}-no-v2", "v2 is not approved"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
            ]
        },
        "validations": [
            {
                "expression": "!object.spec.template.spec.containers[0].image.endsWith(':v2')",
                "message": message,
            }
        ],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    for path, kind, body in (
        (POLICIES, "ValidatingAdmissionPolicy", spec),
        (BINDINGS, "ValidatingAdmissionPolicyBinding", binding),
    ):
        obj = {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": body}
        place.api.call("POST", path, obj)
    yield message
    for path in (BINDINGS, POLICIES):
        place.api.call("DELETE", f"{path}/{name}")


def test_admission_policy_rejects_create_and_update(served: Served, place: Place, v2_policy_message: str) -> None:
    """The answer contains the policy's message, and the old job is not touched."""
    body = sent(training("a", environment=image("v2")), namespace=place.namespace)
    place.until(
        lambda: served.client().post("/jobs", json={**body, "dryRun": True}).status_code == 409,
        "the policy to take effect",
    )
    refused = served.call("POST", "/jobs", status=409, json=body)
    assert refused["error"] == "Refused"
    assert v2_policy_message in refused["message"]
    made = served.call("POST", "/jobs", status=201, json=sent(training("a"), namespace=place.namespace))
    uid = place.uid("Job", "a")
    path = f"/jobs/{made['jobId']}"
    refused = served.call("PUT", path, status=409, json=body, params={"confirm": "true"})
    assert v2_policy_message in refused["details"][0]["message"]
    assert place.uid("Job", "a") == uid
    assert v2_policy_message in served.call("POST", "/plan", json=body)["errors"][0]


def test_pool_limits_reject_jobs(served: Served, plane: ControlPlane, place: Place) -> None:
    plane.add_node("narrow-0", gpus=8)
    pool = {"name": "narrow", "nodes": ["narrow-0"], "quota": {"maxJobs": 1, "maxGpuPerJob": 2}}
    try:
        served.call("POST", "/pools", status=201, json=pool)
        job = {"resources": {"pool": "narrow", "gpu": 4}}
        refused = served.call("POST", "/jobs", status=409, json=sent(training("a", **job), namespace=place.namespace))
        assert "narrow allows 2 per job" in refused["message"]
        small = {"resources": {"pool": "narrow", "gpu": 1}}
        served.call("POST", "/jobs", status=201, json=sent(training("a", **small), namespace=place.namespace))
        refused = served.call("POST", "/jobs", status=409, json=sent(training("b", **small), namespace=place.namespace))
        assert "allows 1 unfinished jobs" in refused["message"]
        waiting = sent(training("b", job={"name": "b", "after": ["a"]}, **job), namespace=place.namespace)
        refused = served.call("POST", "/jobs", status=409, json=waiting)
        assert "narrow allows 2 per job" in refused["message"]
    finally:
        served.client().delete("/pools/narrow", params={"confirm": "true"})
        plane.kubectl("delete", "node", "narrow-0")


def test_foreign_objects_are_not_taken_over(served: Served, place: Place) -> None:
    """A Deployment that another client created has the name."""
    place.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a", "labels": {"app": "a"}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"containers": [{"name": "x", "image": "x"}]},
                },
            },
        }
    )
    before = place.records()
    refused = served.call("POST", "/jobs", status=409, json=sent(inference("a"), namespace=place.namespace))
    assert "not gpuctl's" in refused["message"]
    assert place.records() == before
    assert served.call("DELETE", "/jobs/a", status=404, params={"namespace": place.namespace})["error"] == "NotFound"


@pytest.fixture
def one_node_pool(plane: ControlPlane) -> Iterator[str]:
    """A pool of one node."""
    pool = "contested-rest"
    plane.add_node(f"{pool}-0", labels={"runwhere.ai/pool": pool}, gpus=8, cpu="64", memory="256Gi")
    yield pool
    plane.kubectl("delete", "node", f"{pool}-0")


def test_evicted_jobs_are_named_only_to_users_who_may_see_them(
    served: Served, api: Api, place: Place, one_node_pool: str
) -> None:
    """The plan and the confirmation mention the eviction; they name the evicted job only to users who may see it."""

    def job(name: str, priority: str) -> dict[str, Any]:
        return training(name, job={"name": name, "priority": priority}, resources={"pool": one_node_pool, "gpu": 8})

    place.apply(job("secret-project", "low"))
    pods = place.running("secret-project")
    mine = sent(job("urgent", "high"), namespace=TEAM)
    hidden = ["secret-project", place.namespace, *pods]
    answers = [
        served.call("POST", "/plan", "anna", json=mine),
        served.call("POST", "/jobs", "anna", status=409, json=mine),
    ]
    for answer in answers:
        assert not [name for name in hidden if name in json.dumps(answer)], answer
    (victim,) = next(step for step in answers[0]["steps"] if step["kind"] == "Job")["victims"]
    assert (victim["namespace"], victim["job"], victim["pods"]) == (None, None, [])
    assert answers[1]["error"] == "NotConfirmed"
    assert "evicts work in other namespaces (running for" in answers[1]["details"][0]["message"]
    seen = served.call("POST", "/plan", json=mine)
    assert f"training/secret-project in {place.namespace} (1 pod" in seen["questions"][0]
    assert api.request("GET", f"/apis/batch/v1/namespaces/{TEAM}/jobs/urgent")[0] == 404
