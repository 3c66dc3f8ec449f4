"""Settings of usage collection, part of the service's file and environment (``GPUCTL_SERVER_...``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from gpuctl_usage.facts import RetentionDays
from gpuctl_usage.layered_settings import LayeredSettings

Address = Annotated[str, Field(pattern=r"^https?://[^\s/?#]+[^\s?#]*$")]

UsageCluster = Annotated[
    Annotated[str, Field(max_length=253, pattern=r"^\S+$")] | None,
    Field(
        description="Name of the cluster in answers about usage, unique in the database. Default: the "
        "kubeconfig's context."
    ),
]
UsageKeys = tuple[Annotated[str, Field(min_length=1, max_length=317)], ...]
UsageLabels = Annotated[UsageKeys, Field(description="Label keys by which usage is grouped.")]
UsageAnnotations = Annotated[UsageKeys, Field(description="Annotation keys by which usage is grouped.")]
UsageInterval = Annotated[
    float, Field(ge=1, le=300, description="Scrape interval of the GPU exporters in Prometheus, seconds.")
]
UsageSharedCards = Annotated[
    Literal["detect", "copies", "per-process"],
    Field(
        description="Kind of the metrics that exporters report for pods that share a card by time: `copies` of the "
        "card's values, values of each pod's processes (`per-process`), or detected from the values (`detect`)."
    ),
]
_Days = Annotated[int, Field(ge=1, le=36_600)]
UsageKeptDetails = Annotated[
    _Days, Field(description="Retention of the allocation of each workload in snapshots, days.")
]
UsageKeptSnapshots = Annotated[_Days, Field(description="Retention of the totals of snapshots, days.")]
UsageKeptHours = Annotated[
    _Days,
    Field(description="Retention of hourly sums and holdings, days. An hour is kept until its day is final."),
]
UsageKeptDays = Annotated[
    _Days, Field(description="Retention of daily sums, days; weeks and months are computed from them.")
]
LISTENED = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]*):(?P<port>[0-9]{1,5})"
"""HOST:PORT. The host may be empty; an IPv6 address is in brackets."""
UsageMetrics = Annotated[
    str | None,
    Field(
        description="HOST:PORT on which `gpuctl usage collect` serves /metrics, /healthz and /readyz, without "
        "authentication. Default: nowhere."
    ),
]
UsageWebhook = Annotated[
    Address | None, Field(description="URL to which `gpuctl usage idle` posts its actions as JSON. Default: none.")
]
DEFAULT_KEYS = ("team", "project", "app", "env", "cost-center")
DEFAULT_RETENTION = RetentionDays(details=14, snapshots=400, hours=400, days=3660)


class UsageSettings(LayeredSettings):
    """Settings of the collector; other settings of the service's file are ignored."""

    model_config = SettingsConfigDict(extra="ignore")

    kubeconfig: str | None = None
    context: str | None = None
    platform: str | None = None
    prometheus: Address | None = None
    prometheus_token: Path | None = None
    usage_database: str | None = None
    usage_cluster: UsageCluster = None
    usage_labels: UsageLabels = DEFAULT_KEYS
    usage_annotations: UsageAnnotations = DEFAULT_KEYS
    usage_scrape_interval: UsageInterval = 15.0
    usage_shared_cards: UsageSharedCards = "detect"
    usage_kept_details: UsageKeptDetails = DEFAULT_RETENTION.details
    usage_kept_snapshots: UsageKeptSnapshots = DEFAULT_RETENTION.snapshots
    usage_kept_hours: UsageKeptHours = DEFAULT_RETENTION.hours
    usage_kept_days: UsageKeptDays = DEFAULT_RETENTION.days
    usage_metrics: UsageMetrics = None
    usage_webhook: UsageWebhook = None
    audit: Path | None = None
