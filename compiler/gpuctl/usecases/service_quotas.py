"""Quotas and namespaces from the REST API. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from gpuctl.reading.namespace_rows import Namespace, NamespaceRow
from gpuctl.reading.quota_rows import QuotaState, ResourceLimit
from gpuctl.usecases.service_client import ServiceClient
from gpuctl.usecases.service_nodes import holders

Item = Mapping[str, Any]


def quotas_of_service(service: ServiceClient, namespace: str | None) -> list[QuotaState]:
    """Return the visible quotas of one namespace, or (None) of all."""
    with service.reading() as get:
        items = get("/quotas")["items"]
        return [_quota(item) for item in items if namespace in (None, item["namespace"])]


def namespaces_of_service(service: ServiceClient, *, everything: bool) -> list[NamespaceRow]:
    """Return the namespaces with jobs or quotas, or with ``everything`` all visible ones."""
    with service.reading() as get:
        items = get("/namespaces", all="true" if everything else "")["items"]
        return [
            NamespaceRow(
                item["name"],
                item.get("status"),
                item.get("createdAt"),
                int(item["jobs"]),
                int(item["pods"]),
                int(item["gpuUsed"]),
                tuple(item.get("quotas") or ()),
            )
            for item in items
        ]


def namespace_of_service(service: ServiceClient, name: str) -> Namespace:
    """Return a namespace with its quotas and pods.

    :raises ServiceRefusal: 404 if it does not exist.
    """
    with service.reading() as get:
        item = get(f"/namespaces/{name}")
        quotas = item.get("quotas") or ()
        return Namespace(
            item["name"],
            item.get("status"),
            item.get("createdAt"),
            item.get("labels"),
            any(quota.get("isManaged", True) for quota in quotas),
            int(item["jobs"]),
            int(item["allJobs"]),
            tuple(map(_quota, quotas)),
            holders((*(item.get("runningJobs") or ()), *(item.get("waitingJobs") or ()))) or (),
        )


def _quota(item: Item) -> QuotaState:
    return QuotaState(
        item["name"],
        item["namespace"],
        item["name"],
        item.get("description"),
        item.get("createdAt"),
        tuple(map(_limit, item.get("resources") or ())),
        item.get("defaultRequest") or {},
        item.get("isManaged", True),
    )


def _limit(item: Item) -> ResourceLimit:
    used = item.get("used")
    return ResourceLimit(
        item["resource"],
        item["name"],
        item.get("vendor"),
        Fraction(str(item["total"])),
        None if used is None else Fraction(str(used)),
        item.get("gpuType"),
    )
