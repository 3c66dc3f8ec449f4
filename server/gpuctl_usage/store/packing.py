"""Small forms of what fills most of a database: histograms, the sums of nodes, what workloads held."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from gpuctl_usage.sums import Sums

_ONE_BY_ONE = 0x80
_SUMS = tuple(field.name for field in fields(Sums))


class NotPacked(ValueError):
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
    row = _packed_numbers(histogram.get(number, 0) for number in range(bins[0], bins[-1] + 1))
    steps = zip(bins, [*bins[1:], bins[-1]], strict=True)
    single = _packed_numbers(number for bin_, next_ in steps for number in (histogram[bin_], next_ - bin_))
    return bytes((bins[0],)) + row if len(row) <= len(single) else bytes((bins[0] | _ONE_BY_ONE,)) + single


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
    if any(not 0 <= number <= 100 for number in found):
        raise NotPacked("bins beyond 100")
    return found


def _packed_numbers(values: Iterable[int]) -> bytes:
    """Numbers as half bytes: three bits of each, and whether there are more. Most are less than eight."""
    halves: list[int] = []
    for value in values:
        while value > 7:
            halves.append(value & 7 | 8)
            value >>= 3
        halves.append(value)
    if len(halves) % 2:
        halves.append(0)
    return bytes(low | high << 4 for low, high in zip(halves[::2], halves[1::2], strict=True))


def _numbers(packed: bytes) -> list[int]:
    found, value, shift = [], 0, 0
    for half in (half for byte in packed for half in (byte & 15, byte >> 4)):
        value |= (half & 7) << shift
        shift += 3
        if not half & 8:
            found.append(value)
            value = shift = 0
    return found


def pack_sums(items: Mapping[int, Sums]) -> bytes:
    """The sums of many groups, by their ids."""
    ids = sorted(items)
    columns = [[getattr(items[number], name) for number in ids] for name in _SUMS]
    return _packed({"ids": ids, "sums": dict(zip(_SUMS, columns, strict=True))}) if ids else b""


def unpack_sums(packed: bytes) -> dict[int, Sums]:
    """The sums that were packed.

    :raises NotPacked: these were none.
    """
    if not packed:
        return {}
    value = _unpacked(packed)
    try:
        names = [name for name in _SUMS if name in value["sums"]]
        rows = zip(*(value["sums"][name] for name in names), strict=True)
        found = {
            number: Sums(**dict(zip(names, row, strict=True))) for number, row in zip(value["ids"], rows, strict=True)
        }
        for item in found.values():
            if item.histogram is not None:
                item.histogram = {int(number): count for number, count in item.histogram.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotPacked(str(error)) from None
    return found


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
        raise NotPacked(str(error)) from None


def _packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)


def _unpacked(packed: bytes) -> Any:
    try:
        return json.loads(zlib.decompress(packed))
    except (zlib.error, ValueError) as error:
        raise NotPacked(str(error)) from None
