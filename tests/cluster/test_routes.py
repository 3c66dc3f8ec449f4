"""Routes, disruption budgets and drains of services on the real control plane."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_tools import Place, inference

ROUTE = {"host": "serve.example.com", "path": "/v1"}
SERVICE: dict[str, Any] = {"replicas": 1, "drain": "1s", "route": ROUTE, "disruption": {"maxUnavailable": 1}}
KINDS = ("PodDisruptionBudget", "HTTPRoute", "Ingress")
GATEWAY = "routes: {gateway: infra/public, tls: true}"


def _companions(place: Place) -> set[str]:
    return {kind for kind in KINDS if place.exists(kind, "serve")}


def test_service_is_applied_changed_and_deleted_with_its_route(place: Place) -> None:
    place.platform(GATEWAY)
    document = inference(service=SERVICE)
    place.apply(document, flags=("--wait",))
    assert _companions(place) == {"PodDisruptionBudget", "HTTPRoute"}
    assert place.apply(document).out.count("unchanged") == 4
    place.gpuctl("drift", "-f", place.file(document))
    assert "https://serve.example.com/v1" in place.gpuctl("describe", "job", "serve").out
    budget = place.get("PodDisruptionBudget", "serve")
    place.until(lambda: place.get("PodDisruptionBudget", "serve").get("status", {}).get("expectedPods") == 1, "a pod")
    assert budget["spec"]["maxUnavailable"] == 1

    uid = place.uid("Deployment", "serve")
    moved = inference(service={**SERVICE, "route": {**ROUTE, "host": "new.example.com"}})
    place.apply(moved)
    assert place.get("HTTPRoute", "serve")["spec"]["hostnames"] == ["new.example.com"]
    assert place.uid("Deployment", "serve") == uid, "another host restarts no pod"
    place.patch("HTTPRoute", "serve", {"spec": {"hostnames": ["other.example.com"]}})
    assert "other.example.com" in place.gpuctl("drift", "-f", place.file(moved)).out

    place.apply(inference(service={"replicas": 1, "drain": "1s"}), flags=("--yes",))
    assert _companions(place) == set()
    place.apply(moved, flags=("--yes",))
    place.gpuctl("delete", "job", "serve", "--yes")
    assert _companions(place) == set()


def test_route_follows_the_platform_without_a_restart(place: Place) -> None:
    """The document is the same, so that nothing else changes. The address in `describe` is the new one."""
    place.platform(GATEWAY)
    document = inference(service=SERVICE)
    place.apply(document, flags=("--wait",))
    uid, pods = place.uid("Deployment", "serve"), place.pods("serve")
    place.platform("routes: {ingress: nginx}")
    assert place.plan(document).actions == {
        "Deployment/serve": "update",
        "HTTPRoute/serve": "delete",
        "Ingress/serve": "create",
        "PodDisruptionBudget/serve": "unchanged",
        "Service/svc-serve": "unchanged",
    }
    place.apply(document, flags=("--yes",))
    assert _companions(place) == {"PodDisruptionBudget", "Ingress"}
    assert (place.uid("Deployment", "serve"), place.pods("serve")) == (uid, pods)
    described = place.gpuctl("describe", "job", "serve").out
    assert "http://serve.example.com/v1" in described
    assert place.apply(document).out.count("unchanged") == 4
    place.platform("routes: {ingress: other}")
    place.apply(document)
    assert place.get("Ingress", "serve")["spec"]["ingressClassName"] == "other"
    assert place.apply(document).out.count("unchanged") == 4


@pytest.mark.slow
def test_ingress_takes_the_place_of_the_route(place: Place) -> None:
    place.platform(GATEWAY)
    document = inference(service=SERVICE)
    place.apply(document)
    place.platform("routes: {ingress: nginx}")
    place.apply(document, flags=("--yes", "--relower"))
    assert _companions(place) == {"PodDisruptionBudget", "Ingress"}
    assert place.apply(document).out.count("unchanged") == 4
    place.gpuctl("delete", "-f", place.file(document), "--yes")
    assert _companions(place) == set()
