"""Routes to services from outside the cluster, and limits on their planned disruptions."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata, selector
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.route_blocks import Route, RouteSettings
from gpuctl.language.service_block import Disruption, ServiceBlock
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.companion_names import service_name


def exposure(context: Context, document: Document, model: Job, block: ServiceBlock) -> Iterator[Object]:
    """Yield the PodDisruptionBudget and the HTTPRoute or Ingress of a workload, if its service block has them."""
    if block.disruption is not None:
        yield _budget(context, document, model, block.disruption)
    routes = context.settings.routes
    # Without a controller of routes, the route is an error that the document's checks report.
    if block.route is not None and routes is not None:
        spec = (_http_route if routes.gateway is not None else _ingress)(model, block, block.route, routes)
        kind = "HTTPRoute" if routes.gateway is not None else "Ingress"
        labels = identity_labels(context, document, model)
        yield {
            "apiVersion": RESOURCES[kind].api_version,
            "kind": kind,
            "metadata": metadata(model.job.name, document.namespace, labels, dict(routes.annotations)),
            "spec": spec,
        }


def _budget(context: Context, document: Document, model: Job, limit: Disruption) -> Object:
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


def _http_route(model: Job, block: ServiceBlock, route: Route, routes: RouteSettings) -> Object:
    """Return the spec of an HTTPRoute, with the values that the API server would fill in."""
    namespace, _, gateway = (routes.gateway or "").partition("/")
    parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": namespace, "name": gateway}
    if routes.listener is not None:
        parent["sectionName"] = routes.listener
    backend = {"group": "", "kind": "Service", "name": service_name(model.job.name), "port": block.port, "weight": 1}
    matches = [{"path": {"type": "PathPrefix", "value": route.path}}]
    return {
        "parentRefs": [parent],
        "hostnames": [route.host],
        "rules": [{"matches": matches, "backendRefs": [backend]}],
    }


def _ingress(model: Job, block: ServiceBlock, route: Route, routes: RouteSettings) -> Object:
    """Return the spec of an Ingress."""
    backend = {"service": {"name": service_name(model.job.name), "port": {"number": block.port}}}
    path = {"path": route.path, "pathType": "Prefix", "backend": backend}
    spec: Object = {"ingressClassName": routes.ingress, "rules": [{"host": route.host, "http": {"paths": [path]}}]}
    if routes.tls:
        secret = {"secretName": routes.secret} if routes.secret is not None else {}
        spec["tls"] = [{"hosts": [route.host], **secret}]
    return spec
