"""Usage as tables: one row per group, or one per step and group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from gpuctl.cli.output.sparkline import shows_blocks, sparkline
from gpuctl.cli.output.usage_amounts import coverage_percent, gpu_hours, percent
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, KnownTime
from gpuctl.reading.usage.usage_records import UsageView

_FIGURES = ("GPU-HOURS", "SHARE", "USE", "IDLE", "UNKNOWN", "COVERAGE")
_ALLOWED = ("ALLOWED", "OF-ALLOWED")
"""Columns for namespaces only: the GPU-hours that their quotas allow."""
_OWN = ("CAPACITY", "FREE", "UNUSABLE")
"""Columns for groups that own GPUs: clusters, nodes and models."""
DROPPABLE = ("UNKNOWN", "COVERAGE", "UNUSABLE", "ALLOWED", "SHARE", "KIND", "STATE", "KNOWN")
"""Columns that are omitted first on a narrow terminal."""
_PARTS = (
    ("capacity", "capacity"),
    ("held", "held"),
    ("busy", "busy"),
    ("idle", "held-idle"),
    ("unobserved", "held-unknown"),
    ("free", "free"),
    ("unusable", "unusable"),
    ("unsized", "unsized"),
)
_RARE = "unsized"
"""A part that is shown only if it is not 0."""


def group_headings(level: str) -> tuple[str, ...]:
    """Return the headings of the columns that identify a row."""
    if level == "workload":
        return "NAME", "NAMESPACE", "KIND"
    return {"label": ("VALUE",), "annotation": ("VALUE",), "cluster": ("CLUSTER",)}.get(level, (level.upper(),))


def group_cells(level: str, holder: GpuHolder) -> list[str]:
    """Return the cells of the columns that identify a row."""
    return [holder.name, holder.namespace, holder.kind] if level == "workload" else [holder.value or "all"]


def group_table(view: UsageView) -> tuple[Sequence[str], Iterator[list[str]]]:
    """Return headings and one row per group; the last column is a sparkline of the mean use per step."""
    over_time = bool(view.times)
    by_step = [f"USE-BY-{view.step.upper()}"] if over_time else []
    heads = [*group_headings(view.level), *_FIGURES, *_of_namespaces(view, _ALLOWED), *by_step]

    def rows() -> Iterator[list[str]]:
        blocks = shows_blocks()
        for group in view.groups:
            steps = [use_over_time(group.steps, blocks)] if over_time else []
            allowed = _of_namespaces(view, _allowed(group.total))
            yield [*group_cells(view.level, group.holder), *_cells(group.total, view.capacity), *allowed, *steps]

    return heads, rows()


def step_table(view: UsageView, zone: tzinfo) -> tuple[Sequence[str], Iterator[list[str]]]:
    """Return headings and one row per step and group, ordered by time; with the capacity of groups that own GPUs."""
    own = any(use is not None and use.capacity is not None for group in view.groups for use in group.steps)
    figures = [*_FIGURES, *(_OWN if own else ())]
    heads = ["TIME", *group_headings(view.level), *figures, *_of_namespaces(view, _ALLOWED), "KNOWN", "STATE"]

    def rows() -> Iterator[list[str]]:
        for number, (time, _) in enumerate(view.times):
            for group in view.groups:
                use = group.steps[number]
                if use is not None:
                    there = [gpu_hours(amount) for amount in (use.capacity, use.free, use.unusable)]
                    there = there if own else _of_namespaces(view, _allowed(use))
                    cells = _cells(use, view.capacity_in(number))
                    state = _state(view.known_in(number), view.times[number])
                    yield [_time_text(time, zone), *group_cells(view.level, group.holder), *cells, *there, *state]

    return heads, rows()


def part_table(view: UsageView) -> tuple[Sequence[str], Iterator[list[str]]]:
    """Return headings and rows of the parts of a cluster's capacity.

    Held is the sum of busy, idle and unknown; with free and unusable it makes the capacity.
    """
    whole, capacity = view.all_groups, view.all_groups.capacity
    steps = view.groups[0].steps if view.groups else ()
    heads = ["PART", "GPU-HOURS", "SHARE", *([f"BY-{view.step.upper()}"] if view.times else [])]

    def rows() -> Iterator[list[str]]:
        blocks = shows_blocks()
        for name, label in _PARTS:
            if name == _RARE and not whole.unsized:
                continue
            amount = getattr(whole, name) if view.groups else None
            share = 100 * amount / capacity if capacity and amount is not None else None
            # Relative to the capacity of each step: the current hour is shorter than the others.
            line = [_part(step, name) for step in steps]
            spark = [sparkline(line, 1, blocks=blocks)] if view.times else []
            yield [label, gpu_hours(amount), percent(share), *spark]

    return heads, rows()


def _part(step: GpuTime | None, name: str) -> float | None:
    amount = None if step is None else getattr(step, name)
    return None if step is None or amount is None or not step.capacity else amount / step.capacity


def use_over_time(steps: Sequence[GpuTime | None], blocks: bool) -> str:
    """Return a sparkline of the mean use of each step, up to 100 percent."""
    return sparkline((None if step is None else step.mean_use for step in steps), 100, blocks=blocks)


def _cells(use: GpuTime, capacity: float | None) -> list[str]:
    share = use.share_of(use.capacity if use.capacity is not None else capacity)
    return [
        gpu_hours(use.held),
        percent(share),
        percent(use.mean_use),
        gpu_hours(use.idle if use.mean_use is not None else None),
        gpu_hours(use.unobserved),
        coverage_percent(use.coverage),
    ]


def _state(known: KnownTime | None, step: tuple[str, str]) -> list[str]:
    """Return the known percentage of a step, and whether its figures are final."""
    if known is None:
        return ["", ""]
    start, end = (parse_timestamp(time).timestamp() for time in step)
    state = "" if known.provisional is None else "provisional" if known.provisional else "final"
    return [coverage_percent(known.seconds / (end - start)), state]


def _of_namespaces(view: UsageView, cells: Sequence[str]) -> list[str]:
    return [*cells] if view.level == "namespace" else []


def _allowed(use: GpuTime) -> list[str]:
    return [gpu_hours(use.allowed), percent(use.share_of(use.allowed))]


def _time_text(time: str, zone: tzinfo) -> str:
    return parse_timestamp(time).astimezone(zone).strftime("%Y-%m-%dT%H:%M")
