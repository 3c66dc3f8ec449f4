"""The result of an import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import Missing
from gpuctl.importing.line_ledger import LedgerEntry


class Imported(NamedTuple):
    """The documents of one source, with the ledger of its lines. The documents are complete if nothing is missing."""

    tool: str
    drafts: Sequence[Draft]
    entries: Sequence[LedgerEntry]
    missing: Sequence[Missing] = ()
