"""The Chinese meanings of the causes of ``gpuctl why``, read only when they are needed."""

from __future__ import annotations

from importlib.resources import files

import yaml


def chinese_causes() -> dict[str, str]:
    """Return the translated meaning of each cause."""
    text = (files("gpuctl.reading.why") / "causes_zh_CN.yaml").read_text(encoding="utf-8")
    meanings: dict[str, str] = yaml.load(text, Loader=yaml.CSafeLoader)
    return meanings
