"""Names of a service's jobs, pools, nodes, quotas, queues and namespaces."""

from __future__ import annotations

from itertools import chain, islice

from gpuctl.usecases.service.service_client import ServiceClient, pages

_MOST = 20
"""Maximum number of pages: a shell does not wait for more."""
_PATHS = {
    "job": "/jobs",
    "pool": "/pools",
    "node": "/nodes",
    "quota": "/quotas",
    "queue": "/queues",
    "namespace": "/namespaces",
}


def names_of_service(service: ServiceClient, kind: str, namespace: str | None) -> list[str]:
    """Return the visible names; of pools, ``default`` last.

    :param kind: ``job``, ``pool``, ``node``, ``quota``, ``queue`` or ``namespace``.
    :param namespace: namespace of jobs; None for all.
    """
    path, field = _PATHS[kind], "nodeName" if kind == "node" else "name"
    with service.reading() as get:
        if kind in ("job", "node"):
            found = list(chain.from_iterable(islice(pages(get, path, namespace=namespace or ""), _MOST)))
        else:
            found = get(path, all="true" if kind == "namespace" else "")["items"]
        return [str(item[field]) for item in found]
