"""Compact encodings of the largest columns: histograms, and allocations of workloads."""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import accumulate, chain, repeat
from operator import add, itemgetter, sub
from typing import Any

from gpuctl_usage.sums import Sums

_SPARSE = 0x80
_IDS_MARK, _TRIPLES_MARK = b"\x04", b"\x05"
HUNDREDTHS_FIELDS = ("util_min", "util_max", "memory_max")
"""Fields stored as integer hundredths, the precision of answers. Rounding does not change which of several is lowest or
highest.
"""
PLAIN_FIELDS = tuple(field.name for field in fields(Sums) if field.name not in (*HUNDREDTHS_FIELDS, "histogram"))
PAIR_BITS = 32
"""Bits of the first id in a pair."""
_LOW_HALF = 0 if sys.byteorder == "little" else 1
"""Index of the low 32-bit half of a 64-bit integer."""


class InvalidPackedData(ValueError):
    """Bytes that this module did not write."""


def pack_histogram(histogram: Mapping[int, int] | None) -> bytes | None:
    """Encode bins and their counts: as a dense row from the first to the last bin, or bin by bin, whichever is shorter.

    The first byte is the first bin; its highest bit marks the bin-by-bin form.
    """
    if histogram is None:
        return None
    bins = sorted(number for number, count in histogram.items() if count)
    if not bins:
        return b""
    first, count = bins[0], bins[-1] - bins[0] + 1
    row = _nibbles(map(histogram.get, range(first, first + count), repeat(0)))
    if count <= 2 * len(bins):
        # The bin-by-bin form also stores a step for each bin, so it cannot be shorter.
        return bytes((first,)) + _join_nibbles(row)
    steps = [*map(sub, bins[1:], bins), 0]
    single = _nibbles([number for both in zip(map(histogram.__getitem__, bins), steps, strict=True) for number in both])
    if (len(row) + 1) // 2 <= (len(single) + 1) // 2:
        return bytes((first,)) + _join_nibbles(row)
    return bytes((first | _SPARSE,)) + _join_nibbles(single)


def unpack_histogram(packed: bytes | None) -> dict[int, int] | None:
    """Decode a histogram.

    :raises InvalidPackedData: the bytes are not a packed histogram.
    """
    if packed is None:
        return None
    if not packed:
        return {}
    first, numbers = packed[0] & ~_SPARSE, _from_nibbles(packed[1:])
    if not packed[0] & _SPARSE:
        found = {first + offset: count for offset, count in enumerate(numbers) if count}
    else:
        found = {}
        for count, step in zip(numbers[::2], numbers[1::2], strict=False):
            found[first] = count
            first += step
            if not step:
                break
    if found and max(found) > 100:
        raise InvalidPackedData("bins beyond 100")
    return found


def _nibbles(values: Iterable[int]) -> list[int]:
    """Encode numbers as nibbles: three bits and a continuation bit. Most numbers are below eight."""
    return list(chain.from_iterable(map(_nibbles_of, values)))


@lru_cache(maxsize=1 << 12)
def _nibbles_of(value: int) -> tuple[int, ...]:
    found = []
    while value > 7:
        found.append(value & 7 | 8)
        value >>= 3
    return (*found, value)


def _join_nibbles(halves: list[int]) -> bytes:
    if len(halves) % 2:
        halves = [*halves, 0]
    return bytes(map(add, halves[::2], map(_HIGH_NIBBLES.__getitem__, halves[1::2])))


_HIGH_NIBBLES = [number << 4 for number in range(16)]


_BYTE_NIBBLES = [(byte & 15, byte >> 4) for byte in range(256)]


def _from_nibbles(packed: bytes) -> list[int]:
    halves = list(chain.from_iterable(map(_BYTE_NIBBLES.__getitem__, packed)))
    if halves and max(halves) < 8:
        return halves
    found, value, shift = [], 0, 0
    for half in halves:
        if half & 8:
            value |= (half & 7) << shift
            shift += 3
        else:
            found.append(value | half << shift)
            value = shift = 0
    return found


def hundredths(value: float | None) -> int | None:
    """Return a value in integer hundredths."""
    return None if value is None else round(round(value, 2) * 100)


def of_hundredths(value: float | None) -> float | None:
    """Convert integer hundredths to a value."""
    return None if value is None else value / 100


def _swapped(values: array[Any]) -> array[Any]:
    """Convert between the machine's byte order and little-endian, in place."""
    if sys.byteorder == "big":
        values.byteswap()
    return values


def pack_triples(triples: Iterable[tuple[int, int, int]]) -> bytes:
    """Encode triples of ids column by column, ordered by the third id, then the first."""
    ordered = sorted(set(triples), key=itemgetter(2, 0, 1))
    # Without differences: the data would be smaller, but summing them takes longer than decompressing more.
    return _packed_numbers(_TRIPLES_MARK, chain.from_iterable(zip(*ordered, strict=True)))


def unpack_triples(packed: bytes) -> tuple[array[int], array[int], array[int]]:
    """Decode triples: the columns of first, second and third ids, ordered by the third, then the first.

    :raises InvalidPackedData: the bytes are not packed triples.
    """
    numbers = _unpacked_numbers(_TRIPLES_MARK, packed)
    count, rest = divmod(len(numbers), 3)
    if rest:
        raise InvalidPackedData("incomplete triples")
    return numbers[:count], numbers[count : 2 * count], numbers[2 * count :]


def unpack_runs(packed: bytes) -> Iterator[tuple[int, Sequence[int]]]:
    """Decode triples as runs: each third id with its first ids.

    :raises InvalidPackedData: the bytes are not packed triples.
    """
    firsts, _, thirds = unpack_triples(packed)
    begin = 0
    while begin < len(thirds):
        end = bisect_right(thirds, thirds[begin], begin)
        yield thirds[begin], firsts[begin:end]
        begin = end


def unpack_pairs(packed: bytes) -> array[int]:
    """Decode triples as integers: the first id in the low :data:`PAIR_BITS` bits, the second one above. Integers are
    compared and counted faster than tuples.

    :raises InvalidPackedData: the bytes are not packed triples.
    """
    firsts, others, _ = unpack_triples(packed)
    both = array("i", bytes(2 * firsts.itemsize * len(firsts)))
    both[_LOW_HALF::2], both[1 - _LOW_HALF :: 2] = firsts, others
    return array("q", both.tobytes())


def pack_ids(ids: Iterable[int]) -> bytes:
    """Encode a set of ids as sorted differences."""
    ordered = sorted(set(ids))
    return _packed_numbers(_IDS_MARK, map(sub, ordered, [0, *ordered]))


def unpack_ids(packed: bytes) -> Iterator[int]:
    """Decode ids in ascending order.

    :raises InvalidPackedData: the bytes are not packed ids.
    """
    return accumulate(_unpacked_numbers(_IDS_MARK, packed))


def _packed_numbers(mark: bytes, numbers: Iterable[int]) -> bytes:
    """Encode ids, which have at most 31 bits, after a byte that says what they are; "" for none."""
    made = _swapped(array("i", numbers))
    return mark + zlib.compress(made.tobytes(), 6) if made else b""


def _unpacked_numbers(mark: bytes, packed: bytes) -> array[int]:
    numbers = array("i")
    if not packed:
        return numbers
    if not packed.startswith(mark):
        raise InvalidPackedData("data of another kind")
    try:
        numbers.frombytes(zlib.decompress(packed[1:]))
    except (zlib.error, ValueError) as error:
        raise InvalidPackedData(str(error)) from None
    return _swapped(numbers)


def pack_allocations(items: Sequence[tuple[int, float, float | None]]) -> bytes:
    """Encode allocations of workloads: id, GPUs and utilization in percent."""
    return _packed([list(column) for column in zip(*items, strict=True)])


def unpack_allocations(packed: bytes) -> list[tuple[int, float, float | None]]:
    """Decode allocations.

    :raises InvalidPackedData: the bytes are not packed allocations.
    """
    try:
        return list(zip(*_unpacked(packed), strict=True))
    except (TypeError, ValueError) as error:
        raise InvalidPackedData(str(error)) from None


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)


def _unpacked(packed: bytes) -> Any:
    try:
        return json.loads(zlib.decompress(packed))
    except (zlib.error, ValueError) as error:
        raise InvalidPackedData(str(error)) from None
