"""Jobs, and limits of GPUs, against quotas that are queues of Kueue."""

from __future__ import annotations

import json
from typing import Any

import pytest

import gpuctl

PLATFORM = "kind: platform\nversion: v0.1\nquota: {backend: kueue}\ninference: {backend: lws}\n"


def codes(entry: str, resources: dict[str, Any], gpu: str = "{}", *, kind: str = "training", **rest: Any) -> list[str]:
    """Return the codes in the 400s and of limits, for a job in a namespace with a quota."""
    quota = f"kind: quota\nversion: v0.1\nquota: {{name: q}}\nusers: {{team-a: {entry}}}\n"
    job = {
        "kind": kind,
        "version": "v0.1",
        "job": {"name": "train", "namespace": "team-a"},
        "environment": {"image": "registry.example.com/app:v1", "command": ["python", "train.py"]},
        "resources": {"cpu": 1, "memory": "1Gi", **resources},
        **rest,
    }
    source = gpuctl.Source("job.yaml", f"{quota}---\n{json.dumps(job)}\n")
    result = gpuctl.compile(source, platform=gpuctl.Source("platform.yaml", f"{PLATFORM}gpu: {gpu}\n"))
    return [item.code for item in result.diagnostics if item.code[:4] in ("GPU4", "GPU2")]


@pytest.mark.parametrize(
    ("entry", "gpu"),
    [
        ("{gpu: 4}", "{}"),
        ("{cpu: 64}", "{}"),
        ("{gpu-types: {H100: 8}}", "{}"),
        ("{gpu: 4}", "{vendors: {amd: {resource: amd.com/gpu}}}"),
    ],
)
def test_job_for_a_vendor_without_quota_is_an_error(entry: str, gpu: str) -> None:
    assert codes(entry, {"gpu": 1, "gpu-vendor": "amd"}, gpu) == ["GPU426"]


def test_vendor_of_the_platform_needs_no_limit() -> None:
    amd = "{vendors: {amd: {resource: amd.com/gpu}}}"
    assert codes("{cpu: 64}", {"gpu": 1, "gpu-vendor": "amd"}, amd) == []
    assert codes("{gpu: {amd: 4}}", {"gpu": 1, "gpu-vendor": "amd"}) == []


def test_slices_without_quota_are_an_error() -> None:
    slices = {"gpu": 1, "gpu-profile": "1g.10gb"}
    assert codes("{gpu: 4}", slices) == ["GPU426"]
    assert codes("{gpu-profiles: {1g.10gb: 2}}", slices) == []


def test_limits_of_types_count_no_slices_and_no_jobs_without_gpus() -> None:
    entry = "{gpu-types: {H100: 8}, gpu-profiles: {1g.10gb: 2}}"
    assert codes(entry, {"gpu": 1, "gpu-profile": "1g.10gb", "gpu-type": "A100"}) == []
    assert codes(entry, {"gpu": 1, "gpu-type": "A100"}) == ["GPU427"]


def test_replica_on_several_nodes_is_admitted_as_one() -> None:
    resources, service = {"gpu": 4, "nodes": 2}, {"port": 8000, "replicas": 2}
    assert codes("{gpu: 8}", resources, kind="inference", service=service) == []
    assert codes("{gpu: 7}", resources, kind="inference", service=service) == ["GPU426"]


def test_limit_on_claimed_gpus_is_a_warning() -> None:
    dra = "{allocation: dra, products: {H100: [NVIDIA H100 80GB HBM3]}}"
    assert codes("{gpu: 4}", {"gpu": 1}, dra) == ["GPU433"]
    assert codes("{cpu: 64}", {"gpu": 1}, dra) == []
    assert codes("{gpu-types: {A100: 4}}", {"gpu": 1}, dra) == ["GPU433"]
    assert codes("{gpu-profiles: {1g.10gb: 4, 2g.20gb: 1}}", {"gpu": 1, "gpu-profile": "1g.10gb"}, dra) == ["GPU433"]
    two = "{allocation: dra, products: {H100: [NVIDIA H100], A100: [NVIDIA A100]}}"
    assert codes("{cpu: 64}", {"gpu": 1, "gpu-type": ["H100", "A100"]}, two) == ["GPU435"]
    assert codes("{cpu: 64}", {"gpu": 1, "gpu-type": ["H100"]}, two) == []
    # Claims by product name select no node, so that Kueue would count another type.
    assert codes("{gpu-types: {H100: 4}}", {"gpu": 1}, dra) == ["GPU433", "GPU231"]
