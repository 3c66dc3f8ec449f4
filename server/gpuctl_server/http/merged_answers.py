"""Merging of what an answer says of objects that the caller may not see into one entry, so that they cannot be counted.

Which objects these are, :class:`gpuctl_server.mirror.visibility.Visibility` decides, and
:class:`gpuctl_server.mirror.object_redaction.ObjectRedactor` replaces their names before a text is written. Sentences
list each such name once (:func:`gpuctl.objects.hidden_names.unique_names`). Here, items of lists with such names are
merged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpuctl.objects.hidden_names import OTHERS, HiddenName, is_hidden
from gpuctl_server.access.caller import Caller


def visible_job_filter(caller: Caller) -> Callable[[str, str], bool]:
    """Return a predicate of namespace and name, as in a redacting session: True if the caller may see the job."""
    return lambda namespace, name: caller.sees(namespace) and not is_hidden(name)


_PLACEHOLDER = re.compile(f" ?{re.escape(OTHERS)} ?")
_CHINESE = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_NUMBERS = frozenset({"createdAt", "likelihood", "pods", "priority"})
"""Fields that are dropped from merged entries because they would reveal a number of objects, or identify one."""


def merge_hidden(value: Any) -> Any:
    """Return a JSON value in which all hidden items of a list are one. Evidence about hidden objects is left out."""
    if isinstance(value, HiddenName):
        return OTHERS
    if isinstance(value, str):
        return hidden_in_chinese(value)
    if isinstance(value, dict):
        return {key: merge_hidden(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    shown = [merge_hidden(item) for item in value if not _is_hidden(item)]
    hidden = [merge_hidden(item) for item in value if _is_hidden(item) and "text" not in item]
    if OTHERS in shown:
        shown = [item for place, item in enumerate(shown) if item != OTHERS or place == shown.index(OTHERS)]
    return [*shown, _merged(hidden)] if hidden else shown


def hidden_in_chinese(text: str) -> str:
    """Return a text in which a Chinese sentence has Chinese words for hidden objects. Names stay."""
    return _PLACEHOLDER.sub("（其他）", text) if OTHERS in text and _CHINESE.search(text) else text


def _is_hidden(item: Any) -> bool:
    """Return True if an item of a list is a hidden object, or evidence about one.

    An item with a sentence that mentions a hidden object, such as a reason, is not itself hidden.
    """
    if not isinstance(item, dict):
        return False
    pod = item.get("pod")
    values = (*item.values(), *(pod.values() if isinstance(pod, dict) else ()))
    texts = [f"{value}" for value in values if isinstance(value, str)]
    return any(OTHERS in text if "text" in item else text.rpartition("/")[2] == OTHERS for text in texts)


def _merged(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge items: numbers are added up, other values that differ become None."""
    return {key: _together(key, [item.get(key) for item in items]) for key in items[0]}


def _together(key: str, values: list[Any]) -> Any:
    if key in _NUMBERS:
        return None
    if all(isinstance(item, dict) for item in values):
        return _merged(values)
    if all(isinstance(item, int | float) and not isinstance(item, bool) for item in values):
        return sum(values)
    return values[0] if all(item == values[0] for item in values) else None
