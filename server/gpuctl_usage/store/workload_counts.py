"""How many workloads there were over several hours and days together: one that is in two of them counts once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter

from sqlalchemy import Connection, Integer, select

from gpuctl_usage.facts import UNSET
from gpuctl_usage.store.given_tables import given_table, packed_rows
from gpuctl_usage.store.numbering import described_by
from gpuctl_usage.store.packing import unpack_triples
from gpuctl_usage.store.tables import periods
from gpuctl_usage.store.usage_queries import Question
from gpuctl_usage.sums import Level

_Held = Iterable[tuple[Sequence[int], Sequence[int], Sequence[int]]]
"""Of some hours and days: workloads, as what each of them held, and its namespace."""


def workload_counts(
    connection: Connection, question: Question, steps: Mapping[int, Sequence[int]], values: Mapping[str, int]
) -> dict[int, Mapping[int, int]]:
    """Of each step and group, by their numbers, how many workloads held GPUs.

    :param question: about namespaces, or the values of a label or annotation.
    :param steps: of each step the numbers of its hours and days.
    :param values: the numbers of the groups that it is about, by their values.
    """
    packed = _packed(connection, steps)
    if question.level is Level.NAMESPACE:
        return {step: _by_namespace(map(unpack_triples, of_step)) for step, of_step in packed.items()}
    counts: dict[int, Mapping[int, int]] = {}
    value_of: dict[int, int | None] = {}
    for step, of_step in packed.items():
        held = list(map(unpack_triples, of_step))
        new = set[int]().union(*(as_what for _, as_what, _ in held)) - value_of.keys()
        value_of.update(_value_of(connection, question, new, values))
        counts[step] = _by_value(held, value_of)
    return counts


def _packed(connection: Connection, steps: Mapping[int, Sequence[int]]) -> dict[int, Collection[bytes]]:
    """What held in each step; once, where nothing has changed from one hour or day to another."""
    given = given_table(connection, "steps", {"period_id": Integer, "step": Integer})
    holders = select(given.c.step, periods.c.holders).join_from(given, periods, periods.c.id == given.c.period_id)
    rows = packed_rows((number, step) for step, numbers in steps.items() for number in numbers)
    found: dict[int, dict[bytes, None]] = defaultdict(dict)
    for step, packed in connection.execute(holders, {"steps": rows}).all():
        found[step][packed] = None
    return {step: list(of_step) for step, of_step in found.items()}


def _by_namespace(held: _Held) -> Mapping[int, int]:
    # A workload is of one namespace.
    namespace_of: dict[int, int] = {}
    for workloads, _, namespaces in held:
        namespace_of.update(zip(workloads, namespaces, strict=True))
    return Counter(namespace_of.values())


def _by_value(held: _Held, value_of: Mapping[int, int | None]) -> Mapping[int, int]:
    # Under two sets of labels a workload may have had the same value.
    alike: set[tuple[int | None, int]] = set()
    for workloads, as_what, _ in held:
        alike.update(zip(map(value_of.__getitem__, as_what), workloads, strict=True))
    counts = Counter(map(itemgetter(0), alike))
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
