"""The platform's ``usage``: prices of GPU-hours, and idle jobs."""

from itertools import pairwise
from typing import Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import Percentage, PositiveDuration
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import (
    Block,
    Date,
    LabelKey,
    NonEmpty,
    Number,
    RequiredLabelValue,
    TimeZone,
    empty_dict,
    empty_list,
)
from gpuctl.language.sentences import say


class PriceChange(Block):
    """New prices from a date on."""

    start: Date = Field(
        alias="from",
        description="First day of the new prices. They count from its midnight in `timeZone`, or from the first whole "
        "hour (UTC) after it.",
        examples=["2026-10-01"],
    )
    models: dict[RequiredLabelValue, Number] = Field(
        description="GPU type -> price of one GPU for one hour. Types that are left out keep their price.",
        examples=[{"A100-80G": 11}],
    )


class UsagePrices(Block):
    """Prices of GPUs, for usage reports."""

    currency: NonEmpty | None = Field(None, description="Currency of the prices, as reports show it.", examples=["CNY"])
    models: dict[RequiredLabelValue, Number] = Field(
        default_factory=empty_dict,
        description="GPU type -> price of one GPU for one hour. The cost of a type without a price is unknown, not 0.",
        examples=[{"A100-80G": 12.5}],
    )
    changes: list[PriceChange] = Field(
        default_factory=empty_list,
        description="Later prices, earliest first. The cost of a period with a change is the sum of its parts.",
        examples=[[{"from": "2026-10-01", "models": {"A100-80G": 11}}]],
    )
    timeZone: TimeZone = Field(  # noqa: N815
        "UTC", description="Time zone of the dates in `changes`.", examples=["Asia/Shanghai"]
    )

    @model_validator(mode="after")
    def _changes_ascend(self) -> "UsagePrices":
        for number, (one, other) in enumerate(pairwise(self.changes), 1):
            if other.start <= one.start:
                wrong = say(
                    "`{date}` is not later than `{earlier}` of the change before it",
                    date=other.start,
                    earlier=one.start,
                )
                hint = say("sort the changes by date, and give each date once")
                raise field_error("GPU213", wrong, hint, ("changes", number, "from"))
        return self


class UsageIdle(Block):
    """Handling of jobs with idle GPUs. Without this block they are ignored."""

    after: PositiveDuration = Field(
        "2h",
        description="Time that a job must be idle without a break, with measurements for all of it.",
        examples=["2h"],
    )
    below: Percentage = Field("5%", description="An hour with a lower mean utilization is idle.", examples=["5%"])
    then: Literal["warn", "pause"] = Field(
        "warn", description="Warn the owner by an event on the job, or pause the job.", examples=["warn"]
    )
    exceptions: list[LabelKey] = Field(
        default_factory=empty_list,
        alias="except",
        description="Jobs with one of these labels are ignored. Every user who may write a job can set them.",
        examples=[["example.com/keep-gpus"]],
    )


class PlatformUsage(Block):
    """Settings of GPU usage reports."""

    prices: UsagePrices = Field(
        default_factory=UsagePrices.model_construct,
        description="Prices of GPUs, for `gpuctl usage waste` and `gpuctl usage report`.",
    )
    idle: UsageIdle | None = Field(
        None, description="Action of `gpuctl usage idle` on jobs with idle GPUs. Default: none."
    )
