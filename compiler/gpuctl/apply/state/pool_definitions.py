"""The objects that say which pools there are."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.companion_names import DATA_KEY
from gpuctl.objects.ownership_metadata import Records


def pool_of(obj: Object, keys: Records) -> str | None:
    """The pool whose definition an object is; None for every other object."""
    is_definition = obj["kind"] == "ConfigMap" and DATA_KEY in (obj.get("data") or {})
    return labels_of(obj).get(keys.pool) if is_definition else None
