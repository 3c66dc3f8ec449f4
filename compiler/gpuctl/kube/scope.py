"""Where a command looks: one namespace, or all that the user may read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuctl.hints import IN_NAMESPACE
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import OPTIONAL, RESOURCES, Object


def is_absent(kind: str, error: ApiError) -> bool:
    """Return True if a list fails because its kind is not installed, or because usual roles lack the right to it."""
    return kind in OPTIONAL and (error.is_missing or error.lacks_permission)


class Scope:
    """Lists of one namespace, or (None) of all; where all may not be listed, of the context's namespace.

    ``namespace`` is where the lists come from, None for everywhere. ``notes`` say what could not be looked at. Safe to
    use from several threads.
    """

    def __init__(self, session: Session, namespace: str | None) -> None:
        self.session = session
        self.namespace = namespace
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        """What a reader has to know beside what was found."""
        return list(self._notes)

    def note(self, text: str) -> None:
        """Say something once."""
        self._notes[text] = None

    def pages(self, kind: str, *, labels: str = "", fields: str = "") -> Iterator[list[Object]]:
        """The objects of a kind, page by page. A kind that is not installed has none.

        :raises ApiError: they may not be listed, nor in the context's namespace alone.
        """
        for namespace in dict.fromkeys((self.namespace, self.fallback)):
            try:
                yield from self.session.pages(RESOURCES[kind], namespace, labels=labels, fields=fields)
                return
            except ApiError as error:
                if namespace is None and error.lacks_permission and RESOURCES[kind].namespaced:
                    self._confine(kind)
                    continue
                if is_absent(kind, error):
                    return
                if self.namespace is None and error.lacks_permission and RESOURCES[kind].namespaced:
                    # The context's namespace was nobody's choice: another may be the user's.
                    error.hint = f"name a namespace that you may read {IN_NAMESPACE}"
                raise

    @property
    def fallback(self) -> str:
        """The namespace that is looked at where all may not be."""
        return self.namespace or self.session.namespace

    def watch_namespace(self, kind: str) -> str | None:
        """The namespace to watch a kind in: the scope's, or None for all, or the context's where all are forbidden."""
        if self.namespace is None:
            resource = RESOURCES[kind]
            try:
                self.session.request("GET", resource.path(None), query={"limit": "1"})
            except ApiError as error:
                if not error.lacks_permission:
                    raise
                self._confine(kind)
                return self.fallback
        return self.namespace

    def _confine(self, kind: str) -> None:
        if kind not in OPTIONAL:
            # The same for all kinds, so that it is said once.
            self.note(f"not all namespaces may be read: shown is what is in {self.fallback}")

    def all(self, kind: str, *, labels: str = "", fields: str = "") -> list[Object]:
        """All objects of a kind, as :meth:`pages`."""
        return [item for page in self.pages(kind, labels=labels, fields=fields) for item in page]

    def lists(self, kinds: Sequence[str], *, labels: str = "") -> list[list[Object]]:
        """The objects of several kinds, listed at the same time."""
        return self.session.each(lambda kind: self.all(kind, labels=labels), kinds)

    def all_if_allowed(self, kind: str, *, labels: str = "", fields: str = "", why: str = "") -> list[Object] | None:
        """As :meth:`all`, but what may not be read is None and noted: ``why`` says what is missing without it."""
        try:
            return self.all(kind, labels=labels, fields=fields)
        except ApiError as error:
            if not error.lacks_permission:
                raise
            self.note(f"{RESOURCES[kind].plural} may not be read{': ' + why if why else ''}")
            return None
