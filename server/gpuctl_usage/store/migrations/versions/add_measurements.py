"""Add measurements of hours that are not final."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; it is empty until the next hour is rolled up."""
    op.create_table(
        "measurements",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_measurements_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", "start", name="pk_measurements"),
    )


def downgrade() -> None:
    op.drop_table("measurements")
