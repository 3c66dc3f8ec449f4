"""``kind: inference``: a model behind a Service, with optional autoscaling."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gpuctl.language.autoscaling_block import Autoscaling
from gpuctl.language.exclusions import one_of
from gpuctl.language.fields import Block, Boolean, Count, DnsLabel, NonEmpty, Partial
from gpuctl.language.resources_block import InferenceResources
from gpuctl.language.sentences import Template
from gpuctl.language.service_block import JOB_WITH_SERVICE, ServiceBlock
from gpuctl.language.workload import PROFILES, Workload


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


class InferenceService(ServiceBlock):
    """Network access to an inference."""

    replicas: Annotated[Count, Field(le=10000)] = Field(
        1,
        description="Number of pods, on several nodes of groups of `resources.nodes` pods; ignored under autoscaling.",
        examples=[2],
    )


class InferenceDocument(Workload):
    """A model server: becomes a Deployment (on several nodes a LeaderWorkerSet), a Service and, on request, a
    HorizontalPodAutoscaler.
    """

    exclusions = (
        *JOB_WITH_SERVICE,
        *one_of(
            "resources.nodes",
            "resources.gpu-share",
            message=Template("`gpu-share` asks for part of a card, and a replica spans several nodes"),
            hint=Template("remove `gpu-share`, or use one node"),
        ),
    )

    kind: Literal["inference"] = Field(description="The kind of document.")
    model: ServedModel | None = Field(None, description="The served model.")
    resources: InferenceResources = Field(
        default_factory=InferenceResources,
        description="Resources of each pod, its pool, and the number of nodes of each replica.",
    )
    service: InferenceService = Field(
        default_factory=InferenceService, description="Network access to the model, and its replicas."
    )
    autoscaling: Autoscaling | None = Field(None, description="Number of pods, depending on load.")
    profiles: dict[DnsLabel, Annotated[dict[str, Any], Partial("inference")]] = PROFILES

    @property
    def autoscaled(self) -> bool:
        """True if an autoscaler sets the number of replicas."""
        return self.autoscaling is not None and self.autoscaling.enabled
