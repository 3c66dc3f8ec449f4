"""The ``placement:`` block: the clusters of a document."""

from typing import Annotated

from pydantic import Field

from gpuctl.language.fields import Block, DnsLabel


class Placement(Block):
    """Clusters of the document."""

    clusters: Annotated[list[DnsLabel], Field(min_length=1)] = Field(
        description="Names of clusters that the platform defines. On other clusters the document is left out.",
        examples=[["prod"]],
    )
