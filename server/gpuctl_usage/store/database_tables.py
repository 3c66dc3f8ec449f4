"""The database tables. A year of a large cluster has ten million rows of sums, so rows are small: groups and attributes
are integer ids, and what all rows of an hour share is stored once.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

# Byte order in every locale.
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

clusters = Table(
    "clusters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("uid", _TEXT, nullable=False, unique=True),
    Column("name", _TEXT, nullable=False),
    # When collecting began; usage before is unknown.
    Column("began", Float),
    Column("last_seen", Float),
    # Time until which quotas were followed; null if they never were.
    Column("quotas_seen", Float),
    # Number of changes that affected hours already rolled up.
    Column("late_changes", Integer, nullable=False, server_default="0"),
    Index("uq_clusters_name", "name", unique=True),
)

groups = Table(
    "groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("level", _TEXT, nullable=False),
    Column("key", _TEXT, nullable=False),
    Column("value", _TEXT, nullable=False),
    # Parts of a workload's key, or the name of a namespace; queries filter by them.
    Column("namespace", _TEXT, nullable=False),
    Column("kind", _TEXT, nullable=False),
    Column("name", _TEXT, nullable=False),
    UniqueConstraint("cluster_id", "level", "key", "value"),
    Index(None, "cluster_id", "level", "namespace", "name"),
)

attributes = Table(
    "attributes",
    metadata,
    Column("id", Integer, primary_key=True),
    # Of labels and annotations: their texts are too long for an index.
    Column("digest", _TEXT, nullable=False, unique=True),
    Column("labels", _TEXT, nullable=False),
    Column("annotations", _TEXT, nullable=False),
)

holdings = Table(
    "holdings",
    metadata,
    Column("cluster_id", ForeignKey("clusters.id"), primary_key=True),
    Column("pod_uid", _TEXT, primary_key=True),
    Column("start", Float, primary_key=True),
    Column("namespace", _TEXT, nullable=False),
    Column("pod", _TEXT, nullable=False),
    Column("workload_id", ForeignKey("groups.id"), nullable=False),
    Column("node_id", ForeignKey("groups.id"), nullable=False),
    Column("model_id", ForeignKey("groups.id"), nullable=False),
    Column("attributes_id", ForeignKey("attributes.id"), nullable=False),
    Column("gpus", Float, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    Column("ending", _TEXT),
    Index(None, "cluster_id", "ended"),
    sqlite_with_rowid=False,
)

capacities = Table(
    "capacities",
    metadata,
    Column("cluster_id", ForeignKey("clusters.id"), primary_key=True),
    Column("node_id", ForeignKey("groups.id"), primary_key=True),
    Column("start", Float, primary_key=True),
    Column("model_id", ForeignKey("groups.id"), nullable=False),
    Column("gpus", Float, nullable=False),
    Column("state", _TEXT, nullable=False),
    Column("ended", Float),
    Index(None, "cluster_id", "ended"),
    sqlite_with_rowid=False,
)

quotas = Table(
    "quotas",
    metadata,
    Column("cluster_id", ForeignKey("clusters.id"), primary_key=True),
    # The name, not a group id: queries list all namespaces that are groups, and this one may never have held GPUs.
    Column("namespace", _TEXT, primary_key=True),
    Column("start", Float, primary_key=True),
    Column("gpus", Float, nullable=False),
    Column("ended", Float),
    sqlite_with_rowid=False,
)

periods = Table(
    "periods",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("span", _TEXT, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("digest", _TEXT, nullable=False),
    Column("provisional", Boolean, nullable=False),
    Column("coverage", Float),
    Column("dropped", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    # Packed ids of the workloads that have sums; finding them among all workloads would be slow.
    Column("workloads", LargeBinary, nullable=False),
    # Packed ids of workloads, their attributes and namespaces, to count the distinct workloads of several periods.
    Column("holders", LargeBinary, nullable=False),
    UniqueConstraint("cluster_id", "span", "start"),
)

sums = Table(
    "sums",
    metadata,
    Column("period_id", ForeignKey("periods.id", ondelete="CASCADE"), primary_key=True),
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("attributes_id", ForeignKey("attributes.id")),
    # Only for workloads.
    Column("status", SmallInteger),
    Column("alloc_gpu_s", Float, nullable=False),
    Column("running_gpu_s", Float, nullable=False),
    Column("cap_gpu_s", Float, nullable=False),
    Column("free_gpu_s", Float, nullable=False),
    Column("unusable_gpu_s", Float, nullable=False),
    Column("unsized_gpu_s", Float, nullable=False, server_default="0"),
    Column("obs_gpu_s", Float, nullable=False),
    Column("util_gpu_s", Float, nullable=False),
    Column("by_process_gpu_s", Float, nullable=False, server_default="0"),
    Column("beyond_gpu_s", Float, nullable=False, server_default="0"),
    # Integer hundredths, the precision of answers.
    Column("util_min", Integer),
    Column("util_max", Integer),
    Column("histogram", LargeBinary),
    Column("memory_obs_gpu_s", Float, nullable=False),
    Column("memory_used_gpu_s", Float, nullable=False),
    Column("memory_total_gpu_s", Float, nullable=False),
    Column("memory_max", Integer),
    Column("pod_s", Float, nullable=False),
    Column("pods_min", Integer, nullable=False),
    Column("pods_max", Integer, nullable=False),
    Column("workloads", Integer, nullable=False),
    Column("samples", Integer, nullable=False),
    Column("buckets", Integer, nullable=False),
    # Stored in the order of the primary key, so the rows of a period are adjacent; no further index is needed.
    sqlite_with_rowid=False,
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("time", Float, nullable=False),
    Column("capacity", Float, nullable=False),
    Column("allocated", Float, nullable=False),
    Column("details", LargeBinary),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("cluster_id", "time"),
)

# Measurements of hours that are not final: a later response of Prometheus may contain less.
measurements = Table(
    "measurements",
    metadata,
    Column("cluster_id", ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("packed", LargeBinary, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("cluster_id", ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
    # Incremented by each collector that takes over; writes with an earlier term are rejected.
    Column("term", BigInteger, nullable=False),
    # Incremented by each write and renewal, so that clocks of different machines need not be compared.
    Column("beat", BigInteger, nullable=False),
    # "" if the lease was given back.
    Column("holder", _TEXT, nullable=False),
)
