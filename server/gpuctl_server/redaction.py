"""What is told of those whom somebody may not see: that there are some, and what they hold together; not how many.

Their names are hidden ones (:class:`gpuctl.objects.hidden_names.Hidden`) before anything
is written: no text can have another, and sentences list merged names (:func:`gpuctl.objects.hidden_names.merged`).
Items of a list with such names would still count other people's jobs, and are merged here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuctl.objects.hidden_names import OTHERS, HiddenName, is_hidden
from gpuctl_server.access.caller import Caller


def visible_job_filter(caller: Caller) -> Callable[[str, str], bool]:
    """Return a predicate: whether a job of a namespace and name, as a veiled session gives it, may be named."""
    return lambda namespace, name: caller.sees(namespace) and not is_hidden(name)


_NUMBERS = frozenset({"likelihood", "pods", "priority"})
"""What would count them, or tell them apart."""


def merge_hidden(value: Any) -> Any:
    """An answer, as JSON has it, in which all that is hidden is one; proofs about what is hidden are left out."""
    if isinstance(value, HiddenName):
        return OTHERS
    if isinstance(value, dict):
        return {key: merge_hidden(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    shown = [merge_hidden(item) for item in value if not _is_hidden(item)]
    hidden = [merge_hidden(item) for item in value if _is_hidden(item) and "text" not in item]
    if OTHERS in shown:
        shown = [item for place, item in enumerate(shown) if item != OTHERS or place == shown.index(OTHERS)]
    return [*shown, _merged(hidden)] if hidden else shown


def _is_hidden(item: Any) -> bool:
    """Whether a value of a list is something hidden, or a proof that speaks of it.

    A sentence that names what is hidden, such as a reason, does not make the job that it is about hidden.
    """
    if not isinstance(item, dict):
        return False
    pod = item.get("pod")
    values = (*item.values(), *(pod.values() if isinstance(pod, dict) else ()))
    texts = [f"{value}" for value in values if isinstance(value, str)]
    return any(OTHERS in text if "text" in item else text.rpartition("/")[2] == OTHERS for text in texts)


def _merged(items: list[dict[str, Any]]) -> dict[str, Any]:
    """One value for all: amounts are added up, what differs otherwise is not told."""
    return {key: _together(key, [item.get(key) for item in items]) for key in items[0]}


def _together(key: str, values: list[Any]) -> Any:
    if key in _NUMBERS:
        return None
    if all(isinstance(item, dict) for item in values):
        return _merged(values)
    if all(isinstance(item, int | float) and not isinstance(item, bool) for item in values):
        return sum(values)
    return values[0] if all(item == values[0] for item in values) else None
