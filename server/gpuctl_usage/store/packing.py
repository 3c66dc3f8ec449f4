"""Small forms of what fills most of a database: histograms, and what workloads held."""

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

_ONE_BY_ONE = 0x80
_SHORT = b"\x04"
_AS_THEY_ARE = {"i": b"\x05", "q": b"\x06"}
"""What begins ids that are no steps: with which type of array. No compressed text begins so."""
_CODES = {first: code for code, first in _AS_THEY_ARE.items()}
_DAYS_KEPT = 400
"""A year of days: some 20 KiB each where a thousand workloads hold GPUs."""
ROUNDED = ("util_min", "util_max", "memory_max")
"""Of sums: kept as hundredths, to which answers are rounded; least and most of several are the same either way."""
AS_THEY_ARE = tuple(field.name for field in fields(Sums) if field.name not in (*ROUNDED, "histogram"))
PAIR_BITS = 32
"""No id has more."""
_LOW = 0 if sys.byteorder == "little" else 1
"""Which half of a number of 64 bits has the low ones."""


class InvalidPackedData(ValueError):
    """Bytes that are none of ours."""


def pack_histogram(histogram: Mapping[int, int] | None) -> bytes | None:
    """Bins and how often each was: in a row from the first to the last, or one by one, whatever is shorter.

    The first byte is the first bin; its highest bit says that bins stand one by one.
    """
    if histogram is None:
        return None
    bins = sorted(number for number, count in histogram.items() if count)
    if not bins:
        return b""
    first, count = bins[0], bins[-1] - bins[0] + 1
    row = _halves(map(histogram.get, range(first, first + count), repeat(0)))
    if count <= 2 * len(bins):
        # Of each bin one by one there is its step besides: that is never shorter.
        return bytes((first,)) + _of_halves(row)
    steps = [*map(sub, bins[1:], bins), 0]
    single = _halves([number for both in zip(map(histogram.__getitem__, bins), steps, strict=True) for number in both])
    if (len(row) + 1) // 2 <= (len(single) + 1) // 2:
        return bytes((first,)) + _of_halves(row)
    return bytes((first | _ONE_BY_ONE,)) + _of_halves(single)


def unpack_histogram(packed: bytes | None) -> dict[int, int] | None:
    """The histogram that was packed.

    :raises NotPacked: it was none.
    """
    if packed is None:
        return None
    if not packed:
        return {}
    first, numbers = packed[0] & ~_ONE_BY_ONE, _numbers(packed[1:])
    if not packed[0] & _ONE_BY_ONE:
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


def _halves(values: Iterable[int]) -> list[int]:
    """Numbers as half bytes: three bits of each, and whether there are more. Most are less than eight."""
    return list(chain.from_iterable(map(_halves_of, values)))


@lru_cache(maxsize=1 << 12)
def _halves_of(value: int) -> tuple[int, ...]:
    found = []
    while value > 7:
        found.append(value & 7 | 8)
        value >>= 3
    return (*found, value)


def _of_halves(halves: list[int]) -> bytes:
    if len(halves) % 2:
        halves = [*halves, 0]
    return bytes(map(add, halves[::2], map(_HIGH.__getitem__, halves[1::2])))


_HIGH = [number << 4 for number in range(16)]


_HALVES = [(byte & 15, byte >> 4) for byte in range(256)]


def _numbers(packed: bytes) -> list[int]:
    halves = list(chain.from_iterable(map(_HALVES.__getitem__, packed)))
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
    """What answers round to, as a whole number."""
    return None if value is None else round(round(value, 2) * 100)


def of_hundredths(value: float | None) -> float | None:
    """What was made a whole number."""
    return None if value is None else value / 100


def _bytes(values: array[Any]) -> bytes:
    return _swapped(values).tobytes()


def _swapped(values: array[Any]) -> array[Any]:
    """The same file is read by every machine."""
    if sys.byteorder == "big":
        values.byteswap()
    return values


def pack_triples(triples: Iterable[tuple[int, int, int]]) -> bytes:
    """Ids, three by three, column by column: by the third one, then by the first."""
    ordered = sorted(set(triples), key=itemgetter(2, 0, 1))
    if not ordered:
        return b""
    numbers = [number for column in zip(*ordered, strict=True) for number in column]
    code = "i" if max(numbers) < 1 << 31 else "q"
    # As they are: adding up steps, which are smaller, takes longer than reading all.
    return _AS_THEY_ARE[code] + zlib.compress(_bytes(array(code, numbers)), 6)


def unpack_triples(packed: bytes) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """What was packed: the first ids, the second ones, and the third ones, which ascend, and the first of each of them.

    :raises NotPacked: these were none.
    """
    code = _CODES.get(packed[:1])
    numbers = _unpacked_numbers(packed) if code is None else _numbers_of(code, packed[1:])
    count, rest = divmod(len(numbers), 3)
    if rest:
        raise InvalidPackedData("no whole triples")
    columns = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
    if code is not None or not count:
        return columns
    # As they were packed before: by the first ones, of which the steps are kept.
    firsts, seconds, thirds = zip(
        *sorted(zip(accumulate(columns[0]), *columns[1:], strict=True), key=itemgetter(2, 0, 1)), strict=True
    )
    return firsts, seconds, thirds


@lru_cache(maxsize=_DAYS_KEPT)
def unpack_runs(packed: bytes) -> tuple[tuple[int, Sequence[int]], ...]:
    """Of packed triples each third id, and the first ones that it has. Nobody changes these: they are kept for whoever
    asks next, as a page that is open asks for the same days again and again.

    :raises NotPacked: these were none.
    """
    firsts, _, thirds = unpack_triples(packed)
    found, begin = [], 0
    while begin < len(thirds):
        end = bisect_right(thirds, thirds[begin], begin)
        found.append((thirds[begin], firsts[begin:end]))
        begin = end
    return tuple(found)


def unpack_pairs(packed: bytes) -> Iterable[int]:
    """Of packed triples the first and the second id as one number: the first one in the low bits, the other one above
    :data:`PAIR_BITS`. Numbers are compared and counted faster than pairs.

    :raises NotPacked: these were none.
    """
    firsts, others, _ = unpack_triples(packed)
    if not (isinstance(firsts, array) and isinstance(others, array) and firsts.typecode == "i"):
        if any(first >> PAIR_BITS for first in firsts):
            raise InvalidPackedData(f"ids of more than {PAIR_BITS} bits")
        return [other << PAIR_BITS | first for first, other in zip(firsts, others, strict=True)]
    both = array("i", bytes(2 * firsts.itemsize * len(firsts)))
    both[_LOW::2], both[1 - _LOW :: 2] = firsts, others
    return array("q", both.tobytes())


def pack_ids(ids: Iterable[int]) -> bytes:
    """Ids, each once, in order, as the steps between them."""
    ordered = sorted(set(ids))
    return _packed_ids(list(map(sub, ordered, [0, *ordered]))) if ordered else b""


def unpack_ids(packed: bytes) -> Iterator[int]:
    """The ids that were packed, ascending.

    :raises NotPacked: these were none.
    """
    return accumulate(_unpacked_numbers(packed))


def _packed_ids(numbers: list[int]) -> bytes:
    """Half as many bytes are read twice as fast. The first one says that they are fewer: no other text begins so."""
    if max(numbers) < 1 << 31:
        return _SHORT + zlib.compress(_bytes(array("i", numbers)), 6)
    return zlib.compress(_bytes(array("q", numbers)), 6)


def _unpacked_numbers(packed: bytes) -> array[int]:
    is_short = packed.startswith(_SHORT)
    return _numbers_of("i" if is_short else "q", packed[is_short:])


def _numbers_of(code: str, compressed: bytes) -> array[int]:
    numbers = array(code)
    try:
        numbers.frombytes(zlib.decompress(compressed) if compressed else b"")
    except (zlib.error, ValueError) as error:
        raise InvalidPackedData(str(error)) from None
    return _swapped(numbers)


def pack_allocations(items: Sequence[tuple[int, float, float | None]]) -> bytes:
    """What workloads hold: their ids, GPUs, and percent."""
    return _packed([list(column) for column in zip(*items, strict=True)])


def unpack_allocations(packed: bytes) -> list[tuple[int, float, float | None]]:
    """What was packed.

    :raises NotPacked: it was not.
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
