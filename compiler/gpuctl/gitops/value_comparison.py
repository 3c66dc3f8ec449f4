"""The differences between two documents or objects, by field path."""

from __future__ import annotations

from typing import Any

from deepdiff import DeepDiff
from deepdiff.operator import BaseOperator

from gpuctl.gitops.value_change import ValueChange


def value_changes(before: Any, after: Any, path: str = "") -> list[ValueChange]:
    """Return where two values differ: ``spec.template.spec.containers[0].image``, with both values.

    The order is that of ``before``, then that of ``after``. Lists are compared item by item only if they are equally
    long and contain only mappings and lists: a word of a command line means nothing without its neighbours.

    :param path: the path of both values, a prefix of all paths.
    """
    found: dict[tuple[int, ...], ValueChange] = {}
    # A threshold of 0 reports single fields even of mappings with few fields in common.
    tree = DeepDiff(
        before,
        after,
        view="tree",
        threshold_to_diff_deeper=0,
        zip_ordered_iterables=True,
        custom_operators=[_EqualValues()],
    )
    for level in (level for levels in tree.values() for level in levels):
        # Python's equality decides: 1, 1.0 and True are the same.
        if level.t1 != level.t2:
            place, change = _change(before, after, path, level.path(output_format="list"))
            found[place] = change
    return [found[place] for place in sorted(found)]


class _EqualValues(BaseOperator):
    """Skips equal values at once: in most comparisons nearly all are equal."""

    def match(self, level: Any) -> bool:
        return bool(level.t1 == level.t2)

    def give_up_diffing(self, level: Any, diff_instance: Any) -> bool:
        return True


def _change(before: Any, after: Any, path: str, keys: list[Any]) -> tuple[tuple[int, ...], ValueChange]:
    """Return the change at some keys, or that of the list around it, and its place in the order."""
    place: list[int] = []
    for key in keys:
        if isinstance(before, dict):
            place.append([*before, *(name for name in after if name not in before)].index(key))
            path = f"{path}.{key}" if path else str(key)
            before, after = before.get(key), after.get(key)
        elif _are_alike(before, after):
            place.append(key)
            path = f"{path}[{key}]"
            before, after = before[key], after[key]
        else:
            break
    return tuple(place), ValueChange(path, before, after)


def _are_alike(before: list[Any], after: list[Any]) -> bool:
    return len(before) == len(after) and all(isinstance(item, (dict, list)) for item in (*before, *after))
