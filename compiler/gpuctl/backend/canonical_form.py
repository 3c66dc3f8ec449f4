"""The canonical form of a document, which is embedded in objects and returned by ``lift``."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpuctl.backend.code_config_map import code_digest
from gpuctl.backend.lowering_context import Context
from gpuctl.frontend.diagnostics import Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.templates import escape_document
from gpuctl.language.sentences import say
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import Object
from gpuctl.objects.embedded_document import document_text

_APART = {
    *("kind", "version", "kubernetes", "clusters", "strategy", "drift"),
    *("gitops", "prometheus", "prices", "usage", "quota"),
}
"""Fields of a platform that do not affect the lowering of trainings. The GitOps choice is part of the output options.
"""


def canonical(document: Document) -> dict[str, Any]:
    """Return a document's written fields with canonical keys, references replaced and the namespace filled in.

    Reading the result gives an equal document, whatever the default namespace and with or without its pool.
    """
    data = document.model.model_dump(by_alias=True, exclude_unset=True)
    result: dict[str, Any] = {"kind": document.kind, "version": data.pop("version", "v0.1")}
    data.pop("kind", None)
    result.update(data)
    if isinstance(document.model, Workload):
        job = dict(result["job"])
        name = job.pop("name")
        job.pop("namespace", None)
        result["job"] = {"name": name, "namespace": document.namespace, **job}
        if document.gpu_types:
            kept = document.gpu_types[0] if len(document.gpu_types) == 1 else list(document.gpu_types)
            result["resources"] = {**result["resources"], "gpu-type": kept}
        if document.model.code is not None and document.model.code.local is not None:
            result["code"] = {**result["code"], "sha256": code_digest(document)}
        result = escape_document(result)
    return result


def lowered_from(context: Context, document: Document) -> str:
    """Return a digest of everything a training is lowered from: its document, the platform and the output options.

    Another version of gpuctl computes the same digest for the same input, even if it lowers it differently.
    """
    platform = context.settings.platform.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_APART)
    facts = [canonical(document), platform, context.options.gitops, context.options.embed]
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def embed(context: Context, document: Document, obj: Object) -> None:
    """Add the document to its main object as annotation ``document``, in place, or a note if it does not fit."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations", {})
    text = document_text(canonical(document), annotations)
    if text is not None:
        metadata["annotations"] = {**annotations, context.label("document"): text}
        return
    context.report(
        document,
        "GPU609",
        say(
            "the {kind} has no room for a copy of this document: annotations have at most 256 KiB, compressed",
            kind=obj["kind"],
        ),
        ("kind",),
        say("move large values from the document to a file in the image or a ConfigMap"),
        severity=Severity.NOTE,
        key=True,
    )
