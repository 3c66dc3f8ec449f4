"""Services, container ports and probes of long-running workloads."""

from __future__ import annotations

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata, selector
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.service_block import ServiceBlock
from gpuctl.objects.api_resources import Object
from gpuctl.objects.companion_names import MAIN_PORT, service_name
from gpuctl.objects.durations import parse_duration

PERIOD = 10


def service(context: Context, document: Document, model: Job, block: ServiceBlock) -> Object:
    """Return the Service of a workload."""
    kind = block.type or context.settings.service_type
    ports = [_service_port(MAIN_PORT, block.port, block.targetPort, block.nodePort, block.protocol, kind)]
    ports += [
        _service_port(extra.name, extra.port, extra.targetPort, extra.nodePort, extra.protocol, kind)
        for extra in block.ports
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            service_name(model.job.name), document.namespace, identity_labels(context, document, model)
        ),
        "spec": {"type": kind, "selector": selector(context, document, model), "ports": ports},
    }


def _service_port(name: str, port: int, target: int | None, node_port: int | None, protocol: str, kind: str) -> Object:
    result: Object = {"name": name, "port": port, "targetPort": target or port, "protocol": protocol}
    if node_port is not None and kind != "ClusterIP":
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


def probes(block: ServiceBlock) -> Object:
    """Return the startup, readiness and liveness probes for ``health_check``.

    The startup probe delays the others for up to ``startup_timeout``, so liveness needs no long delay: a later hang is
    detected within a minute.
    """
    if block.health_check is None:
        return {}
    action = {"httpGet": {"path": block.health_check, "port": MAIN_PORT}}
    attempts = max(1, -(-startup_seconds(block) // PERIOD))
    return {
        "startupProbe": {**action, "periodSeconds": PERIOD, "timeoutSeconds": 5, "failureThreshold": attempts},
        "readinessProbe": {**action, "periodSeconds": PERIOD, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**action, "periodSeconds": PERIOD, "timeoutSeconds": 10, "failureThreshold": 6},
    }


def pod_extras(block: ServiceBlock) -> Object:
    """Return the fields of the pod's spec that the service block sets."""
    seconds = parse_duration(block.timeout) if block.timeout is not None else None
    return {"terminationGracePeriodSeconds": seconds} if seconds is not None else {}
