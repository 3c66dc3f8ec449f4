"""Check of query parameters: a request with an unknown or repeated parameter is rejected.

Otherwise a client with a typo in ``namespace`` would get the answer for all namespaces, and a typo in ``dryRun`` would
cause a write.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from gpuctl.language.display_text import visible
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean
from gpuctl_server.http.http_problems import Problem

EVERYWHERE = frozenset({"accept"})
"""Query parameters of all paths: the format of the answer."""
_LONGEST = 80


def reject_unknown_parameters(request: Request) -> None:
    """Check the query parameters of a request against those of its route.

    :raises Problem: 400 for an unknown parameter, with a similar name, and for a repeated one.
    """
    route = request.scope.get("route")
    if request.scope["query_string"] and isinstance(route, APIRoute):
        check_names((name for name, _ in request.query_params.multi_items()), names_of(route))


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Check the names of query parameters.

    :param known: the names that the path has.
    :raises Problem: 400 for an unknown name, with a similar one, and for a repeated name.
    """
    seen: set[str] = set()
    for name in given:
        shown = visible(name)[:_LONGEST]
        if name not in known and name not in EVERYWHERE:
            own = sorted(set(known) - EVERYWHERE)
            others = say("known are {names}", names=own) if own else say("this path has none")
            message = say("the query parameter {name} is unknown", name=shown)
            raise Problem(400, message, error="InvalidRequest", hint=did_you_mean(name, own) or others)
        if name in seen:
            raise Problem(400, say("the query parameter {name} is given twice", name=shown), error="InvalidRequest")
        seen.add(name)


def names_of(route: APIRoute) -> frozenset[str]:
    """Return the names of a route's query parameters, including those of all paths."""
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
