"""Options of several commands, passed to each as one object."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def bound(name: str, make: Callable[..., Any], *options: Callable[[Function], Function]) -> Callable[..., Any]:
    """Return a decorator that adds options to a command and passes their values as one argument.

    :param name: the name of the argument.
    :param make: returns its value. Its parameters have the names of the options; a parameter with a default does not
        need an option.
    :param options: decorators that add options, in the order of the help. ``make`` may also take options of decorators
        above.
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
