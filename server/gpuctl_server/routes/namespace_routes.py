"""``/namespaces``: whose they are, and what runs in them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query

from gpuctl.api.namespace_answers import NamespaceDetail, NamespaceList
from gpuctl.usecases.quota_queries import describe_namespace, list_namespaces
from gpuctl_server.access.caller import Caller
from gpuctl_server.routes.common import ServiceOf, allowed, api_router

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "namespaces"))]


@router.get("/namespaces", responses={200: {"model": NamespaceList}})
def namespaces(
    service: ServiceOf,
    caller: Reads,
    everything: Annotated[bool, Query(alias="all", description="Also those without jobs and quotas.")] = False,
) -> dict[str, Any]:
    """The namespaces that gpuctl made, or that have jobs or quotas of its, of those that may be seen."""
    with service.read_context(caller) as reader:
        return NamespaceList.of(list_namespaces(reader, everything=everything)).as_json()


@router.get("/namespaces/{namespaceName}", responses={200: {"model": NamespaceDetail}})
def namespace(
    service: ServiceOf,
    caller: Reads,
    name: Annotated[str, Path(alias="namespaceName", max_length=253, description="The namespace.")],
) -> dict[str, Any]:
    """A namespace: what limits it, what runs in it, and what waits."""
    with service.read_context(caller) as reader:
        return NamespaceDetail.of(describe_namespace(reader, name)).as_json()
