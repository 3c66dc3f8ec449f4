"""What of shared cards is told process by process."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COLUMNS = ("by_process_gpu_s", "beyond_gpu_s")


def upgrade() -> None:
    """Nothing was, before."""
    for name in _COLUMNS:
        op.add_column("sums", sa.Column(name, sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    """It counts, and nobody knows of it."""
    for name in _COLUMNS:
        op.drop_column("sums", name)
