"""Which query parameters a path has. A question with another one is refused: who mistypes `namespace` would get the
answer for all."""

from __future__ import annotations

import inspect

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from gpuctl.language.spelling import nearest
from gpuctl.language.wording import visible
from gpuctl_server.problems import Problem

EVERYWHERE = frozenset({"accept"})
"""What every path has: the form of the answer."""
_LONGEST = 80


def refuse_others(request: Request) -> None:
    """See that a question has no query parameter but those of its path.

    :raises Problem: 400, with the name that may be meant.
    """
    route = request.scope.get("route")
    if request.method != "GET" or not request.scope["query_string"] or not isinstance(route, APIRoute):
        return
    known = names_of(route)
    for name in request.query_params:
        if name not in known:
            close = nearest(name, sorted(known - EVERYWHERE))
            others = ", ".join(sorted(known - EVERYWHERE))
            hint = f"did you mean `{close}`?" if close else f"there are {others}" if others else "there are none"
            said = f"the query parameter {visible(name)[:_LONGEST]} is not known here"
            raise Problem(400, said, error="InvalidRequest", hint=hint)


def names_of(route: APIRoute) -> frozenset[str]:
    """The names of a path's query parameters, and of all paths'."""
    return EVERYWHERE | _names(route.dependant)


def _names(dependant: Dependant) -> frozenset[str]:
    found: set[str] = set()
    for field in dependant.query_params:
        kind = field.field_info.annotation
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            found.update(part.alias or name for name, part in kind.model_fields.items())
        else:
            found.add(field.alias)
    return frozenset(found).union(*map(_names, dependant.dependencies))
