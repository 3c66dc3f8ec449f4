"""Make the names of clusters unique."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename all but the oldest cluster of each name as the collector would, and reject equal names."""
    connection = op.get_bind()
    clusters = sa.table("clusters", sa.column("id", sa.Integer), sa.column("uid"), sa.column("name"))
    taken = set()
    for row in connection.execute(sa.select(clusters).order_by(clusters.c.id)).all():
        name = row.name
        if name in taken:
            name = f"{row.name}-{row.uid[:8]}"
            if name in taken:
                name = f"{row.name}-{row.uid}"
            connection.execute(sa.update(clusters).where(clusters.c.id == row.id).values(name=name))
        taken.add(name)
    op.create_index("uq_clusters_name", "clusters", ["name"], unique=True)


def downgrade() -> None:
    op.drop_index("uq_clusters_name", "clusters")
