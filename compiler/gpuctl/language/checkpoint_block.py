"""The ``job.checkpoint:`` block: how a running job saves its progress before gpuctl ends it."""

import json
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from gpuctl.language.amount_fields import PositiveDuration
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Text, empty_list
from gpuctl.language.sentences import Template, say
from gpuctl.objects.durations import MAX_CHECKPOINT_SECONDS, parse_duration

Signal = Literal["USR1", "USR2", "HUP", "INT", "ALRM"]
"""Signals that make programs save. Not TERM: Kubernetes sends it before it ends a pod."""

LONGEST_COMMAND = 4096
"""Maximum size of a command and its arguments, bytes: they are part of a request URL, which proxies limit."""


class Checkpoint(Block):
    """Command or signal that makes a running job save its progress."""

    exclusions = one_of("command", "signal", message=Template("the checkpoint has both a command and a signal"))

    command: list[Text] = Field(
        default_factory=empty_list,
        description="Program and arguments, run in the container of every running pod of the job. Exit code "
        "0 means that "
        "the progress is saved. No shell is used unless the command names one.",
        examples=[["python", "save.py"]],
    )
    signal: Signal | None = Field(
        None,
        description="Alternative to a command: the signal that makes process 1 of the container save, sent in every "
        "running pod. gpuctl cannot detect when the progress is saved, so it waits for the whole `timeout`, "
        "or until the containers have ended. The image needs `kill` or `sh`. torchrun and shells do not pass "
        "signals on: use `command` with them.",
        examples=["USR1"],
    )
    timeout: PositiveDuration = Field(
        "2m",
        description="Maximum duration, at most 1h. A command that takes longer has failed.",
        examples=["5m"],
    )

    @model_validator(mode="after")
    def _one_way(self) -> "Checkpoint":
        refuse_exclusions(self)
        if not self.command and self.signal is None:
            hint = say("add `command: [python, save.py]` or `signal: USR1`")
            raise field_error("GPU201", say("the checkpoint has neither a command nor a signal"), hint)
        if self.command and not self.command[0].strip():
            raise field_error(
                "GPU205", say("the checkpoint's command has an empty program"), say("name one"), ("command", 0)
            )
        if sum(len(text.encode("utf-8", "surrogatepass")) + 1 for text in self.command) > LONGEST_COMMAND:
            message = say("the checkpoint's command is longer than {most} bytes", most=LONGEST_COMMAND)
            raise field_error("GPU206", message, say("put it into a script in the image, and name that"), ("command",))
        if self.seconds > MAX_CHECKPOINT_SECONDS:
            message = say("`{value}` is longer than a checkpoint may take", value=self.timeout)
            raise field_error("GPU206", message, say("write at most `{most}`", most="1h"), ("timeout",))
        return self

    @property
    def seconds(self) -> int:
        """``timeout`` in seconds."""
        return parse_duration(self.timeout) or 0

    def data(self) -> dict[str, Any]:
        """Return the checkpoint as an annotation or a document contains it: with the timeout, without unset fields."""
        way = {"command": list(self.command)} if self.command else {"signal": self.signal}
        return {**way, "timeout": self.timeout}


def parse_checkpoint(text: str) -> Checkpoint | None:
    """Return the checkpoint in an annotation; None if it is invalid, because any user can write annotations."""
    if len(text) > 8 * LONGEST_COMMAND:
        return None
    try:
        return Checkpoint.model_validate(json.loads(text), strict=True)
    except (ValidationError, ValueError, RecursionError):
        return None
