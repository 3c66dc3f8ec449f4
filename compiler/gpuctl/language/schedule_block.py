"""The ``schedule:`` block of a training: the times at which it runs."""

from typing import Annotated, Literal

from pydantic import Field

from gpuctl.language.amount_fields import PositiveDuration
from gpuctl.language.fields import Block, Count, Cron, TimeZone

DEFAULT_ZONE = "Etc/UTC"
DEFAULT_KEEP = 3


class Schedule(Block):
    """The times at which a training runs, and what happens when two runs meet."""

    cron: Cron = Field(
        description="Times of the runs: minute, hour, day of month, month and day of week (0 or SUN is Sunday), as in "
        "crontab; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`. Quote it.",
        examples=["0 2 * * *", "@daily"],
    )
    timezone: TimeZone = Field(DEFAULT_ZONE, description="Time zone of `cron`.", examples=["Asia/Shanghai"])
    concurrency: Literal["forbid", "allow", "replace"] = Field(
        "forbid",
        description="What happens if a run is due while another one is unfinished: `forbid` skips the new run, `allow` "
        "starts it beside the other, `replace` stops the other one first. A run that `gpuctl run` started does not "
        "count: the new run starts beside it.",
        examples=["replace"],
    )
    keep: Annotated[Count, Field(le=100)] = Field(
        DEFAULT_KEEP,
        description="Number of succeeded runs to keep, and of failed runs to keep, each with its pods and logs.",
        examples=[7],
    )
    start_deadline: PositiveDuration | None = Field(
        None,
        description="Skip a run that could not be started this long after its time, for instance because the control "
        "plane was down. Time in a queue or waiting for GPUs does not count. Default: it starts late.",
        examples=["1h"],
    )
