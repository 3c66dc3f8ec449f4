"""Sessions with the cluster in which objects that a caller may not see count, but have hidden names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from gpuctl.kube.api_requests import CONCURRENCY
from gpuctl.kube.connection import Connection
from gpuctl.objects.api_resources import Key, Object, Resource
from gpuctl_server.mirror.object_redaction import ObjectRedactor
from gpuctl_server.mirror.shared_lists import ListSharingSession
from gpuctl_server.mirror.visibility import Visibility


class RedactingSession(ListSharingSession):
    """Reads from the API server, and hides the names of objects that the caller may not see.

    Fit and preemption depend on all pods and nodes, but not every caller may see all names.

    :param hidden_nodes: the nodes whose pools the caller may not see.
    """

    def __init__(
        self,
        connection: Connection,
        visibility: Visibility,
        hidden_nodes: Collection[str] = (),
        *,
        threads: int = CONCURRENCY,
        alone: bool = False,
        dry_run: bool = False,
    ) -> None:
        super().__init__(connection, threads=threads, alone=alone, dry_run=dry_run)
        self._visibility = visibility
        self._redacted = ObjectRedactor(visibility, hidden_nodes).redacted

    def pages(self, *selection: Any, **options: Any) -> Iterator[list[Object]]:
        for page in super().pages(*selection, **options):
            yield list(map(self._redacted, page))

    def shows(self, obj: Object) -> bool:
        return self._visibility.sees(obj)

    def list_metadata(self, resource: Resource, namespace: str | None = None, *, labels: str = "") -> list[Object]:
        found = super().list_metadata(resource, namespace, labels=labels)
        return [{**self._redacted({**obj, "kind": resource.kind}), "kind": obj.get("kind")} for obj in found]

    def get(self, key: Key) -> Object | None:
        found = super().get(key)
        return None if found is None else self._redacted(found)


class ScopedSession(RedactingSession):
    """For changes: :meth:`get` returns None for an object that the caller may not see."""

    def get(self, key: Key) -> Object | None:
        found = ListSharingSession.get(self, key)
        return self._redacted(found) if found is not None and self._visibility.sees(found) else None
