"""Kubernetes quantities: text such as ``500m``, ``128Gi`` or ``2e3`` for an amount of a resource.

Source: ``k8s.io/apimachinery/pkg/api/resource`` (the comment on ``Quantity``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Number = TypeVar("Number", int, Fraction)
QUANTITY = r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?"
"""The pattern of a quantity, for regular expressions of Python and of JSON Schema."""
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
_DECIMAL = (("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18))
_LARGEST = Fraction(2**63 - 1)
MEBIBYTE = 2**20
GIBIBYTE = 2**30
HUGE_PAGES = "hugepages-"
"""Prefix of the resource names of huge pages, which are amounts of memory."""


def whole_number(text: str, digits: int = 15) -> int | None:
    """Return the number that at most this many ASCII digits state; None for other text.

    Anyone may write a label, an annotation or a variable. ``int`` reads digits of all alphabets, and fails with more
    than 4,300 of them.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Fraction | None:
    """Return the exact value of a user's quantity (bytes of memory, cores of cpu); None if it is not a quantity.

    Values over 2^63-1 are rejected: the API server caps them silently.
    """
    found = _exact(text) if len(text) <= 64 else None
    return found[0] if found is not None and abs(found[0]) <= _LARGEST else None


def quantity(value: str | int | float) -> Fraction:
    """Return the amount of a quantity that the API server holds, rounded up to thousandths as by its defaults.

    It may be larger than one that :func:`parse_quantity` accepts, such as ``20E``. Source:
    ``apimachinery/pkg/api/resource/quantity.go`` (ParseQuantity), SetDefaults_ResourceList (rounding).

    :raises ValueError: the value is not a quantity.
    """
    return _stored(str(value))


@lru_cache(maxsize=4096)
def _stored(text: str) -> Fraction:
    found = _exact(text)
    if found is None:
        raise ValueError(f"{text!r} is not a quantity")
    exact, suffix = found
    # The API server caps only binary suffixes, despite the comment on Quantity.
    return Fraction(math.ceil((min(_LARGEST, exact) if suffix.endswith("i") else exact) * 1000), 1000)


def _exact(text: str) -> tuple[Fraction, str] | None:
    """Return a value and its suffix; None if it is not a quantity."""
    match = re.fullmatch(QUANTITY, text)
    if match is None:
        return None
    digits, suffix, exponent = match.groups()
    return Fraction(digits) * (_SUFFIXES[suffix] if suffix else Fraction(10) ** int(exponent or 0)), suffix or ""


def suggest_cores(text: str) -> str | None:
    """Return the amount of cpu that ``4 cores``, ``4 vCPU`` or ``4核`` means; None for other text."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*v?(?:c|cores?|cpus?|核)\s*", text, re.IGNORECASE)
    return match[1] if match is not None else None


def suggest_quantity(text: str) -> str | None:
    """Return the quantity that ``128GB``, ``128 Gi`` or ``128Gi,`` most likely means; None for other text."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgtpe])\s*i?\s*b?\s*[,;.，；。、]?\s*", text, re.IGNORECASE)
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


def amount_text(resource: str, value: Fraction) -> str:
    """Return an amount for a reader: ``64Gi`` of memory or storage, ``1.5`` of all else."""
    if resource.endswith(("memory", "storage")) and value.denominator == 1:
        return format_bytes(int(value))
    return format_number(value)


def format_amount(resource: str, amount: Fraction) -> str:
    """Format an amount as Kubernetes writes it: ``1500m`` of cpu, ``64Gi`` or ``500G`` of memory."""
    if amount.denominator != 1:
        return f"{math.ceil(amount * 1000)}m"
    value = amount.numerator
    texts = [str(value)]
    if resource.endswith(("memory", "storage")) or HUGE_PAGES in resource:
        texts = [
            format_bytes(value),
            *(f"{value // 10**power}{unit}" for unit, power in _DECIMAL if value % 10**power == 0),
        ]
    return min(texts, key=len) if value else "0"


def sum_by_key(parts: Iterable[Mapping[Key, Number]]) -> dict[Key, Number]:
    """Return the sum of amounts for each key."""
    total: dict[Key, Number] = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total[key] + amount if key in total else amount
    return total
