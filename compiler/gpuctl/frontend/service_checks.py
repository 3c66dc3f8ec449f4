"""Checks of services: grace periods, ports, routes, disruptions and autoscaling."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document import Document, service_of
from gpuctl.language.autoscaling_block import Autoscaling
from gpuctl.language.inference_document import InferenceDocument
from gpuctl.language.kinds import Job
from gpuctl.language.sentences import say
from gpuctl.language.service_block import ServiceBlock
from gpuctl.language.settings import Settings
from gpuctl.objects.durations import parse_duration

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def check_service(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report problems of a job's service, and of the time in which its pods end."""
    yield from _grace(document, model)
    service = service_of(model)
    if service is not None:
        yield from _drain(document, model, service, settings)
        yield from _node_ports(document, service, settings)
        yield from _exposure(document, service, settings)
    if model.kind == "inference":
        yield from _groups(document, model, settings)
        yield from _autoscaling(document, model, settings)


def _grace(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report a hook that has no time."""
    if model.job.on is not None and model.job.on.stop and parse_duration(model.job.grace or "30s") == 0:
        message = say("`job.on.stop` cannot run: `job.grace` leaves no time for it")
        yield document.diagnostic(ERROR, "GPU213", message, ("job", "grace"), say("write a time such as `2m`"))


def _drain(document: Document, model: Job, service: ServiceBlock, settings: Settings) -> Iterator[Diagnostic]:
    if service.drain is None:
        return
    if not settings.serves_sleep_hooks:
        message = say(
            "`service.drain` needs Kubernetes 1.30 or newer; the platform's is {version}",
            version=settings.kubernetes_version,
        )
        hint = say("have the platform set `kubernetes.version` to the cluster's, if that is newer")
        yield document.diagnostic(ERROR, "GPU443", message, ("service", "drain"), hint, key=True)


def _node_ports(document: Document, service: ServiceBlock, settings: Settings) -> Iterator[Diagnostic]:
    """Report ports of nodes that the Service cannot have, or that most clusters do not allow."""
    has_none = service.type is None and settings.platform.service.type == "ClusterIP"
    ports: list[tuple[int | None, FieldPath]] = [(service.nodePort, ("service", "nodePort"))]
    ports += [(extra.nodePort, ("service", "ports", index, "nodePort")) for index, extra in enumerate(service.ports)]
    for port, path in ports:
        if port is not None and has_none:
            message = say("the platform's services are ClusterIP by default, which have no nodePort")
            yield document.diagnostic(
                ERROR, "GPU213", message, path, say("add `type: NodePort` to `service`, or remove it"), key=True
            )
        elif port is not None and not 30000 <= port <= 32767:
            message = say("nodePort {port} is outside 30000-32767, the range of most clusters", port=port)
            hint = say("choose one inside, unless the API server's --service-node-port-range allows it")
            yield document.diagnostic(WARNING, "GPU420", message, path, hint)


def _exposure(document: Document, service: ServiceBlock, settings: Settings) -> Iterator[Diagnostic]:
    """Report a route that the platform does not serve, and a budget that allows no disruption."""
    if service.route is not None and settings.platform.routes is None:
        message = say("the platform has no controller of routes, so that nothing would send requests to this service")
        hint = say("have the platform set `routes: {{gateway: NAMESPACE/NAME}}`, or `routes: {{ingress: CLASS}}`")
        yield document.diagnostic(ERROR, "GPU443", message, ("service", "route"), hint, key=True)
    limit = service.disruption
    if limit is not None and limit.maxUnavailable.rstrip("%").strip("0") == "":
        message = say(
            "with maxUnavailable {number}, no pod may be evicted: a drain of its node waits for ever",
            number=limit.maxUnavailable,
        )
        path = ("service", "disruption", "maxUnavailable")
        hint = say("write `1`, unless administrators delete the pods of a node by hand before they drain it")
        yield document.diagnostic(WARNING, "GPU444", message, path, hint)


def _groups(document: Document, model: InferenceDocument, settings: Settings) -> Iterator[Diagnostic]:
    """Report replicas on several nodes that the platform cannot run."""
    if model.resources.nodes > 1 and settings.platform.inference.backend != "lws":
        yield document.diagnostic(
            ERROR,
            "GPU244",
            say("a replica on several nodes needs a LeaderWorkerSet, which this platform does not use"),
            ("resources", "nodes"),
            say(
                "have the platform set `inference.backend: lws` (its controller must be in the cluster), or use one "
                "node"
            ),
        )
    if model.resources.nodes > 1 and model.resources.queue is not None:
        message = say(
            "`resources.queue` and several `nodes`: gpuctl does not put LeaderWorkerSets into queues of Kueue"
        )
        hint = say("remove `queue`, or use one node")
        yield document.diagnostic(ERROR, "GPU245", message, ("resources", "queue"), hint, key=True)


def _autoscaling(document: Document, model: InferenceDocument, settings: Settings) -> Iterator[Diagnostic]:
    scaling = model.autoscaling
    if scaling is None or not scaling.enabled:
        return
    yield from _own_metric(document, scaling, settings)
    if scaling.metric == "cpu" and model.resources.cpu is None:
        yield document.diagnostic(
            ERROR,
            "GPU213",
            say("`metric: cpu` measures use against the requested cpu, and the job requests none"),
            ("autoscaling", "metric"),
            say("add `resources.cpu`"),
        )
    if scaling.metric == "gpu" and model.resources.gpu == 0:
        yield document.diagnostic(
            WARNING,
            "GPU414",
            say("autoscaling on GPU use, and the job asks for no GPU"),
            ("autoscaling",),
            say("use `metric: cpu`"),
            key=True,
        )


def _own_metric(document: Document, scaling: Autoscaling, settings: Settings) -> Iterator[Diagnostic]:
    """Report metrics, and a minimum of 0 pods, that the platform does not serve."""
    own, served = scaling.own_metric, settings.platform.autoscaling
    if own is None:
        return
    path = ("autoscaling", "metric")
    if own.query is not None and not served.keda:
        message = say("the platform has no KEDA, which would run the query")
        hint = say("have the platform set `autoscaling: {{keda: true}}`, or use `name` with a metrics adapter")
        yield document.diagnostic(ERROR, "GPU443", message, (*path, "query"), hint, key=True)
    elif own.query is not None and settings.platform.prometheus is None:
        message = say("the platform names no Prometheus to run the query on")
        hint = say("have the platform set `prometheus: http://HOST:PORT`")
        yield document.diagnostic(ERROR, "GPU443", message, (*path, "query"), hint, key=True)
    elif own.external and scaling.minReplicas == 0 and not served.scaleToZero:
        message = say("HorizontalPodAutoscalers of this platform have 1 pod at least")
        hint = say(
            "have the platform set `autoscaling: {{scaleToZero: true}}` if the cluster has the feature gate "
            "HPAScaleToZero, or use `query` with KEDA"
        )
        yield document.diagnostic(ERROR, "GPU443", message, ("autoscaling", "minReplicas"), hint)
