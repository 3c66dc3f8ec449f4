"""A session that reads from the mirror where possible, limited to the objects that a caller may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from gpuctl.kube.connection import Connection
from gpuctl.kube.selector_parsing import InvalidSelector, LabelSelector
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import RESOURCES, Key, Object, Resource
from gpuctl.objects.durations import rough_duration
from gpuctl.usecases.queries.read_context import ReadContext, context_of
from gpuctl_server.mirror.field_selectors import FieldSelector
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.mirror.object_redaction import ObjectRedactor
from gpuctl_server.mirror.visibility import Visibility

Item = TypeVar("Item")
Result = TypeVar("Result")


class MirroredSession(Session):
    """Reads from the mirror first. For reads only: changes are decided by the current objects of the API server.

    ``visibility`` decides which objects are returned; None: all. With a ``redactor``, the other objects are returned
    with hidden names.
    """

    def __init__(
        self,
        connection: Connection,
        mirror: Mirror,
        visibility: Visibility | None = None,
        redactor: ObjectRedactor | None = None,
    ) -> None:
        super().__init__(connection)
        self._mirror = mirror
        self._visibility = visibility
        self._redactor = redactor

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
        if self._selectors(key.resource, key.namespace or None, "", "") is not None:
            found = self._mirror.find(key)
        else:
            found = super().get(key)
        return None if found is None else next(iter(self._shown([found])), None)

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Without threads if the mirror is ready: reads from memory do not block."""
        return [function(item) for item in items] if self._mirror.ready else super().each(function, items)

    def _selectors(
        self, resource: Resource, namespace: str | None, labels: str, fields: str
    ) -> tuple[LabelSelector, FieldSelector] | None:
        """Return the selectors of a list that the mirror has; None if the API server must be asked."""
        if resource != RESOURCES.get(resource.kind):
            # An older version of the API, which the mirror does not read.
            return None
        try:
            selectors = LabelSelector(labels), FieldSelector(fields)
        except InvalidSelector:
            return None
        return selectors if self._mirror.covers(resource.kind, namespace, *selectors) else None

    def _shown(self, found: list[Object]) -> list[Object]:
        if self._redactor is not None:
            return list(map(self._redactor.redacted, found))
        return found if self._visibility is None else list(filter(self._visibility.sees, found))


@contextmanager
def mirrored(
    connection: Connection,
    mirror: Mirror,
    platform: Settings,
    visibility: Visibility | None = None,
    namespace: str | None = None,
    redactor: ObjectRedactor | None = None,
) -> Iterator[ReadContext]:
    """Yield a read context on a mirrored session, which is closed with the block. A note says if the mirror is old."""
    with closing(MirroredSession(connection, mirror, visibility, redactor)) as session:
        reader = context_of(session, platform, namespace)
        if (age := mirror.age) is not None:
            ago = rough_duration(age)
            reader.scope.note(say("the cluster cannot be watched: this is its last known state, {ago} old", ago=ago))
        yield reader
