"""The Chinese texts of the diagnostic codes, read from ``zh_CN.yaml`` only when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuctl.language.translation_files import read_translations

if TYPE_CHECKING:
    from gpuctl.frontend.codes.code_rule import CodeRule

TEXTS = ("title", "explanation", "fix")
"""The fields of a CodeRule that are translated."""


def chinese_texts() -> dict[str, dict[str, str]]:
    """Return the translated texts of each code, by the names of the fields of a CodeRule."""
    texts: dict[str, dict[str, str]] = read_translations("gpuctl.frontend.codes", "zh_CN.yaml")
    return texts


def translate(rule: CodeRule, texts: dict[str, dict[str, str]]) -> CodeRule:
    """Return the rule with its translated texts. A text without a translation stays English."""
    translated = texts.get(rule.code, {})
    return rule._replace(**{name: translated[name] for name in TEXTS if name in translated})
