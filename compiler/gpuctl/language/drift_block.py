"""The platform's ``drift``: differences from the documents that are no drift."""

from typing import Literal

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, NonEmpty, empty_list
from gpuctl.language.sentences import say

DriftKind = Literal[
    "Deployment",
    "StatefulSet",
    "Job",
    "JobSet",
    "CronJob",
    "LeaderWorkerSet",
    "Service",
    "ConfigMap",
    "HTTPRoute",
    "Ingress",
    "PodDisruptionBudget",
    "ResourceClaimTemplate",
    "HorizontalPodAutoscaler",
    "ScaledObject",
    "ResourceQuota",
    "LimitRange",
    "ClusterQueue",
    "LocalQueue",
    "ResourceFlavor",
    "Node",
]


class IgnoredDrift(Block):
    """A difference that does not count as drift. All fields given must match; `path` or `manager` is required."""

    kind: DriftKind | None = Field(None, description="Kind of the object. Default: any.", examples=["Deployment"])
    path: NonEmpty | None = Field(
        None,
        description="Path of the field as `gpuctl drift -o json` prints it, or of one that contains it; `*` stands for "
        "any text.",
        examples=["spec.template.spec.containers[istio-proxy]"],
    )
    manager: NonEmpty | None = Field(
        None,
        description="Field manager that wrote it; `*` stands for any text. Every user who may change an object can use "
        "any name.",
        examples=["istio-*"],
    )

    @model_validator(mode="after")
    def _names_a_field(self) -> "IgnoredDrift":
        if self.path is None and self.manager is None:
            raise field_error("GPU213", say("this would ignore every difference"), say("give `path` or `manager`"), ())
        return self


class DriftSettings(Block):
    """Settings of `gpuctl drift`."""

    ignore: list[IgnoredDrift] = Field(
        default_factory=empty_list,
        description="Differences to list as expected. Always expected are the annotation of `kubectl rollout restart`, "
        "and containers and labels that admission adds to every new object.",
        examples=[[{"path": "spec.template.spec.containers[istio-proxy]", "manager": "istio-*"}]],
    )
