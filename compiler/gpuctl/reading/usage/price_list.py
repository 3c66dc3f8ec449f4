"""Prices of GPUs over time, and the cost of GPU-seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gpuctl.language.usage_block import UsagePrices
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import next_hour


class PricePeriod(NamedTuple):
    """A period [start, end), seconds since 1970, with constant prices.

    :param models: GPU model -> price of one GPU-hour.
    :param since: the date from which these prices apply; "" for the first ones.
    """

    start: float
    end: float
    models: Mapping[str, float]
    since: str


class PriceList(NamedTuple):
    """Prices of GPU models.

    :param models: GPU model -> price of one GPU-hour, before the first change.
    :param changes: date, its first moment (seconds since 1970), and all prices from then on; ascending.
    """

    models: Mapping[str, float] = {}
    currency: str = ""
    changes: Sequence[tuple[str, float, Mapping[str, float]]] = ()

    @property
    def is_empty(self) -> bool:
        """Return True if no model has a price at any time."""
        return not self.models and not any(models for _, _, models in self.changes)

    def periods(self, start: float, end: float) -> Iterator[PricePeriod]:
        """Yield the parts of [start, end) with constant prices."""
        since, models = "", self.models
        for date, moment, others in self.changes:
            if moment >= end:
                break
            if moment > start:
                yield PricePeriod(start, moment, models, since)
                start = moment
            since, models = date, others
        yield PricePeriod(start, end, models, since)


def price_list(stated: UsagePrices) -> PriceList:
    """Return the prices of a platform.

    A change applies from midnight in the time zone of the prices. In zones whose offset is not a whole hour it applies
    from the next full hour of UTC, because usage is stored by hours of UTC.
    """
    zone, models = ZoneInfo(stated.timeZone), dict(stated.models)
    changes = []
    for change in stated.changes:
        midnight = datetime.fromisoformat(change.start).replace(tzinfo=zone).timestamp()
        models = {**models, **change.models}
        changes.append((change.start, float(next_hour(midnight)), models))
    return PriceList(stated.models, stated.currency or "", changes)


def cost(gpu_seconds: Mapping[str, float], prices: Mapping[str, float]) -> float | None:
    """Return the cost of GPU-seconds by model; None if a model has no price."""
    used = {model: seconds for model, seconds in gpu_seconds.items() if seconds > 0}
    if not used.keys() <= prices.keys():
        return None
    return sum(cost_at(prices[model], seconds) for model, seconds in used.items())


def cost_at(price: float, gpu_seconds: float) -> float:
    """Return the cost of GPU-seconds.

    :param price: of one GPU-hour.
    """
    return gpu_seconds / HOUR * price


def sum_known(amounts: Iterable[float | None]) -> float | None:
    """Return the sum; None if one of the amounts is None."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
