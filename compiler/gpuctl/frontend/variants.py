"""Variants of a job's document: one of its profiles, and fields that are overridden for one run.

Both are merged into the YAML tree before it is bound. So diagnostics are at the place of the value: in the profile, or
in the option. Mappings are merged, variables of ``env`` by name; any other value replaces the document's. A field
replaces its alternatives, too. A variant without GPUs has none of the fields by which the document selects and divides
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

from gpuctl.frontend.binder import bind, kind_of
from gpuctl.frontend.conform import conform
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity, SourceSpan, format_path
from gpuctl.frontend.document_variant import OPTION, Variant
from gpuctl.frontend.exclusive_fields import FieldNames, excluded, unused_cards
from gpuctl.frontend.field_assignments import Assignment, Assignments, masked_value, parse_assignments
from gpuctl.frontend.field_shapes import ModelShape, Shape, kind_shape, mapping_shape, value_shape
from gpuctl.frontend.findings import Findings
from gpuctl.frontend.spans import child, value_at
from gpuctl.frontend.tree_merging import merged_trees, without_field
from gpuctl.frontend.wrong_kinds import report_wrong_kind
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, Chunk, RawDocument, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.kinds import WORKLOADS
from gpuctl.language.names import is_dns_label
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import did_you_mean, fold

PROFILES = "profiles"
_IDENTITY = Template("remove it: it identifies the document")
_FIXED: dict[tuple[str, ...], Template] = {
    ("kind",): _IDENTITY,
    ("version",): _IDENTITY,
    ("job", "name"): _IDENTITY,
    (PROFILES,): Template("remove it: a profile has no profiles of its own"),
}
"""Fields that no variant changes -> the hint."""
_IT_HAS = Template("it has {names:few8}")
_JOBS_ARE = Template("the jobs are {names:few8}")


class Overlay(NamedTuple):
    """The changes to the tree of one document. ``profile``: the name of its profile, if it has the chosen one."""

    kind: str
    profile: str | None = None
    assignments: tuple[Assignment, ...] = ()

    @property
    def variant(self) -> Variant:
        """The profile and the overrides of this document, without credentials."""
        return Variant(self.profile, tuple(item.text for item in self.assignments))

    def merged(self, chunk: Chunk, root: YamlNode) -> YamlNode:
        """Return a document's tree with the changes and without its profiles."""
        return self.changed(chunk, root)[0]

    def changed(self, chunk: Chunk, root: YamlNode) -> tuple[YamlNode, list[FieldNames]]:
        """Return a document's tree with the changes and without its profiles, and its fields that do not apply without
        GPUs.
        """
        shape = kind_shape(self.kind)
        changes = _all_merged([assignment.root for assignment in self.assignments], shape)
        profiles = child(root, PROFILES)
        if profiles is not None:
            root = root.with_value([pair for pair in root.value if fold(pair[0].value) != PROFILES])
            chosen = child(profiles[1], self.profile) if self.profile is not None else None
            if chosen is not None and chosen[1].kind == MAPPING:
                changes = [chosen[1], *changes]
        merged = before = root
        for change in changes:
            before = merged
            for path in self.replaced(chunk, merged, change):
                merged = without_field(merged, path)
            merged = merged_trees(merged, change, shape)
        # Where an option takes the GPUs away, the cards of the profile do not apply either.
        options = self._unused(chunk, before, changes[-1:] if self.assignments else [])
        unused = options or self._unused(chunk, root, _all_merged(changes, shape))
        for path in unused:
            merged = without_field(merged, path)
        return merged, unused

    def _unused(self, chunk: Chunk, root: YamlNode, changes: list[YamlNode]) -> list[FieldNames]:
        """Return the fields of a document's tree about its cards, if a change to it takes all GPUs away; else none.

        Fields that the change sets itself are not among them: those are mistakes to report.
        """
        return [
            path for change in changes if _sets_gpus(change) for path in unused_cards(*self._data(chunk, root, change))
        ]

    def replaced(
        self, chunk: Chunk, root: YamlNode, change: YamlNode, shape: ModelShape | None = None
    ) -> list[FieldNames]:
        """Return the fields of a document's tree, or of a block with a shape, for which a change has an alternative."""
        data = self._data(chunk, root, change, shape)
        return list(dict.fromkeys(excluded(shape or kind_shape(self.kind), *data)))

    def _data(
        self, chunk: Chunk, root: YamlNode, change: YamlNode, shape: ModelShape | None = None
    ) -> list[dict[str, Any]]:
        """Return the valid data of a document's tree, or of a block with a shape, and of a change to it."""
        trees = (tree if tree.kind == MAPPING else tree.with_value([]) for tree in (root, change))
        return [conform(Findings(chunk, tree, []), self.kind, shape) for tree in trees]


def fields_replaced(raw: RawDocument, kind: str, assignments: Iterable[Assignment]) -> list[FieldPath]:
    """Return the fields of a document that assignments replace by an alternative, or that do not apply without GPUs."""
    overlay, found = Overlay(kind), []
    blocks: dict[FieldPath, list[YamlNode]] = {}
    for item in assignments:
        length = max((place for place, step in enumerate(item.path, 1) if isinstance(step, int)), default=0)
        if length < len(item.path):
            below = item._replace(path=item.path[length:], keys=item.keys[length:])
            blocks.setdefault(item.path[:length], []).append(below.root)
    for path, changes in blocks.items():
        block = value_at(raw.root, path)
        shape: Shape | None = kind_shape(kind)
        for step in path:
            shape = value_shape(shape, step)
        shape = mapping_shape(shape)
        if block is None or not isinstance(shape, ModelShape):
            continue
        for change in _all_merged(changes, shape):
            found += [(*path, *below) for below in overlay.replaced(raw.chunk, block, change, shape)]
            found += [] if path else overlay._unused(raw.chunk, block, [change])
    return list(dict.fromkeys(found))


class VariantSelection:
    """Finds the overlay of each document, and reports profiles and jobs that do not exist."""

    def __init__(self, variant: Variant) -> None:
        self.profile = variant.profile
        self.overrides: Assignments | None = None
        if variant.overrides:
            self.overrides = parse_assignments(OPTION, variant.overrides)
        self._targets: dict[int, tuple[Assignment, ...]] = {}
        self._known: dict[str, None] = {}
        self._lacking: list[tuple[SourceSpan, list[str]]] = []

    def assign(self, raws: Iterable[RawDocument], diagnostics: list[Diagnostic]) -> Iterable[RawDocument]:
        """Find the document of each override among all documents, and return these."""
        if self.overrides is None:
            return raws
        raws = list(raws)
        diagnostics += self.overrides.diagnostics
        jobs = [(raw, name) for raw in raws if (name := _job_name(raw)) is not None]
        for item in self.overrides.items:
            index = next((place for place, step in enumerate(item.path) if isinstance(step, int)), None)
            if index is not None:
                message = say(
                    "`{path}` is an item of a list, which is replaced as a whole", path=format_path(item.path)
                )
                hint = say("write the list: `{path}=[a, b]`", path=format_path(item.path[:index]))
                diagnostics.append(Diagnostic(Severity.ERROR, "GPU113", message, item.span, item.path, hint))
                continue
            named = [raw for raw, name in jobs if item.job in (None, name)]
            if len(named) == 1:
                root = named[0].root
                self._targets[id(root)] = (*self._targets.get(id(root), ()), item)
            else:
                diagnostics.append(_no_target(item, [name for _, name in jobs]))
        return raws

    def overlay(self, raw: RawDocument) -> Overlay | None:
        """Return the overlay of a document; None if nothing changes it."""
        kind = _workload_kind(raw.root)
        profiles = child(raw.root, PROFILES) if kind is not None else None
        assignments = self._targets.get(id(raw.root), ())
        if kind is None or (profiles is None and not assignments):
            return None
        names = _names(profiles[1]) if profiles is not None else []
        self._known.update(dict.fromkeys(names))
        if profiles is not None and self.profile is not None and names and self.profile not in names:
            self._lacking.append((raw.chunk.span(profiles[0] or profiles[1]), names))
        return Overlay(kind, self.profile if self.profile in names else None, assignments)

    def missing_profiles(self, first_file: str) -> Iterator[Diagnostic]:
        """Yield an error for each document that has profiles but not the chosen one, or one error if none has any."""
        if self.profile is None:
            return
        for span, names in self._lacking:
            message = say("this document has no profile `{profile}`", profile=self.profile)
            hint = _did_you_mean(self.profile, names, _IT_HAS)
            if self.profile in self._known:
                hint = say(
                    "add `{profile}: {{}}` if it needs no changes; it has {names:few8}",
                    profile=self.profile,
                    names=names,
                )
            yield Diagnostic(Severity.ERROR, "GPU111", message, span, (PROFILES,), hint)
        if not self._known:
            message = say("no document has the profile `{profile}`", profile=self.profile)
            hint = say(
                "add `profiles: {{{profile}: {{...}}}}` to a job's document, or leave --profile out",
                profile=self.profile,
            )
            yield Diagnostic(Severity.ERROR, "GPU111", message, SourceSpan(first_file, 1, 1, 1, 1), hint=hint)


def check_overlay(
    raw: RawDocument, overlay: Overlay, diagnostics: list[Diagnostic], defaults: dict[str, dict[str, Any]]
) -> None:
    """Report the problems of a document's profiles, whichever is chosen, and the fields that are overridden.

    :param defaults: the platform's defaults, as for :func:`bind`.
    """
    findings = Findings(raw.chunk, raw.root, diagnostics)
    unused = overlay.changed(raw.chunk, raw.root)[1]
    deciding = [assignment for assignment in overlay.assignments if _sets_gpus(assignment.root)][-1:]
    for number, assignment in enumerate(overlay.assignments):
        _report_fixed(findings, assignment.root, ())
        before = overlay._replace(assignments=overlay.assignments[:number]).merged(raw.chunk, raw.root)
        if not assignment.text.endswith("="):
            replaced = overlay.replaced(raw.chunk, before, assignment.root)
            without_gpus = unused if assignment in deciding else []
            diagnostics.append(_overridden(raw, before, assignment, replaced, without_gpus))
    profiles = child(raw.root, PROFILES)
    if profiles is None:
        return
    key, listed = profiles
    if listed.kind != MAPPING:
        report_wrong_kind(findings, listed, key, (PROFILES,), MAPPING)
        return
    for name, partial in listed.value:
        path = (PROFILES, name.value)
        if not is_dns_label(name.value):
            message = say("`{name}` is not a legal name of a profile", name=name.value)
            findings.at_node("GPU207", message, name, path, say("use lower case letters, digits and `-`"))
        elif partial.kind != MAPPING:
            report_wrong_kind(findings, partial, name, path, MAPPING)
        else:
            _report_fixed(findings, partial, path)
            if name.value != overlay.profile:
                _check_other(raw, Overlay(overlay.kind, name.value), name, diagnostics, defaults)


def _overridden(
    raw: RawDocument, before: YamlNode, assignment: Assignment, replaced: list[FieldNames], unused: list[FieldNames]
) -> Diagnostic:
    """Return the note that a field has another value for this run.

    :param before: the document's tree without the assignment.
    :param replaced: fields for which the assignment has an alternative.
    :param unused: fields of `resources` that do not apply without GPUs.
    """
    found = value_at(before, assignment.path)
    path, _, value = assignment.text.partition("=")
    message = say("`{path}` is `{value}` for this run", path=path, value=shorten(value))
    if found is not None and raw.chunk.is_on_one_line(found) and found.kind != MAPPING:
        old = masked_value(assignment.path, found, raw.chunk.written(found))
        message = say(
            "`{path}` is `{value}` for this run, not `{old}`", path=path, value=shorten(value), old=shorten(old)
        )
    if replaced:
        fields = [f"`{'.'.join(path)}`" for path in replaced]
        message = say("{change}; it replaces {fields:and}", change=message, fields=fields)
    if unused:
        message = say(
            "{change}; {names:and} {number:does/do} not apply without GPUs",
            change=message,
            names=[f"`{name}`" for _, name in unused],
            number=len(unused),
        )
    return Diagnostic(Severity.NOTE, "GPU114", message, assignment.span, assignment.path)


def _check_other(
    raw: RawDocument,
    overlay: Overlay,
    name: YamlNode,
    diagnostics: list[Diagnostic],
    defaults: dict[str, dict[str, Any]],
) -> None:
    """Report the errors that a profile which was not chosen would cause, each with the profile's name."""
    found: list[Diagnostic] = []
    bind(raw._replace(root=overlay.merged(raw.chunk, raw.root)), found, defaults)
    known = {(item.code, item.span, item.message) for item in diagnostics}
    note = Related(say("with the profile `{name}`", name=name.value), raw.chunk.span(name))
    diagnostics += [
        item._replace(related=(*item.related, note))
        for item in found
        if item.severity is Severity.ERROR and (item.code, item.span, item.message) not in known
    ]


def _report_fixed(findings: Findings, partial: YamlNode, prefix: FieldPath) -> None:
    """Report the fields in a partial document that no variant changes."""
    for path, hint in _FIXED.items():
        node: YamlNode | None = partial
        key: YamlNode | None = None
        for step in path:
            found = child(node, step) if node is not None else None
            key, node = found if found is not None else (None, None)
        if key is not None:
            message = say("`{path}` cannot be overridden", path=".".join(path))
            findings.at_node("GPU112", message, key, (*prefix, *path), say(hint))


def _all_merged(changes: list[YamlNode], shape: ModelShape) -> list[YamlNode]:
    """Return one change in place of several; none in place of none."""
    if not changes:
        return []
    return [reduce(lambda base, over: merged_trees(base, over, shape), changes)]


def _sets_gpus(change: YamlNode) -> bool:
    return value_at(change, ("resources", "gpu")) is not None


def _workload_kind(root: YamlNode) -> str | None:
    kind = kind_of(root)[1]
    return kind if kind in WORKLOADS else None


def _job_name(raw: RawDocument) -> str | None:
    """Return the name in a job's document; "" if it has none, None for documents of other kinds."""
    if _workload_kind(raw.root) is None:
        return None
    name = value_at(raw.root, ("job", "name"))
    return str(name.value) if name is not None and name.kind == SCALAR else ""


def _names(profiles: YamlNode) -> list[str]:
    return [key.value for key, _ in profiles.value] if profiles.kind == MAPPING else []


def _no_target(item: Assignment, names: list[str]) -> Diagnostic:
    """Return the error for an override that fits no job, or several."""
    path = format_path(item.path)
    if item.job is None:
        message, hint = say("there is no job to override"), None
        if names:
            message = say("`{path}` is overridden, but there are {number} jobs", path=path, number=len(names))
            hint = say(
                "name the job: `{option} {name}:{path}=...`; the jobs are {names:few8}",
                option=OPTION,
                name=names[0],
                path=path,
                names=names,
            )
    else:
        among = names.count(item.job)
        message = say("there is no job `{job}`", job=item.job)
        hint = _did_you_mean(item.job, names, _JOBS_ARE)
        if among:
            message = say("{number} jobs are called `{job}`", number=among, job=item.job)
            hint = say("compile one of them at a time")
    return Diagnostic(Severity.ERROR, "GPU113", message, item.span, item.path, hint)


def _did_you_mean(word: str, names: list[str], others: Template) -> Sentence | None:
    return did_you_mean(word, names) or (say(others, names=names) if names else None)
