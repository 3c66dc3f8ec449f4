"""The context of lowering (settings, options, diagnostics), and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.language.sentences import Sentence
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object

if TYPE_CHECKING:
    # Plans contain `Lowered`, also in commands that load no document model.
    from gpuctl.frontend.document import Document

GitOps = Literal["argocd", "flux"]
JobNames = Literal["hashed", "plain"]


class OutputOptions(NamedTuple):
    """Options for the output.

    ``nodes``: include the pools' Node objects. ``shared``: include the objects that jobs share (PriorityClass,
    Namespace). ``namespaces``: include the Namespaces of jobs and pools among these. ``gitops``: add the annotations of
    a GitOps controller (``platform``: the platform's controller, if any). ``embed``: add the source document as an
    annotation. ``hashed``: put a content hash into the names of trainings' objects (None: if there is a controller).
    """

    nodes: bool = False
    shared: bool = True
    gitops: GitOps | Literal["platform"] | None = None
    embed: bool = False
    namespaces: bool = True
    hashed: bool | None = False

    def under(self, settings: Settings) -> OutputOptions:
        """Return the options with the platform's settings applied."""
        gitops = settings.gitops if self.gitops == "platform" else self.gitops
        hashed = gitops is not None if self.hashed is None else self.hashed
        # A controller deletes what is missing from its input, including a Namespace.
        return self._replace(gitops=gitops, hashed=hashed, namespaces=self.namespaces or gitops is not None)


def options_of(
    nodes: bool,
    shared: bool,
    gitops: GitOps | Literal["platform"] | None,
    embed: bool,
    namespaces: bool,
    job_names: JobNames | None,
) -> OutputOptions:
    """Return the options of :func:`gpuctl.compile` as options of lowering.

    :raises ValueError: an option is invalid.
    """
    if gitops not in (None, "argocd", "flux", "platform"):
        raise ValueError(f"gitops is None, 'argocd' or 'flux', not {gitops!r}")
    if job_names not in (None, "hashed", "plain"):
        raise ValueError(f"job_names is None, 'hashed' or 'plain', not {job_names!r}")
    hashed = None if job_names is None else job_names == "hashed"
    return OutputOptions(nodes, shared, gitops, embed, namespaces, hashed)


class Lowered(NamedTuple):
    """An object, its document, and whether jobs share it.

    Shared objects are created when missing or updated in place. They belong to no set and are never pruned.
    """

    object: Object
    document: Document
    shared: bool = False


class PodSpecCheck(Protocol):
    """Validates a pod's spec, or a part of one, against Kubernetes' schema. Returns paths, messages and hints."""

    def __call__(
        self, spec: Object, *, partial: bool
    ) -> list[tuple[tuple[str | int, ...], Sentence, Sentence | None]]: ...


class Context:
    """The settings and options of lowering, and its diagnostics."""

    def __init__(self, settings: Settings, options: OutputOptions | None = None) -> None:
        self.settings = settings
        self.options = (options or OutputOptions()).under(settings)
        self.diagnostics: list[Diagnostic] = []
        self.check_pod_spec: PodSpecCheck | None = None

    def report(
        self,
        document: Document,
        code: str,
        message: Sentence,
        path: tuple[str | int, ...],
        hint: Sentence | None = None,
        *,
        severity: Severity = Severity.ERROR,
        key: bool = False,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Add a diagnostic at one of a document's fields."""
        self.diagnostics.append(document.diagnostic(severity, code, message, path, hint, key=key, related=related))

    def label(self, name: str) -> str:
        """Return a label or annotation key of the platform."""
        return self.settings.label(name)
