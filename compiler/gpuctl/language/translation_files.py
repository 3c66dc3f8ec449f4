"""Files with Chinese texts, read only when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from gpuctl.language.sentences import Translation, current_translation, set_translation


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


@contextmanager
def sentences_in(language: str) -> Iterator[None]:
    """Make the sentences of a block in a language: ``en`` or ``zh``."""
    before = current_translation()
    set_translation(Translation(chinese_sentences()) if language == "zh" else None)
    try:
        yield
    finally:
        set_translation(before)
