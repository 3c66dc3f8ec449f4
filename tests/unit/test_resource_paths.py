"""API server paths of the objects of each kind. Source: Kubernetes API concepts, "Resource URIs"."""

from __future__ import annotations

import pytest

from gpuctl.objects.api_resources import RESOURCES


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "path"),
    [
        ("Pod", None, None, "/api/v1/pods"),
        ("Pod", "team", None, "/api/v1/namespaces/team/pods"),
        ("Pod", "team", "a", "/api/v1/namespaces/team/pods/a"),
        ("Event", "team", None, "/api/v1/namespaces/team/events"),
        ("Node", None, "n1", "/api/v1/nodes/n1"),
        ("Node", "team", "n1", "/api/v1/nodes/n1"),
        ("Deployment", "team", "a", "/apis/apps/v1/namespaces/team/deployments/a"),
        ("JobSet", "team", None, "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"),
        ("Secret", "a/b", "../c", "/api/v1/namespaces/a%2Fb/secrets/..%2Fc"),
    ],
)
def test_resource_path(kind: str, namespace: str | None, name: str | None, path: str) -> None:
    assert RESOURCES[kind].path(namespace, name) == path
