"""The platform's defaults that do not apply to a document, because of what the document is or writes."""

from __future__ import annotations

from typing import Any

import pytest

import gpuctl
from gpuctl.frontend.diagnostics import Severity
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


SCALING = "enabled: true, maxReplicas: 4"
QUERY = "{query: sum(waiting), target: 5}"


@pytest.mark.parametrize(
    ("kind", "defaults", "document"),
    [
        ("compute", "{service: {drain: 10s}}", "job: {name: a, on: {stop: [save]}}"),
        ("compute", "{job: {on: {stop: [save]}}}", "service: {port: 80, drain: 10s}"),
        ("compute", "{service: {timeout: 1m}}", "job: {name: a, grace: 2m}"),
        ("compute", "{job: {grace: 2m}}", "service: {port: 80, timeout: 1m}"),
        ("training", "{job: {checkpoint: {command: [save]}}}", "job: {name: a, checkpoint: {signal: USR1}}"),
        ("training", "{job: {checkpoint: {signal: USR1}}}", "job: {name: a, checkpoint: {command: [save]}}"),
        ("training", "{job: {retries: 3}}", "array: {size: 4, retries: 0}"),
        ("training", "{resources: {gpu: 1, gpu-share: 8Gi}}", "resources: {nodes: 2}"),
        ("training", "{resources: {gpu: 1, gpu-share: 8Gi}}", "roles: [{name: head}]"),
        ("training", "{resources: {nodes: 2}}", "resources: {gpu: 1, gpu-share: 8Gi}"),
        ("training", "{resources: {nodes: 2}}", "array: 4"),
        ("training", "{resources: {nodes: 2}}", "roles: [{name: head}]"),
        ("training", "{code: {git: 'https://a.io/b.git', ref: main, secret: a}}", "code: {local: .}"),
        (
            "training",
            "{resources: {nodes: 2, topology: {preferred: rack}}}",
            "resources: {nodes: 4, topology: {required: rack}}",
        ),
        ("training", "{resources: {nodes: 2, topology: rack}}", "resources: {nodes: 1}"),
        ("training", "{resources: {nodes: 2, topology: rack}}", "array: 4"),
        ("training", "{schedule: 0 2 * * *}", "job: {name: a, after: [prep]}"),
        ("compute", "{service: {health_check: /up}}", "service: {port: 53, protocol: UDP}"),
        ("compute", "{service: {nodePort: 30080}}", "service: {port: 80, type: ClusterIP}"),
        ("notebook", "{notebook: {stop_after: 2h, max_lifetime: 12h}}", "notebook: {max_lifetime: 1h}"),
        ("inference", "{autoscaling: {targetGPUUtilization: 70}}", f"autoscaling: {{{SCALING}, metric: queue}}"),
        ("inference", "{autoscaling: {metric: queue}}", f"autoscaling: {{{SCALING}, targetGPUUtilization: 70}}"),
        (
            "inference",
            "{autoscaling: {metric: queue, targetQueueLength: 5}}",
            f"autoscaling: {{{SCALING}, targetGPUUtilization: 70}}",
        ),
        (
            "inference",
            "{autoscaling: {metric: {name: tokens, target: 5}}}",
            f"autoscaling: {{{SCALING}, metric: {QUERY}}}",
        ),
        (
            "inference",
            f"{{autoscaling: {{metric: {QUERY}}}}}",
            f"autoscaling: {{{SCALING}, metric: {{name: tokens, target: 5}}}}",
        ),
        (
            "inference",
            "{autoscaling: {metric: {name: tokens, external: true, target: 5}, targetMemoryUtilization: 80}}",
            f"autoscaling: {{{SCALING}, metric: {QUERY}}}",
        ),
        (
            "inference",
            f"{{autoscaling: {{minReplicas: 0, metric: {QUERY}}}}}",
            f"autoscaling: {{{SCALING}, metric: queue}}",
        ),
        ("inference", "{autoscaling: {minReplicas: 2}}", "autoscaling: {enabled: true, maxReplicas: 1}"),
    ],
)
def test_default_that_the_document_excludes_does_not_apply(kind: str, defaults: str, document: str) -> None:
    platform = """\
gpu: {sharing: hami}
training: {backend: jobset}
prometheus: http://prometheus:9090
autoscaling: {keda: true}
topology: {levels: [{name: rack, label: example.com/rack}]}
"""
    found = compiled(defaults, document, kind, platform)
    # The directory of `code.local` is not among the sources.
    assert {item.code for item in found.diagnostics if item.severity is Severity.ERROR} <= {"GPU236"}, found.diagnostics


def test_default_that_the_document_does_not_exclude_applies() -> None:
    defaults = "{autoscaling: {metric: queue, targetQueueLength: 7, minReplicas: 2}}"
    found = compiled(defaults, f"autoscaling: {{{SCALING}, metric: queue}}", "inference")
    (scaler,) = [item["spec"] for item in found.objects if item["kind"] == "HorizontalPodAutoscaler"]
    (metric,) = scaler["metrics"]
    assert (scaler["minReplicas"], metric["pods"]["target"]["averageValue"]) == (2, "7")


@pytest.mark.parametrize(
    ("kind", "defaults", "path"),
    [
        ("compute", "{job: {grace: 2m}, service: {timeout: 1m}}", "job.grace"),
        ("inference", "{job: {grace: 2m}, service: {timeout: 1m}}", "job.grace"),
        ("notebook", "{job: {on: {stop: [save]}}, service: {drain: 10s}}", "service.drain"),
        ("training", "{resources: {gpu: 1, gpu-profile: 1g.10gb, gpu-share: 8Gi}}", "resources.gpu-profile"),
    ],
)
def test_defaults_that_exclude_each_other_are_an_error_of_the_platform(kind: str, defaults: str, path: str) -> None:
    found = compiled(defaults, "", kind)
    errors = [item for item in found.diagnostics if item.severity is Severity.ERROR]
    assert [(item.code, item.path) for item in errors] == [("GPU213", ("defaults", kind, *path.split(".")))]
    assert errors[0].span is not None
    assert errors[0].span.file == "platform.yaml"


def test_fields_that_exclude_each_other_in_the_document_are_an_error() -> None:
    found = compiled(
        "{service: {drain: 10s}}", "job: {name: a, on: {stop: [save]}}\nservice: {port: 80, drain: 5s}", "compute"
    )
    assert [item.code for item in found.diagnostics if item.code == "GPU213"] == ["GPU213"]
