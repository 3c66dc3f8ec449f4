"""Devices that take parts of a card from shared counters (KEP-4815), such as MIG slices that are created on demand.

Source: ``k8s.io/dynamic-resource-allocation/structured/internal/incubating``, checkAvailableCounters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from gpuctl.language.sentences import say
from gpuctl.objects.quantities import quantity

DeviceKey = tuple[str, str, str]
"""Driver, pool and name of a device."""
CounterSet = tuple[str, str, str]
"""Driver, pool and name of a set of counters: those of a card."""
Counter = tuple[CounterSet, str]


class Room(NamedTuple):
    """Devices of a request that can be in use together: those in use, and so many others in any order of allocation.

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
        cards = self.cards_of(keys)
        others = {user for card in cards for user in self._users[card]}.difference(keys)
        left = {counter: amount for card in cards for counter, amount in self._counters[card].items()}
        self._take(others, left)
        found: set[DeviceKey] = set()
        doubt = ""
        for group in self._groups(sorted(keys)):
            held = [key for key in group if key in self._in_use]
            rest = [key for key in group if key not in self._in_use and self._fits(key, left)]
            is_even = self._is_even([*held, *rest], left)
            self._take(held, left)
            added = self._fill(rest, left)
            found.update(held, added if is_even else added[:1])
            if not is_even:
                doubt = say("their driver can divide the cards in several ways")
        if others and not doubt and len(found) < len(keys):
            doubt = say("other devices hold parts of the cards")
        return Room(frozenset(found), doubt)

    def _groups(self, keys: Iterable[DeviceKey]) -> list[list[DeviceKey]]:
        """Return the devices by card; all together if one takes parts of several cards."""
        groups: dict[frozenset[CounterSet], list[DeviceKey]] = defaultdict(list)
        for key in keys:
            groups[self.cards_of([key])].append(key)
        if all(len(cards) <= 1 for cards in groups):
            return list(groups.values())
        return [[key for group in groups.values() for key in group]]

    def _is_even(self, keys: Collection[DeviceKey], left: Mapping[Counter, Fraction]) -> bool:
        """Return True if as many of the devices can be in use in whichever order the scheduler takes them.

        That is so if devices that compete for a counter compete for the same counters, with the same amounts.
        """
        wanted: dict[Counter, Fraction] = defaultdict(Fraction)
        for key in keys:
            for counter, amount in self._consumed.get(key, {}).items():
                wanted[counter] += amount
        scarce = {counter for counter, amount in wanted.items() if amount > left.get(counter, 0)}
        uses = {
            frozenset((counter, amount) for counter, amount in own.items() if amount and counter in scarce)
            for own in (self._consumed.get(key, {}) for key in keys)
        }
        competing = [counter for use in uses for counter, _ in use]
        return len(competing) == len(set(competing))

    def _take(self, keys: Iterable[DeviceKey], left: dict[Counter, Fraction]) -> None:
        """Subtract what devices consume."""
        for key in keys:
            for counter, amount in self._consumed.get(key, {}).items():
                if counter in left:
                    left[counter] -= amount

    def _fill(self, candidates: Iterable[DeviceKey], left: dict[Counter, Fraction]) -> list[DeviceKey]:
        """Return the devices that are in use if each one that fits is taken in turn, and subtract them."""
        found = []
        for key in candidates:
            if self._fits(key, left):
                self._take([key], left)
                found.append(key)
        return found

    def _fits(self, key: DeviceKey, left: Mapping[Counter, Fraction]) -> bool:
        return all(left.get(counter, 0) >= amount for counter, amount in self._consumed.get(key, {}).items())


@lru_cache(maxsize=1024)
def _amount(text: str) -> Fraction:
    return quantity(text)


def _by_counter(driver: str, pool: str, sets: Mapping[str, Mapping[str, str]]) -> dict[Counter, Fraction]:
    return {
        ((driver, pool, name), counter): _amount(value)
        for name, counters in sets.items()
        for counter, value in counters.items()
    }
