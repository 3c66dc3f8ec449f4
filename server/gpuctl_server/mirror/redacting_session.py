"""Sessions before the cluster itself, in which what a caller may not see counts, but has no name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from gpuctl.kube.connection import Connection
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import Key, Object, Resource, labels_of
from gpuctl.objects.hidden import Hidden
from gpuctl_server.mirror.shared_lists import SurveyedSession
from gpuctl_server.mirror.visibility import Sight, namespace_of

_TELLING = (
    *("app", "app.kubernetes.io/name", "job-name", "batch.kubernetes.io/job-name", "kubernetes.io/metadata.name"),
    "jobset.sigs.k8s.io/jobset-name",
)
"""Labels that say what an object is called, or what it belongs to."""
_HOST = "kubernetes.io/hostname"


class VeiledSession(SurveyedSession):
    """Asks the API server, as :class:`Session`; objects that the caller may not see have hidden names.

    Whether a pod finds room depends on all pods and nodes; their names are only for those who may see them. An object
    has the same hidden name (:class:`~gpuctl.objects.hidden.Hidden`) for as long as the session lasts.

    :param hidden_nodes: the nodes whose pools the caller may not see.
    """

    def __init__(
        self,
        connection: Connection,
        sight: Sight,
        hidden_nodes: Collection[str] = (),
        *,
        alone: bool = False,
        dry_run: bool = False,
    ) -> None:
        super().__init__(connection, alone=alone, dry_run=dry_run)
        self._sight = sight
        self._hidden_nodes = hidden_nodes
        self._names: dict[str, Hidden] = {}

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        on_version: Callable[[str], None] = lambda version: None,
        on_restart: Callable[[], None] | None = None,
    ) -> Iterator[list[Object]]:
        """As :meth:`Session.pages`."""
        found = super().pages(
            resource, namespace, labels=labels, fields=fields, on_version=on_version, on_restart=on_restart
        )
        for page in found:
            yield [self._veiled(obj) for obj in page]

    def list_metadata(self, resource: Resource, namespace: str | None = None, *, labels: str = "") -> list[Object]:
        """As :meth:`Session.list_metadata`."""
        found = super().list_metadata(resource, namespace, labels=labels)
        return [{**self._veiled({**obj, "kind": resource.kind}), "kind": obj.get("kind")} for obj in found]

    def get(self, key: Key) -> Object | None:
        """As :meth:`Session.get`."""
        found = super().get(key)
        return None if found is None else self._veiled(found)

    def _veiled(self, obj: Object) -> Object:
        if self._sight.sees(obj):
            return self._on_veiled_node(obj) if self._hidden_nodes else obj
        metadata = obj["metadata"]
        # In a namespace that may be seen the object counts for what belongs to the namespace, such as quotas.
        is_elsewhere = not self._sight.sees_namespace(namespace_of(obj))
        veiled: dict[str, Any] = {**metadata, "name": self._other(metadata["name"])}
        if "namespace" in metadata and is_elsewhere:
            veiled["namespace"] = self._other(metadata["namespace"])
        veiled["labels"] = {key: self._label(key, value) for key, value in labels_of(obj).items()}
        if metadata.get("ownerReferences"):
            veiled["ownerReferences"] = [
                {**owner, "name": self._other(owner.get("name") or "")} for owner in metadata["ownerReferences"]
            ]
        shown = {**obj, "metadata": veiled}
        spec = obj.get("spec")
        if isinstance(spec, dict):
            shown["spec"] = self._veiled_spec(spec, renames_queue=is_elsewhere)
        return shown

    def _veiled_spec(self, spec: Object, *, renames_queue: bool) -> Object:
        changes: dict[str, Any] = {}
        if spec.get("queueName") and renames_queue:
            # Kueue's LocalQueue of the same namespace, which has another name here, too.
            changes["queueName"] = self._other(spec["queueName"])
        if isinstance(spec.get("podSets"), list):
            # Kueue's Workload has the labels of the job's pods, with its name.
            changes["podSets"] = [self._veiled_pod_set(item) for item in spec["podSets"]]
        if self._hidden_nodes:
            if spec.get("nodeName") in self._hidden_nodes:
                changes["nodeName"] = self._other(spec["nodeName"])
            for field in ("nodeSelector", "affinity"):
                if spec.get(field):
                    changes[field] = self._places(spec[field])
        return {**spec, **changes} if changes else spec

    def _veiled_pod_set(self, pod_set: Object) -> Object:
        template = pod_set.get("template") or {}
        labels = {key: self._label(key, value) for key, value in labels_of(template).items()}
        metadata = {**(template.get("metadata") or {}), "labels": labels}
        return {**pod_set, "template": {**template, "metadata": metadata}}

    def _on_veiled_node(self, obj: Object) -> Object:
        """An object that may be seen, on a node that may not."""
        spec = obj.get("spec")
        if not isinstance(spec, dict) or spec.get("nodeName") not in self._hidden_nodes:
            return obj
        return {**obj, "spec": {**spec, "nodeName": self._other(spec["nodeName"])}}

    def _places(self, value: Any) -> Any:
        """A node selector or affinity of a hidden pod, with the names that nodes and pools have here."""
        if isinstance(value, list):
            return [self._places(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "operator" in value and isinstance(value.get("values"), list):
            key = value.get("key")
            return {**value, "values": [self._label(str(key), item) for item in value["values"]]}
        return {
            key: self._label(key, item) if isinstance(item, str) else self._places(item) for key, item in value.items()
        }

    def _label(self, key: str, value: str) -> str:
        """The value of a label as it is here."""
        is_hidden_pool = key == self._sight.pool_label and value != DEFAULT_POOL and not self._sight.sees_pool(value)
        is_hidden_node = key in (_HOST, "metadata.name") and value in self._hidden_nodes
        return self._other(value) if key in _TELLING or is_hidden_pool or is_hidden_node else value

    def _other(self, name: str) -> Hidden:
        return self._names.setdefault(name, Hidden(len(self._names) + 1))


class NarrowedSession(VeiledSession):
    """As :class:`VeiledSession`, for changes: read by name, an object that the caller may not see is not there."""

    def get(self, key: Key) -> Object | None:
        """As :meth:`Session.get`."""
        found = SurveyedSession.get(self, key)
        return self._veiled(found) if found is not None and self._sight.sees(found) else None
