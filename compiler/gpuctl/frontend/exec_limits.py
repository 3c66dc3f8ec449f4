"""The length that Linux allows for one argument or variable of a program."""

from __future__ import annotations

LONGEST = 131_071
"""Bytes, without the terminating zero. Source: MAX_ARG_STRLEN in include/uapi/linux/binfmts.h, with pages of 4 KiB."""


def too_long(what: str, text: str) -> tuple[str, str] | None:
    """Return message and hint if a program cannot start with this text, else None.

    :param what: what the text is, such as ``argument``.
    :param text: the argument, or a variable as ``NAME=value``.
    """
    size = len(text.encode("utf-8", "surrogatepass")) if len(text) > LONGEST // 4 else 0
    if size <= LONGEST:
        return None
    message = f"the {what} has {size:,} bytes: Linux starts no program with one of more than {LONGEST:,}"
    return message, "put the text into a file: in the image, or in a ConfigMap that a podPatch mounts"
