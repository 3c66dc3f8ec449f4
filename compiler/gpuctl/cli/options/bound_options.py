"""Options of several commands, passed to each as one object."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def bound(name: str, make: Callable[..., Any], *options: Callable[[Function], Function]) -> Callable[..., Any]:
    """Return the decorator for options whose values a command gets as one argument.

    :param name: the argument.
    :param make: makes its value; its parameters are named like those of the options. One with a default may lack its
        option.
    :param options: the decorators of the options, as they are written above a command. ``make`` may also take what the
        options above them bind.
    """
    taken = tuple(signature(make).parameters)

    def decorate(function: Function) -> Function:
        @wraps(function)
        def command(*args: Any, **given: Any) -> Any:
            values = {parameter: given.pop(parameter) for parameter in taken if parameter in given}
            return function(*args, **given, **{name: make(**values)})

        decorated: Any = command
        for option in reversed(options):
            decorated = option(decorated)
        found: Function = decorated
        return found

    return decorate
