"""A session before the cluster itself, in which what somebody may not see counts, but has no name."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

from gpuctl.backend.api_resources import Key, Object, Resource, labels_of
from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl_server.mirror.mirrored_session import Sees, namespace_of

_TELLING = (
    *("app", "app.kubernetes.io/name", "job-name", "batch.kubernetes.io/job-name", "kubernetes.io/metadata.name"),
    "jobset.sigs.k8s.io/jobset-name",
)
"""Labels that say what an object is called, or what it belongs to."""
HIDDEN = r"\(hidden [0-9a-f]{16} \d+\)"
"""What such a name looks like; answers tell all of them together (:mod:`gpuctl_server.others`)."""


class VeiledSession(Session):
    """Asks the API server, as :class:`Session`; objects of namespaces that ``sees`` does not let see are renamed.

    Whether a pod finds room depends on the pods of everybody; whose they are is nobody else's business. An object has
    the same other name for as long as the session lasts, and none that an object could have.
    """

    def __init__(self, connection: Connection, sees: Sees, *, alone: bool = False) -> None:
        super().__init__(connection, alone=alone)
        self._sees = sees
        self._names: dict[str, str] = {}
        # What jobs print or documents say is never taken for such a name.
        self._mark = secrets.token_hex(8)

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

    def get(self, key: Key) -> Object | None:
        """As :meth:`Session.get`."""
        found = super().get(key)
        return None if found is None else self._veiled(found)

    def _veiled(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        namespace = namespace_of(obj)
        if not namespace or self._sees(namespace):
            return obj
        veiled: dict[str, Any] = {**metadata, "name": self._other(metadata["name"])}
        if "namespace" in metadata:
            veiled["namespace"] = self._other(namespace)
        labels = labels_of(obj)
        veiled["labels"] = {key: self._other(value) if key in _TELLING else value for key, value in labels.items()}
        if metadata.get("ownerReferences"):
            veiled["ownerReferences"] = [
                {**owner, "name": self._other(owner.get("name") or "")} for owner in metadata["ownerReferences"]
            ]
        spec = obj.get("spec") or {}
        if isinstance(spec, dict) and spec.get("queueName"):
            # Kueue's LocalQueue of the same namespace, which has another name here, too.
            return {**obj, "metadata": veiled, "spec": {**spec, "queueName": self._other(spec["queueName"])}}
        return {**obj, "metadata": veiled}

    def _other(self, name: str) -> str:
        return self._names.setdefault(name, f"(hidden {self._mark} {len(self._names) + 1})")
