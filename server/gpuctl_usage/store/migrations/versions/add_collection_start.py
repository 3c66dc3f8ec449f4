"""Add the start of collecting."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; it stays null for clusters that are already collected."""
    op.add_column("clusters", sa.Column("began", sa.Float()))


def downgrade() -> None:
    op.drop_column("clusters", "began")
