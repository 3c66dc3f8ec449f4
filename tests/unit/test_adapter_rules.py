"""The rules for prometheus-adapter provide the metrics that autoscaling uses by default."""

from __future__ import annotations

import gpuctl
from gpuctl.language.autoscaling_settings import MetricNames
from support.adapter_rules import adapter_rules


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
    assert asked == {rule.metric for rule in adapter_rules()} == set(MetricNames().model_dump().values())


def test_memory_metric_is_used_memory_divided_by_total() -> None:
    queries = [(rule.metric, rule.labels["pod"], rule.query("t1", "demo-1")) for rule in adapter_rules()]
    for namespace, label in (("namespace", "pod"), ("exported_namespace", "exported_pod")):
        pod = f'{{{namespace}="t1",{label}=~"demo-1"}}) by ({label})'
        used, free = f"sum(DCGM_FI_DEV_FB_USED{pod}", f"sum(DCGM_FI_DEV_FB_FREE{pod}"
        assert ("gpu_memory_used_percent", label, f"100 * {used} / ({used} + {free})") in queries
        assert ("DCGM_FI_DEV_GPU_UTIL", label, f"avg(DCGM_FI_DEV_GPU_UTIL{pod}") in queries
