"""Names of a service's jobs, pools, nodes, quotas and namespaces, as a shell completes them."""

from __future__ import annotations

from gpuctl.usecases.service_client import ServiceClient

_PAGE = 100
_MOST = 20
"""Pages that are read: a shell does not wait for more."""
_PATHS = {"job": "/jobs", "pool": "/pools", "node": "/nodes", "quota": "/quotas", "namespace": "/namespaces"}


def names_of_service(service: ServiceClient, kind: str, namespace: str | None) -> list[str]:
    """Return the names that may be seen.

    :param kind: ``job``, ``pool``, ``node``, ``quota`` or ``namespace``.
    :param namespace: where jobs are looked for; None for all.
    """
    found: list[str] = []
    with service.reading() as get:
        for page in range(1, _MOST + 1):
            query = {"namespace": namespace or "", "page": str(page), "pageSize": str(_PAGE)}
            everything = {"all": "true"} if kind == "namespace" else {}
            value = get(_PATHS[kind], **(query if kind in ("job", "node") else everything))
            found += [str(item["nodeName" if kind == "node" else "name"]) for item in value["items"]]
            if len(found) >= value["total"]:
                break
    return found
