"""The ``job.checkpoint:`` block: how a running job saves its progress before gpuctl ends it."""

import json
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, PositiveDuration, Text, empty_list
from gpuctl.objects.durations import MAX_CHECKPOINT_SECONDS, parse_duration

Signal = Literal["USR1", "USR2", "HUP", "INT", "ALRM"]
"""Signals that programs save by. Not TERM: Kubernetes sends that itself before it ends a pod."""

LONGEST_COMMAND = 4096
"""Bytes of a command and its arguments: they are part of the request that runs it, which proxies limit."""


class Checkpoint(Block):
    """How a running job saves its progress."""

    command: list[Text] = Field(
        default_factory=empty_list,
        description="Program and arguments, run in the container of every running pod of the job; it has saved when it "
        "ends with exit code 0. No shell is involved unless the command names one.",
        examples=[["python", "save.py"]],
    )
    signal: Signal | None = Field(
        None,
        description="Instead of a command: the signal that process 1 of the container saves at, in every running pod. "
        "Nothing tells when it has saved, so gpuctl waits for the whole `timeout`, or until the containers have ended. "
        "The image needs `kill` or `sh`. torchrun and shells do not pass signals on: use `command` with them.",
        examples=["USR1"],
    )
    timeout: PositiveDuration = Field(
        "2m",
        description="How long it may take, at most 1h. A command that takes longer has failed.",
        examples=["5m"],
    )

    @model_validator(mode="after")
    def _one_way(self) -> "Checkpoint":
        if self.command and self.signal is not None:
            raise field_error("GPU213", "the checkpoint has both a command and a signal", "keep one", ("signal",))
        if not self.command and self.signal is None:
            hint = "add `command: [python, save.py]` or `signal: USR1`"
            raise field_error("GPU201", "the checkpoint has neither a command nor a signal", hint)
        if self.command and not self.command[0].strip():
            raise field_error("GPU205", "the checkpoint's command has an empty program", "name one", ("command", 0))
        if sum(len(text.encode("utf-8", "surrogatepass")) + 1 for text in self.command) > LONGEST_COMMAND:
            message = f"the checkpoint's command is longer than {LONGEST_COMMAND} bytes"
            raise field_error("GPU206", message, "put it into a script in the image, and name that", ("command",))
        if self.seconds > MAX_CHECKPOINT_SECONDS:
            message = f"`{self.timeout}` is longer than a checkpoint may take"
            raise field_error("GPU206", message, "write at most `1h`", ("timeout",))
        return self

    @property
    def seconds(self) -> int:
        """``timeout`` in seconds."""
        return parse_duration(self.timeout) or 0

    def data(self) -> dict[str, Any]:
        """What an annotation says of it, and a document could: with the timeout, without what is not set."""
        way = {"command": list(self.command)} if self.command else {"signal": self.signal}
        return {**way, "timeout": self.timeout}


def parse_checkpoint(text: str) -> Checkpoint | None:
    """The checkpoint that an annotation says; None when it says none, for anybody can have written it."""
    if len(text) > 8 * LONGEST_COMMAND:
        return None
    try:
        return Checkpoint.model_validate(json.loads(text), strict=True)
    except (ValidationError, ValueError, RecursionError):
        return None
