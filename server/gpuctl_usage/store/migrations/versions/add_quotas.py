"""Add GPU quotas of namespaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "quotas",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("namespace", _TEXT, nullable=False),
        sa.Column("start", sa.Float(), nullable=False),
        sa.Column("gpus", sa.Float(), nullable=False),
        sa.Column("ended", sa.Float()),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_quotas_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", "namespace", "start", name="pk_quotas"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("quotas")
