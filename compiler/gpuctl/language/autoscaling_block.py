"""The ``autoscaling:`` block of an inference: bounds and metrics."""

from typing import Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Duration, PositiveQuantity
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import REMOVE_IT, Exclusion, one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Boolean, Count, NonEmpty, Percent, PositiveCount
from gpuctl.language.sentences import Template, say
from gpuctl.objects.durations import parse_duration

_ONE_MEASURE = Template("a metric has a `name` or a `query`")


class OwnMetric(Block):
    """A metric of the user: one that the cluster's metrics adapter serves, or a query."""

    exclusions = (
        *one_of("name", "query", message=_ONE_MEASURE, at=""),
        Exclusion("query", ("external",), Template("`external` is about a metric with a name"), REMOVE_IT),
    )

    name: NonEmpty | None = Field(
        None,
        description="Name of a metric that the cluster's metrics adapter serves for each pod.",
        examples=["tokens_per_second"],
    )
    external: Boolean = Field(
        False,
        description="If true, the metric has one value for the service (external.metrics.k8s.io), not one a pod.",
        examples=[True],
    )
    query: NonEmpty | None = Field(
        None,
        description="PromQL query with one value for the service. KEDA runs it on the platform's `prometheus`: needs "
        "`autoscaling.keda` in the platform.",
        examples=["sum(vllm:num_requests_waiting)"],
    )
    target: PositiveQuantity = Field(description="Target of the metric for each pod.", examples=["5"])

    @model_validator(mode="after")
    def _one_source(self) -> "OwnMetric":
        refuse_exclusions(self)
        if self.name is None and self.query is None:
            raise field_error("GPU213", say(_ONE_MEASURE), say("add one of them"), ())
        return self

    @property
    def is_of_service(self) -> bool:
        """True if the metric has a value while no pod runs."""
        return self.external or self.query is not None


class Autoscaling(Block):
    """Number of pods, depending on load. Becomes a HorizontalPodAutoscaler, or with a query a ScaledObject of KEDA."""

    exclusions = (
        # Each of them needs another metric.
        *one_of("targetGPUUtilization", "targetCPUUtilization", "targetQueueLength"),
        Exclusion(
            "metric.query",
            ("targetMemoryUtilization",),
            Template("`targetMemoryUtilization` is a second metric, and a query is the only one of its autoscaler"),
            Template("remove one"),
        ),
    )

    enabled: Boolean = Field(False, description="Turn autoscaling on.", examples=[True])
    minReplicas: Count = Field(  # noqa: N815
        1,
        description="Minimum number of pods. 0 stops the service without load: it needs a `metric` with `query`, "
        "or with `external` where the platform has `autoscaling.scaleToZero`.",
        examples=[1],
    )
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
    metric: Literal["gpu", "queue", "cpu"] | OwnMetric = Field(
        "gpu",
        description="Measure of load: GPU utilisation, the length of the model server's request queue, CPU, or a "
        "metric of your own. GPU utilisation is near 100 under a single request, so it is a weak measure; the queue "
        "length shows that requests wait.",
        examples=["queue", {"query": "sum(vllm:num_requests_waiting)", "target": 5}],
    )

    @model_validator(mode="after")
    def _bounds(self) -> "Autoscaling":
        if self.enabled and self.maxReplicas is None:
            raise field_error(
                "GPU201", say("autoscaling is enabled without `maxReplicas`"), say("add `maxReplicas:`"), ("enabled",)
            )
        if self.maxReplicas is not None and self.minReplicas > self.maxReplicas:
            raise field_error(
                "GPU213",
                say(
                    "minReplicas ({minReplicas}) is greater than maxReplicas ({maxReplicas})",
                    minReplicas=self.minReplicas,
                    maxReplicas=self.maxReplicas,
                ),
                say("swap them"),
                ("minReplicas",),
            )
        if self.targetQueueLength is not None and self.metric != "queue":
            raise field_error(
                "GPU213",
                say("`targetQueueLength` needs `metric: queue`"),
                say("add it, or remove this line"),
                ("targetQueueLength",),
            )
        if self.targetCPUUtilization is not None and self.metric != "cpu":
            raise field_error(
                "GPU213",
                say("`targetCPUUtilization` needs `metric: cpu`"),
                say("add it, or remove this line"),
                ("targetCPUUtilization",),
            )
        if self.targetGPUUtilization is not None and self.metric != "gpu":
            raise field_error(
                "GPU213",
                say("`targetGPUUtilization` needs `metric: gpu`, and the metric is another one"),
                say("remove one"),
                ("targetGPUUtilization",),
            )
        if self.minReplicas == 0 and (self.own_metric is None or not self.own_metric.is_of_service):
            message = say("`minReplicas: 0` needs a metric of the service: without pods there are no metrics of pods")
            hint = say("write `metric: {{query: ..., target: ...}}`, or add `external: true` to a metric with a name")
            raise field_error("GPU213", message, hint, ("minReplicas",))
        refuse_exclusions(self)
        for name in ("scaleUpDelay", "scaleDownDelay"):
            _stabilization(name, getattr(self, name))
        return self

    @property
    def own_metric(self) -> OwnMetric | None:
        """The metric of the user; None for one of the platform's."""
        return self.metric if isinstance(self.metric, OwnMetric) else None


def _stabilization(name: str, value: str | None) -> None:
    """Check that ``behavior.*.stabilizationWindowSeconds`` is at most an hour (autoscaling/v2 validation)."""
    if value is not None and (parse_duration(value) or 0) > 3600:
        raise field_error(
            "GPU206",
            say("`{name}` is longer than 1h, the most Kubernetes takes", name=name),
            say("write at most `{most}`", most="1h"),
            (name,),
        )
