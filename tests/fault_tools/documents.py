"""The documents that the tests of failures apply: a training, a model server with its autoscaler, a notebook."""

from __future__ import annotations

import json
from typing import Any

HEAD = {"version": "v0.1"}
RESOURCES = {"pool": "default", "gpu": 1, "cpu": 4, "memory": "16Gi"}


def training(image: str = "v1", name: str = "train") -> dict[str, Any]:
    """A training: a Job."""
    return {
        "kind": "training",
        **HEAD,
        "job": {"name": name, "priority": "medium"},
        "environment": {"image": f"registry.example.com/train:{image}", "command": ["python", "train.py"]},
        "resources": RESOURCES,
    }


def inference(image: str = "v1", port: int = 8000, most: int | None = 4) -> dict[str, Any]:
    """Return a model server: a Deployment, a Service and, unless ``most`` is None, an autoscaler for up to ``most``
    replicas.
    """
    document: dict[str, Any] = {
        "kind": "inference",
        **HEAD,
        "job": {"name": "serve", "priority": "medium"},
        "environment": {"image": f"registry.example.com/serve:{image}", "command": ["serve"]},
        "service": {"replicas": 1, "port": port},
        "resources": RESOURCES,
    }
    if most is not None:
        document["autoscaling"] = {"enabled": True, "minReplicas": 1, "maxReplicas": most}
    return document


def notebook() -> dict[str, Any]:
    """A notebook: a StatefulSet and a Service."""
    return {
        "kind": "notebook",
        **HEAD,
        "job": {"name": "note", "priority": "medium"},
        "environment": {"image": "registry.example.com/note:v1", "command": ["jupyter", "lab", "--ip=0.0.0.0"]},
        "service": {"port": 8888},
        "resources": RESOURCES,
    }


def text(*documents: dict[str, Any]) -> str:
    """Documents as the text of a file: JSON is YAML."""
    return "\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n"


OLD = text(training(), inference(), notebook())
"""The documents that run when the failure happens."""
NEW = text(training("v2"), inference("v2", port=9000, most=6), notebook())
"""The documents that are applied: they replace two jobs, and the autoscaler of one."""


def platform(**settings: Any) -> dict[str, Any]:
    """The settings of a platform."""
    return {"kind": "platform", **HEAD, **settings}


def _served(version: str, query: str) -> list[dict[str, Any]]:
    """Return a scheduled training, and model servers on one node and on two, with everything that services can have."""
    nightly = {**training(version, "nightly"), "schedule": "0 2 * * *"}
    scaled = inference(version)
    scaled["service"] |= {"route": {"host": f"{version}.example.com"}, "disruption": {"maxUnavailable": 1}}
    scaled["autoscaling"] = {
        "enabled": True,
        "minReplicas": 1,
        "maxReplicas": 4,
        "metric": {"query": query, "target": 5},
    }
    grouped = inference(version, most=None)
    grouped["job"] = {**grouped["job"], "name": "chat"}
    grouped["resources"] = {**RESOURCES, "nodes": 2}
    return [nightly, scaled, grouped]


_SETTINGS = {
    "prometheus": "http://prometheus:9090",
    "autoscaling": {"keda": True},
    "inference": {"backend": "lws"},
}
OLD_SERVICES = text(platform(routes={"gateway": "infra/public"}, **_SETTINGS), *_served("v1", "sum(a)"))
"""A CronJob, a LeaderWorkerSet, and a Deployment with a route, a budget and a ScaledObject."""
NEW_SERVICES = text(platform(routes={"ingress": "nginx"}, **_SETTINGS), *_served("v2", "sum(b)"))
"""The same with another image and query, and an Ingress in place of the HTTPRoute."""
