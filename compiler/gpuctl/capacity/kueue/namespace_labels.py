"""The labels of namespaces, where they are known, for Kueue's namespace selectors."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.capacity.kueue.kueue_configuration import NAME_LABEL
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.selectors import Labels


class NamespaceLabels:
    """The labels of a snapshot's namespaces, overlaid with those of new objects."""

    def __init__(self, snapshot: Snapshot, objects: Iterable[Object]) -> None:
        self._labels: dict[str, Labels] = {item["name"]: item.get("labels") or {} for item in snapshot.namespaces}
        self._are_known = not snapshot.lacks("namespaces")
        for obj in objects:
            if obj["kind"] == "Namespace":
                name = obj["metadata"]["name"]
                self._labels[name] = {**self._labels.get(name, {}), **labels_of(obj)}

    def of(self, name: str) -> Labels:
        """Return the known labels of a namespace; the name label is always known."""
        return {NAME_LABEL: name, **self._labels.get(name, {})}

    def suffice_for(self, selector: Object | None, name: str) -> bool:
        """Return True if the known labels of a namespace suffice to evaluate a selector."""
        if self._are_known:
            return True
        expressions = (selector or {}).get("matchExpressions") or ()
        asked = {*((selector or {}).get("matchLabels") or ()), *(item["key"] for item in expressions)}
        return asked <= self.of(name).keys()
