"""Error messages for names that do not exist, with suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gpuctl.kube.api_errors import NotThere
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import Sentence, say

_SHOWN = 8
_CLOSE = 0.6


def no_such(what: str, name: str, there: Iterable[str], more: str = "") -> NotThere:
    """Return the error for a name that does not exist.

    :param what: the kind of thing, such as ``node``.
    :param there: the existing names; the nearest is suggested, else a few are listed.
    :param more: a further hint, as a clause.
    """
    near = suggestion(name, there)
    hint = f"{near}{' ' if near.endswith(('?', '？')) else '; '}{more}" if more else near
    shown = visible(name)
    said = no_such_node(shown) if what == "node" else say("there is no {what} {name}", what=what, name=shown)
    return NotThere(said, hint)


def no_such_node(name: str) -> Sentence:
    """Return the message about a node that does not exist."""
    return say("there is no node {name}", name=name)


def suggestion(name: str, there: Iterable[str]) -> str:
    """Return ``did you mean `node-1`?`` if one name is the nearest, else a list of existing names."""
    names = sorted(set(there))
    if not names:
        return "there are none"
    ratios = {other: difflib.SequenceMatcher(None, name.casefold(), other.casefold()).ratio() for other in names}
    best = max(ratios.values())
    nearest = [other for other, ratio in ratios.items() if ratio == best]
    if best >= _CLOSE and len(nearest) == 1:
        return say("did you mean `{name}`?", name=nearest[0])
    shown = nearest if best >= _CLOSE else names
    rest = f" and {len(names) - min(_SHOWN, len(shown))} more" if len(names) > min(_SHOWN, len(shown)) else ""
    return f"there are {', '.join(shown[:_SHOWN])}{rest}" if len(names) > 1 else f"there is {names[0]}"
