"""Reads plain numbers of a ``podPatch`` as kubectl's YAML reader does: ``0400`` is octal, ``1_000`` a number.

Source: go.yaml.in/yaml/v2 (resolve.go), which sigs.k8s.io/yaml uses, and Go's strconv.ParseInt with base 0. A file mode
copied from a manifest must keep its meaning.
"""

from __future__ import annotations

import math
import re

_INTEGER = r"(?a)([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))\Z"
_FLOAT = r"(?a)[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"
_LONGEST = 64
_LARGEST, _SMALLEST = 2**64 - 1, -(2**63)


def read_number(text: str) -> int | float | None:
    """Return the number that kubectl reads for a plain scalar; None if it reads text. Whole numbers are integers."""
    if not text or text[0] not in "+-.0123456789" or len(text) > _LONGEST:
        return None
    if text[0] == "." and re.search(r"(?a)(?<!\d)_|_(?!\d)", text):
        return None  # After a dot Go requires digits on both sides of an underscore.
    bare = text.replace("_", "")
    match = re.match(_INTEGER, bare)
    if match is not None:
        sign, hexadecimal, binary, octal, decimal = match.groups()
        digits, base = (
            (hexadecimal, 16) if hexadecimal else (binary, 2) if binary else (octal, 8) if octal else (decimal, 10)
        )
        value = int(digits, base) * (-1 if sign == "-" else 1)
        if _SMALLEST <= value <= (_LARGEST if not sign else -_SMALLEST - 1):
            return value
    if re.match(_FLOAT, bare) is None:
        return None
    number = float(bare)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
