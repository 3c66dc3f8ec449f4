"""The maximum length of a program's argument or environment variable on Linux."""

from __future__ import annotations

from gpuctl.language.sentences import Sentence, Template, say

LONGEST = 131_071
"""Bytes, without the terminating zero. Source: MAX_ARG_STRLEN in include/uapi/linux/binfmts.h, with pages of 4 KiB."""

LONG_ARGUMENT = Template("the argument has {size} bytes: Linux starts no program with one of more than {longest}")
LONG_VARIABLE = Template("the variable has {size} bytes: Linux starts no program with one of more than {longest}")


def too_long(what: Template, text: str) -> tuple[Sentence, Sentence] | None:
    """Return message and hint if the text is too long to start a program with, else None.

    :param what: the message, :data:`LONG_ARGUMENT` or :data:`LONG_VARIABLE`.
    :param text: the argument, or a variable as ``NAME=value``.
    """
    size = len(text.encode("utf-8", "surrogatepass")) if len(text) > LONGEST // 4 else 0
    if size <= LONGEST:
        return None
    message = say(what, size=f"{size:,}", longest=f"{LONGEST:,}")
    return message, say("put the text into a file: in the image, or in a ConfigMap that a podPatch mounts")
