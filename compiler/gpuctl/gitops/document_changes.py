"""The differences between documents, in the document's own terms: ``resources.gpu: 4 -> 8``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuctl.backend.canonical_form import canonical
from gpuctl.compilation import Compilation
from gpuctl.gitops.value_change import ValueChange
from gpuctl.gitops.value_comparison import value_changes
from gpuctl.language.masking import masked_pair
from gpuctl.objects.api_resources import Object
from gpuctl.objects.embedded_document import document_of, is_same_document


class DocumentName(NamedTuple):
    """The identity of a document. The namespace is "" for a pool or a quota."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" in {self.namespace}" if self.namespace else "")


NamedDocuments = Mapping[DocumentName, Mapping[str, Any]]


class DocumentChange(NamedTuple):
    """A document that differs between two revisions. Credentials are masked."""

    document: DocumentName
    changes: list[ValueChange]


def documents_of(compilation: Compilation | None) -> NamedDocuments:
    """Return the documents of a compilation in canonical form, by name; a platform has none."""
    documents = compilation.documents if compilation is not None else []
    return {DocumentName(item.kind, item.namespace, item.name): canonical(item) for item in documents if item.name}


def changed_documents(before: NamedDocuments, after: NamedDocuments) -> list[DocumentChange]:
    """Return the documents that differ, sorted by name; new and removed ones are left out."""
    both = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    found = (DocumentChange(name, _masked_changes(before[name], after[name])) for name in both)
    return [change for change in found if change.changes]


def embedded_changes(before: Object, after: Object, key: str) -> list[ValueChange]:
    """Return the differences between the documents in two objects' annotation ``key``, with masked credentials.

    Empty if an object has no document.
    """
    if is_same_document(before, after, key):
        return []
    old, new = document_of(before, key), document_of(after, key)
    return [] if old is None or new is None else _masked_changes(old, new)


def _masked_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ValueChange]:
    # The whole documents are masked: the name of a variable is beside its value, and not in its path.
    return value_changes(*masked_pair(before, after))
