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
