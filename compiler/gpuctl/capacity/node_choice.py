"""Which of the nodes with room the scheduler takes: the best of those that it looks at, and of equals one by chance.

Source: Kubernetes 1.36, ``pkg/scheduler/schedule_one.go``, findNodesThatPassFilters, selectHost.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.capacity.draws import Draws

_DENSE = 8
"""Where one of so many places is right, places are drawn until one is."""


class ScoreRow:
    """The scores of nodes for pods alike, by place: from 1 on, 0 where there is no room.

    No score is better than ``most``; ``since`` tells how far the row follows what happens.
    """

    def __init__(self, values: bytearray, most: int) -> None:
        self.values = values
        self.most = most
        self.since = 0

    def copy(self) -> ScoreRow:
        """The same, to be changed by itself."""
        return ScoreRow(self.values[:], self.most)

    @property
    def top(self) -> int:
        """The best score."""
        while self.most and self.most not in self.values:
            self.most -= 1
        return self.most


def looked_at(values: bytearray, most: int, draws: Draws) -> tuple[int, bytearray]:
    """From which place on nodes are looked at, which is as good as drawn, and their scores until enough have room."""
    start = draws.below(len(values))
    turned = values[start:] + values[:start]
    if len(turned) - turned.count(0) <= most:
        return start, turned
    end, missing = 0, most
    while missing:
        # So many places further on are needed at least; those of them without room are missing then.
        further = end + missing
        end, missing = further, turned.count(0, end, further)
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


def in_place(start: int, seen: bytearray, number: int) -> bytearray:
    """The scores of nodes looked at from a place on, by the places of all: 0 for those that are not."""
    ahead = number - start
    if len(seen) <= ahead:
        return bytearray(start) + seen + bytearray(ahead - len(seen))
    return seen[ahead:] + bytearray(number - len(seen)) + seen[:ahead]


def best_of_kinds(values: bytearray, most: int, kinds: Sequence[int], number: int) -> dict[int, tuple[int, list[int]]]:
    """The best score of each kind of node, and where it is; nothing for kinds without room.

    :param most: no score is better.
    :param number: how many kinds there are at most.
    """
    result: dict[int, tuple[int, list[int]]] = {}
    # From the best on: mostly each kind has one among them, so that the others need no look.
    for value in range(most, 0, -1):
        place = values.find(value)
        while place >= 0:
            best, places = result.setdefault(kinds[place], (value, []))
            if best == value:
                places.append(place)
            place = values.find(value, place + 1)
        if len(result) == number:
            break
    return result
