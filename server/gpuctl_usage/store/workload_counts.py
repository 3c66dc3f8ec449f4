"""How many workloads there were over several hours and days together: one that is in two of them counts once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from operator import and_, rshift

from sqlalchemy import Connection, Integer, select

from gpuctl_usage.facts import UNSET
from gpuctl_usage.store.given_tables import given_table, packed_rows
from gpuctl_usage.store.numbering import described_by
from gpuctl_usage.store.packing import PAIR_BITS, unpack_pairs
from gpuctl_usage.store.tables import periods
from gpuctl_usage.store.usage_queries import Question
from gpuctl_usage.sums import Level

_FIRST = (1 << PAIR_BITS) - 1
"""Of a pair the workload."""


def workload_counts(
    connection: Connection, question: Question, steps: Mapping[int, Sequence[int]], values: Mapping[str, int]
) -> dict[int, Mapping[int, int]]:
    """Of each step and group, by their numbers, how many workloads held GPUs.

    :param question: about namespaces, or the values of a label or annotation.
    :param steps: of each step the numbers of its hours and days.
    :param values: the numbers of the groups that it is about, by their values.
    """
    column = 2 if question.level is Level.NAMESPACE else 1
    # Of each what it held, once, however many days that was.
    held = {
        step: set[int]().union(*(unpack_pairs(packed, column) for packed in of_step))
        for step, of_step in _packed(connection, steps).items()
    }
    if question.level is Level.NAMESPACE:
        # A workload is of one namespace.
        return {step: _by_number(pairs) for step, pairs in held.items()}
    pairs = set[int]().union(*held.values())
    value_of = _value_of(connection, question, _by_number(pairs), values)
    several = [workload for workload, count in Counter(map(and_, pairs, repeat(_FIRST))).items() if count > 1]
    return {step: _by_value(pairs, value_of, frozenset(several)) for step, pairs in held.items()}


def _packed(connection: Connection, steps: Mapping[int, Sequence[int]]) -> dict[int, Collection[bytes]]:
    """What held in each step; once, where nothing has changed from one hour or day to another."""
    given = given_table(connection, "steps", {"period_id": Integer, "step": Integer})
    holders = select(given.c.step, periods.c.holders).join_from(given, periods, periods.c.id == given.c.period_id)
    rows = packed_rows((number, step) for step, numbers in steps.items() for number in numbers)
    found: dict[int, dict[bytes, None]] = defaultdict(dict)
    for step, packed in connection.execute(holders, {"steps": rows}).all():
        found[step][packed] = None
    return {step: list(of_step) for step, of_step in found.items()}


def _by_number(pairs: Iterable[int]) -> Counter[int]:
    return Counter(map(rshift, pairs, repeat(PAIR_BITS)))


def _by_value(pairs: set[int], value_of: Mapping[int, int | None], several: Collection[int]) -> Mapping[int, int]:
    """:param several: the workloads that had more than one set of labels."""
    # Under two of them a workload may have had the same value.
    again = {pair for pair in pairs if pair & _FIRST in several} if several else set[int]()
    counts = Counter(value for value, _ in {(value_of[pair >> PAIR_BITS], pair & _FIRST) for pair in again})
    for number, count in _by_number(pairs - again if again else pairs).items():
        counts[value_of[number]] += count
    return {value: count for value, count in counts.items() if value is not None}


def _value_of(
    connection: Connection, question: Question, as_what: Iterable[int], values: Mapping[str, int]
) -> dict[int, int | None]:
    """Of labels and annotations, by their numbers, the group for which they count; None where nobody asks."""
    key, is_label = question.key or "", question.level is Level.LABEL
    return {
        number: values.get((said.labels if is_label else said.annotations).get(key, UNSET))
        for number, said in described_by(connection, sorted(as_what)).items()
    }
