"""The range of nodes of an elastic training."""

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Nodes
from gpuctl.language.sentences import say


class NodeRange(Block):
    """Range of the number of nodes of an elastic training. torchrun restarts the program when the number changes."""

    min: Nodes = Field(
        description="Least number of nodes. The program starts when this many pods run.",
        examples=[2],
    )
    max: Nodes = Field(
        description="Greatest number of nodes, and the number of pods at first. In a Kueue queue without quota for "
        "all, Kueue starts as many as there is quota for, and at least `min`.",
        examples=[4],
    )

    @model_validator(mode="after")
    def _is_range(self) -> "NodeRange":
        if self.min >= self.max:
            message = say(
                "`min` is {min} and `max` is {max}: the number of nodes cannot change", min=self.min, max=self.max
            )
            raise field_error(
                "GPU206", message, say("write `nodes: {max}`, or a greater `max`", max=self.max), ("max",)
            )
        return self
