"""Nodes, unfinished pods, pool definitions and devices, read with parallel lists for several commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.scope import Scope
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.companion_names import pool_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.nodes.claim_templates import TemplateKey
from gpuctl.reading.nodes.node_devices import NO_DEVICES, Devices, read_devices

# Source: scheduler.go, NewInformerFactory: the scheduler does not watch finished pods.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Inventory(NamedTuple):
    """Lists of a cluster.

    :param pods: unfinished pods of all namespaces; None if the user may not list them.
    :param definitions: ConfigMaps with pool definitions; None if the user may not list them.
    :param devices: GPUs offered as DRA devices, and the pods that hold them.
    :param requested: GPUs that claims of waiting pods request, by their templates.
    """

    nodes: list[Object]
    pods: list[Object] | None
    definitions: list[Object] | None
    devices: Devices = NO_DEVICES
    requested: Mapping[TemplateKey, int] = MappingProxyType({})


def read_inventory(
    scope: Scope,
    keys: Records,
    *,
    labels: str = "",
    pods: bool = True,
    definitions: bool = False,
    gpus: Iterable[str] = (),
) -> Inventory:
    """Read the lists in parallel. The number of requests does not depend on the size of the cluster.

    :param labels: label selector for nodes.
    :param gpus: the extended resources that are GPUs; if given, GPUs that drivers offer as devices are counted too.
    :raises ApiError: nodes may not be listed.
    """
    session = scope.session
    tasks: list[Callable[[], Any]] = [
        lambda: session.list_objects(RESOURCES["Node"], labels=labels)[0],
        lambda: _pods(scope) if pods else [],
        lambda: _definitions(scope, keys) if definitions else [],
        lambda: read_devices(scope, gpus) if gpus else NO_DEVICES,
    ]
    return Inventory(*session.each(lambda task: task(), tasks))


def read_node(scope: Scope, name: str, gpus: Iterable[str]) -> tuple[Object | None, list[Object] | None, Devices]:
    """Return a node (None if it does not exist), its unfinished pods (None if not allowed), and all devices."""
    session = scope.session
    tasks: list[Callable[[], Any]] = [
        lambda: session.list_objects(RESOURCES["Node"], fields=f"metadata.name={name}")[0],
        lambda: _pods(scope, f"spec.nodeName={name},{UNFINISHED}"),
        lambda: read_devices(scope, gpus),
    ]
    nodes, pods, devices = session.each(lambda task: task(), tasks)
    return (nodes[0] if nodes else None), pods, devices


def _pods(scope: Scope, fields: str = UNFINISHED) -> list[Object] | None:
    try:
        return scope.session.list_objects(RESOURCES["Pod"], fields=fields)[0]
    except ApiError as error:
        if not error.lacks_permission:
            raise
        scope.note(say("{error}: used and free resources of nodes are unknown", error=error.message))
        return None


def _definitions(scope: Scope, keys: Records) -> list[Object] | None:
    try:
        maps, _ = scope.session.list_objects(RESOURCES["ConfigMap"], SYSTEM_NAMESPACE, labels=keys.pool)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        scope.note(say("{error}: pools are derived from node labels alone", error=error.message))
        return None
    return [item for item in maps if pool_of(item, keys)]
