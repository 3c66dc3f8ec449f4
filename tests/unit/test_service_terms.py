"""Services that tokens with limits may create."""

from __future__ import annotations

import pytest

from gpuctl.objects.api_resources import Object
from gpuctl_server.access.creation_limits import ServiceTerms


def service(kind: str | None, **port: int) -> Object:
    spec = {"ports": [{"port": 80, **port}], **({} if kind is None else {"type": kind})}
    return {"kind": "Service", "metadata": {"name": "svc-a"}, "spec": spec}


@pytest.mark.parametrize(
    ("types", "fixed", "obj", "breaches"),
    [
        (("ClusterIP",), False, service(None), []),
        (("ClusterIP",), False, service("ClusterIP"), []),
        (("ClusterIP",), True, service("NodePort"), ["a Service of type NodePort"]),
        (("NodePort", "ClusterIP"), False, service("NodePort"), []),
        (("NodePort", "ClusterIP"), False, service("NodePort", nodePort=30080), ["the node port 30080"]),
        (("NodePort", "ClusterIP"), True, service("NodePort", nodePort=30080), []),
        (
            ("ClusterIP",),
            False,
            service("LoadBalancer", nodePort=30080),
            ["a Service of type LoadBalancer", "the node port 30080"],
        ),
        (("ClusterIP",), False, {"kind": "Job", "spec": {"type": "LoadBalancer"}}, []),
    ],
)
def test_breaches_of_service_types_and_node_ports(
    types: tuple[str, ...], fixed: bool, obj: Object, breaches: list[str]
) -> None:
    assert ServiceTerms(types, fixed).breaches([obj, obj]) == breaches
