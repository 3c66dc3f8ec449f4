"""The ``service:`` block of long-running workloads: ports, replicas, health."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpuctl.language.amount_fields import CountOrPercent, PositiveDuration
from gpuctl.language.exclusion_checks import refuse_exclusions
from gpuctl.language.exclusions import Exclusion, one_of
from gpuctl.language.field_errors import field_error
from gpuctl.language.fields import Block, Count, NodePort, Port, PortName, PositiveCount, empty_list
from gpuctl.language.path_fields import UrlPath
from gpuctl.language.route_blocks import Route
from gpuctl.language.sentences import Template, say

ServiceType = Literal["NodePort", "ClusterIP", "LoadBalancer"]
Protocol = Literal["TCP", "UDP"]
ChangeStrategy = Literal["replace", "rolling"]


class ExtraPort(Block):
    """One more port of the container and its Service."""

    name: PortName = Field(description="Name of the port, unique within the service.", examples=["metrics"])
    port: Port = Field(description="Port number.", examples=[9090])
    targetPort: Port | None = Field(  # noqa: N815
        None, description="Port inside the container. Default: `port`.", examples=[9090]
    )
    nodePort: NodePort | None = Field(  # noqa: N815
        None, description="Fixed port on every node (30000-32767 on most clusters).", examples=[30090]
    )
    protocol: Protocol = Field("TCP", description="TCP or UDP.", examples=["UDP"])


class Disruption(Block):
    """Limit on planned disruptions, such as a drained node. Becomes a PodDisruptionBudget."""

    maxUnavailable: CountOrPercent = Field(  # noqa: N815
        description="Maximum number or percentage of pods that evictions may make unavailable at a time.",
        examples=["1"],
    )


_NO_NODE_PORT = Template("a ClusterIP service has no nodePort"), Template("use `type: NodePort`")
_OVER_HTTP = Template("`{second}` asks over HTTP, and the port is UDP"), Template("remove one")

JOB_WITH_SERVICE = (
    *one_of(
        "service.drain",
        "job.on.stop",
        message=Template("`service.drain` and `job.on.stop` are both the preStop hook of the container"),
        hint=Template('keep one: the command can wait too, as in `["sh", "-c", "sleep {seconds}; ..."]`'),
        at="service.drain",
    ),
    *one_of(
        "service.timeout",
        "job.grace",
        message=Template("`job.grace` and `service.timeout` both set the grace period of the pods"),
        at="job.grace",
    ),
)
"""Exclusions of the documents with a service."""


class ServiceBlock(Block):
    """Network access to the workload, and its replicas. The Service is called `svc-NAME`."""

    exclusions = (
        Exclusion("type", ("nodePort",), *_NO_NODE_PORT, value="ClusterIP"),
        Exclusion("type", ("ports[].nodePort",), *_NO_NODE_PORT, value="ClusterIP", replaces=False),
        Exclusion("protocol", ("health_check", "liveness", "route"), *_OVER_HTTP, value="UDP"),
    )

    replicas: Annotated[Count, Field(le=10000)] = Field(1, description="Number of pods.", examples=[2])
    port: Port = Field(8000, description="Port the program listens on, and of the Service.", examples=[8000])
    targetPort: Port | None = Field(  # noqa: N815
        None, description="Port inside the container, when it differs from `port`.", examples=[8080]
    )
    nodePort: NodePort | None = Field(  # noqa: N815
        None,
        description="Fixed port on every node (30000-32767 on most clusters). Default: allocated by the cluster.",
        examples=[30080],
    )
    protocol: Protocol = Field("TCP", description="TCP or UDP.", examples=["TCP"])
    ports: list[ExtraPort] = Field(
        default_factory=empty_list, description="Further ports.", examples=[[{"name": "metrics", "port": 9090}]]
    )
    type: ServiceType | None = Field(
        None,
        description="Kind of Kubernetes Service. Default: the platform's, `NodePort`.",
        examples=["ClusterIP"],
    )
    health_check: UrlPath | None = Field(
        None,
        description="HTTP path that returns status 200-399 when the program is healthy. Becomes a startup, a readiness "
        "and a liveness probe.",
        examples=["/health"],
    )
    liveness: UrlPath | None = Field(
        None,
        description="HTTP path of the liveness probe: a pod whose answer fails for a minute is restarted. Default: "
        "`health_check`; without one there is no liveness probe.",
        examples=["/live"],
    )
    startup_timeout: PositiveDuration = Field(
        "10m",
        description="Maximum time until `health_check` first succeeds; loading a model takes minutes.",
        examples=["20m"],
    )
    strategy: ChangeStrategy | None = Field(
        None,
        description="How `gpuctl apply` changes the service when its pods change. `replace` deletes it and creates it "
        "again: all pods stop first, so that their GPUs are free for the new ones. `rolling` changes it pod "
        "by pod, and the other pods keep serving. Default: the platform's, `replace`.",
        examples=["rolling"],
    )
    timeout: PositiveDuration | None = Field(
        None,
        description="Maximum duration of a request: a pod gets this time to finish its requests before it is stopped. "
        "Kept as an annotation for ingresses.",
        examples=["30s"],
    )
    request_limit: PositiveCount | None = Field(
        None,
        description="Requests per second, as an annotation. An ingress or gateway that reads the annotation "
        "enforces it; "
        "Kubernetes itself does not.",
        examples=[1000],
    )
    drain: PositiveDuration | None = Field(
        None,
        description="Time that a pod keeps serving after it has begun to end and before SIGTERM, so that load "
        "balancers stop sending requests to it. It is added to the grace period. Needs Kubernetes 1.30.",
        examples=["15s"],
    )
    route: Route | None = Field(
        None,
        description="Address of the service outside the cluster.",
        examples=[{"host": "chat.example.com", "path": "/v1"}],
    )
    disruption: Disruption | None = Field(
        None,
        description="Limit on planned disruptions. Default: none, so that drained nodes may end all pods at once.",
        examples=[{"maxUnavailable": 1}],
    )

    @model_validator(mode="after")
    def _ports(self) -> "ServiceBlock":
        refuse_exclusions(self)
        names = {"main"}
        numbers = {(self.port, self.protocol)}
        node_ports = {self.nodePort: (self.port, self.protocol)}
        for index, extra in enumerate(self.ports):
            if extra.name in names:
                raise field_error(
                    "GPU218",
                    say("two ports are called `{name}`", name=extra.name),
                    say("rename one"),
                    ("ports", index, "name"),
                )
            if (extra.port, extra.protocol) in numbers:
                raise field_error(
                    "GPU218",
                    say("port {port}/{protocol} is listed twice", port=extra.port, protocol=extra.protocol),
                    say("remove one"),
                    ("ports", index, "port"),
                )
            names.add(extra.name)
            numbers.add((extra.port, extra.protocol))
            if extra.nodePort is None:
                continue
            port, protocol = node_ports.setdefault(extra.nodePort, (extra.port, extra.protocol))
            if port != extra.port:
                # Kubernetes shares a nodePort between the protocols of one port number: allocNodePorts, initNodePorts.
                message = say(
                    "nodePort {number} is that of port {port}/{protocol} and of {other_port}/{other_protocol}",
                    number=extra.nodePort,
                    port=port,
                    protocol=protocol,
                    other_port=extra.port,
                    other_protocol=extra.protocol,
                )
                raise field_error("GPU218", message, say("change one"), ("ports", index, "nodePort"))
        return self


class NotebookService(ServiceBlock):
    """Network access to a notebook: one replica, port 8888 by default."""

    replicas: Annotated[Count, Field(ge=1, le=1)] = Field(
        1, description="Always 1: a notebook has one user.", examples=[1]
    )
    port: Port = Field(8888, description="Port the notebook listens on, and of the Service.", examples=[8888])
