"""Objects with hidden names of what a caller may not see: they count, but are not identified."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.hidden_names import HiddenName
from gpuctl_server.mirror.visibility import Visibility, namespace_of

_IDENTIFYING = (
    *("app", "app.kubernetes.io/name", "job-name", "batch.kubernetes.io/job-name", "kubernetes.io/metadata.name"),
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
)
"""Labels whose values contain the name of an object or of its owner."""
_HOST = "kubernetes.io/hostname"


class ObjectRedactor:
    """Hides the names of objects that a caller may not see.

    An object keeps its hidden name (:class:`~gpuctl.objects.hidden_names.HiddenName`) for the lifetime of the redactor.

    :param hidden_nodes: the nodes whose pools the caller may not see.
    """

    def __init__(self, visibility: Visibility, hidden_nodes: Collection[str] = ()) -> None:
        self._visibility = visibility
        self._hidden_nodes = hidden_nodes
        self._names: dict[str, HiddenName] = {}

    def redacted(self, obj: Object) -> Object:
        """Return an object as the caller may see it."""
        if self._visibility.sees(obj):
            return self._with_redacted_node(obj) if self._hidden_nodes else obj
        metadata = obj["metadata"]
        # In a namespace that the caller may see, the object counts for the quotas of the namespace.
        is_elsewhere = not self._visibility.sees_namespace(namespace_of(obj))
        redacted: dict[str, Any] = {**metadata, "name": self._hidden(metadata["name"])}
        if "namespace" in metadata and is_elsewhere:
            redacted["namespace"] = self._hidden(metadata["namespace"])
        redacted["labels"] = {key: self._label(key, value) for key, value in labels_of(obj).items()}
        if metadata.get("ownerReferences"):
            redacted["ownerReferences"] = [
                {**owner, "name": self._hidden(owner.get("name") or "")} for owner in metadata["ownerReferences"]
            ]
        shown = {**obj, "metadata": redacted}
        spec = obj.get("spec")
        if isinstance(spec, dict):
            shown["spec"] = self._redacted_spec(spec, renames_queue=is_elsewhere)
        return shown

    def _redacted_spec(self, spec: Object, *, renames_queue: bool) -> Object:
        changes: dict[str, Any] = {}
        if spec.get("queueName") and renames_queue:
            # The LocalQueue of that namespace is renamed as well.
            changes["queueName"] = self._hidden(spec["queueName"])
        if isinstance(spec.get("podSets"), list):
            # Kueue's Workload has the labels of the job's pods, with the job's name.
            changes["podSets"] = [self._redacted_pod_set(item) for item in spec["podSets"]]
        if self._hidden_nodes:
            if spec.get("nodeName") in self._hidden_nodes:
                changes["nodeName"] = self._hidden(spec["nodeName"])
            for field in ("nodeSelector", "affinity"):
                if spec.get(field):
                    changes[field] = self._redacted_placement(spec[field])
        return {**spec, **changes} if changes else spec

    def _redacted_pod_set(self, pod_set: Object) -> Object:
        template = pod_set.get("template") or {}
        labels = {key: self._label(key, value) for key, value in labels_of(template).items()}
        metadata = {**(template.get("metadata") or {}), "labels": labels}
        return {**pod_set, "template": {**template, "metadata": metadata}}

    def _with_redacted_node(self, obj: Object) -> Object:
        """Return a visible object with the name of its node hidden, if the caller may not see the node."""
        spec = obj.get("spec")
        if not isinstance(spec, dict) or spec.get("nodeName") not in self._hidden_nodes:
            return obj
        return {**obj, "spec": {**spec, "nodeName": self._hidden(spec["nodeName"])}}

    def _redacted_placement(self, value: Any) -> Any:
        """Return a node selector or affinity with hidden names of nodes and pools."""
        if isinstance(value, list):
            return [self._redacted_placement(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "operator" in value and isinstance(value.get("values"), list):
            key = value.get("key")
            return {**value, "values": [self._label(str(key), item) for item in value["values"]]}
        return {
            key: self._label(key, item) if isinstance(item, str) else self._redacted_placement(item)
            for key, item in value.items()
        }

    def _label(self, key: str, value: str) -> str:
        """Return the value of a label, hidden if it names an object that the caller may not see."""
        is_hidden_pool = (
            key == self._visibility.pool_label and value != DEFAULT_POOL and not self._visibility.sees_pool(value)
        )
        is_hidden_node = key in (_HOST, "metadata.name") and value in self._hidden_nodes
        return self._hidden(value) if key in _IDENTIFYING or is_hidden_pool or is_hidden_node else value

    def _hidden(self, name: str) -> HiddenName:
        return self._names.setdefault(name, HiddenName(len(self._names) + 1))
