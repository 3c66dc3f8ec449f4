"""The Chinese meanings of the causes of ``gpuctl why``, read only when they are needed."""

from __future__ import annotations

from functools import cache

from gpuctl.language.translation_files import read_translations


@cache
def chinese_causes() -> dict[str, str]:
    """Return the translated meaning of each cause."""
    meanings: dict[str, str] = read_translations("gpuctl.reading.why", "causes_zh_CN.yaml")
    return meanings
