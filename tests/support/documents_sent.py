"""Documents as clients send them."""

from __future__ import annotations

from typing import Any

import yaml

YAML = {"Content-Type": "application/yaml"}


def text_of(*documents: dict[str, Any], namespace: str | None = None) -> str:
    """Documents as one text; jobs go to ``namespace`` if one is given."""
    placed = [
        {**item, "job": {**item["job"], "namespace": namespace}} if namespace and "job" in item else item
        for item in documents
    ]
    return "---\n".join(yaml.safe_dump(item, sort_keys=False) for item in placed)


def sent(*documents: dict[str, Any], namespace: str | None = None, **others: Any) -> dict[str, Any]:
    """The body that the API's documentation shows."""
    return {"yamlContent": text_of(*documents, namespace=namespace), **others}
