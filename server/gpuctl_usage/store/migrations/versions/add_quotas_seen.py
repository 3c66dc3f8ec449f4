"""Add the time until which quotas were followed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; initially the value of pods and nodes for clusters that have quotas, as it was not recorded
    before.
    """
    op.add_column("clusters", sa.Column("quotas_seen", sa.Float(), nullable=True))
    op.execute(
        "UPDATE clusters SET quotas_seen = last_seen "
        "WHERE EXISTS (SELECT 1 FROM quotas WHERE quotas.cluster_id = clusters.id)"
    )


def downgrade() -> None:
    op.drop_column("clusters", "quotas_seen")
