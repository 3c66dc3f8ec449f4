"""Devices that take parts of a card from shared counters (KEP-4815), such as MIG slices that are created on demand.

Source: ``k8s.io/dynamic-resource-allocation/structured/internal/incubating``, checkAvailableCounters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from gpuctl.capacity.pod_requests import quantity
from gpuctl.objects.api_resources import Object

DeviceKey = tuple[str, str, str]
"""Driver, pool and name of a device."""
CounterSet = tuple[str, str, str]
"""Driver, pool and name of a set of counters: those of a card."""
Counter = tuple[CounterSet, str]
Amounts = Mapping[Counter, Fraction]


class Room(NamedTuple):
    """The devices of a request that can be in use together: those in use, and as many others as possible.

    ``doubt`` is why more may be, or "".
    """

    devices: frozenset[DeviceKey]
    doubt: str = ""


class SharedCounters:
    """The counters of pools, the devices that consume them, and the devices in use."""

    def __init__(self, in_use: Collection[DeviceKey]) -> None:
        self._in_use = in_use
        self._counters: dict[CounterSet, dict[Counter, Fraction]] = defaultdict(dict)
        self._users: dict[CounterSet, list[DeviceKey]] = defaultdict(list)
        self._consumed: dict[DeviceKey, dict[Counter, Fraction]] = {}

    def add_counters(self, driver: str, pool: str, sets: Mapping[str, Mapping[str, str]]) -> None:
        """Add the counters of a slice: set -> counter -> amount."""
        for counter, amount in _by_counter(driver, pool, sets).items():
            self._counters[counter[0]][counter] = amount

    def add_device(self, key: DeviceKey, sets: Mapping[str, Mapping[str, str]]) -> None:
        """Add a device with what it consumes: set -> counter -> amount."""
        self._consumed[key] = _by_counter(*key[:2], sets)
        for name in sets if key in self._in_use else ():
            self._users[key[0], key[1], name].append(key)

    def cards_of(self, keys: Iterable[DeviceKey]) -> frozenset[CounterSet]:
        """Return the sets of counters that devices consume."""
        return frozenset(card for key in keys for card, _ in self._consumed.get(key, ()))

    def room(self, keys: Collection[DeviceKey]) -> Room:
        """Return which of the devices that a request matches can be in use together, beside those of other requests."""
        if not any(key in self._consumed for key in keys):
            return Room(frozenset(keys))
        ordered = sorted(keys)
        held = [key for key in ordered if key in self._in_use]
        cards = self.cards_of(keys)
        left = self._left(cards)
        for card in cards:
            for user in self._users[card]:
                for counter, amount in self._consumed[user].items():
                    if counter[0] == card and counter in left:
                        left[counter] -= amount
        candidates = [key for key in ordered if key not in self._in_use]
        most = self._most(candidates, left)
        # Without a common order of the scheduler and this function, every order must lead to the same number.
        found = min((self._fill(order, left) for order in (candidates, candidates[::-1])), key=len)
        if len(found) < most:
            return Room(frozenset([*held, *found]), "their driver can divide the cards in several ways")
        alone = self._fill(ordered, self._left(cards))
        if len(alone) > len(held) + len(found):
            return Room(frozenset([*held, *found]), "other devices hold parts of the cards")
        return Room(frozenset([*held, *found]))

    def _left(self, cards: Iterable[CounterSet]) -> dict[Counter, Fraction]:
        """Return the amounts of the counters of cards without any device in use."""
        return {counter: amount for card in cards for counter, amount in self._counters[card].items()}

    def _fill(self, candidates: Iterable[DeviceKey], left: Mapping[Counter, Fraction]) -> list[DeviceKey]:
        """Return the devices that are in use if each one that fits is taken in turn."""
        rest, found = dict(left), []
        for key in candidates:
            own = self._consumed.get(key, {})
            if self._fits(own, rest):
                for counter, amount in own.items():
                    rest[counter] -= amount
                found.append(key)
        return found

    def _most(self, candidates: Iterable[DeviceKey], left: Mapping[Counter, Fraction]) -> int:
        """Return a number of devices that is never exceeded: for each set of counters, the one that runs out first."""
        groups: dict[frozenset[CounterSet], list[dict[Counter, Fraction]]] = defaultdict(list)
        for key in candidates:
            own = self._consumed.get(key, {})
            if self._fits(own, left):
                groups[frozenset(card for card, _ in own)].append(own)
        total = 0
        for devices in groups.values():
            common = set.intersection(*(set(own) for own in devices))
            least = {counter: min(own[counter] for own in devices) for counter in common}
            limits = (int(left[counter] // amount) for counter, amount in least.items() if amount > 0)
            total += min((len(devices), *limits))
        return total

    @staticmethod
    def _fits(own: Amounts, left: Amounts) -> bool:
        return all(left.get(counter, Fraction(0)) >= amount for counter, amount in own.items())


def counters_of_sets(sets: Iterable[Object], name: str) -> dict[str, dict[str, str]]:
    """Return set -> counter -> amount, from the sets of a slice (``name``) or of a device (``counterSet``)."""
    return {
        str(item[name]): {counter: str(value["value"]) for counter, value in (item.get("counters") or {}).items()}
        for item in sets
    }


@lru_cache(maxsize=1024)
def _amount(text: str) -> Fraction:
    return quantity(text)


def _by_counter(driver: str, pool: str, sets: Mapping[str, Mapping[str, str]]) -> dict[Counter, Fraction]:
    return {
        ((driver, pool, name), counter): _amount(value)
        for name, counters in sets.items()
        for counter, value in counters.items()
    }
