"""Kubernetes quantities: text such as ``500m``, ``128Gi`` or ``2e3`` for an amount of a resource.

Source: ``k8s.io/apimachinery/pkg/api/resource`` (the comment on ``Quantity``).
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,3}))?\Z", re.ASCII)
_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_LARGEST = Fraction(2**63 - 1)
MEBIBYTE = 2**20
GIBIBYTE = 2**30


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Fraction | None:
    """Return the exact value of a quantity (bytes of memory, cores of cpu); None if ``text`` is not a quantity.

    Values over 2^63-1 are rejected: the API server caps them silently.
    """
    match = _QUANTITY.match(text)
    if match is None or len(text) > 64:
        return None
    sign, digits, suffix, exponent = match.groups()
    value = Fraction(digits if digits[-1] != "." else digits[:-1])
    if suffix:
        value *= _SUFFIXES[suffix]
    elif exponent:
        value *= Fraction(10) ** int(exponent)
    if sign == "-":
        value = -value
    return value if abs(value) <= _LARGEST else None


def suggest_quantity(text: str) -> str | None:
    """Return the quantity that ``128GB``, ``128 Gi`` or ``64gb`` most likely means; None for other text."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgtpe])i?b?\s*", text, re.IGNORECASE)
    if match is None:
        return None
    candidate = f"{match[1]}{match[2].upper()}i"
    return candidate if parse_quantity(candidate) is not None else None


def format_bytes(value: int) -> str:
    """Return bytes as the shortest exact quantity with a binary suffix: 68719476736 -> ``64Gi``."""
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        unit = int(_SUFFIXES[suffix])
        if value and value % unit == 0:
            return f"{value // unit}{suffix}"
    return str(value)


def format_number(value: Fraction) -> str:
    """Return a value with at most two decimals, without trailing zeros."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.2f}".rstrip("0").rstrip(".")
