"""The ``job.notify:`` block: events of a job to report, and the channels of the platform that receive them."""

import json
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from gpuctl.language.amount_fields import PositiveDuration
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Boolean, DnsLabel, empty_dict, empty_list
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean
from gpuctl.objects.durations import parse_duration

ChannelFormat = Literal["json", "slack", "dingtalk", "feishu", "wecom"]
SHORTEST_WAIT = 60
"""Minimum of ``waiting``, seconds: most jobs wait for some seconds."""
MOST_CHANNELS = 10
_LONGEST = 4096


class Notify(Block):
    """Events of a job that the service of gpuctl posts to channels of the platform, once for each run."""

    done: Boolean = Field(
        False, description="The training has succeeded. An array or a sweep is reported once.", examples=[True]
    )
    failed: Boolean = Field(
        False,
        description="The training has failed, with the cause that `gpuctl why` finds. An array or a sweep is reported "
        "once, at its end.",
        examples=[True],
    )
    waiting: PositiveDuration | None = Field(
        None,
        description="The job has waited for longer than this, at least 1m, without a running pod: in a queue, for "
        "GPUs, for its image. With the cause. Waiting for `job.after` does not count.",
        examples=["2h"],
    )
    channels: Annotated[list[DnsLabel], Field(max_length=MOST_CHANNELS)] = Field(
        default_factory=empty_list,
        description="Channels of the platform (`notify.channels`). Default: those of its `notify.default`.",
        examples=[["nlp-team"]],
    )

    @model_validator(mode="after")
    def _events(self) -> "Notify":
        if not self.done and not self.failed and self.waiting is None:
            hint = say("add `failed: true`, `done: true` or `waiting: 2h`")
            raise field_error("GPU232", say("`notify` names no event, so that nothing is ever sent"), hint)
        if self.waiting is not None and (parse_duration(self.waiting) or 0) < SHORTEST_WAIT:
            message = say("`{value}` is shorter than many jobs wait", value=self.waiting)
            raise field_error("GPU206", message, say("write at least `{least}`", least="1m"), ("waiting",))
        for index, name in enumerate(self.channels):
            if name in self.channels[:index]:
                raise field_error(
                    "GPU218",
                    say("the channel `{name}` is listed twice", name=name),
                    say("remove one"),
                    ("channels", index),
                )
        return self

    @property
    def seconds(self) -> int | None:
        """``waiting`` in seconds."""
        return parse_duration(self.waiting) if self.waiting is not None else None

    @property
    def events(self) -> list[str]:
        """The events in words: ``done``, ``failed``, ``waiting 2h``."""
        waiting = [] if self.waiting is None else [f"waiting {self.waiting}"]
        return [name for name in ("done", "failed") if getattr(self, name)] + waiting

    def data(self) -> dict[str, Any]:
        """Return the block as an annotation or a document contains it: without unset fields."""
        return self.model_dump(exclude_defaults=True)


def parse_notify(text: str | None) -> Notify | None:
    """Return the block in an annotation; None if it is invalid, because any user can write annotations."""
    return _parsed(text) if text and len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Notify | None:
    try:
        return Notify.model_validate(json.loads(text), strict=True)
    except (ValidationError, ValueError, RecursionError):
        return None


class Channel(Block):
    """A webhook that receives notifications. The service reads its address, which is a secret, from a file or the
    environment.
    """

    format: ChannelFormat = Field(
        description="Messages that the webhook takes: those of Slack, DingTalk, Feishu or WeCom robots, or JSON for "
        "programs.",
        examples=["dingtalk"],
    )
    namespaces: list[DnsLabel] = Field(
        default_factory=empty_list,
        description="Namespaces whose jobs may use the channel. Default: all.",
        examples=[["nlp"]],
    )
    language: Literal["en", "zh"] = Field(
        "en",
        description="Language of the messages. Output of programs and messages of Kubernetes stay as they are.",
        examples=["zh"],
    )

    def takes(self, namespace: str) -> bool:
        """Return True if jobs of a namespace may use the channel."""
        return not self.namespaces or namespace in self.namespaces


class NotifySettings(Block):
    """Channels of notifications (`job.notify`)."""

    channels: Annotated[dict[DnsLabel, Channel], Field(max_length=50)] = Field(
        default_factory=empty_dict,
        description="Name -> format. The address of the webhook is not part of the platform: it is a secret of the "
        "service.",
        examples=[{"nlp-team": {"format": "dingtalk", "namespaces": ["nlp"]}}],
    )
    default: Annotated[list[DnsLabel], Field(max_length=MOST_CHANNELS)] = Field(
        default_factory=empty_list, description="Channels of jobs that name none.", examples=[["nlp-team"]]
    )

    @model_validator(mode="after")
    def _known(self) -> "NotifySettings":
        for index, name in enumerate(self.default):
            if name not in self.channels:
                hint = did_you_mean(name, self.channels) or say("add it to `notify.channels`")
                raise field_error(
                    "GPU234", say("`{name}` is not one of `notify.channels`", name=name), hint, ("default", index)
                )
        return self

    def channels_of(self, notify: Notify) -> list[str]:
        """Return the names of the channels that a job uses."""
        return notify.channels or self.default
