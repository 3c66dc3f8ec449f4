"""The labels of namespaces, as far as they are known: what selectors of Kueue decide by."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.capacity.kueue_configuration import NAME_LABEL
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.selectors import Labels


class NamespaceLabels:
    """Those of a snapshot, with what the objects that come set."""

    def __init__(self, snapshot: Snapshot, objects: Iterable[Object]) -> None:
        self._labels: dict[str, Labels] = {item["name"]: item.get("labels") or {} for item in snapshot.namespaces}
        self._are_known = not snapshot.lacks("namespaces")
        for obj in objects:
            if obj["kind"] == "Namespace":
                name = obj["metadata"]["name"]
                self._labels[name] = {**self._labels.get(name, {}), **labels_of(obj)}

    def of(self, name: str) -> Labels:
        """What is known of a namespace's labels; each has its name."""
        return {NAME_LABEL: name, **self._labels.get(name, {})}

    def decide(self, selector: Object | None, name: str) -> bool:
        """Whether what is known of a namespace's labels decides whether a selector matches."""
        if self._are_known:
            return True
        expressions = (selector or {}).get("matchExpressions") or ()
        asked = {*((selector or {}).get("matchLabels") or ()), *(item["key"] for item in expressions)}
        return asked <= self.of(name).keys()
