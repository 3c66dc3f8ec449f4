"""What is said of a name that nothing has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gpuctl.kube.api_errors import NotThere
from gpuctl.language.display_text import visible

_SHOWN = 8
_CLOSE = 0.6


def no_such(what: str, name: str, there: Iterable[str], more: str = "") -> NotThere:
    """The error for a name that nothing has.

    :param what: the kind of thing, such as ``node``.
    :param there: the names that there are; the nearest is suggested, else a few are listed.
    :param more: what else to do, as a clause.
    """
    near = suggestion(name, there)
    hint = f"{near}{' ' if near.endswith('?') else '; '}{more}" if more else near
    return NotThere(f"there is no {what} {visible(name)}", hint)


def suggestion(name: str, there: Iterable[str]) -> str:
    """``did you mean `node-1`?`` where one name is the nearest, else what there is."""
    names = sorted(set(there))
    if not names:
        return "there is none at all"
    ratios = {other: difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio() for other in names}
    best = max(ratios.values())
    nearest = [other for other, ratio in ratios.items() if ratio == best]
    if best >= _CLOSE and len(nearest) == 1:
        return f"did you mean `{nearest[0]}`?"
    shown = nearest if best >= _CLOSE else names
    rest = f" and {len(names) - min(_SHOWN, len(shown))} more" if len(names) > min(_SHOWN, len(shown)) else ""
    return f"there are {', '.join(shown[:_SHOWN])}{rest}" if len(names) > 1 else f"there is {names[0]}"
