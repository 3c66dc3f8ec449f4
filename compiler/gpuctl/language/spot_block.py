"""The platform's spot nodes: cheaper ones that the provider may take away."""

from typing import Annotated

from pydantic import Field

from gpuctl.language.fields import Block, LabelKey, RequiredLabelValue


class SpotSettings(Block):
    """Labels and taint of spot nodes, which the provider may take away at any time."""

    labels: Annotated[dict[LabelKey, RequiredLabelValue], Field(min_length=1)] = Field(
        description="Labels by which spot nodes are selected.", examples=[{"cloud.google.com/gke-spot": "true"}]
    )
    taint: LabelKey | None = Field(
        None,
        description="Key of the taint that keeps other pods from spot nodes. Default: they have none.",
        examples=["cloud.google.com/gke-spot"],
    )
