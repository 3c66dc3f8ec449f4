"""Settings of the service, from flags, then the environment (``GPUCTL_SERVER_...``), then a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from gpuctl.language.service_block import ServiceType
from gpuctl_server.metric_queries import MetricQuery
from gpuctl_usage.usage_settings import UsageSettings

LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
AuthMode = Literal["tokens", "kubernetes", "oidc"]
PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


class ServerSettings(UsageSettings):
    """The settings, with those of the collector. Times are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(extra="forbid")
    known_prefix = "GPUCTL_SERVER_"

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    tls_certificate: Path | None = Field(None, description="Certificate chain, PEM.")
    tls_key: Path | None = Field(
        None, description="Private key of the certificate, PEM. Default: in the file of the chain."
    )
    insecure_plain_http: bool = Field(
        False,
        description="Serve plain HTTP on addresses beyond loopback. Tokens are sent unencrypted: set it only "
        "if TLS is terminated in front of the service.",
    )

    cluster: str | None = Field(
        None,
        description="Name of this cluster in the platform's `clusters`. Default: found by its uid or, outside of "
        "a pod, by its server. Documents for other clusters are rejected.",
    )
    namespace: str | None = Field(None, description="Namespace of jobs that name none. Default: the context's.")

    auth: AuthMode = Field(
        "tokens",
        description="Which tokens are accepted: those of the token file, of the cluster, or of an OIDC provider.",
    )
    tokens: Path = Field(
        Path("~/.config/gpuctl/server-tokens.json"), description="For auth `tokens`: path of the token file."
    )
    pod_security: PodSecurityLevel = Field(
        "baseline",
        description="For auth `tokens`: level of the Pod Security Standards for all pods, except those of an admin "
        "without limits. `privileged`: only the namespaces' own levels apply.",
    )
    host_paths: tuple[Annotated[str, Field(pattern=r"^/[^:]*$")], ...] = Field(
        (),
        description="For auth `tokens`: directories of nodes that such pods may mount nevertheless, including their "
        "content. The risk: by a symbolic link in a writable directory, a later job can mount any other directory.",
    )
    service_accounts: tuple[str, ...] = Field(
        (), description="For auth `tokens`: service accounts that such pods may use, in addition to `default`."
    )
    service_types: tuple[ServiceType, ...] = Field(
        ("NodePort", "ClusterIP", "LoadBalancer"),
        description="For auth `tokens`: types of Services that tokens with limits may create.",
    )
    fixed_node_ports: bool = Field(
        True, description="For auth `tokens`: tokens with limits may choose the number of a node port."
    )
    label_keys: tuple[LabelKey, ...] = Field(
        (),
        description="For auth `tokens`: label keys of nodes that tokens with limits may set, in addition to those of "
        "the platform's domain and of GPU types; `example.com/` allows all keys with this prefix.",
    )
    kubernetes_labels: tuple[LabelKey, ...] = Field(
        (),
        description="Label keys below `kubernetes.io` and `k8s.io` that may be set on nodes, in full. The risk: "
        "such a label can attract pods, volumes and DaemonSets of other users to a node.",
    )
    oidc_issuer: str | None = Field(
        None, description="For auth `oidc`: URL of the provider, equal to `iss` of its tokens."
    )
    oidc_audience: str | None = Field(None, description="For auth `oidc`: value that `aud` of a token must contain.")
    oidc_username_claim: str = Field("sub", description="For auth `oidc`: claim with the user's name.")
    oidc_groups_claim: str = Field("groups", description="For auth `oidc`: claim with the user's groups.")
    oidc_prefix: str = Field("oidc:", description="For auth `oidc`: prefix of the names of users and groups.")
    oidc_client_secret: Path | None = Field(
        None, description="For auth `oidc`: file with the client secret with which the console logs users in."
    )
    oidc_scopes: str = Field(
        "openid profile", description="For auth `oidc`: scopes that the console requests, with spaces."
    )
    console_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s/?#]+[^\s?#]*$",
        description="URL of the web console in browsers. With auth `oidc`, users log in at the provider, whose client "
        "is `oidc_audience` with the redirect URL `CONSOLE_URL/console/oidc/callback`.",
    )
    oidc_impersonation: bool = Field(
        False,
        description="For auth `oidc`: write by impersonating the user. The risk: an attacker in the service can act as "
        "every user that its role may impersonate, so limit them (constrained impersonation, Kubernetes 1.36).",
    )

    body_limit: int = Field(1024 * 1024, ge=1024, description="Maximum size of a body.")
    compile_limit: float = Field(
        10.0,
        gt=0,
        description="Maximum CPU time for compiling the documents of a request; more is rejected with 413.",
    )
    concurrency: int = Field(
        64, ge=1, description="Maximum number of running requests, half of it for one token; further ones wait."
    )
    queue: int = Field(
        256, ge=0, description="Maximum number of waiting requests, half of it for one token; further ones get 429."
    )
    head_timeout: float = Field(
        10.0,
        gt=0,
        description="Maximum time for a TLS handshake, and for the request line and headers.",
    )
    body_timeout: float = Field(15.0, gt=0, description="Maximum time for a body to arrive.")
    connections: int = Field(
        2048,
        ge=16,
        description="Maximum number of connections; fewer if the process may not open enough files. Beyond it, the "
        "connection that has waited longest for its client is closed.",
    )
    mirror_again: float = Field(15.0, gt=0, description="Interval for retrying a list that the service may not read.")
    shutdown_timeout: float = Field(
        10.0, gt=0, description="Maximum time for running requests after shutdown was requested."
    )
    followers: int = Field(1000, ge=0, description="Maximum number of concurrent log followers; further ones get 429.")
    followers_each: int = Field(250, ge=1, description="Maximum number of logs that one user follows.")
    followed_jobs: int = Field(250, ge=1, description="Maximum number of jobs whose logs are followed.")
    follower_check: float = Field(30.0, gt=0, description="Interval for checking the rights of followers.")
    follower_ping: float = Field(
        20.0,
        gt=0,
        description="WebSocket ping interval and pong timeout.",
    )
    cors: tuple[str, ...] = Field(
        (), description="Origins whose pages may use the API in a browser (CORS). Default: none."
    )
    metrics: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$")], MetricQuery] = Field(
        default_factory=dict, description="Prometheus queries: name -> query, text; in addition to the built-in ones."
    )
    notify_secrets: Path | None = Field(
        None,
        description="Directory with the secrets of the platform's channels (`job.notify`), such as a mounted Secret: "
        "`NAME.url` has the address of the webhook, `NAME.secret` the signing secret of a DingTalk or Feishu robot. "
        "Without a file: the variables GPUCTL_NOTIFY_NAME_URL and GPUCTL_NOTIFY_NAME_SECRET, with `_` for `-`.",
    )
    usage: bool = Field(
        False, description="Collect usage as well, in a child process of the service. Only for one replica."
    )
