"""Lowers ``resources.network`` to the pod: RDMA devices, and the node's network; lifts them back."""

from __future__ import annotations

from typing import Any

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.variables import env_value
from gpuctl.language.kinds import Job
from gpuctl.language.network_block import RdmaSettings
from gpuctl.objects.api_resources import Object

RDMA_CAPABILITY = "IPC_LOCK"
"""Lets a process lock the memory that RDMA devices read and write."""
HOST_NETWORK_DNS = "ClusterFirstWithHostNet"
"""DNS policy of a pod with `hostNetwork` and without a policy of its own."""


def _rdma_settings(context: Context, model: Job) -> RdmaSettings | None:
    """Return the platform's RDMA settings if the job uses such devices."""
    return context.settings.platform.network.rdma if model.resources.network.uses_rdma else None


def rdma_amounts(context: Context, model: Job) -> dict[str, str]:
    """Return the extended resource of the RDMA devices."""
    rdma, wanted = _rdma_settings(context, model), model.resources.network.rdma
    return {} if rdma is None else {rdma.resource: str(rdma.count) if wanted in (None, "true") else wanted}


def rdma_variables(context: Context, model: Job) -> list[Object]:
    """Return the platform's variables for RDMA that the document does not set itself."""
    rdma = _rdma_settings(context, model)
    own = {variable.name for variable in model.environment.variables}
    return [env_value(name, value) for name, value in rdma.env.items() if name not in own] if rdma is not None else []


def add_network(context: Context, model: Job, pod: Object, annotations: Object) -> None:
    """Add the pod's network, its annotations, and the capability of its program, in place."""
    rdma = _rdma_settings(context, model)
    if rdma is not None:
        annotations.update({key: value for key, value in rdma.annotations.items() if key not in annotations})
        security = pod["containers"][0].setdefault("securityContext", {})
        capabilities = {"add": [], **security.get("capabilities", {})}
        if RDMA_CAPABILITY not in capabilities["add"]:
            capabilities["add"] = [*capabilities["add"], RDMA_CAPABILITY]
        security["capabilities"] = capabilities
    if model.resources.network.hostNetwork:
        pod |= {"hostNetwork": True, "dnsPolicy": HOST_NETWORK_DNS}


def lift_network(context: Context, pod: Object, container: Object) -> dict[str, Any]:
    """Return the ``resources.network`` block; empty if nothing is set."""
    found: dict[str, Any] = {}
    rdma, limits = context.settings.platform.network.rdma, container.get("resources", {}).get("limits", {})
    if rdma is not None and rdma.resource in limits:
        number = limits[rdma.resource]
        found["rdma"] = "true" if number == str(rdma.count) else number
    if pod.get("hostNetwork") and pod.get("dnsPolicy") == HOST_NETWORK_DNS:
        found["hostNetwork"] = True
    return found
