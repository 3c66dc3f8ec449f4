"""GPU-seconds of a group over a period, as the usage ledger returns them. Ratios are computed on access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuctl.language.display_text import visible

LEVELS = ("cluster", "namespace", "label", "annotation", "workload", "node", "model")
"""The groupings of usage reports."""
_NAME = 317


class GpuTime(NamedTuple):
    """GPU-seconds of a group over a period. ``held`` = ``busy`` + ``idle`` + ``unobserved``.

    :param held: allocated to pods.
    :param busy: measured time, weighted by utilization.
    :param idle: measured time, weighted by the unused share.
    :param unobserved: allocated, but without measurements.
    :param capacity: existing GPUs; None for groups that own no GPUs. None applies likewise to the next three.
    :param free: unallocated, on schedulable nodes.
    :param unusable: unallocated, on nodes that accept no pods.
    :param unsized: GPUs whose allocation is unknown, because pods hold shares of unknown size.
    :param allowed: quota of a namespace, or the cluster's capacity while it had no quota; None for other groups.
    """

    held: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    unobserved: float = 0.0
    capacity: float | None = None
    free: float | None = None
    unusable: float | None = None
    unsized: float | None = None
    allowed: float | None = None

    @property
    def mean_use(self) -> float | None:
        """Return the mean utilization of the measured time, percent; None without measurements."""
        observed = self.busy + self.idle
        return 100 * self.busy / observed if observed > 0 else None

    @property
    def coverage(self) -> float | None:
        """Return the measured share of the allocated time, 0 to 1; None if nothing was allocated."""
        return 1 - self.unobserved / self.held if self.held > 0 else None

    def share_of(self, capacity: float | None) -> float | None:
        """Return the allocated share of a capacity, percent; None if the capacity is 0 or unknown."""
        return 100 * self.held / capacity if capacity else None


class GpuHolder(NamedTuple):
    """The group of a row. ``value`` is the namespace, label value, node or model; for a workload its uid."""

    value: str = ""
    namespace: str = ""
    kind: str = ""
    name: str = ""

    @property
    def sort_key(self) -> tuple[str, ...]:
        """Sort key for holders with equal numbers: their names."""
        return self.name or self.value, self.namespace, self.kind, self.value


class KnownTime(NamedTuple):
    """The part of a range or step for which usage data exists.

    :param seconds: length of that part.
    :param start: its first moment, RFC 3339; "" if the service is too old to report it.
    :param until: its last moment, as ``start``.
    :param provisional: True if figures may still change; None if the service is too old to report it.
    """

    seconds: float
    start: str = ""
    until: str = ""
    provisional: bool | None = None


class LedgerLine(NamedTuple):
    """The usage of one holder in one step. ``time`` and ``end`` are RFC 3339."""

    time: str
    end: str
    holder: GpuHolder
    use: GpuTime
    known: KnownTime


class InvalidLedger(ValueError):
    """A response does not have the form of a usage ledger."""


def sum_gpu_times(parts: Iterable[GpuTime]) -> GpuTime:
    """Return the sum. A capacity column is None in the sum if it is None in a part.

    ``allowed`` is not summed: each part may be allowed the whole capacity.
    """
    found = list(parts)
    return GpuTime(
        *(sum(part[column] or 0.0 for part in found) for column in range(4)),
        *(_all([part[column] for part in found]) for column in range(4, 8)),
    )


def _all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def ledger_line(value: Mapping[str, Any]) -> LedgerLine:
    """Parse a row of a ledger response.

    :raises InvalidLedger: the row has another form.
    """
    try:
        held, busy, idle = (float(value[f"{name}_gpu_seconds"]) for name in ("allocated", "busy", "held_idle"))
        unobserved = float(value["held_unobserved_gpu_seconds"])
        rest = [value[f"{name}_gpu_seconds"] for name in ("capacity", "free", "unusable", "allowed")]
        rest.insert(3, value.get("unsized_gpu_seconds"))
        own = list(map(answered_number, rest))
        names = (answered_text(value.get(name)) for name in ("value", "namespace", "kind", "name"))
        time, end = answered_text(value["time"]), answered_text(value["end_time"])
        provisional = value.get("provisional")
        known = KnownTime(
            float(value["known_seconds"]),
            answered_text(value.get("known_from")),
            answered_text(value.get("known_until")),
            None if provisional is None else bool(provisional),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidLedger from None
    return LedgerLine(time, end, GpuHolder(*names), GpuTime(held, busy, idle, unobserved, *own), known)


def answered_text(value: object) -> str:
    """Return a text of an answer, with control characters escaped and cut to a maximum length."""
    return visible(str(value or "")[:_NAME])


def answered_number(value: Any) -> float | None:
    """Return a number of an answer; None if it is unknown."""
    return None if value is None else float(value)
