"""The maximum length of a program's argument or environment variable on Linux."""

from __future__ import annotations

LONGEST = 131_071
"""Bytes, without the terminating zero. Source: MAX_ARG_STRLEN in include/uapi/linux/binfmts.h, with pages of 4 KiB."""


def too_long(what: str, text: str) -> tuple[str, str] | None:
    """Return message and hint if the text is too long to start a program with, else None.

    :param what: noun for the message, such as ``argument``.
    :param text: the argument, or a variable as ``NAME=value``.
    """
    size = len(text.encode("utf-8", "surrogatepass")) if len(text) > LONGEST // 4 else 0
    if size <= LONGEST:
        return None
    message = f"the {what} has {size:,} bytes: Linux starts no program with one of more than {LONGEST:,}"
    return message, "put the text into a file: in the image, or in a ConfigMap that a podPatch mounts"
