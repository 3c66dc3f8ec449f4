"""The platform's defaults that do not apply to a document, because of what the document is or writes."""

from __future__ import annotations

from typing import Any

import pytest

import gpuctl
from gpuctl.frontend.source import Source

MORE = {"inference": "service: {port: 80}\n", "compute": "service: {port: 80}\n", "notebook": "service: {port: 80}\n"}


def compiled(defaults: str, document: str, kind: str = "training", platform: str = "") -> gpuctl.Compilation:
    """Compile a document with a platform's defaults of its kind."""
    head = f"kind: {kind}\nversion: v0.1\n"
    if "job:" not in document:
        head += "job: {name: a}\n"
    text = f"{head}environment: {{image: 'reg.io/a:1', command: [x]}}\n{document}\n"
    if "service:" not in document:
        text += MORE.get(kind, "")
    defaults = f"kind: platform\nversion: v0.1\n{platform}\ndefaults:\n  {kind}: {defaults}\n"
    return gpuctl.compile(Source("a.yaml", text), platform=Source("platform.yaml", defaults))


def pod_of(compilation: gpuctl.Compilation) -> dict[str, Any]:
    """Return the pod of the only workload."""
    assert compilation.ok, compilation.diagnostics
    (pod,) = [item["spec"]["template"]["spec"] for item in compilation.objects if "template" in item.get("spec", {})]
    found: dict[str, Any] = pod
    return found


@pytest.mark.parametrize(
    ("resources", "selects"),
    [
        ("cpu: 1, memory: 1Gi", False),
        ("gpu: 0, cpu: 1, memory: 1Gi", False),
        ("gpu: 1, cpu: 1, memory: 1Gi", True),
        ("gpu: 1, gpu-memory: 40Gi, cpu: 1, memory: 1Gi", True),
        ("gpu-type: T4, cpu: 1, memory: 1Gi", True),
    ],
)
def test_default_gpu_type_selects_no_node_for_a_job_without_gpus(resources: str, selects: bool) -> None:
    found = compiled("{resources: {gpu-type: T4}}", f"resources: {{{resources}}}", platform="gpu: {allocation: dra}")
    assert ("runwhere.ai/gpu-type" in str(pod_of(found))) == selects
