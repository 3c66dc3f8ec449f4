"""Requests list all pods no more often than they need: a batch as often as a single job."""

from __future__ import annotations

from pathlib import Path

import pytest

from fault_tools.proxy import Proxy
from properties.scale import part_of
from support.cluster_tools import Place, training
from support.served import Served, serving

ENTRIES = 12


def documents(place: Place, name: str, count: int) -> list[str]:
    return [
        f"kind: training\nversion: v0.1\njob: {{name: {name}-{number}, namespace: {place.namespace}}}\n"
        "environment: {image: 'registry.example.com/train:v1', command: [train]}\n"
        "resources: {cpu: 1, memory: 1Gi}\n"
        for number in range(count)
    ]


def count_lists(proxy: Proxy, own: Served, path: str, texts: list[str]) -> dict[str, int]:
    """Count the requests of a batch that list all pods, and those that list all nodes."""
    proxy.reset()
    found = own.call("POST", path, status=200 if "dryRun" in path else 201, json={"yamlContents": texts})
    assert found["failed"] == []
    asked = [item.request for item in list(proxy.records) if not item.request.is_watch]
    return {kind: sum(request.path == f"/api/v1/{kind}" for request in asked) for kind in ("pods", "nodes")}


@pytest.mark.parametrize("path", part_of(["/jobs/batch?dryRun=true", "/jobs/batch"], 2))
def test_a_batch_lists_all_pods_as_often_as_one_entry(proxy: Proxy, place: Place, tmp_path: Path, path: str) -> None:
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "proxied"), {"admin": ("admin", None, None)}) as own:
        name = "dry" if "dryRun" in path else "made"
        one = count_lists(proxy, own, path, documents(place, f"{name}-one", 1))
        many = count_lists(proxy, own, path, documents(place, f"{name}-many", ENTRIES))
        assert one == many
        assert all(count == 1 for count in many.values())


def test_question_that_permits_older_lists_reads_none(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    """The pages ask why a job waits, and whether a document fits while it is written: each time all pods count."""
    place.apply(training("stuck", resources={"gpu": 900}), flags=("--no-probe",))
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "proxied"), {"admin": ("admin", None, None)}) as own:
        own.until("/jobs/stuck/why", lambda value: value["cause"] == "gpu-shortage", namespace=place.namespace)

        def lists(method: str, path: str, **query: float) -> int:
            proxy.reset()
            body = {"yamlContent": documents(place, "new", 1)[0]} if method == "POST" else None
            own.call(method, path, json=body, params={"namespace": place.namespace, **query})
            asked = [item.request for item in list(proxy.records) if not item.request.is_watch]
            return sum(request.path == "/api/v1/pods" for request in asked)

        for method, path in (("GET", "/jobs/stuck/details"), ("POST", "/fit")):
            assert lists(method, path) == 1
            # The scheduler's lists have a field selector, as that of the request before.
            assert lists(method, path, maxAge=60) == 0
