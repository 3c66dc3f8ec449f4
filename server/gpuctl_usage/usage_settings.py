"""Settings of usage collection, part of the service's file and environment (``GPUCTL_SERVER_...``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from gpuctl_usage.facts import RetentionDays, UsageKeys
from gpuctl_usage.layered_settings import LayeredSettings

Address = Annotated[str, Field(pattern=r"^https?://[^\s/?#]+[^\s?#]*$")]
Keys = tuple[Annotated[str, Field(min_length=1, max_length=317)], ...]
Days = Annotated[int, Field(ge=1, le=36_600)]
DEFAULT_KEYS = ("team", "project", "app", "env", "cost-center")
DEFAULT_RETENTION = RetentionDays(details=14, snapshots=400, hours=400, days=3660)


class UsageSettings(LayeredSettings):
    """Settings of the collector; other settings of the service's file are ignored."""

    model_config = SettingsConfigDict(extra="ignore")

    kubeconfig: str | None = Field(
        None,
        description="Path of the kubeconfig. Default: that of kubectl; in a pod: its service account.",
    )
    context: str | None = Field(None, description="Context of the kubeconfig.")
    platform: str | None = Field(None, description="Path of the platform file.")
    prometheus: Address | None = Field(None, description="URL of Prometheus.")
    prometheus_token: Path | None = Field(None, description="File with a bearer token for Prometheus.")
    usage_database: str | None = Field(
        None, description="Database of GPU usage: a path, or a URL such as `sqlite:////var/lib/gpuctl/usage.db`."
    )
    usage_cluster: Annotated[str, Field(max_length=253, pattern=r"^\S+$")] | None = Field(
        None,
        description="Name of the cluster in answers about usage, unique in the database. Default: the "
        "kubeconfig's context.",
    )
    usage_labels: Keys = Field(DEFAULT_KEYS, description="Label keys by which usage is grouped.")
    usage_annotations: Keys = Field(DEFAULT_KEYS, description="Annotation keys by which usage is grouped.")
    usage_scrape_interval: float = Field(
        15.0, ge=1, le=300, description="Scrape interval of the GPU exporters in Prometheus, seconds."
    )
    usage_shared_cards: Literal["detect", "copies", "per-process"] = Field(
        "detect",
        description="Kind of the metrics that exporters report for pods that share a card by time: `copies` of the "
        "card's values, values of each pod's processes (`per-process`), or detected from the values (`detect`).",
    )
    usage_kept_details: Days = Field(
        DEFAULT_RETENTION.details, description="Retention of the allocation of each workload in snapshots, days."
    )
    usage_kept_snapshots: Days = Field(
        DEFAULT_RETENTION.snapshots, description="Retention of the totals of snapshots, days."
    )
    usage_kept_hours: Days = Field(
        DEFAULT_RETENTION.hours,
        description="Retention of hourly sums and holdings, days. An hour is kept until its day is final.",
    )
    usage_kept_days: Days = Field(
        DEFAULT_RETENTION.days,
        description="Retention of daily sums, days; weeks and months are computed from them.",
    )
    usage_metrics: str | None = Field(
        None,
        description="HOST:PORT on which `gpuctl usage collect` serves /metrics, /healthz and /readyz, without "
        "authentication. Default: nowhere.",
    )
    usage_webhook: Address | None = Field(
        None, description="URL to which `gpuctl usage idle` posts its actions as JSON. Default: none."
    )
    audit: Path | None = Field(None, description="File for the audit, one line for each write. Default: the log.")

    @property
    def usage_keys(self) -> UsageKeys:
        return UsageKeys(self.usage_labels, self.usage_annotations)
