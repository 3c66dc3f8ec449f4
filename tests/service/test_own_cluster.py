"""The name of the service's own cluster in the platform document, and documents with a `placement`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from properties.scale import part_of
from support.cluster_tools import Place, image, training
from support.documents_sent import sent
from support.served import Served, serving

OTHER = "00000000-0000-4000-8000-000000000000"
USERS = {"admin": ("admin", None, None)}
Serve = Callable[..., Served]


@pytest.fixture
def uid(place: Place) -> str:
    return str(place.api.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"])


@pytest.fixture
def serve(plane: ControlPlane, tmp_path: Path) -> Iterator[Serve]:
    """Return a function that starts a service whose platform names clusters."""
    with ExitStack() as stack:

        def start(clusters: dict[str, dict[str, str]], **settings: str) -> Served:
            path = tmp_path / "platform-of-service.yaml"
            path.write_text(json.dumps({"kind": "platform", "version": "v0.1", "clusters": clusters}))
            return stack.enter_context(serving(tmp_path, plane.kubeconfig(), USERS, platform=str(path), **settings))

        yield start


def placed(name: str, *clusters: str, **changes: Any) -> dict[str, Any]:
    return {**training(name, **changes), "placement": {"clusters": list(clusters)}}


def test_documents_placed_on_this_cluster_are_applied(place: Place, uid: str, serve: Serve) -> None:
    served = serve({"prod": {"uid": uid}, "staging": {"uid": OTHER}})
    here = {"namespace": place.namespace}
    made = served.call("POST", "/jobs", status=201, json=sent(placed("a", "staging", "prod"), **here))
    refused = served.call("POST", "/jobs", status=400, json=sent(training("b"), placed("c", "staging"), **here))
    assert refused["error"] == "AnotherCluster"
    assert refused["message"] == (
        "this is the service of the cluster prod; these belong to others: training/c (staging)"
    )
    [detail] = refused["details"]
    assert (detail["document"], detail["clusters"], detail["path"]) == ("training/c", ["staging"], "placement")
    for path in ("/plan", "/fit"):
        assert (
            served.call("POST", path, status=400, json=sent(placed("c", "staging"), **here))["error"]
            == "AnotherCluster"
        )
        served.call("POST", path, json=sent(placed("c", "prod"), **here))
    refused = served.call("PUT", f"/jobs/{made['jobId']}", status=400, json=sent(placed("a", "staging"), **here))
    assert refused["error"] == "AnotherCluster"
    changed = sent(placed("a", "prod", environment=image("v2")), **here)
    served.call("PUT", f"/jobs/{made['jobId']}", json=changed, params={"confirm": "true"})
    # A rollback applies the earlier document, whose `placement` also named another cluster.
    back = served.call("POST", "/jobs/a/rollback", params={**here, "to": "1", "confirm": "true"})
    assert back["status"] == "replaced"
    refused = served.call("POST", "/jobs", status=400, json=sent(placed("c", "nowhere"), **here))
    assert refused["error"] == "InvalidDocuments"
    assert place.names() == {"Job/a"}


@pytest.mark.parametrize("names", part_of([(), ("staging",), ("one", "two")], 3))
def test_service_without_cluster_name_rejects_placements(
    place: Place, plane: ControlPlane, serve: Serve, names: tuple[str, ...]
) -> None:
    """No cluster of the platform document, or more than one, matches this cluster."""
    context = json.loads(plane.kubeconfig().read_text())["current-context"]
    served = serve({name: {"uid": OTHER} if name == "staging" else {"context": context} for name in names})
    name = names[0] if names else "prod"
    refused = served.call("POST", "/jobs", status=400, json=sent(placed("a", name), namespace=place.namespace))
    assert f"documents have a `placement` ({name}), but the name of this cluster is unknown" in refused["message"]
    served.call("POST", "/jobs", status=201, json=sent(training("a"), namespace=place.namespace))


def test_cluster_name_comes_from_the_server_or_the_setting(place: Place, plane: ControlPlane, serve: Serve) -> None:
    config = json.loads(plane.kubeconfig().read_text())
    server, context = config["clusters"][0]["cluster"]["server"], config["current-context"]
    served = serve({"prod": {"server": server}, "staging": {"server": "https://127.0.0.1:1"}})
    served.call("POST", "/plan", json=sent(placed("a", "prod"), namespace=place.namespace))
    both = {"one": {"context": context}, "two": {"context": context}}
    named = serve(both, cluster="two")
    named.call("POST", "/plan", json=sent(placed("a", "two"), namespace=place.namespace))
    refused = named.call("POST", "/plan", status=400, json=sent(placed("a", "one"), namespace=place.namespace))
    assert refused["error"] == "AnotherCluster"
    with pytest.raises(AssertionError, match="the platform has no cluster `three`; known are one, two"):
        serve(both, cluster="three")
