"""The ``placement:`` block: the clusters of a document."""

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, DnsLabel
from gpuctl.language.sentences import say


class Placement(Block):
    """Clusters of the document."""

    clusters: list[DnsLabel] = Field(
        description="Names of clusters that the platform defines. On other clusters the document is left out.",
        examples=[["prod"]],
    )

    @model_validator(mode="after")
    def _is_somewhere(self) -> "Placement":
        if not self.clusters:
            raise field_error(
                "GPU205", say("the list is empty"), say("name a cluster, or remove `placement`"), ("clusters",)
            )
        return self
