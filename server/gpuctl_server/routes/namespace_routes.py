"""``/namespaces``: namespaces, their users, quotas and jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query

from gpuctl.api.namespace_answers import NamespaceDetail, NamespaceList
from gpuctl.usecases.queries.quota_queries import describe_namespace, list_namespaces
from gpuctl_server.access.caller import Caller
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.routers import mirror_router

router = mirror_router()
Reads = Annotated[Caller, Depends(allowed("get", "namespaces"))]


@router.get("/namespaces", responses={200: {"model": NamespaceList}})
def namespaces(
    service: ServiceOf,
    caller: Reads,
    everything: Annotated[bool, Query(alias="all", description="Include namespaces without jobs and quotas.")] = False,
) -> dict[str, Any]:
    """List the visible namespaces that gpuctl has created, or that have its jobs or quotas."""
    with service.read_context(caller) as reader:
        return NamespaceList.of(list_namespaces(reader, everything=everything)).as_json()


@router.get("/namespaces/{namespaceName}", responses={200: {"model": NamespaceDetail}})
def namespace(
    service: ServiceOf,
    caller: Reads,
    name: Annotated[str, Path(alias="namespaceName", max_length=253, description="Name of the namespace.")],
) -> dict[str, Any]:
    """Return a namespace: its limits, and its running and waiting jobs."""
    with service.read_context(caller) as reader:
        return NamespaceDetail.model_validate(describe_namespace(reader, name)).as_json()
