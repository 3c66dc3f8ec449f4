"""The field managers of an object's labels, as recorded in its ``managedFields``."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object

POOLS_MANAGER = "gpuctl-pools"
"""The manager that sets the labels of pools on nodes."""


def label_entries(obj: Object, label: str) -> list[Object]:
    """Return the entries of the managers that have set a label."""
    return [
        entry
        for entry in obj["metadata"].get("managedFields") or []
        if f"f:{label}" in ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels", {})
    ]


def label_managers(obj: Object, label: str) -> list[str]:
    """Return the managers that have set a label."""
    return [str(entry.get("manager")) for entry in label_entries(obj, label)]
