"""``compile``: from sources to objects and diagnostics. The whole compiler, usable without the command line."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from gpuctl.backend.lower import lower
from gpuctl.backend.lowering_context import Context, GitOps, JobNames, Lowered, OutputOptions, PodSpecCheck, options_of
from gpuctl.backend.pod_patches import check_own_patch
from gpuctl.backend.schema_validation import VERSIONS, SchemaValidator, schema_validator
from gpuctl.frontend.diagnostics import UNREAD_CODES, Diagnostic, Severity, count, in_source_order, limited_per_file
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_variant import Variant
from gpuctl.frontend.loading import load_found
from gpuctl.frontend.loading_result import Loaded
from gpuctl.frontend.partial_model import UnknownFieldRead
from gpuctl.frontend.source import Source, collect
from gpuctl.language.display_text import visible
from gpuctl.language.masking import redact
from gpuctl.language.names import KUBERNETES_NAMESPACES, SYSTEM_NAMESPACE, is_dns_label
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import Object

_Item = TypeVar("_Item")


class Compilation(NamedTuple):
    """The result of a compile.

    ``objects``: plain dicts in the order of application, empty if there is an error. ``diagnostics``: in source order.
    ``documents``: the valid ones; ``left_out``: those of other clusters. ``lowered``: each object with its document,
    and whether jobs share it.
    """

    objects: list[Object]
    diagnostics: list[Diagnostic]
    documents: list[Document]
    lowered: list[Lowered]
    settings: Settings
    sources: dict[str, Source]
    left_out: Sequence[Document] = ()

    @property
    def ok(self) -> bool:
        """True if there is no error."""
        return count(self.diagnostics, Severity.ERROR) == 0

    @property
    def unread(self) -> list[Diagnostic]:
        """Diagnostics for input that was not read and may contain gpuctl documents, so that some may be missing."""
        return [diagnostic for diagnostic in self.diagnostics if diagnostic.code in UNREAD_CODES]


def compile(
    sources: Sequence[str | os.PathLike[str] | Source] | str | os.PathLike[str] | Source,
    *,
    platform: str | os.PathLike[str] | Source | None = None,
    namespace: str = "default",
    strict: bool = False,
    nodes: bool = False,
    shared: bool = True,
    gitops: GitOps | None = None,
    embed: bool = False,
    namespaces: bool = False,
    job_names: JobNames | None = None,
    tolerated: frozenset[str] = frozenset(),
    directory: Path | None = None,
    stdin: BinaryIO | None = None,
    without: Path | None = None,
    cluster: str | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    interrupt: Callable[[], None] = lambda: None,
) -> Compilation:
    """Compile documents to Kubernetes objects.

    :param sources: files, directories, ``-`` for standard input, or :class:`Source` texts, in any mix.
    :param platform: the platform's file; default: ``platform.yaml`` at or above each source, up to the git root. Two
        different ones are an error.
    :param namespace: for jobs that name none.
    :param strict: report warnings as errors.
    :param nodes: include the pools' Node objects (labels only).
    :param shared: include the objects that jobs share (PriorityClass, Namespace).
    :param gitops: add the annotations that ``argocd`` or ``flux`` needs.
    :param embed: add each source document to its object as an annotation.
    :param namespaces: include the Namespaces of jobs and pools, as ``gitops`` does; those of quotas and of the platform
        are always included.
    :param job_names: ``hashed``, the default with ``gitops``: the names of a training's objects contain a hash of their
        content, so that a controller creates changed ones and leaves the rest alone. ``plain``: the job's name.
    :param tolerated: codes of errors that do not prevent output, such as those about capacity.
    :param directory: the directory of standard input and texts, for the search for a platform; default: the current
        directory.
    :param stdin: stream read for ``-``; default: standard input.
    :param cluster: leave out the documents whose ``placement`` does not name this cluster.
    :param profile: merge this profile into the documents that have `profiles`.
    :param overrides: ``PATH=VALUE`` or ``JOB:PATH=VALUE``: replace fields, as `--with` does.
    :param without: a directory below a source whose files are not read, such as the output directory.
    :param interrupt: called before each document is read, checked, lowered and validated; its exception ends the
        compile.
    :raises ValueError: ``namespace``, ``gitops`` or ``job_names`` is invalid.

    Deterministic: the same sources give the same objects in any order. Problems of a source become diagnostics, not
    exceptions.
    """
    if not is_dns_label(namespace):
        raise ValueError(f"`{namespace}` is not a legal namespace name")
    options = options_of(nodes, shared, gitops, embed, namespaces, job_names)
    if isinstance(sources, (str, os.PathLike, Source)):
        sources = [sources]
    loaded = load_found(
        collect(sources, stdin, without),
        platform=platform,
        namespace=namespace,
        versions=VERSIONS,
        directory=directory,
        cluster=cluster,
        variant=Variant(profile, tuple(overrides)),
        interrupt=interrupt,
    )
    context = Context(loaded.settings, options)
    lowered: list[Lowered] = []
    if not _has_only_tolerated_errors(loaded.diagnostics, tolerated):
        _check_faulty(context, loaded, tolerated)
    else:
        validator = schema_validator(loaded.settings.kubernetes_version)
        context.check_pod_spec = _pod_spec_check(validator)
        lowered = lower(context, _interruptible(loaded.documents, interrupt))
        if _has_only_tolerated_errors(context.diagnostics, tolerated):
            _validate(context, _interruptible(lowered, interrupt), validator)
    return _result(loaded, context, lowered, strict, tolerated)


def _interruptible(items: Iterable[_Item], interrupt: Callable[[], None]) -> Iterator[_Item]:
    for item in items:
        interrupt()
        yield item


def _check_faulty(context: Context, loaded: Loaded, tolerated: frozenset[str]) -> None:
    """Report errors of lowering when no objects are returned, so that all errors of all documents appear in one run.

    A document with errors is not lowered. If the platform has errors, no document is: further errors would only follow
    from them.
    """
    if loaded.settings.kubernetes_version in VERSIONS:
        context.check_pod_spec = _pod_spec_check(schema_validator(loaded.settings.kubernetes_version))
    errors = [item for item in loaded.diagnostics if item.severity is Severity.ERROR and item.code not in tolerated]
    wrong = _with_errors(loaded.documents, errors)
    if loaded.has_sound_platform:
        lower(context, [document for document in loaded.documents if id(document) not in wrong])
        context.diagnostics = [item for item in context.diagnostics if item.severity is Severity.ERROR]
    else:
        wrong.update(map(id, loaded.documents))
    patched = [
        (document, document.model)
        for document in (*(item for item in loaded.documents if id(item) in wrong), *loaded.faulty)
        if isinstance(document.model, Workload) and document.model.podPatch is not None
    ]
    for document, model in patched:
        with contextlib.suppress(UnknownFieldRead):
            check_own_patch(context, document, model, has_all_patches=loaded.has_sound_platform)


def _with_errors(documents: Iterable[Document], errors: Iterable[Diagnostic]) -> set[int]:
    """Return the ids of the documents whose lines contain an error."""
    lines: dict[str, list[int]] = {}
    for span in sorted(error.span for error in errors if error.span is not None):
        lines.setdefault(span.file, []).append(span.line)
    found = set()
    for document in documents:
        in_file, first = lines.get(document.file, []), document.chunk.first_line + 1
        following = bisect_left(in_file, first)
        last = first + document.chunk.text.count("\n")
        if following < len(in_file) and in_file[following] <= last:
            found.add(id(document))
    return found


def _pod_spec_check(validator: SchemaValidator) -> PodSpecCheck:
    """Return the schema check of pods that lowering uses."""

    def check(spec: Object, *, partial: bool) -> list[tuple[tuple[str | int, ...], Sentence, Sentence | None]]:
        return [(item.path, item.message, item.hint) for item in validator.check_pod_spec(spec, partial=partial)]

    return check


def _has_only_tolerated_errors(diagnostics: Iterable[Diagnostic], tolerated: frozenset[str]) -> bool:
    """Return True if all errors are tolerated."""
    return not any(item.severity is Severity.ERROR and item.code not in tolerated for item in diagnostics)


def _result(
    loaded: Loaded, context: Context, lowered: list[Lowered], strict: bool, tolerated: frozenset[str] = frozenset()
) -> Compilation:
    """Return the compilation with all diagnostics, and with the objects if no error remains."""
    diagnostics = [*loaded.diagnostics, *context.diagnostics]
    if strict:
        diagnostics = [diagnostic.as_error() for diagnostic in diagnostics]
    if not _has_only_tolerated_errors(diagnostics, tolerated):
        lowered = []
    else:
        diagnostics += _notes_on_nodes(loaded) if not context.options.nodes else []
        diagnostics += _notes_on_namespaces(loaded, context.options, lowered)
    return Compilation(
        [item.object for item in lowered],
        [_presentable(diagnostic) for diagnostic in limited_per_file(in_source_order(diagnostics))],
        loaded.documents,
        lowered,
        loaded.settings,
        loaded.sources,
        loaded.of_other_clusters,
    )


def _presentable(diagnostic: Diagnostic) -> Diagnostic:
    """Return the diagnostic without credentials and control characters that its text copied from a source.

    A hint may have several lines: YAML to copy.
    """
    message = Sentence(visible(redact(diagnostic.message)))
    hint = Sentence("\n".join(map(visible, redact(diagnostic.hint or "").split("\n")))) or None
    if (message, hint) == (diagnostic.message, diagnostic.hint):
        return diagnostic
    return diagnostic._replace(message=message, hint=hint)


def _notes_on_nodes(loaded: Loaded) -> list[Diagnostic]:
    """Note once, at the first pool, that node labels are left out: applying or deleting Node manifests is dangerous."""
    pools = [
        (document, len(document.model.nodes))
        for document in loaded.documents
        if document.model.kind == "pool" and document.model.nodes
    ]
    if not pools:
        return []
    first = min((document for document, _ in pools), key=lambda document: (document.file, document.span().line))
    number = sum(nodes for _, nodes in pools)
    whose = say("the pool's nodes") if len(pools) == 1 else say("the nodes of {number} pools", number=len(pools))
    return [
        first.diagnostic(
            Severity.NOTE,
            "GPU606",
            say(
                "the labels of {whose} ({number}) are left out of the output: `kubectl apply` and `kubectl "
                "delete` of a Node are dangerous",
                whose=whose,
                number=number,
            ),
            ("nodes",),
            say("label them with `kubectl label node`; --nodes includes them"),
            key=True,
        )
    ]


def _notes_on_namespaces(loaded: Loaded, options: OutputOptions, lowered: Iterable[Lowered]) -> list[Diagnostic]:
    """Note that Namespaces are left out: deleting the rendered objects would delete everything in the Namespace."""
    if options.namespaces or not options.shared:
        return []
    told = {item.object["metadata"]["name"] for item in lowered if item.object["kind"] == "Namespace"}
    told |= KUBERNETES_NAMESPACES
    notes = []
    for document in loaded.documents:
        is_job = document.is_workload
        name = document.namespace if is_job else SYSTEM_NAMESPACE
        if name in told or not (is_job or document.model.kind == "pool"):
            continue
        told.add(name)
        notes.append(
            document.diagnostic(
                Severity.NOTE,
                "GPU607",
                say(
                    "the namespace {name} is left out of the output: `kubectl delete` of it deletes all that is in it",
                    name=name,
                ),
                ("job", "namespace") if is_job else (),
                say(
                    "if it is not there, create it with `kubectl create namespace {name}`; --namespaces includes it",
                    name=name,
                ),
            )
        )
    return notes


def _validate(context: Context, lowered: Iterable[Lowered], validator: SchemaValidator) -> None:
    """Validate every object against Kubernetes' schema. A violation is a bug of gpuctl and is reported as such."""
    for item in lowered:
        for violation in validator.check(item.object):
            obj = item.object
            at = ".".join(str(part) for part in violation.path) or say("its top")
            context.report(
                item.document,
                "GPU901",
                say(
                    "gpuctl made an invalid {kind} `{name}`: {problem} at {place}",
                    kind=obj["kind"],
                    name=obj["metadata"]["name"],
                    problem=violation.message,
                    place=at,
                ),
                (),
                say("this is a bug of gpuctl: please report it with this document"),
            )
