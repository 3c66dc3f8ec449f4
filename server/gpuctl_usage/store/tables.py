"""The tables. A year of a large cluster has ten million rows of sums, so that a row is small: what it is about is a
number, and what all rows of an hour share stands once."""

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
    Column("uid", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("last_seen", Float),
)

groups = Table(
    "groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("level", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    # Of workloads the parts of their key, of namespaces their name: what questions are asked by.
    Column("namespace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    UniqueConstraint("cluster_id", "level", "key", "value"),
    Index(None, "cluster_id", "level", "namespace", "name"),
)

attributes = Table(
    "attributes",
    metadata,
    Column("id", Integer, primary_key=True),
    # Of both: no index takes texts of any length.
    Column("digest", Text, nullable=False, unique=True),
    Column("labels", Text, nullable=False),
    Column("annotations", Text, nullable=False),
)

holdings = Table(
    "holdings",
    metadata,
    Column("cluster_id", ForeignKey("clusters.id"), primary_key=True),
    Column("pod_uid", Text, primary_key=True),
    Column("start", Float, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("pod", Text, nullable=False),
    Column("workload_id", ForeignKey("groups.id"), nullable=False),
    Column("node_id", ForeignKey("groups.id"), nullable=False),
    Column("model_id", ForeignKey("groups.id"), nullable=False),
    Column("attributes_id", ForeignKey("attributes.id"), nullable=False),
    Column("gpus", Float, nullable=False),
    Column("started", Float),
    Column("ended", Float),
    Column("ending", Text),
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
    Column("state", Text, nullable=False),
    Column("ended", Float),
    Index(None, "cluster_id", "ended"),
    sqlite_with_rowid=False,
)

periods = Table(
    "periods",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("span", Text, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("digest", Text, nullable=False),
    Column("provisional", Boolean, nullable=False),
    Column("coverage", Float),
    Column("dropped", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    # Workloads, each with the labels that it had: how many there were of several hours is no sum.
    Column("holders", LargeBinary, nullable=False),
    # The sums of all nodes: nobody asks for one hour of one node, and there are more nodes than workloads.
    Column("nodes", LargeBinary, nullable=False),
    UniqueConstraint("cluster_id", "span", "start"),
)

sums = Table(
    "sums",
    metadata,
    Column("period_id", ForeignKey("periods.id", ondelete="CASCADE"), primary_key=True),
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("attributes_id", ForeignKey("attributes.id")),
    Column("status", SmallInteger),
    Column("alloc_gpu_s", Float, nullable=False),
    Column("running_gpu_s", Float, nullable=False),
    Column("cap_gpu_s", Float, nullable=False),
    Column("free_gpu_s", Float, nullable=False),
    Column("unusable_gpu_s", Float, nullable=False),
    Column("obs_gpu_s", Float, nullable=False),
    Column("util_gpu_s", Float, nullable=False),
    # Hundredths, to which answers are rounded.
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
    # The rows of an hour stand together, and nothing else says where they are.
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
