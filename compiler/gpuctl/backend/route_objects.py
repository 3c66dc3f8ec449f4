"""Routes to services from outside the cluster: HTTPRoute or Ingress."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.route_blocks import Route, RouteSettings
from gpuctl.language.service_block import ServiceBlock
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.companion_names import service_name


def service_route(context: Context, document: Document, model: Job, block: ServiceBlock) -> Iterator[Object]:
    """Yield the HTTPRoute or Ingress of a workload, if its service block has a route."""
    routes = context.settings.platform.routes
    # Without a controller of routes, the route is an error that the document's checks report.
    if block.route is None or routes is None:
        return
    kind, spec = ("HTTPRoute", _http_route) if routes.gateway is not None else ("Ingress", _ingress)
    labels = identity_labels(context, document, model)
    yield {
        "apiVersion": RESOURCES[kind].api_version,
        "kind": kind,
        "metadata": metadata(model.job.name, document.namespace, labels, dict(routes.annotations)),
        "spec": spec(model, block, block.route, routes),
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
