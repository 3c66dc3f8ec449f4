"""What became of GPUs over a time, in GPU-seconds, as the ledger of usage has it; quotients are made when read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from gpuctl.language.display_text import visible

LEVELS = ("cluster", "namespace", "label", "annotation", "workload", "node", "model")
"""By what usage is told."""
_NAME = 317


class GpuTime(NamedTuple):
    """GPU-seconds: ``held`` is ``busy``, ``idle`` and ``unobserved`` together.

    :param busy: observed, times how much of them was used; ``idle``: observed, and not used; ``unobserved``: nobody
        knows.
    :param capacity: what there was; None of what has no GPUs of its own. Likewise ``free``, which nobody held, and
        ``unusable``, which nobody held on nodes that take no pods, and ``unsized``, which pods held whose share of a
        card is of unknown size, or nobody.
    :param allowed: what a namespace might hold: its quota's, and while it had none the cluster's; None of what is none.
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
        """Percent, of what was observed."""
        observed = self.busy + self.idle
        return 100 * self.busy / observed if observed > 0 else None

    @property
    def coverage(self) -> float | None:
        """The part, 0 to 1, of what was held of which it is known what it did."""
        return 1 - self.unobserved / self.held if self.held > 0 else None

    def share_of(self, capacity: float | None) -> float | None:
        """How many percent of a capacity were held."""
        return 100 * self.held / capacity if capacity else None


class GpuHolder(NamedTuple):
    """Whom a row is about: ``value`` is its namespace, value of a label, node or model; of a workload its uid."""

    value: str = ""
    namespace: str = ""
    kind: str = ""
    name: str = ""

    @property
    def sort_key(self) -> tuple[str, ...]:
        """By what holders stand whose numbers are equal: their names."""
        return self.name or self.value, self.namespace, self.kind, self.value


class KnownTime(NamedTuple):
    """The part of a range or step for which usage is known.

    :param seconds: how much of it; ``start`` and ``until``: the first and the last known moment, RFC 3339, "" if the
        service is too old to say.
    :param provisional: whether figures may still change; None if the service is too old to say.
    """

    seconds: float
    start: str = ""
    until: str = ""
    provisional: bool | None = None


class LedgerLine(NamedTuple):
    """A holder over a step of time. ``time`` and ``end`` are as the ledger has them: RFC 3339."""

    time: str
    end: str
    holder: GpuHolder
    use: GpuTime
    known: KnownTime


class InvalidLedger(ValueError):
    """What was answered has not the form of a ledger."""


def to_rfc3339(seconds: float) -> str:
    """A time, to the second, in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def sum_gpu_times(parts: Iterable[GpuTime]) -> GpuTime:
    """All together; the capacity that one of them does not have, they do not have together. Likewise what is free.

    What they are allowed is no sum: each of them may be allowed all that there is.
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
    """A row, as the ledger of usage answers it.

    :raises InvalidLedger: it is none.
    """
    try:
        held, busy, idle = (float(value[f"{name}_gpu_seconds"]) for name in ("allocated", "busy", "held_idle"))
        unobserved = float(value["held_unobserved_gpu_seconds"])
        rest = [value[f"{name}_gpu_seconds"] for name in ("capacity", "free", "unusable", "allowed")]
        rest.insert(3, value.get("unsized_gpu_seconds"))
        own = [None if amount is None else float(amount) for amount in rest]
        names = (_text(value.get(name)) for name in ("value", "namespace", "kind", "name"))
        time, end = _text(value["time"]), _text(value["end_time"])
        provisional = value.get("provisional")
        known = KnownTime(
            float(value["known_seconds"]),
            _text(value.get("known_from")),
            _text(value.get("known_until")),
            None if provisional is None else bool(provisional),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidLedger from None
    return LedgerLine(time, end, GpuHolder(*names), GpuTime(held, busy, idle, unobserved, *own), known)


def _text(value: object) -> str:
    """A name, which somebody in the cluster has written."""
    return visible(str(value or "")[:_NAME])
