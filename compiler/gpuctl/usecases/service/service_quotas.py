"""Quotas and namespaces from the REST API. Unknown fields are ignored.

The models are imported after the first response: they take as long to import as a small response takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuctl.usecases.service.service_client import ServiceClient

if TYPE_CHECKING:
    from gpuctl.api.namespace_answers import NamespaceDetail, NamespaceItem
    from gpuctl.api.quota_answers import Quota


def quotas_of_service(service: ServiceClient, namespace: str | None) -> list[Quota]:
    """Return the visible quotas of one namespace, or (None) of all."""
    with service.reading() as get:
        items = get("/quotas")["items"]
        from gpuctl.api.quota_answers import Quota

        return [Quota.model_validate(item) for item in items if namespace in (None, item["namespace"])]


def namespaces_of_service(service: ServiceClient, *, everything: bool) -> list[NamespaceItem]:
    """Return the namespaces with jobs or quotas, or with ``everything`` all visible ones."""
    with service.reading() as get:
        items = get("/namespaces", all="true" if everything else "")["items"]
        from gpuctl.api.namespace_answers import NamespaceItem

        return list(map(NamespaceItem.model_validate, items))


def namespace_of_service(service: ServiceClient, name: str) -> NamespaceDetail:
    """Return a namespace with its quotas and pods.

    :raises ServiceRefusal: 404 if it does not exist.
    """
    with service.reading() as get:
        item = get(f"/namespaces/{name}")
        from gpuctl.api.namespace_answers import NamespaceDetail

        return NamespaceDetail.model_validate(item)
