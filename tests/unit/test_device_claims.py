"""Claims for GPUs of drivers (DRA): templates, their names, and their lift."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import gpuctl
from gpuctl.backend.lift import lift

Object = dict[str, Any]
PLATFORM = (
    "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\n"
    "gpu: {allocation: dra, products: {A100: [NVIDIA A100-SXM4-80GB], H100: [NVIDIA H100 80GB HBM3]}}\n"
    "pools: [{name: train, gpu-types: [A100, H100, L4]}]\n"
)


def compiled(resources: Object, *, kind: str = "training", options: Object | None = None, **rest: Any) -> Any:
    document = {
        "kind": kind,
        "version": "v0.1",
        "job": {"name": "train"},
        "environment": {"image": "registry.example.com/app:v1"},
        "resources": {"pool": "train", "cpu": 1, "memory": "1Gi", **resources},
        **rest,
    }
    platform = gpuctl.Source("platform.yaml", PLATFORM)
    return gpuctl.compile(gpuctl.Source("job.yaml", json.dumps(document)), platform=platform, **(options or {}))


def templates(result: Any) -> dict[str, Object]:
    """Name -> request of each template."""
    return {
        item["metadata"]["name"]: item["spec"]["spec"]["devices"]["requests"][0]
        for item in result.objects
        if item["kind"] == "ResourceClaimTemplate"
    }


def pods(result: Any) -> list[Object]:
    """The pods of the JobSet's roles, or of the Job."""
    (main,) = (item for item in result.objects if item["kind"] in ("Job", "JobSet", "Deployment"))
    jobs = main["spec"].get("replicatedJobs") or [{"template": {"spec": main["spec"]}}]
    return [job["template"]["spec"]["template"]["spec"] for job in jobs]


def test_name_changes_with_the_request_and_with_nothing_else() -> None:
    (one,) = templates(compiled({"gpu": 1}))
    (same,) = templates(compiled({"gpu": 1, "cpu": 8}))
    (more,) = templates(compiled({"gpu": 2}))
    assert one == same != more
    assert one.startswith("train-gpu-")


def test_pods_without_gpus_claim_nothing() -> None:
    result = compiled({"gpu": 0}, kind="compute")
    assert templates(result) == {}
    assert "resourceClaims" not in pods(result)[0]


def test_roles_with_equal_requests_share_a_template() -> None:
    roles = [
        {"name": "a", "resources": {"gpu": 2}},
        {"name": "b", "resources": {"gpu": 2, "cpu": 4}},
        {"name": "c", "resources": {"gpu": 1}},
        {"name": "d", "resources": {"gpu": 0}},
    ]
    result = compiled({"gpu-memory": ">=40G"}, roles=roles, primary=["a"])
    assert result.ok, result.diagnostics
    named = [pod.get("resourceClaims", [{}])[0].get("resourceClaimTemplateName") for pod in pods(result)]
    assert named[0] == named[1] != named[2]
    assert named[3] is None
    assert set(templates(result)) == {named[0], named[2]}


def test_types_are_alternatives_in_order_of_preference() -> None:
    (request,) = templates(compiled({"gpu": 1, "gpu-type": ["H100", "A100"]})).values()
    assert [option["name"] for option in request["firstAvailable"]] == ["type-1", "type-2"]
    assert "H100" in request["firstAvailable"][0]["selectors"][0]["cel"]["expression"]
    (pod,) = pods(compiled({"gpu": 1, "gpu-type": ["H100", "A100"]}))
    assert "affinity" not in pod, "the claim selects the cards, not labels of nodes"
    (pod,) = pods(compiled({"gpu": 1, "gpu-type": "L4"}))
    assert pod["nodeSelector"]["runwhere.ai/gpu-type"] == "L4"


def test_templates_of_built_trainings_have_the_hash_of_their_job() -> None:
    result = compiled({"gpu": 1}, options={"job_names": "hashed"})
    (job,) = (item for item in result.objects if item["kind"] == "Job")
    (name,) = templates(result)
    assert name.startswith(f"{job['metadata']['name']}-gpu-")


@pytest.mark.parametrize(
    "resources",
    [
        {"gpu": 2},
        {"gpu": 1, "gpu-memory": ">=40Gi"},
        {"gpu": 4, "gpu-type": ["H100", "A100"], "gpu-memory": ">=79Gi"},
        {"gpu": 1, "gpu-type": "A100", "gpu-vendor": "amd"},
        {"gpu": 1, "gpu-type": ["L4", "T4"]},
    ],
)
@pytest.mark.parametrize("name", [None, "hashed"])
def test_claims_are_lifted(resources: Object, name: str | None) -> None:
    result = compiled(resources, options={"job_names": name})
    (lifted,) = lift(result.objects, result.settings, use_annotation=False)
    assert {key: lifted["resources"].get(key) for key in resources} == resources
    assert "podPatch" not in lifted


def test_template_of_another_namespace_is_not_lifted() -> None:
    result = compiled({"gpu": 2})
    (template,) = (item for item in result.objects if item["kind"] == "ResourceClaimTemplate")
    other = copy.deepcopy(template)
    other["metadata"]["namespace"] = "elsewhere"
    other["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 7
    (lifted,) = lift([other, *result.objects], result.settings, use_annotation=False)
    assert lifted["resources"]["gpu"] == 2


def test_claim_of_another_tool_becomes_a_patch() -> None:
    result = compiled({"gpu": 2})
    (template,) = (item for item in result.objects if item["kind"] == "ResourceClaimTemplate")
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "other.example.com"
    (lifted,) = lift(result.objects, result.settings, use_annotation=False)
    assert lifted["resources"]["gpu"] == 0
    assert lifted["podPatch"]["resourceClaims"] == pods(result)[0]["resourceClaims"]


def test_pod_patch_cannot_replace_the_claim() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "more"}]
    (problem,) = compiled({"gpu": 1}, podPatch={"resourceClaims": claims}).diagnostics
    assert "the claim `gpu` has the cards of resources.gpu" in problem.message
    other = [{"name": "nic", "resourceClaimTemplateName": "nic"}]
    (pod,) = pods(compiled({"gpu": 1}, podPatch={"resourceClaims": other}))
    assert [claim["name"] for claim in pod["resourceClaims"]] == ["gpu", "nic"]
