"""The rules for prometheus-adapter serve what autoscaling asks for by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import gpuctl
from gpuctl.language.platform import MetricNames

VALUES = Path(__file__).parents[2] / "deploy" / "prometheus-adapter" / "values.yaml"


def rules() -> dict[str, Any]:
    """Name of the metric -> its rule."""
    return {rule["name"]["as"]: rule for rule in yaml.safe_load(VALUES.read_text())["rules"]["custom"]}


def query(name: str) -> str:
    """What the adapter asks Prometheus for the pod `demo-1` of namespace `t1`."""
    template: str = rules()[name]["metricsQuery"]
    matchers = 'namespace="t1",pod="demo-1"'
    return template.replace("<<.LabelMatchers>>", matchers).replace("<<.GroupBy>>", "pod").replace("<<.Series>>", name)


def test_every_metric_of_a_rendered_autoscaler_has_a_rule() -> None:
    asked = set()
    for scaling in ("targetGPUUtilization: 70, targetMemoryUtilization: 80", "metric: queue"):
        text = (
            "kind: inference\nversion: v0.1\njob: {name: demo}\nenvironment: {image: 'app:1'}\n"
            f"resources: {{gpu: 1, cpu: 8, memory: 32Gi}}\nautoscaling: {{enabled: true, maxReplicas: 4, {scaling}}}\n"
        )
        result = gpuctl.compile(gpuctl.Source("demo.yaml", text))
        assert result.ok
        metrics = next(obj for obj in result.objects if obj["kind"] == "HorizontalPodAutoscaler")["spec"]["metrics"]
        asked |= {metric["pods"]["metric"]["name"] for metric in metrics}
    assert asked == set(rules()) == set(MetricNames().model_dump().values())


def test_memory_is_what_is_used_of_all_there_is() -> None:
    pod = '{namespace="t1",pod="demo-1"}) by (pod)'
    used, free = f"sum(DCGM_FI_DEV_FB_USED{pod}", f"sum(DCGM_FI_DEV_FB_FREE{pod}"
    assert query("gpu_memory_used_percent") == f"100 * {used} / ({used} + {free})"
    assert query("DCGM_FI_DEV_GPU_UTIL") == f"avg(DCGM_FI_DEV_GPU_UTIL{pod}"
