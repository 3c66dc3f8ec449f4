"""How many workloads there were over several hours and days together: one that is in two of them counts once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from operator import and_, rshift
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Column, Connection, Engine, Integer, select

from gpuctl_usage.facts import UNSET
from gpuctl_usage.store.database_tables import periods
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.packing import PAIR_BITS, unpack_pairs, unpack_runs
from gpuctl_usage.store.surrogate_keys import described_by
from gpuctl_usage.store.usage_queries import RowQuery
from gpuctl_usage.sums import Level

_FIRST = (1 << PAIR_BITS) - 1
"""Of a pair the workload."""
_STEPS_KEPT = 200
"""The weeks of a year, its months, and days of another time zone."""

_Made = tuple[tuple[int, str], ...]
"""Of what a step is made: the numbers of hours and days, and the digests of what they are made of."""
_known: WeakKeyDictionary[Engine, dict[_Made, Mapping[int, int]]] = WeakKeyDictionary()
"""Of a database how many workloads namespaces had in steps: a page that is open asks for the same again and again."""


def workload_counts(
    connection: Connection, question: RowQuery, steps: Mapping[int, Sequence[int]], values: Mapping[str, int]
) -> dict[int, Mapping[int, int]]:
    """Of each step and group, by their numbers, how many workloads held GPUs.

    :param question: about namespaces, or the values of a label or annotation.
    :param steps: of each step the numbers of its hours and days.
    :param values: the numbers of the groups that it is about, by their values.
    """
    if question.level is Level.NAMESPACE:
        # A workload is of one namespace.
        return _of_namespaces(connection, steps)
    packed = _packed(connection, steps)
    # Of each what it held, once, however many days that was.
    held = {step: set[int]().union(*map(unpack_pairs, of_step)) for step, of_step in packed.items()}
    as_what = {step: Counter(map(rshift, pairs, repeat(PAIR_BITS))) for step, pairs in held.items()}
    value_of = _value_of(connection, question, set[int]().union(*as_what.values()), values)
    return {step: _by_value(pairs, as_what[step], value_of) for step, pairs in held.items()}


def _of_namespaces(connection: Connection, steps: Mapping[int, Sequence[int]]) -> dict[int, Mapping[int, int]]:
    made, known = _made(connection, steps), _known.setdefault(connection.engine, {})
    # Another thread may forget all of them meanwhile.
    found = {step: counts for step, of_what in made.items() if (counts := known.get(of_what)) is not None}
    missing = {step: steps[step] for step in made if step not in found}
    if missing:
        found |= {step: _by_namespace(of_step) for step, of_step in _packed(connection, missing).items()}
        if len(known) + len(missing) > _STEPS_KEPT:
            known.clear()
        known.update((made[step], found[step]) for step in missing)
    return found


def _made(connection: Connection, steps: Mapping[int, Sequence[int]]) -> dict[int, _Made]:
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for step, number, digest in _of_periods(connection, steps, periods.c.id, periods.c.digest):
        found[step].append((number, digest))
    return {step: tuple(of_step) for step, of_step in found.items()}


def _packed(connection: Connection, steps: Mapping[int, Sequence[int]]) -> Mapping[int, Collection[bytes]]:
    """What held in each step; once, where nothing has changed from one hour or day to another."""
    found: dict[int, dict[bytes, None]] = defaultdict(dict)
    for step, packed in _of_periods(connection, steps, periods.c.holders):
        found[step][packed] = None
    return found


def _of_periods(connection: Connection, steps: Mapping[int, Sequence[int]], *columns: Column[Any]) -> Sequence[Any]:
    """Rows of the hours and days of steps, with the step of each."""
    given = inline_table(connection, "steps", {"period_id": Integer, "step": Integer})
    statement = select(given.c.step, *columns).join_from(given, periods, periods.c.id == given.c.period_id)
    rows = packed_rows((number, step) for step, numbers in steps.items() for number in numbers)
    return connection.execute(statement, {"steps": rows}).all()


def _by_namespace(of_step: Iterable[bytes]) -> Mapping[int, int]:
    held: dict[int, list[Sequence[int]]] = defaultdict(list)
    for packed in of_step:
        for namespace, workloads in unpack_runs(packed):
            held[namespace].append(workloads)
    return {namespace: len(set().union(*workloads)) for namespace, workloads in held.items()}


def _by_value(pairs: Collection[int], as_what: Mapping[int, int], value_of: Mapping[int, int | None]) -> dict[int, int]:
    """:param as_what: how many workloads had labels, by the numbers of these."""
    counts: Counter[int | None] = Counter()
    for number, count in as_what.items():
        counts[value_of[number]] += count
    if len(set(map(and_, pairs, repeat(_FIRST)))) < len(pairs):
        # Some had several sets of labels: under two of them a workload may have had the same value, and counts once.
        several = {workload for workload, sets in Counter(map(and_, pairs, repeat(_FIRST))).items() if sets > 1}
        theirs = Counter((value_of[pair >> PAIR_BITS], pair & _FIRST) for pair in pairs if pair & _FIRST in several)
        for (value, _), sets in theirs.items():
            counts[value] -= sets - 1
    return {value: count for value, count in counts.items() if value is not None}


def _value_of(
    connection: Connection, question: RowQuery, as_what: Iterable[int], values: Mapping[str, int]
) -> dict[int, int | None]:
    """Of labels and annotations, by their numbers, the group for which they count; None where nobody asks."""
    key, is_label = question.key or "", question.level is Level.LABEL
    return {
        number: values.get((said.labels if is_label else said.annotations).get(key, UNSET))
        for number, said in described_by(connection, sorted(as_what)).items()
    }
