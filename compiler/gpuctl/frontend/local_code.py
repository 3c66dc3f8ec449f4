"""The archive of a document's ``code.local``, packed once for all documents with the same directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuctl.frontend.code_problem import CodeProblem
from gpuctl.frontend.document import Document

if TYPE_CHECKING:
    from gpuctl.frontend.code_archive import CodeArchive


def local_code(document: Document) -> CodeArchive | CodeProblem | None:
    """Return the archive of a document's code, or why it cannot be packed.

    None without ``code.local``, or if the document is in no file.
    """
    code = getattr(document.model, "code", None)
    tree = document.chunk.source.tree
    if code is None or code.local is None or tree is None:
        return None
    # Imported here: few documents need the modules.
    from gpuctl.frontend.code_archive import pack

    if code.local not in tree.cache:
        try:
            tree.cache[code.local] = pack(tree, code.local)
        except CodeProblem as problem:
            tree.cache[code.local] = problem
    found: CodeArchive | CodeProblem = tree.cache[code.local]
    return found
