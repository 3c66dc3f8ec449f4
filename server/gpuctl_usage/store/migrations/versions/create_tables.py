"""Create the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = None
branch_labels = None
depends_on = None

# Byte order in every locale.
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _who_and_what()
    _intervals()
    _sums()
    _leases()
    op.create_table(
        "snapshots",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("time", sa.Float(), nullable=False),
        sa.Column("capacity", sa.Float(), nullable=False),
        sa.Column("allocated", sa.Float(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_snapshots_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_snapshots"),
        sa.UniqueConstraint("cluster_id", "time", name="uq_snapshots_cluster_id_time"),
    )


def _who_and_what() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uid", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("began", sa.Float(), nullable=True),
        sa.Column("last_seen", sa.Float(), nullable=True),
        sa.Column("quotas_seen", sa.Float(), nullable=True),
        sa.Column("late_changes", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
        sa.UniqueConstraint("uid", name="uq_clusters_uid"),
    )
    op.create_index("uq_clusters_name", "clusters", ["name"], unique=True)
    op.create_table(
        "groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("level", _TEXT, nullable=False),
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("value", _TEXT, nullable=False),
        sa.Column("namespace", _TEXT, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_groups_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_groups"),
        sa.UniqueConstraint("cluster_id", "level", "key", "value", name="uq_groups_cluster_id_level_key_value"),
    )
    op.create_index("ix_groups_cluster_id_level_namespace_name", "groups", ["cluster_id", "level", "namespace", "name"])
    op.create_table(
        "attributes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("digest", _TEXT, nullable=False),
        sa.Column("labels", _TEXT, nullable=False),
        sa.Column("annotations", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attributes"),
        sa.UniqueConstraint("digest", name="uq_attributes_digest"),
    )


def _intervals() -> None:
    op.create_table(
        "capacities",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.Float(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Float(), nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("ended", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_capacities_cluster_id"),
        sa.ForeignKeyConstraint(["model_id"], ["groups.id"], name="fk_capacities_model_id"),
        sa.ForeignKeyConstraint(["node_id"], ["groups.id"], name="fk_capacities_node_id"),
        sa.PrimaryKeyConstraint("cluster_id", "node_id", "start", name="pk_capacities"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_capacities_cluster_id_ended", "capacities", ["cluster_id", "ended"])
    op.create_table(
        "holdings",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("pod_uid", _TEXT, nullable=False),
        sa.Column("start", sa.Float(), nullable=False),
        sa.Column("namespace", _TEXT, nullable=False),
        sa.Column("pod", _TEXT, nullable=False),
        sa.Column("workload_id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("attributes_id", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Float(), nullable=False),
        sa.Column("started", sa.Float(), nullable=True),
        sa.Column("ended", sa.Float(), nullable=True),
        sa.Column("ending", _TEXT, nullable=True),
        sa.ForeignKeyConstraint(["attributes_id"], ["attributes.id"], name="fk_holdings_attributes_id"),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_holdings_cluster_id"),
        sa.ForeignKeyConstraint(["model_id"], ["groups.id"], name="fk_holdings_model_id"),
        sa.ForeignKeyConstraint(["node_id"], ["groups.id"], name="fk_holdings_node_id"),
        sa.ForeignKeyConstraint(["workload_id"], ["groups.id"], name="fk_holdings_workload_id"),
        sa.PrimaryKeyConstraint("cluster_id", "pod_uid", "start", name="pk_holdings"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_holdings_cluster_id_ended", "holdings", ["cluster_id", "ended"])
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
    op.create_table(
        "measurements",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_measurements_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", "start", name="pk_measurements"),
    )


def _sums() -> None:
    op.create_table(
        "periods",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("span", _TEXT, nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("digest", _TEXT, nullable=False),
        sa.Column("provisional", sa.Boolean(), nullable=False),
        sa.Column("coverage", sa.Float(), nullable=True),
        sa.Column("dropped", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("workloads", sa.LargeBinary(), nullable=False),
        sa.Column("holders", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_periods_cluster_id"),
        sa.PrimaryKeyConstraint("id", name="pk_periods"),
        sa.UniqueConstraint("cluster_id", "span", "start", name="uq_periods_cluster_id_span_start"),
    )
    op.create_table(
        "sums",
        sa.Column("period_id", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("attributes_id", sa.Integer(), nullable=True),
        sa.Column("status", sa.SmallInteger(), nullable=True),
        sa.Column("alloc_gpu_s", sa.Float(), nullable=False),
        sa.Column("running_gpu_s", sa.Float(), nullable=False),
        sa.Column("cap_gpu_s", sa.Float(), nullable=False),
        sa.Column("free_gpu_s", sa.Float(), nullable=False),
        sa.Column("unusable_gpu_s", sa.Float(), nullable=False),
        sa.Column("unsized_gpu_s", sa.Float(), server_default="0", nullable=False),
        sa.Column("obs_gpu_s", sa.Float(), nullable=False),
        sa.Column("util_gpu_s", sa.Float(), nullable=False),
        sa.Column("by_process_gpu_s", sa.Float(), server_default="0", nullable=False),
        sa.Column("beyond_gpu_s", sa.Float(), server_default="0", nullable=False),
        sa.Column("util_min", sa.Integer(), nullable=True),
        sa.Column("util_max", sa.Integer(), nullable=True),
        sa.Column("histogram", sa.LargeBinary(), nullable=True),
        sa.Column("memory_obs_gpu_s", sa.Float(), nullable=False),
        sa.Column("memory_used_gpu_s", sa.Float(), nullable=False),
        sa.Column("memory_total_gpu_s", sa.Float(), nullable=False),
        sa.Column("memory_max", sa.Integer(), nullable=True),
        sa.Column("pod_s", sa.Float(), nullable=False),
        sa.Column("pods_min", sa.Integer(), nullable=False),
        sa.Column("pods_max", sa.Integer(), nullable=False),
        sa.Column("workloads", sa.Integer(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("buckets", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["attributes_id"], ["attributes.id"], name="fk_sums_attributes_id"),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name="fk_sums_group_id"),
        sa.ForeignKeyConstraint(["period_id"], ["periods.id"], name="fk_sums_period_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("period_id", "group_id", name="pk_sums"),
        sqlite_with_rowid=False,
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("cluster_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("holder", _TEXT, nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_leases_cluster_id"),
        sa.PrimaryKeyConstraint("cluster_id", name="pk_leases"),
    )


def downgrade() -> None:
    for name in (
        *("snapshots", "leases", "sums", "periods", "measurements", "quotas", "holdings", "capacities"),
        *("attributes", "groups", "clusters"),
    ):
        op.drop_table(name)
