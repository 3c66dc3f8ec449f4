"""Add sums of per-process metrics of shared cards."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COLUMNS = ("by_process_gpu_s", "beyond_gpu_s")


def upgrade() -> None:
    """Add the columns; they are 0 for earlier hours."""
    for name in _COLUMNS:
        op.add_column("sums", sa.Column(name, sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_column("sums", name)
