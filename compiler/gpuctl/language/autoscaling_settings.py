"""The platform's ``autoscaling``: the metrics adapter and its names of metrics."""

from pydantic import Field

from gpuctl.language.fields import Block, Boolean, NonEmpty


class MetricNames(Block):
    """Names of the pod metrics that the cluster's metrics adapter serves.

    deploy/prometheus-adapter/values.yaml contains the rules for the default ones.
    """

    gpu: NonEmpty = Field(
        "DCGM_FI_DEV_GPU_UTIL",
        description="GPU utilisation, percent, averaged over the pod's cards.",
        examples=["gpu_utilization"],
    )
    memory: NonEmpty = Field(
        "gpu_memory_used_percent",
        description="GPU memory in use, percent: FB_USED / (FB_USED + FB_FREE) of dcgm-exporter. No "
        "exporter provides it; "
        "a rule of the adapter computes it (deploy/prometheus-adapter/values.yaml).",
        examples=["gpu_memory_used_percent"],
    )
    queue: NonEmpty = Field(
        "vllm:num_requests_waiting", description="Waiting requests of a pod.", examples=["vllm:num_requests_waiting"]
    )


class AutoscalingSettings(Block):
    """Settings of autoscaling."""

    metrics: MetricNames = Field(
        default_factory=MetricNames.model_construct, description="Names of the gpu, memory and queue metrics."
    )
    keda: Boolean = Field(
        False,
        description="If true, the cluster has KEDA, which `autoscaling.metric.query` needs, with `prometheus`.",
        examples=[True],
    )
    scaleToZero: Boolean = Field(  # noqa: N815
        False,
        description="If true, the cluster has the feature gate HPAScaleToZero, which `minReplicas: 0` with an "
        "`external` metric needs.",
        examples=[True],
    )
