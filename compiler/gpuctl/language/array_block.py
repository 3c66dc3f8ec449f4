"""The ``array:`` block of a training: independent runs of one program, told apart by their index."""

from typing import Annotated

from pydantic import Field, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Count, PositiveCount
from gpuctl.language.sentences import say

MOST_RUNS = 100_000
"""Maximum number of runs; k8s.io/kubernetes pkg/apis/batch/validation requires a limit of failed indexes above it."""
MOST_RETRIES = 1000
"""Maximum number of further attempts of a job, and of each run of an array."""
ArraySize = Annotated[PositiveCount, Field(le=MOST_RUNS)]
Retries = Annotated[Count, Field(le=MOST_RETRIES)]


class Array(Block):
    """A number of independent runs. Each pod has an index, from 0."""

    size: ArraySize = Field(
        description="Number of runs. The program reads its index, from 0 to size-1, from GPUCTL_ARRAY_INDEX, and the "
        "size from GPUCTL_ARRAY_SIZE.",
        examples=[100],
    )
    parallelism: PositiveCount | None = Field(
        None, description="Maximum number of runs at a time. Default: as many as find room.", examples=[8]
    )
    retries: Retries | None = Field(
        None,
        description="How often each failed run is started again. Default: `job.retries`. Preemption by a more urgent "
        "job does not count.",
        examples=[2],
    )
    max_failed: Count | None = Field(
        None,
        description="Stop the whole array when more runs than this have failed for good. Default: the other runs "
        "continue, and the array fails at its end.",
        examples=[10],
    )

    @model_validator(mode="after")
    def _within_size(self) -> "Array":
        for field in ("parallelism", "max_failed"):
            value = getattr(self, field)
            if value is not None and value > self.size:
                message = say(
                    "`{field}` is {value}, and the array has {size} runs", field=field, value=value, size=self.size
                )
                raise field_error(
                    "GPU206", message, say("write at most {most}, or remove the line", most=self.size), (field,)
                )
        return self
