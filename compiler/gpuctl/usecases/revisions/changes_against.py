"""Compare documents with manifests in a directory, or with another git revision of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuctl.compilation import Compilation
from gpuctl.gitops.document_changes import changed_documents, documents_of
from gpuctl.gitops.object_changes import (
    ObjectKey,
    StateChanges,
    by_key,
    differences,
    has_generations,
    key_of,
    objects_in,
    without_delivery,
)
from gpuctl.objects.api_resources import CLAIM
from gpuctl.objects.hashed_names import LOWERED_FROM
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.revisions.revision_pairs import compiled_at, compiled_pair

GIT = "git:"


def changes_against(against: str, documents: DocumentOptions) -> StateChanges:
    """Return the changes from a directory (``DIR``) or a revision (``git:REF``) to the documents on disk.

    :raises BuildError: the directory has no manifests, or they cannot be read.
    :raises RevisionError: the revision cannot be read.
    :raises InvalidRevisionDocuments: documents do not compile.
    """
    if against.startswith(GIT):
        pair = compiled_pair(against.removeprefix(GIT), None, documents)
        changed = changed_documents(documents_of(pair.before), documents_of(pair.after))
        return StateChanges(changed, differences(_objects(pair.before), _objects(pair.after)))
    before = objects_in(Path(against))
    now = compiled_at(None, documents, job_names="hashed" if has_generations(before) else "plain")
    return StateChanges([], differences(*_comparable(before, now)))


def _objects(compilation: Compilation | None) -> dict[ObjectKey, Any]:
    return by_key(compilation.objects) if compilation is not None else {}


def _comparable(
    before: dict[ObjectKey, Any], now: Compilation | None
) -> tuple[dict[ObjectKey, Any], dict[ObjectKey, Any]]:
    """Return both sides without what depends on how the directory was rendered: delivery, Node labels, shared
    objects.
    """
    after = _objects(now)
    # The manifest of a namespace stays in a build directory when no document needs it.
    before = {key: obj for key, obj in before.items() if key.kind != "Namespace" or key in after}
    if now is None:
        return before, {}
    records = [now.settings.label("document"), now.settings.label(LOWERED_FROM)]
    left_out = _left_out(before, now)
    after = {key: without_delivery(obj, records) for key, obj in after.items() if key not in left_out}
    return {key: without_delivery(obj, records) for key, obj in before.items()}, after


def _left_out(before: dict[ObjectKey, Any], now: Compilation) -> set[ObjectKey]:
    """Return the shared objects that the directory was rendered without, judged by the objects of each group in it."""
    shared: dict[str, set[ObjectKey]] = {}
    for item in now.lowered:
        if item.shared and item.object["kind"] != CLAIM:
            kind = item.object["kind"]
            # A quota's output contains its namespaces even if a job's does not.
            own = kind == "Namespace" and item.document.kind not in ("quota", "platform")
            group = kind if kind == "Node" or own else ""
            shared.setdefault(group, set()).add(key_of(item.object))
    rendered = {group for group, keys in shared.items() if any(key in before for key in keys)}
    return {key for group, keys in shared.items() if group not in rendered for key in keys if key not in before}
