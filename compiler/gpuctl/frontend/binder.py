"""Binds YAML trees to models and reports all problems of a document at once, each one only once, at its position.

Two passes. The first (:mod:`gpuctl.frontend.conform`) walks the tree along the model's shape and returns data with
canonical keys. The second is pydantic's validation of that data: ranges, formats, required fields and the rules between
fields. :mod:`gpuctl.frontend.model_errors` turns its errors into diagnostics.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pydantic import ValidationError

from gpuctl.frontend.conform import conform
from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity
from gpuctl.frontend.document_owner import DocumentOwner, document_owner, misspelt_kind, near_kind
from gpuctl.frontend.field_shapes import kind_shape
from gpuctl.frontend.findings import Findings
from gpuctl.frontend.full_width import report_full_width
from gpuctl.frontend.model_errors import report_model_errors
from gpuctl.frontend.partial_model import partial_model
from gpuctl.frontend.platform_defaults import merge, with_defaults
from gpuctl.frontend.spans import child, value_at, within
from gpuctl.frontend.sweep_jobs import job_data, with_job
from gpuctl.frontend.templates import expand, without_references
from gpuctl.frontend.unknown_keys import joined_text_hint
from gpuctl.frontend.wrong_kinds import report_wrong_kind
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, RawDocument, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.kinds import ALIASES, KINDS, VERSION, WORKLOADS, Model
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import fold, nearest, suggest_name

_OTHER_KINDS = {
    **dict.fromkeys(("job", "task", "batch", "finetune", "finetuning", "sft", "pretrain", "训练"), "training"),
    **dict.fromkeys(("service", "serving", "serve", "deployment", "deploy", "推理"), "inference"),
    **dict.fromkeys(("jupyter", "workspace", "devenvironment", "dev", "ide", "开发"), "notebook"),
}
"""Folded word of other tools, or in Chinese -> the kind of document."""


class BoundDocument(NamedTuple):
    """A document as a model.

    :param model: None if the document has errors.
    :param partial_model: the valid fields of a workload that has errors.
    :param jobs: the model of each job that a ``sweep`` block creates, ``model`` first; empty without such a block.
    """

    kind: str
    model: Model | None
    partial_model: Model | None = None
    jobs: tuple[Model, ...] = ()


def kind_of(root: YamlNode) -> tuple[YamlNode | None, str | None]:
    """Return the node of a document's ``kind`` and its text; (None, None) if the document has no ``kind``."""
    if root.kind == MAPPING:
        for key, value in root.value:
            if fold(key.value) == "kind" and value.kind == SCALAR and not value.is_null:
                return value, value.value
    return None, None


def _is_manifest_of_ours(root: YamlNode) -> bool:
    """Return True if this is a manifest that gpuctl rendered: a directory may hold both manifests and documents."""
    manager = value_at(root, ("metadata", "labels", "app.kubernetes.io/managed-by"))
    return manager is not None and manager.kind == SCALAR and manager.value == "gpuctl"


def bind(
    raw: RawDocument, diagnostics: list[Diagnostic], defaults: dict[str, dict[str, Any]] | None = None
) -> BoundDocument | None:
    """Bind one document and append all of its problems to ``diagnostics``.

    :param defaults: the platform's defaults: kind -> partial document, merged under this document.
    :returns: None for a document in a directory that is not one of gpuctl's.
    """
    first = len(diagnostics)
    bound = _bound(raw, diagnostics, defaults)
    if bound is not None:
        report_full_width(raw, diagnostics, first)
    return bound


def _bound(
    raw: RawDocument, diagnostics: list[Diagnostic], defaults: dict[str, dict[str, Any]] | None
) -> BoundDocument | None:
    findings = Findings(raw.chunk, raw.root, diagnostics)
    kind = _kind(findings, direct=raw.chunk.source.direct)
    if kind is None:
        return None
    data = _data(findings, kind)
    defaulted = defaults is not None and kind in defaults
    if defaults is not None and defaulted:
        data = with_defaults(kind, defaults[kind], data)
    if kind == "training" and ("sweep" in data or ("sweep",) in findings.bad):
        return _bound_sweep(findings, data)
    return _bound_data(
        findings, kind, data, has_references=defaulted or raw.is_overridden or _may_refer(raw.chunk.text)
    )


def _bound_data(findings: Findings, kind: str, data: dict[str, Any], *, has_references: bool) -> BoundDocument:
    """Return the document with these data."""
    if kind in WORKLOADS and has_references:
        _expand_templates(findings, kind, data)
    if kind == "training":
        # For the templates only: a job of a sweep has its values in `job.sweep`.
        data.pop("sweep", None)
    model = _model(findings, kind, data)
    if model is not None or kind not in WORKLOADS:
        return BoundDocument(kind, model)
    return BoundDocument(kind, None, partial_model(kind_shape(kind), data, findings.bad))  # type: ignore[arg-type]


def _kind(findings: Findings, *, direct: bool) -> str | None:
    """Return the document's canonical kind; None, after a diagnostic, if it is not one of gpuctl's kinds."""
    root, file = findings.root, findings.chunk.source.name
    node, text = kind_of(root)
    kind = ALIASES.get(text or "", text or "")
    if kind in KINDS:
        return kind
    owner = DocumentOwner.GPUCTL if direct else document_owner(root, file)
    if owner is DocumentOwner.GPUCTL:
        _report_no_kind(findings, node, text)
    elif not _is_manifest_of_ours(root):
        _report_foreign(findings, owner, node, text)
    return None


def _report_no_kind(findings: Findings, node: YamlNode | None, text: str | None) -> None:
    root = findings.root
    if root.kind != MAPPING:
        source = findings.chunk.source
        hint = None
        if re.search(r"(?m)^#SBATCH\b", source.text):
            hint = say("`gpuctl import {file}` prints the document of a batch script", file=source.name)
        elif root.kind == SCALAR:
            hint = joined_text_hint(root.value, kind_shape("training"))
        findings.at_node("GPU106", say("a document must be a mapping that starts with `kind:`"), root, (), hint)
    elif node is not None and text is not None:
        close = near_kind(text) or _OTHER_KINDS.get(fold(text)) or nearest(text, [*KINDS, *ALIASES])
        hint = suggest_name(close) or say("the kinds are {kinds}", kinds=list(KINDS))
        if document_owner(root, findings.chunk.source.name) is DocumentOwner.OTHER_TOOL:
            hint = say("this is a Kubernetes manifest already; `kubectl apply -f` takes it")
        findings.at_node("GPU102", say("unknown kind `{name}`", name=shorten(text)), node, ("kind",), hint)
    elif (written := child(root, "kind")) is not None and not written[1].is_null:
        report_wrong_kind(findings, written[1], written[0], ("kind",), SCALAR)
    else:
        misspelt = misspelt_kind(root)
        first = misspelt or (written[0] if written else root.value[0][0] if root.value else root)
        hint = say("add `kind:` with one of {kinds}", kinds=list(KINDS)) if misspelt is None else suggest_name("kind")
        findings.at_node("GPU101", say("the document has no `kind`"), first or root, (), hint)


def _report_foreign(findings: Findings, owner: DocumentOwner, node: YamlNode | None, text: str | None) -> None:
    if text is not None:
        what = say("kind `{name}`", name=shorten(text))
    elif findings.root.kind == MAPPING:
        what = say("a document without `kind`")
    else:
        what = say("a document that is not a mapping")
    span = findings.chunk.span(node) if node is not None else findings.span(())
    if owner is DocumentOwner.OTHER_TOOL:
        found = Diagnostic(
            Severity.NOTE, "GPU105", say("{document} is not a gpuctl document: skipped", document=what), span
        )
    else:
        hint = say("add an `apiVersion` and a `kind` if it is a manifest, or move it elsewhere")
        message = say("{document} is skipped: its owner is unclear", document=what)
        found = Diagnostic(Severity.NOTE, "GPU107", message, span, hint=hint)
    findings.diagnostics.append(found)


def _data(findings: Findings, kind: str) -> dict[str, Any]:
    """Return the data of the first pass, with kind and version filled in."""
    data = conform(findings, kind)
    data["kind"] = kind
    if "version" not in data and ("version",) not in findings.bad:
        message = say("the document has no `version`; {version} is assumed", version=VERSION)
        hint = say("add `version: {version}`", version=VERSION)
        found = Diagnostic(Severity.WARNING, "GPU103", message, findings.span(()), ("version",), hint)
        findings.diagnostics.append(found)
        data["version"] = VERSION
    if kind == "platform":
        for partial_kind, partial in (data.get("defaults") or {}).items():
            _check_defaults(findings, partial_kind, partial)
    return data


def _check_defaults(findings: Findings, kind: str, partial: dict[str, Any]) -> None:
    """Validate a platform's defaults, completed to a whole document, so that mistakes are reported in the platform
    file.
    """
    skeleton = {"kind": kind, "version": VERSION, "job": {"name": "x"}, "environment": {"image": "x"}}
    for key in ("name", "namespace"):
        if key in partial.get("job", {}):
            findings.at_path(
                "GPU213", say("a default `{name}` would apply to every job", name=key), ("defaults", kind, "job", key)
            )
    for field, message in (
        ("profiles", Template("a profile belongs to one document")),
        ("sweep", Template("a sweep belongs to one document")),
    ):
        if field in partial:
            findings.at_path("GPU213", say(message), ("defaults", kind, field), key=True)
    partial = {key: value for key, value in partial.items() if key != "sweep"}
    data = merge(skeleton, without_references(partial))
    try:
        kind_shape(kind).model.model_validate(data)
    except ValidationError as error:
        report_model_errors(findings, error, data, ("defaults", kind))


def _bound_sweep(findings: Findings, data: dict[str, Any]) -> BoundDocument:
    """Return a training with a sweep and the models of its jobs, or of the first job with errors."""
    jobs = job_data(findings, data)
    if not jobs:
        data.pop("sweep", None)
        findings.failed = True
        return _bound_data(findings, "training", without_references(data), has_references=False)
    models: list[Model] = []
    for job in jobs:
        own = Findings(findings.chunk, findings.root, [])
        own.bad, own.misspelt, own.failed = set(findings.bad), findings.misspelt, findings.failed
        values = job["sweep"]
        bound = _bound_data(own, "training", job, has_references=True)
        if bound.model is None:
            findings.diagnostics += with_job(findings, own.diagnostics, values) if models else own.diagnostics
            findings.failed = True
            return bound
        models.append(bound.model)
    return BoundDocument("training", models[0], jobs=tuple(models))


def _may_refer(text: str) -> bool:
    """Return True if a document may contain references: braces, or backslashes that may escape braces."""
    return "{{" in text or "\\" in text


def _expand_templates(findings: Findings, kind: str, data: dict[str, Any]) -> None:
    """Replace references such as ``{{job.name}}``. A reference that cannot be resolved is reported at its position."""

    def report(path: FieldPath, written: str, message: Sentence, hint: Sentence | None) -> None:
        findings.add("GPU301", message, within(findings.chunk, findings.span(path), written), path, hint)

    findings.bad |= expand(data, kind_shape(kind), report)


def _model(findings: Findings, kind: str, data: dict[str, Any]) -> Model | None:
    """Return the result of the second pass: the model, or None if pydantic reported errors."""
    try:
        model: Model = kind_shape(kind).model.model_validate(data)  # type: ignore[assignment]
    except ValidationError as error:
        report_model_errors(findings, error, data)
        return None
    return None if findings.failed else model
