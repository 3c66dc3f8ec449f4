"""Distinct workloads over several hours and days: one that held GPUs in two of them counts once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from operator import and_, rshift

from sqlalchemy import Connection, Integer, select

from gpuctl_usage.facts import UNSET
from gpuctl_usage.store.database_tables import periods
from gpuctl_usage.store.inline_tables import inline_table, packed_rows
from gpuctl_usage.store.packing import PAIR_BITS, unpack_pairs, unpack_runs
from gpuctl_usage.store.surrogate_keys import read_attributes
from gpuctl_usage.store.usage_queries import RowQuery
from gpuctl_usage.sums import Level

_WORKLOAD_MASK = (1 << PAIR_BITS) - 1
"""Mask of the workload id in a packed pair."""


def workload_counts(
    connection: Connection, query: RowQuery, steps: Mapping[int, Sequence[int]], values: Mapping[str, int]
) -> dict[int, Mapping[int, int]]:
    """Return the number of distinct workloads by step and group id.

    :param question: a query of namespaces, or of the values of a label or annotation.
    :param steps: period ids of each step.
    :param values: group ids by value.
    """
    if query.level is Level.NAMESPACE:
        # A workload belongs to one namespace: labels are not needed.
        return {step: _counts_by_namespace(packed) for step, packed in _packed_holders(connection, steps).items()}
    packed = _packed_holders(connection, steps)
    # Distinct pairs of workload and attributes over all periods of the step.
    held = {step: set[int]().union(*map(unpack_pairs, of_step)) for step, of_step in packed.items()}
    as_what = {step: Counter(map(rshift, pairs, repeat(PAIR_BITS))) for step, pairs in held.items()}
    value_of = _value_of(connection, query, set[int]().union(*as_what.values()), values)
    return {step: _counts_by_value(pairs, as_what[step], value_of) for step, pairs in held.items()}


def _packed_holders(connection: Connection, steps: Mapping[int, Sequence[int]]) -> Mapping[int, Collection[bytes]]:
    """Return the packed holders of each step, without duplicates of unchanged periods."""
    given = inline_table(connection, "steps", {"period_id": Integer, "step": Integer})
    statement = select(given.c.step, periods.c.holders).join_from(given, periods, periods.c.id == given.c.period_id)
    rows = packed_rows((number, step) for step, numbers in steps.items() for number in numbers)
    found: dict[int, dict[bytes, None]] = defaultdict(dict)
    for step, packed in connection.execute(statement, {"steps": rows}):
        found[step][packed] = None
    return found


def _counts_by_namespace(of_step: Iterable[bytes]) -> Mapping[int, int]:
    held: dict[int, list[Sequence[int]]] = defaultdict(list)
    for packed in of_step:
        for namespace, workloads in unpack_runs(packed):
            held[namespace].append(workloads)
    return {namespace: len(set().union(*workloads)) for namespace, workloads in held.items()}


def _counts_by_value(
    pairs: Collection[int], as_what: Mapping[int, int], value_of: Mapping[int, int | None]
) -> dict[int, int]:
    """Count workloads by group id.

    :param as_what: number of workloads by attributes id.
    """
    counts: Counter[int | None] = Counter()
    for number, count in as_what.items():
        counts[value_of[number]] += count
    if len(set(map(and_, pairs, repeat(_WORKLOAD_MASK)))) < len(pairs):
        # Some workloads had several sets of attributes: count each once per value.
        several = {workload for workload, sets in Counter(map(and_, pairs, repeat(_WORKLOAD_MASK))).items() if sets > 1}
        theirs = Counter(
            (value_of[pair >> PAIR_BITS], pair & _WORKLOAD_MASK) for pair in pairs if pair & _WORKLOAD_MASK in several
        )
        for (value, _), sets in theirs.items():
            counts[value] -= sets - 1
    return {value: count for value, count in counts.items() if value is not None}


def _value_of(
    connection: Connection, query: RowQuery, as_what: Iterable[int], values: Mapping[str, int]
) -> dict[int, int | None]:
    """Return the group id of each attributes id; None if its value is not wanted."""
    key, is_label = query.key or "", query.level is Level.LABEL
    return {
        number: values.get((said.labels if is_label else said.annotations).get(key, UNSET))
        for number, said in read_attributes(connection, as_what).items()
    }
