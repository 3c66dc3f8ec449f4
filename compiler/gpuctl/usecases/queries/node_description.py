"""One node with its resources, labels, conditions and pods."""

from __future__ import annotations

from gpuctl.api.node_answers import NodeReport
from gpuctl.kube.not_found import no_such
from gpuctl.language.names import is_dns_subdomain
from gpuctl.objects.api_resources import RESOURCES
from gpuctl.reading.nodes import inventory
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import read_nodes
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.service.service_nodes import node_path


def describe_node(reader: ReadContext, name: str) -> NodeReport:
    """Return one node, with what its pods request.

    :raises NotThere: it does not exist.
    """
    if reader.service is not None:
        with reader.service.reading() as get:
            item = get(node_path(reader.service, name))
            return NodeReport.model_validate({**item, "runningJobs": item.get("pods")})
    found = None
    if is_dns_subdomain(name):
        found, pods, devices = inventory.read_node(reader.scope, name, reader.settings.gpu_resources)
    if found is None:
        raise no_such("node", name, reader.scope.session.names(RESOURCES["Node"]))
    gpus = PlatformGpus(reader.settings)
    (node,) = read_nodes([found], pods, reader.keys, gpus, devices)
    return NodeReport.of(node, gpus)
