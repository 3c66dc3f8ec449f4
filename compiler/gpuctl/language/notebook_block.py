"""The ``notebook:`` block: the limits after which a notebook is paused."""

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import PositiveDuration
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block
from gpuctl.language.sentences import say
from gpuctl.objects.durations import parse_duration

SHORTEST_STOP = 600
"""Minimum of ``stop_after``, seconds: the policy runs every 10 minutes."""


class NotebookLimits(Block):
    """Limits after which `gpuctl usage idle` pauses a notebook. Its claims stay, and `gpuctl open` resumes it."""

    stop_after: PositiveDuration | None = Field(
        None,
        description="Time without activity after which the notebook is paused, at least 10m. Activity is a busy "
        "kernel, a request to Jupyter, output of a terminal, a GPU in use, `gpuctl exec` and `gpuctl port-forward`. A "
        "notebook whose activity is unknown is never paused. Adds a small container to the pod. Default: no limit.",
        examples=["2h"],
    )
    max_lifetime: PositiveDuration | None = Field(
        None,
        description="Time after which the notebook is paused even if it is in use, from the start of its pod. Its "
        "owner is warned during the last tenth of it, at least an hour before. Default: no limit.",
        examples=["7d"],
    )

    @model_validator(mode="after")
    def _limits(self) -> "NotebookLimits":
        stop, longest = (parse_duration(text or "") for text in (self.stop_after, self.max_lifetime))
        if stop is not None and stop < SHORTEST_STOP:
            message = say(
                "`{value}` is shorter than the interval in which notebooks are checked", value=self.stop_after
            )
            raise field_error("GPU206", message, say("write at least `{least}`", least="10m"), ("stop_after",))
        if stop is not None and longest is not None and longest <= stop:
            message = say(
                "`stop_after` has no effect: the notebook is paused after `max_lifetime: {longest}`",
                longest=self.max_lifetime,
            )
            raise field_error("GPU213", message, say("write a shorter time, or remove one"), ("stop_after",))
        return self
