"""``kind: inference``: a model behind a Service, with optional autoscaling."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    Block,
    Boolean,
    Count,
    DnsLabel,
    Duration,
    NonEmpty,
    Partial,
    Percent,
    PositiveCount,
    UserKeys,
)
from gpuctl.language.service_block import ServiceBlock
from gpuctl.language.workload import PROFILES, Workload
from gpuctl.objects.durations import parse_duration


class ServedModel(Block):
    """The served model. Available to the program as MODEL_* variables and in `{{model.name}}` templates."""

    source: NonEmpty | None = Field(
        None, description="Source of the model; env MODEL_SOURCE.", examples=["model-registry"]
    )
    name: NonEmpty | None = Field(None, description="Name of the model; env MODEL_NAME.", examples=["llama3-8b"])
    version: NonEmpty | None = Field(None, description="Its version; env MODEL_VERSION.", examples=["v1.0"])
    format: NonEmpty | None = Field(None, description="File format; env MODEL_FORMAT.", examples=["safetensors"])
    cache: Boolean = Field(
        False,
        description="Keep downloads of a pod in an emptyDir at /cache/model, with HF_HOME pointing there unless you "
        "set it.",
        examples=[True],
    )


class Autoscaling(Block):
    """Number of pods, depending on load. Becomes a HorizontalPodAutoscaler."""

    enabled: Boolean = Field(False, description="Turn autoscaling on.", examples=[True])
    minReplicas: PositiveCount = Field(1, description="Minimum number of pods.", examples=[1])  # noqa: N815
    maxReplicas: PositiveCount | None = Field(  # noqa: N815
        None, description="Maximum number of pods; required when enabled.", examples=[10]
    )
    targetGPUUtilization: Percent | None = Field(  # noqa: N815
        None,
        description="Target for the average GPU utilisation, percent. It is near 100 under a single request for most "
        "model servers, so `metric: queue` is often the better signal.",
        examples=[70],
    )
    targetMemoryUtilization: Percent | None = Field(  # noqa: N815
        None,
        description="Target for the average GPU memory in use, percent. The metrics adapter must serve "
        "`gpu_memory_used_percent`, or the metric in the platform's `autoscaling.metrics.memory`.",
        examples=[85],
    )
    targetQueueLength: PositiveCount | None = Field(  # noqa: N815
        None, description="With `metric: queue`: target for the waiting requests per pod. Default 5.", examples=[5]
    )
    targetCPUUtilization: Percent | None = Field(  # noqa: N815
        None,
        description="With `metric: cpu`: target for the average CPU utilisation, percent of the request. Default 80.",
        examples=[80],
    )
    scaleUpDelay: Duration | None = Field(  # noqa: N815
        None, description="Time that load must stay high before pods are added.", examples=["60s"]
    )
    scaleDownDelay: Duration | None = Field(  # noqa: N815
        None, description="Time that load must stay low before pods are removed.", examples=["300s"]
    )
    metric: Literal["gpu", "queue", "cpu"] = Field(
        "gpu",
        description="Measure of load: GPU utilisation, the length of the model server's request queue, or CPU. GPU "
        "utilisation is near 100 under a single request, so it is a weak measure; the queue length shows that "
        "requests wait.",
        examples=["queue"],
    )

    @model_validator(mode="after")
    def _bounds(self) -> "Autoscaling":
        if self.enabled and self.maxReplicas is None:
            raise field_error(
                "GPU201", "autoscaling is enabled without `maxReplicas`", "add `maxReplicas:`", ("enabled",)
            )
        if self.maxReplicas is not None and self.minReplicas > self.maxReplicas:
            raise field_error(
                "GPU213",
                f"minReplicas ({self.minReplicas}) is greater than maxReplicas ({self.maxReplicas})",
                "swap them",
                ("minReplicas",),
            )
        if self.targetQueueLength is not None and self.metric != "queue":
            raise field_error(
                "GPU213",
                "`targetQueueLength` needs `metric: queue`",
                "add it, or remove this line",
                ("targetQueueLength",),
            )
        if self.targetCPUUtilization is not None and self.metric != "cpu":
            raise field_error(
                "GPU213",
                "`targetCPUUtilization` needs `metric: cpu`",
                "add it, or remove this line",
                ("targetCPUUtilization",),
            )
        if self.targetGPUUtilization is not None and self.metric != "gpu":
            raise field_error(
                "GPU213",
                f"`targetGPUUtilization` needs `metric: gpu`, and the metric is {self.metric}",
                "remove one",
                ("targetGPUUtilization",),
            )
        for name in ("scaleUpDelay", "scaleDownDelay"):
            _stabilization(name, getattr(self, name))
        return self


def _stabilization(name: str, value: str | None) -> None:
    """Check that ``behavior.*.stabilizationWindowSeconds`` is at most an hour (autoscaling/v2 validation)."""
    if value is not None and (parse_duration(value) or 0) > 3600:
        raise field_error(
            "GPU206", f"`{name}` is longer than 1h, the most Kubernetes takes", "write at most `1h`", (name,)
        )


class InferenceService(ServiceBlock):
    """Network access to an inference."""

    replicas: Annotated[Count, Field(le=10000)] = Field(
        1, description="Number of pods; ignored under autoscaling.", examples=[2]
    )


class InferenceDocument(Workload):
    """A model server: becomes a Deployment, a Service and, on request, a HorizontalPodAutoscaler."""

    kind: Literal["inference"] = Field(description="The kind of document.")
    model: ServedModel | None = Field(None, description="The served model.")
    service: InferenceService = Field(
        default_factory=InferenceService, description="Network access to the model, and its replicas."
    )
    autoscaling: Autoscaling | None = Field(None, description="Number of pods, depending on load.")
    profiles: Annotated[dict[DnsLabel, Annotated[dict[str, Any], Partial("inference")]], UserKeys()] = PROFILES

    @property
    def autoscaled(self) -> bool:
        """True if a HorizontalPodAutoscaler sets the number of replicas."""
        return self.autoscaling is not None and self.autoscaling.enabled
