"""Node changes through a service: labels and pool members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gpuctl.api.node_label_answers import BatchReport
from gpuctl.usecases.service.service_client import ServiceClient


def label_by_service(
    service: ServiceClient, nodes: Sequence[str], labels: Mapping[str, str | None], *, overwrite: bool
) -> BatchReport:
    """Set labels of nodes, or delete them (None)."""
    body = {"nodeNames": list(nodes), "labels": dict(labels), "overwrite": overwrite}
    return _change(service, "/nodes/labels/changes", body)


def add_by_service(service: ServiceClient, nodes: Sequence[str], pool: str, *, overwrite: bool) -> BatchReport:
    """Add nodes to a pool.

    :raises ClusterError: the pool does not exist, or the user may not change it.
    """
    body = {"nodeNames": list(nodes), "overwrite": overwrite}
    return _change(service, f"/pools/{quote(pool, safe='')}/nodes/add", body)


def remove_by_service(service: ServiceClient, nodes: Sequence[str], pool: str) -> BatchReport:
    """Remove nodes from a pool.

    :raises ClusterError: the user may not change the pool.
    """
    return _change(service, f"/pools/{quote(pool, safe='')}/nodes/remove", {"nodeNames": list(nodes)})


def _change(service: ServiceClient, path: str, body: Mapping[str, Any]) -> BatchReport:
    with service.reading():
        return BatchReport.model_validate(service.request("POST", path, body))
