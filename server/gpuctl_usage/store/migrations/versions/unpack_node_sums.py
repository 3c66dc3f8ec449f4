"""Store the sums of nodes as rows like those of all other groups; before, they were packed into each hour and day."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_FLOATS = (
    *("alloc_gpu_s", "running_gpu_s", "cap_gpu_s", "free_gpu_s", "unusable_gpu_s", "unsized_gpu_s", "obs_gpu_s"),
    *("util_gpu_s", "by_process_gpu_s", "beyond_gpu_s", "memory_obs_gpu_s", "memory_used_gpu_s"),
    *("memory_total_gpu_s", "pod_s"),
)
_WHOLE = ("pods_min", "pods_max", "workloads", "samples", "buckets")
_ROUNDED = ("util_min", "util_max", "memory_max")
_SUMS = sa.table(
    "sums", *(sa.column(name) for name in ("period_id", "group_id", *_FLOATS, *_WHOLE, *_ROUNDED, "histogram"))
)
_PERIODS = sa.table("periods", sa.column("id"), sa.column("nodes"))
_NODES = sa.text("SELECT id FROM groups WHERE level = 'node'")


def upgrade() -> None:
    connection = op.get_bind()
    for number in connection.execute(sa.select(_PERIODS.c.id)).scalars().all():
        packed = connection.execute(sa.select(_PERIODS.c.nodes).where(_PERIODS.c.id == number)).scalar_one()
        rows = [{"period_id": number, **row} for row in _unpacked(packed)]
        if rows:
            connection.execute(sa.insert(_SUMS), rows)
    op.drop_column("periods", "nodes")


def downgrade() -> None:
    connection = op.get_bind()
    op.add_column("periods", sa.Column("nodes", sa.LargeBinary(), nullable=False, server_default=""))
    nodes = set(connection.execute(_NODES).scalars())
    for number in connection.execute(sa.select(_PERIODS.c.id)).scalars().all():
        of_period = sa.select(_SUMS).where(_SUMS.c.period_id == number).order_by(_SUMS.c.group_id)
        rows = [row for row in connection.execute(of_period).mappings() if row["group_id"] in nodes]
        if rows:
            connection.execute(sa.update(_PERIODS).where(_PERIODS.c.id == number).values(nodes=_packed(rows)))
    connection.execute(sa.delete(_SUMS).where(_SUMS.c.group_id.in_(sorted(nodes))))


def _unpacked(packed: bytes) -> list[dict[str, Any]]:
    """Decode rows: a JSON line with their count and the column names, then column by column."""
    if not packed:
        return []
    head, _, rest = zlib.decompress(packed).partition(b"\n")
    count, plain, rounded = json.loads(head)
    begin = 0

    def column(code: str) -> list[Any]:
        nonlocal begin
        found = array(code)
        end = begin + count * found.itemsize
        found.frombytes(rest[begin:end])
        begin = end
        return found.tolist()

    columns: dict[str, list[Any]] = {"group_id": column("q")}
    for name in plain:
        columns[name] = [int(value) if name in _WHOLE else value for value in column("d")]
    for name in rounded:
        columns[name] = [None if value < 0 else value for value in column("i")]
    columns["histogram"] = []
    for length in column("i"):
        columns["histogram"].append(None if length < 0 else rest[begin : begin + length])
        begin += max(length, 0)
    # Columns that were added after the data were packed are 0.
    for name in (*_FLOATS, *_WHOLE):
        columns.setdefault(name, [0] * count)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _packed(rows: Sequence[sa.RowMapping]) -> bytes:
    texts = [row["histogram"] for row in rows]
    parts = [
        array("q", [row["group_id"] for row in rows]),
        *(array("d", [row[name] for row in rows]) for name in (*_FLOATS, *_WHOLE)),
        *(array("i", [-1 if row[name] is None else row[name] for row in rows]) for name in _ROUNDED),
        array("i", [-1 if text is None else len(text) for text in texts]),
    ]
    head = json.dumps([len(rows), [*_FLOATS, *_WHOLE], _ROUNDED]).encode()
    columns = b"".join([*(part.tobytes() for part in parts), *(bytes(text) for text in texts if text)])
    return zlib.compress(head + b"\n" + columns)
