"""The common part of ``gpuctl describe`` for objects with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpuctl.cli.options.reading_options import ReadingOptions, open_context
from gpuctl.cli.output.printing import show_value
from gpuctl.usecases.queries.read_context import ReadContext

Found = TypeVar("Found")


def show_named(
    name: str,
    output: str,
    reading: ReadingOptions,
    find: Callable[[ReadContext, str], Found],
    answer: Callable[[Found], dict[str, Any]],
    show: Callable[[ReadContext, Found], None],
    namespace: str | None = None,
) -> int:
    """Find the object with a name, ``pool/a`` or ``a``, and print it.

    :param output: ``text``, or the format of the ``answer``.
    """
    with open_context(reading, namespace, as_json=output != "text") as read_context:
        found = find(read_context, name.rpartition("/")[2])
        if output == "text":
            show(read_context, found)
        else:
            show_value(answer(found), output)
    return 0
