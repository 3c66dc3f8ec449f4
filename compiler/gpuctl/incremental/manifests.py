"""What a compile yields for commands that write manifests, whether made now or recalled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from gpuctl.backend.context import Object
from gpuctl.frontend.diagnostics import UNREAD, Diagnostic, Severity, Span, count

if TYPE_CHECKING:
    from gpuctl.compilation import Compilation
    from gpuctl.frontend.source import Source
    from gpuctl.language.settings import Settings


Form = Literal["yaml", "json", "none"]
"""What a manifest is written as: as people read it, as programs do, or not at all because nobody will read it."""


def text_of(obj: Object, form: Form) -> str:
    """The manifest of an object."""
    if form == "json":
        return json.dumps(obj, separators=(",", ":"))
    if form == "none":
        return ""
    from gpuctl.backend.emitter import emit_object

    return emit_object(obj)


class ManifestPlace(Protocol):
    """Where a document stands."""

    @property
    def file(self) -> str: ...

    def span(self) -> Span: ...


class Emitted(NamedTuple):
    """A manifest: its text, and of its object at least the identity (apiVersion, kind, name and namespace)."""

    object: Object
    document: ManifestPlace
    shared: bool
    text: str


class Manifests:
    """The result of a compile as text: what :class:`gpuctl.compilation.Compilation` is as objects."""

    def __init__(
        self,
        diagnostics: list[Diagnostic],
        sources: dict[str, Source],
        settings: Settings,
        version: str,
        counts: tuple[int, int],
        lowered: Callable[[], list[Emitted]],
        texts: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        self.diagnostics = diagnostics
        self.sources = sources
        self.settings = settings
        self.version = version
        """The Kubernetes version of the output."""
        self.documents, self.objects = counts
        """How many documents are valid, and how many objects they become."""
        self.whole: Compilation | None = None
        """The compilation, of what was made now and not in parts."""
        self._lowered = lowered
        self._texts = texts

    @cached_property
    def lowered(self) -> list[Emitted]:
        """The manifests, in the order of application."""
        return self._lowered()

    def texts(self) -> Iterable[str]:
        """The texts of the manifests, in the same order."""
        return self._texts() if self._texts is not None else (item.text for item in self.lowered)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return count(self.diagnostics, Severity.ERROR) == 0

    @property
    def unread(self) -> list[Diagnostic]:
        """As :attr:`gpuctl.compilation.Compilation.unread`."""
        return [diagnostic for diagnostic in self.diagnostics if diagnostic.code in UNREAD]
