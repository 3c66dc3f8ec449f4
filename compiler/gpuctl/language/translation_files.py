"""Files with Chinese texts, read only when they are needed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


def read_translations(package: str, name: str) -> Any:
    """Return the content of a YAML file with translations in a package."""
    return yaml.load((files(package) / name).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def chinese_reference() -> list[dict[str, str]]:
    """Return pairs of an English text (``en``) of the field reference and its translation (``zh``), in its order."""
    pairs: list[dict[str, str]] = read_translations("gpuctl.language", "reference_zh_CN.yaml")
    return pairs


def sentence_pairs() -> list[dict[str, str]]:
    """Return pairs of an English template (``en``) of :mod:`gpuctl.language.sentences` and its translation (``zh``)."""
    pairs: list[dict[str, str]] = read_translations("gpuctl.language", "sentences_zh_CN.yaml")
    return pairs


@cache
def chinese_sentences() -> dict[str, str]:
    """Return the Chinese templates of :mod:`gpuctl.language.sentences` by the English ones."""
    return {pair["en"]: pair["zh"] for pair in sentence_pairs()}
