"""Error messages for names that do not exist, with suggestions."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.kube.api_errors import NotThere
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import Sentence, Template, clauses, say
from gpuctl.language.spelling import all_nearest, suggest_before, suggest_name

_MISSING = {
    "GPU type": Template("there is no GPU type {name}"),
    "namespace": Template("there is no namespace {name}"),
    "node": Template("there is no node {name}"),
    "pool": Template("there is no pool {name}"),
    "queue": Template("there is no queue {name}"),
    "quota": Template("there is no quota {name}"),
}
_SHOWN = 8


def no_such(what: str, name: str, there: Iterable[str], more: str = "") -> NotThere:
    """Return the error for a name that does not exist.

    :param what: the kind of thing, a key of :data:`_MISSING`.
    :param there: the existing names; the nearest is suggested, else a few are listed.
    :param more: a further hint, as a clause.
    """
    names = sorted(set(there))
    near = all_nearest(name, names)
    hint = suggest_before(near[0], more) if more and len(near) == 1 else clauses(suggestion(name, names), more)
    return NotThere(say(_MISSING[what], name=visible(name)), hint)


def no_such_node(name: str) -> Sentence:
    """Return the message about a node that does not exist."""
    return say(_MISSING["node"], name=name)


def suggestion(name: str, there: Iterable[str]) -> str:
    """Return ``did you mean `node-1`?`` if one name is the nearest, else a list of existing names."""
    names = sorted(set(there))
    if not names:
        return say("there are none")
    near = all_nearest(name, names)
    if len(near) == 1:
        return suggest_name(near[0])
    shown = near or names
    if len(names) == 1:
        return say("there is {name}", name=names[0])
    others = len(names) - min(_SHOWN, len(shown))
    if others:
        return say("there are {names} and {others} more", names=shown[:_SHOWN], others=others)
    return say("there are {names}", names=shown)
