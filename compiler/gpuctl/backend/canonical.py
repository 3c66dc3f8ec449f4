"""The canonical form of a document: what is embedded in objects, and what ``lift`` gives back."""

from __future__ import annotations

import json
from typing import Any

from gpuctl.backend.context import Context, Object
from gpuctl.frontend.document import Document
from gpuctl.frontend.templates import escape_document
from gpuctl.language.job import Workload


def canonical(document: Document) -> dict[str, Any]:
    """A document's data with canonical keys, only what was written, references replaced, the namespace filled in.

    Reading it again gives an equal document, whatever the default namespace and whether or not its pool is there.
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
        if document.gpu_type:
            result["resources"] = {**result["resources"], "gpu-type": document.gpu_type}
        result = escape_document(result)
    return result


def embed(context: Context, document: Document, obj: Object) -> None:
    """Add the document to its main object as annotation ``document``, in place."""
    text = json.dumps(canonical(document), ensure_ascii=False, separators=(",", ":"))
    metadata = obj["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), context.label("document"): text}
