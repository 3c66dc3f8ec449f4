"""Add the capacity of nodes on which a pod has a share of unknown size."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier hours count such shares as whole cards."""
    op.add_column("sums", sa.Column("unsized_gpu_s", sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("sums", "unsized_gpu_s")
