"""Services of long-running workloads, limits on planned disruptions, container ports and probes."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata, selector
from gpuctl.backend.route_objects import service_route
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job, nodes_of
from gpuctl.language.service_block import Disruption, ServiceBlock
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.companion_names import MAIN_PORT, service_name
from gpuctl.objects.durations import parse_duration
from gpuctl.objects.label_names import WORKER_INDEX

PERIOD = 10


def service_objects(context: Context, document: Document, model: Job, block: ServiceBlock) -> Iterator[Object]:
    """Yield the Service of a workload, and its PodDisruptionBudget and route if the service block has them."""
    yield _service(context, document, model, block)
    if block.disruption is not None:
        yield _disruption_budget(context, document, model, block.disruption)
    yield from service_route(context, document, model, block)


def _service(context: Context, document: Document, model: Job, block: ServiceBlock) -> Object:
    """Return the Service of a workload."""
    kind = block.type or context.settings.platform.service.type
    ports = [_service_port(MAIN_PORT, block.port, block.targetPort, block.nodePort, block.protocol)]
    ports += [
        _service_port(extra.name, extra.port, extra.targetPort, extra.nodePort, extra.protocol) for extra in block.ports
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            service_name(model.job.name), document.namespace, identity_labels(context, document, model)
        ),
        "spec": {"type": kind, "selector": {**selector(context, document, model), **_leaders(model)}, "ports": ports},
    }


def _disruption_budget(context: Context, document: Document, model: Job, limit: Disruption) -> Object:
    most = limit.maxUnavailable
    return {
        "apiVersion": RESOURCES["PodDisruptionBudget"].api_version,
        "kind": "PodDisruptionBudget",
        "metadata": metadata(model.job.name, document.namespace, identity_labels(context, document, model)),
        "spec": {
            "maxUnavailable": int(most) if most.isdecimal() else most,
            "selector": {"matchLabels": selector(context, document, model)},
            # Otherwise pods that never become ready keep their node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _leaders(model: Job) -> dict[str, str]:
    """Return the labels that the pod with rank 0 of each replica has; none if each replica is one pod."""
    return {WORKER_INDEX: "0"} if nodes_of(model) > 1 else {}


def _service_port(name: str, port: int, target: int | None, node_port: int | None, protocol: str) -> Object:
    result: Object = {"name": name, "port": port, "targetPort": target or port, "protocol": protocol}
    if node_port is not None:
        result["nodePort"] = node_port
    return result


def container_ports(block: ServiceBlock) -> list[Object]:
    """Return the container's ports. Users and probes refer to them; Kubernetes opens every port anyway."""
    ports = [{"name": MAIN_PORT, "containerPort": block.targetPort or block.port, "protocol": block.protocol}]
    seen = {(block.targetPort or block.port, block.protocol)}
    for extra in block.ports:
        target = extra.targetPort or extra.port
        if (target, extra.protocol) not in seen:
            seen.add((target, extra.protocol))
            ports.append({"name": extra.name, "containerPort": target, "protocol": extra.protocol})
    return ports


def startup_seconds(block: ServiceBlock) -> int:
    """Return ``startup_timeout`` in seconds."""
    return parse_duration(block.startup_timeout) or PERIOD


def container_extras(block: ServiceBlock) -> Object:
    """Return the fields of the container that the service block sets: probes, and the hook that drains the pod."""
    extras = _probes(block)
    if (seconds := drain_seconds(block)) is not None:
        extras["lifecycle"] = {"preStop": {"sleep": {"seconds": seconds}}}
    return extras


def drain_seconds(block: ServiceBlock) -> int | None:
    """Return ``drain`` in seconds; None without it."""
    return parse_duration(block.drain) if block.drain is not None else None


def _probes(block: ServiceBlock) -> Object:
    """Return the startup, readiness and liveness probes for ``health_check`` and ``liveness``.

    The startup probe delays the others for up to ``startup_timeout``, so liveness needs no long delay: a later hang is
    detected within a minute.
    """
    ready, alive = block.health_check, block.liveness or block.health_check
    if alive is None:
        return {}
    attempts = max(1, -(-startup_seconds(block) // PERIOD))
    found = {"startupProbe": _probe(ready or alive, 5, attempts)}
    if ready is not None:
        found["readinessProbe"] = _probe(ready, 5, 3)
    found["livenessProbe"] = _probe(alive, 10, 6)
    return found


def _probe(path: str, timeout: int, failures: int) -> Object:
    action = {"httpGet": {"path": path, "port": MAIN_PORT}}
    return {**action, "periodSeconds": PERIOD, "timeoutSeconds": timeout, "failureThreshold": failures}


def lift_port(port: Object) -> Object:
    """Return the entry of a document for a port of a Service."""
    entry: Object = {"port": port["port"]}
    if port.get("targetPort", port["port"]) != port["port"]:
        entry["targetPort"] = port["targetPort"]
    if "nodePort" in port:
        entry["nodePort"] = port["nodePort"]
    if port.get("protocol", "TCP") != "TCP":
        entry["protocol"] = port["protocol"]
    return entry
