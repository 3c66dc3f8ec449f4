"""The Chinese meanings of the causes of ``gpuctl why``, read only when they are needed."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from gpuctl.language.translation_files import read_translations
from gpuctl.messages import UserMessage, message
from gpuctl.reading.why.finding import CAUSES, Finding


@cache
def chinese_causes() -> dict[str, str]:
    """Return the translated meaning of each cause."""
    meanings: dict[str, str] = read_translations("gpuctl.reading.why", "causes_zh_CN.yaml")
    return meanings


class _ChineseMeaning(NamedTuple):
    cause: str

    def __str__(self) -> str:
        return chinese_causes().get(self.cause, CAUSES[self.cause])


def cause_message(finding: Finding) -> UserMessage:
    """Return the message of a finding. In Chinese it begins with the meaning of the cause, before names and numbers in
    English.
    """
    return message("cause", "{text}", text=finding.message, meaning=_ChineseMeaning(finding.cause))
