"""How the service is set up: flags, then the environment (``GPUCTL_SERVER_...``), then a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from gpuctl.language.service_block import ServiceType
from gpuctl_server.metric_queries import MetricQuery
from gpuctl_usage.layered_settings import LayeredSettings
from gpuctl_usage.usage_settings import (
    DEFAULT_KEYS,
    DEFAULT_RETENTION,
    UsageAnnotations,
    UsageCluster,
    UsageInterval,
    UsageKeptDays,
    UsageKeptDetails,
    UsageKeptHours,
    UsageKeptSnapshots,
    UsageLabels,
    UsageMetrics,
    UsageSharedCards,
    UsageWebhook,
)

LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
AuthMode = Literal["tokens", "kubernetes", "oidc"]
PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


class ServerSettings(LayeredSettings):
    """What can be set. Times are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(extra="forbid")
    known_prefix = "GPUCTL_SERVER_"

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    tls_certificate: Path | None = Field(None, description="Certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="Its private key, PEM.")
    insecure_plain_http: bool = Field(
        False,
        description="Serve plain HTTP on addresses beyond loopback. Tokens cross the network unencrypted: set it only "
        "where TLS ends at an ingress in front of the service.",
    )

    kubeconfig: str | None = Field(None, description="As kubectl's --kubeconfig. In a pod: its service account.")
    context: str | None = Field(None, description="Context of the kubeconfig.")
    platform: str | None = Field(None, description="The platform's file.")
    cluster: str | None = Field(
        None,
        description="Name of this cluster among the platform's `clusters`. Default: the one that its uid, or outside "
        "of a pod its server, tells. Documents that belong on others are refused.",
    )
    namespace: str | None = Field(None, description="Namespace of jobs that name none. Default: the context's.")

    auth: AuthMode = Field("tokens", description="Whose tokens are accepted.")
    tokens: Path = Field(Path("~/.config/gpuctl/server-tokens.json"), description="File of tokens, for auth `tokens`.")
    pod_security: PodSecurityLevel = Field(
        "baseline",
        description="For auth `tokens`: the level of the Pod Security Standards that every pod has to keep which is "
        "created for another token than an admin's without limits. `privileged` leaves it to the namespaces' own.",
    )
    host_paths: tuple[Annotated[str, Field(pattern=r"^/[^:]*$")], ...] = Field(
        (),
        description="For auth `tokens`: directories of nodes that such pods may mount all the same, and what is in "
        "them. The risk: by a link in a directory that jobs write to, a later job mounts any other.",
    )
    service_accounts: tuple[str, ...] = Field(
        (), description="For auth `tokens`: service accounts that such pods may have beside `default`."
    )
    service_types: tuple[ServiceType, ...] = Field(
        ("NodePort", "ClusterIP", "LoadBalancer"),
        description="For auth `tokens`: types of Services that tokens with limits may create.",
    )
    fixed_node_ports: bool = Field(
        True, description="For auth `tokens`: whether tokens with limits may choose the number of a node port."
    )
    label_keys: tuple[LabelKey, ...] = Field(
        (),
        description="For auth `tokens`: label keys of nodes that tokens with limits may set beside those of the "
        "platform's domain and of GPU types; `example.com/` allows all keys with this prefix.",
    )
    kubernetes_labels: tuple[LabelKey, ...] = Field(
        (),
        description="Label keys below `kubernetes.io` and `k8s.io` that may be set on nodes, one by one. The risk: "
        "such a label can draw pods, volumes and DaemonSets of others to a node.",
    )
    oidc_issuer: str | None = Field(None, description="For auth `oidc`: the provider, as `iss` of its tokens says.")
    oidc_audience: str | None = Field(None, description="For auth `oidc`: what `aud` of a token has to contain.")
    oidc_username_claim: str = Field("sub", description="For auth `oidc`: the claim that is the user's name.")
    oidc_groups_claim: str = Field("groups", description="For auth `oidc`: the claim with the user's groups.")
    oidc_prefix: str = Field("oidc:", description="For auth `oidc`: what names of users and groups get before them.")
    oidc_impersonation: bool = Field(
        False,
        description="For auth `oidc`: write by impersonating the user. The risk: whoever takes the service over acts "
        "as every user that its role may impersonate, so confine that (constrained impersonation, Kubernetes 1.36).",
    )

    body_limit: int = Field(1024 * 1024, ge=1024, description="Largest body that is read.")
    compile_limit: float = Field(
        10.0,
        gt=0,
        description="Processor seconds that the documents of a request may take to compile; more are refused with 413.",
    )
    concurrency: int = Field(
        64, ge=1, description="Requests that are worked on at a time, of one token half as many; more wait."
    )
    queue: int = Field(
        256, ge=0, description="Requests that may wait, of one token half as many; more are answered with 429."
    )
    head_timeout: float = Field(
        10.0,
        gt=0,
        description="Seconds in which a TLS handshake, and then the request line and headers have to arrive.",
    )
    body_timeout: float = Field(15.0, gt=0, description="How long a body may take to come.")
    connections: int = Field(
        2048,
        ge=16,
        description="Most connections at a time, and fewer if the process may not open enough files. Beyond that the "
        "one is closed that has waited longest for its client.",
    )
    mirror_again: float = Field(15.0, gt=0, description="After how long a list that may not be read is tried again.")
    shutdown_timeout: float = Field(10.0, gt=0, description="How long requests may go on once the service is to end.")
    followers: int = Field(1000, ge=0, description="Who may follow logs at a time; more are told to come back later.")
    followers_each: int = Field(250, ge=1, description="How many logs one user may follow at a time.")
    followed_jobs: int = Field(250, ge=1, description="Jobs whose logs are followed at a time, by whomever.")
    follower_check: float = Field(30.0, gt=0, description="How often it is asked whether a follower still may.")
    follower_ping: float = Field(
        20.0,
        gt=0,
        description="How often a WebSocket is asked whether its client is there, which has as long to answer.",
    )
    cors: tuple[str, ...] = Field((), description="Origins that browsers may ask from. Default: none.")
    prometheus: str | None = Field(None, pattern=r"^https?://[^\s/?#]+[^\s?#]*$", description="Address of Prometheus.")
    prometheus_token: Path | None = Field(None, description="File with a bearer token for it.")
    metrics: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")], MetricQuery] = Field(
        default_factory=dict, description="What is asked of Prometheus: name -> query, text; beside what is built in."
    )
    usage_database: str | None = Field(
        None, description="Database of GPU usage: a path, or a URL such as `sqlite:////var/lib/gpuctl/usage.db`."
    )
    usage: bool = Field(
        False, description="Collect usage as well, in a process beside the service: in one replica alone."
    )
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
    audit: Path | None = Field(None, description="File that a line for each write is added to. Default: the log.")
