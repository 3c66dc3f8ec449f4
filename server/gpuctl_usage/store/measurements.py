"""Storage of the measurements of hours that are not final: one packed blob per hour."""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.facts import GpuSeries
from gpuctl_usage.store.database_tables import measurements, periods

KEPT = DAY
"""Seconds after the end of an hour for which its measurements are kept; longer while it is provisional."""
_VALUES = ("utilization", "memory_used", "memory_total")
_SIZE = 8
_LEVEL = 1
"""Compression level of zlib: higher ones take three times as long and save 10 %."""


def put_measurements(connection: Connection, cluster: int, start: int, series: Iterable[GpuSeries]) -> None:
    """Replace the measurements of an hour."""
    connection.execute(delete(measurements).where(_is_of(cluster), measurements.c.start == start))
    connection.execute(insert(measurements).values(cluster_id=cluster, start=start, packed=pack_series(series)))


def read_measurements(connection: Connection, cluster: int, start: int) -> list[GpuSeries] | None:
    """Return the measurements of an hour; None if they are not stored."""
    where = _is_of(cluster), measurements.c.start == start
    packed = connection.execute(select(measurements.c.packed).where(*where)).scalar_one_or_none()
    return None if packed is None else unpack_series(packed)


def drop_measurements(connection: Connection, cluster: int, before: float, limit: int) -> int:
    """Delete the measurements of final hours that ended before a time; return the number of hours."""
    hour = periods.c.cluster_id == cluster, periods.c.span == "hour", periods.c.start == measurements.c.start
    is_open = select(periods.c.id).where(*hour, periods.c.provisional).exists()
    old = _is_of(cluster), measurements.c.start < before - HOUR, ~is_open
    few = list(connection.execute(select(measurements.c.start).where(*old).limit(limit)).scalars())
    if few:
        connection.execute(delete(measurements).where(_is_of(cluster), measurements.c.start.in_(few)))
    return len(few)


def _is_of(cluster: int) -> ColumnElement[bool]:
    return measurements.c.cluster_id == cluster


def pack_series(series: Iterable[GpuSeries]) -> bytes:
    """Encode measurements. GPUs of a node are scraped together, so equal arrays of times are stored once."""
    times: dict[bytes, int] = {}
    names, columns = [], []
    for one in series:
        number = times.setdefault(_bytes(one.times), len(times))
        given = [getattr(one, name) for name in _VALUES]
        names.append(
            [one.node, one.gpu, one.namespace, one.pod, one.metric, number, [part is not None for part in given]]
        )
        columns += [_bytes(part) for part in given if part is not None]
    parts = [*times, *columns]
    head = json.dumps([names, [len(part) // _SIZE for part in times]], ensure_ascii=False).encode()
    body = b"".join(parts)
    # Group the bytes of equal significance: most of them repeat.
    planes = b"".join(body[place::_SIZE] for place in range(_SIZE))
    return zlib.compress(len(head).to_bytes(4, "little") + head + planes, _LEVEL)


def unpack_series(packed: bytes) -> list[GpuSeries]:
    """Decode measurements."""
    data = zlib.decompress(packed)
    size = int.from_bytes(data[:4], "little")
    names, lengths = json.loads(data[4 : 4 + size])
    planes = memoryview(data)[4 + size :]
    count = len(planes) // _SIZE
    body = bytearray(len(planes))
    for place in range(_SIZE):
        body[place::_SIZE] = planes[place * count : (place + 1) * count]
    values = array("d", bytes(body))
    if sys.byteorder == "big":
        values.byteswap()
    at, times = 0, []
    for length in lengths:
        times.append(values[at : at + length])
        at += length
    found = []
    for node, gpu, namespace, pod, metric, number, given in names:
        columns: list[array[float] | None] = []
        for is_given in given:
            columns.append(values[at : at + len(times[number])] if is_given else None)
            at += len(times[number]) if is_given else 0
        utilization, used, total = columns
        assert utilization is not None
        found.append(GpuSeries(node, gpu, namespace, pod, times[number], utilization, used, total, metric))
    return found


def _bytes(values: array[float]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()
