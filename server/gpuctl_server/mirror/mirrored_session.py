"""A session whose lists come out of the mirror where they can, narrowed to what somebody may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object, Resource
from gpuctl.usecases.looking import Reader, reader_of
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.selector_matching import FieldSelector, LabelSelector, NotASelector
from gpuctl_server.mirror.visibility import Visibility

Item = TypeVar("Item")
Result = TypeVar("Result")


class MirroredSession(Session):
    """Looks into the mirror first. For reading only: what is written is decided by what the API server says itself.

    ``sight`` says which objects are shown; None: all.
    """

    def __init__(self, connection: Connection, mirror: Mirror, visibility: Visibility | None = None) -> None:
        super().__init__(connection)
        self._mirror = mirror
        self._visibility = visibility

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
        selectors = self._selectors(resource, namespace, labels, fields)
        if selectors is not None:
            on_version("")
            yield self._shown(self._mirror.select(resource.kind, namespace, *selectors))
            return
        found = super().pages(
            resource, namespace, labels=labels, fields=fields, on_version=on_version, on_restart=on_restart
        )
        for page in found:
            yield self._shown(page)

    def get(self, key: Key) -> Object | None:
        """As :meth:`Session.get`."""
        if self._selectors(key.resource, key.namespace or None, "", "") is not None:
            found = self._mirror.find(key)
        else:
            found = super().get(key)
        return None if found is None else next(iter(self._shown([found])), None)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """As :meth:`Session.each`: out of memory, without threads."""
        return [function(item) for item in items] if self._mirror.ready else super().each(function, items)

    def _selectors(
        self, resource: Resource, namespace: str | None, labels: str, fields: str
    ) -> tuple[LabelSelector, FieldSelector] | None:
        """The selectors of a list that the mirror has; None where the API server has to be asked."""
        try:
            selectors = LabelSelector(labels), FieldSelector(fields)
        except NotASelector:
            return None
        return selectors if self._mirror.covers(resource.kind, namespace, *selectors) else None

    def _shown(self, found: list[Object]) -> list[Object]:
        return found if self._visibility is None else list(filter(self._visibility.sees, found))


@contextmanager
def mirrored(
    connection: Connection,
    mirror: Mirror,
    platform: Settings,
    visibility: Visibility | None = None,
    namespace: str | None = None,
) -> Iterator[Reader]:
    """A look through such a session, whose threads, if it needs any, end with the block."""
    session = MirroredSession(connection, mirror, visibility)
    try:
        yield reader_of(session, platform, namespace)
    finally:
        session.close()
