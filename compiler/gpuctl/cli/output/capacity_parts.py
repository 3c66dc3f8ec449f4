"""The parts of a capacity in the monthly report, as GPU-hours that add up."""

from __future__ import annotations

from gpuctl.cli.output.rounded_sums import round_to_sum
from gpuctl.language.sentences import Template
from gpuctl.objects.durations import HOUR
from gpuctl.reading.usage.gpu_time import GpuTime

TENTH = HOUR / 10
# Field of GpuTime, label, meaning.
PARTS = (
    ("busy", Template("busy"), Template("held, measured and used")),
    ("idle", Template("held, idle"), Template("held, measured and not used")),
    ("unobserved", Template("held, unknown"), Template("held, not measured")),
    ("free", Template("free"), Template("not held")),
    ("unusable", Template("unusable"), Template("not held, on nodes that take no pods")),
    ("unsized", Template("unsized"), Template("held by pods with an unknown share of a card, or not held")),
)


def amounts_of(use: GpuTime) -> list[float]:
    """Return the GPU-seconds of each of ``PARTS``."""
    return [max(0.0, getattr(use, name) or 0.0) for name, _, _ in PARTS]


def shown_parts(use: GpuTime) -> set[str]:
    """Return the fields of ``PARTS`` that are shown: ``unsized`` is rare, so only if it is not 0."""
    return {name for name, _, _ in PARTS if name != "unsized" or use.unsized}


def tenths_of(use: GpuTime) -> list[int]:
    """Return tenths of GPU-hours of each of ``PARTS``, which add up to the capacity in tenths.

    Held hours are rounded to the nearest, as in all other tables; the rounding error goes to a part that is not held.
    """
    amounts = amounts_of(use)
    held = [round_to_sum([amount], TENTH)[0] for amount in amounts[:3]]
    [capacity] = round_to_sum([sum(amounts)], TENTH)
    others = [round_to_sum([amount], TENTH)[0] for amount in amounts[3:]]
    number = next((number for number, amount in enumerate(amounts[3:]) if amount), None)
    rest = capacity - sum(held) - sum(others)
    if number is None or others[number] + rest < 0:
        return round_to_sum(amounts, TENTH)
    others[number] += rest
    return [*held, *others]
