"""``gpuctl import -o json``: documents of other tools' files, and the ledger of their lines."""

from __future__ import annotations

from gpuctl.api.base_models import ApiModel
from gpuctl.api.document_answers import DocumentWarning


class ImportLine(ApiModel):
    """The outcome of one option, field or command of a file. Lines count from 1.

    ``outcome`` is mapped, changed or dropped; ``field`` is null if it is in no field of the document.
    """

    file: str
    line: int
    last_line: int
    text: str
    outcome: str
    field: str | None
    note: str | None


class ImportMissing(ApiModel):
    """A value that the file does not name, and the option that gives it."""

    file: str
    line: int
    option: str
    reason: str


class ImportProblem(ApiModel):
    """A file that cannot be imported."""

    file: str
    line: int
    message: str
    hint: str


class ImportAnswer(ApiModel):
    """``gpuctl import -o json``. ``documents`` is [] if a value is missing, or the documents are not valid."""

    documents: list[str]
    mapped: int
    changed: int
    dropped: int
    ledger: list[ImportLine]
    missing: list[ImportMissing]
    problems: list[ImportProblem]
    diagnostics: list[DocumentWarning]
