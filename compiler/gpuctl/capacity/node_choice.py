"""Which of the nodes with room the scheduler takes: the best of those that it looks at, and of equals one by chance.

Source: Kubernetes 1.36, ``pkg/scheduler/schedule_one.go``, findNodesThatPassFilters, selectHost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import add

from gpuctl.capacity.draws import Draws
from gpuctl.capacity.node_states import Size

_DENSE = 8
"""Where one of so many places is right, places are drawn until one is."""


class ScoreRow:
    """The scores of nodes for pods alike, by place: from 1 on, 0 where there is no room.

    ``since`` tells how far it follows what happens.
    """

    def __init__(self, values: bytearray, most: int) -> None:
        """
        :param most: no score is better.
        """
        self.values = values
        self.since = 0
        self._top = most

    def copy(self) -> ScoreRow:
        """The same, to be changed by itself."""
        return ScoreRow(self.values[:], self._top)

    def put(self, places: Iterable[int], states: Sequence[Mapping[Size, int]], size: Size) -> None:
        """Change the scores of some places to those of their nodes' states."""
        values, top = self.values, self._top
        for place in places:
            score = values[place] = states[place][size]
            if score > top:
                top = score
        self._top = top

    @property
    def top(self) -> int:
        """The best score."""
        while self._top and self._top not in self.values:
            self._top -= 1
        return self._top


def looked_at(values: bytearray, most: int, draws: Draws) -> tuple[int, bytearray]:
    """From which place on nodes are looked at, which is as good as drawn, and their scores until enough have room."""
    start = draws.below(len(values))
    turned = values[start:] + values[:start]
    least, end = most, len(turned)
    if end - turned.count(0) <= most:
        return start, turned
    while least < end:
        middle = (least + end) // 2
        if middle - turned.count(0, 0, middle) >= most:
            end = middle
        else:
            least = middle + 1
    return start, turned[:end]


def drawn_place(values: bytearray, value: int, draws: Draws) -> int:
    """One of the places with a value, each as likely as any other."""
    number = values.count(value)
    if number * _DENSE >= len(values):
        while True:
            place = draws.below(len(values))
            if values[place] == value:
                return place
    place = values.index(value)
    for _ in range(draws.below(number)):
        place = values.index(value, place + 1)
    return place


def best_place(row: ScoreRow, most: int, draws: Draws) -> int:
    """The place of the best node among the first ``most`` with room; there has to be one.

    Of fewer nodes all are looked at.
    """
    values, top = row.values, row.top
    if len(values) - values.count(0) <= most:
        return drawn_place(values, top, draws)
    start, seen = looked_at(values, most, draws)
    while top not in seen:
        top -= 1
    return (start + drawn_place(seen, top, draws)) % len(values)


def with_room(start: int, seen: bytearray, number: int) -> list[int]:
    """The places with room among those looked at, of so many in all, in the order in which they are."""
    return list(compress(chain(range(start, number), range(start)), seen))


def best_by_kind(
    places: Sequence[int], values: Sequence[int], kinds: Sequence[int], extra: Mapping[int, int]
) -> list[int]:
    """The places with the highest score, where each kind of node has something added to it."""
    more = map(extra.__getitem__, map(kinds.__getitem__, places))
    scores = list(map(add, map(values.__getitem__, places), more))
    return list(compress(places, map(max(scores).__eq__, scores)))


def one_of_each(places: Collection[int], kinds: Sequence[int]) -> dict[int, int]:
    """One place of each kind."""
    return dict(zip(map(kinds.__getitem__, places), places, strict=True))
