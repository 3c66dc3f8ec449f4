"""Prices of GPUs over time, and what GPU-seconds cost by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gpuctl.language.platform_document import UsagePrices

HOUR = 3600


class PricePeriod(NamedTuple):
    """A time, [start, end) in seconds since 1970, in which no price changes.

    :param models: GPU model -> price of one GPU for one hour.
    :param since: the date from which these prices count; "" for the first ones.
    """

    start: float
    end: float
    models: Mapping[str, float]
    since: str


class PriceList(NamedTuple):
    """Prices of GPU models.

    :param models: GPU model -> price of one GPU for one hour, before the first of ``changes``.
    :param changes: the date, its first moment in seconds since 1970, and all prices from then on; ascending.
    """

    models: Mapping[str, float] = {}
    currency: str = ""
    changes: Sequence[tuple[str, float, Mapping[str, float]]] = ()

    @property
    def is_empty(self) -> bool:
        """Return True if no model has a price at any time."""
        return not self.models and not any(models for _, _, models in self.changes)

    def periods(self, start: float, end: float) -> Iterator[PricePeriod]:
        """Yield the parts of [start, end) in which no price changes."""
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

    A change counts from midnight in the time zone of the prices. In zones that are not whole hours from UTC it counts
    from the first whole hour after that, as usage is kept by hours of UTC.
    """
    zone, models = ZoneInfo(stated.timeZone), dict(stated.models)
    changes = []
    for change in stated.changes:
        midnight = datetime.fromisoformat(change.start).replace(tzinfo=zone).timestamp()
        models = {**models, **change.models}
        changes.append((change.start, float(-(-midnight // HOUR) * HOUR), models))
    return PriceList(stated.models, stated.currency or "", changes)


def cost(gpu_seconds: Mapping[str, float], prices: Mapping[str, float]) -> float | None:
    """Return the cost of GPU-seconds by model; None if the price of one of the models is not known."""
    used = {model: seconds for model, seconds in gpu_seconds.items() if seconds > 0}
    if not used.keys() <= prices.keys():
        return None
    return sum(seconds / HOUR * prices[model] for model, seconds in used.items())


def sum_known(amounts: Iterable[float | None]) -> float | None:
    """Return the sum; None if one of the amounts is not known."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
