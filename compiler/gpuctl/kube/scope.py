"""The scope of a command: one namespace, or all that the user may read."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.hints import IN_NAMESPACE
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import OPTIONAL, RESOURCES, Object


def is_absent(kind: str, error: ApiError) -> bool:
    """Return True if a list fails because its kind is optional and not installed, or not covered by usual roles."""
    return kind in OPTIONAL and (error.is_missing or error.lacks_permission)


class Scope:
    """Lists of one namespace, or (None) of all; of the context's namespace if the user may not list all.

    ``notes``: what could not be read. ``is_confined``: a list of all namespaces was refused, and that of the context
    was read instead. Safe to use from several threads.
    """

    def __init__(self, session: Session, namespace: str | None) -> None:
        self.session = session
        self.namespace = namespace
        self.is_confined = False
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        """Notes for the user on what could not be read."""
        return list(self._notes)

    def note(self, text: str) -> None:
        """Add a note, once."""
        self._notes[text] = None

    def take_notes(self, other: Scope) -> None:
        """Add the notes of another scope."""
        self._notes.update(other._notes)

    def all(self, kind: str, *, labels: str = "", fields: str = "") -> list[Object]:
        """Return all objects of a kind; [] if the kind is not installed.

        :raises ApiError: the user may not list them, not even in the context's namespace.
        """
        resource, namespace = RESOURCES[kind], self.namespace
        while True:
            try:
                return self.session.list_objects(resource, namespace, labels=labels, fields=fields)[0]
            except ApiError as error:
                if namespace is None and error.lacks_permission and resource.namespaced:
                    self._confine(kind)
                    namespace = self.fallback
                    continue
                if is_absent(kind, error):
                    return []
                if self.namespace is None and error.lacks_permission and resource.namespaced:
                    # The user did not choose the context's namespace; another one may be readable.
                    error.hint = say("name a namespace that you may read {how}", how=IN_NAMESPACE)
                raise

    @property
    def fallback(self) -> str:
        """The namespace that is read if the user may not read all."""
        return self.namespace or self.session.namespace

    @property
    def searched(self) -> str | None:
        """The namespace that was read; None for all."""
        return self.fallback if self.is_confined else self.namespace

    @property
    def elsewhere(self) -> str:
        """A hint for a name that was not found: other namespaces were not read; "" if all that were wanted were."""
        return say("another namespace can be named {how}", how=IN_NAMESPACE) if self.is_confined else ""

    def watch_namespace(self, kind: str) -> str | None:
        """Return the namespace to watch a kind in: the scope's, None for all, or the context's if the user may not list
        all.
        """
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
            self.is_confined = True
            # The same text for all kinds, so that it is noted once.
            self.note(say("not all namespaces may be read; showing only {namespace}", namespace=self.fallback))

    def lists(self, kinds: Sequence[str], *, labels: str = "") -> list[list[Object]]:
        """Return the objects of several kinds, listed concurrently."""
        return self.session.each(lambda kind: self.all(kind, labels=labels), kinds)

    def all_if_allowed(self, kind: str, *, labels: str = "", fields: str = "", why: str = "") -> list[Object] | None:
        """Return all objects of a kind; None, with a note, if the user may not list them.

        :param why: what is missing without them, for the note.
        """
        try:
            return self.all(kind, labels=labels, fields=fields)
        except ApiError as error:
            if not error.lacks_permission:
                raise
            objects = RESOURCES[kind].plural
            self.note(
                say("{objects} may not be read: {why}", objects=objects, why=why)
                if why
                else say("{objects} may not be read", objects=objects)
            )
            return None
