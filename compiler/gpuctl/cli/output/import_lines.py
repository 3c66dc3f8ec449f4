"""The result of ``gpuctl import`` as text and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from gpuctl.api.document_answers import DocumentWarning
from gpuctl.api.import_answers import ImportAnswer, ImportLine, ImportMissing, ImportProblem
from gpuctl.cli.output import text
from gpuctl.importing.line_ledger import Outcome, count_of
from gpuctl.usecases.documents.document_import import ImportedFile


def import_answer(files: Sequence[ImportedFile]) -> ImportAnswer:
    """Return the result as JSON."""
    entries = [(file, entry) for file in files for entry in file.entries]
    return ImportAnswer(
        documents=[document for file in files for document in file.documents],
        **{outcome.value: sum(entry.outcome is outcome for _, entry in entries) for outcome in Outcome},
        ledger=[
            ImportLine(file=file.file, **{**entry._asdict(), "outcome": entry.outcome.value}) for file, entry in entries
        ],
        missing=[
            ImportMissing(file=file.file, line=item.line, option=f"{item.option} {item.value}", reason=item.reason)
            for file in files
            for item in file.missing
        ],
        problems=[
            ImportProblem(file=file.file, **file.problem._asdict()) for file in files if file.problem is not None
        ],
        diagnostics=[DocumentWarning.of(item) for file in files for item in file.diagnostics],
    )


def print_remarks(files: Sequence[ImportedFile], *, allow_dropped: bool) -> None:
    """Print on standard error what differs, what is missing, and the diagnostics of the documents."""
    for file in files:
        for line in _lines(file):
            click.echo(line, err=True)
        text.write(file.diagnostics, file.sources, sys.stderr)
    entries = [entry for file in files for entry in file.entries]
    if any(entry.outcome is not Outcome.MAPPED for entry in entries):
        counts = ", ".join(f"{count_of(entries, outcome)} {outcome.value}" for outcome in Outcome)
        hint = "`-o json` lists all"
        if count_of(entries, Outcome.DROPPED) and not allow_dropped:
            hint += "; `--allow-dropped` accepts what is dropped"
        click.echo(f"{counts}: {hint}", err=True)


def _lines(file: ImportedFile) -> Iterator[str]:
    if file.problem is not None:
        yield f"error: {file.file}:{file.problem.place}: {file.problem.message}: {file.problem.hint}"
    for entry in file.entries:
        if entry.outcome is not Outcome.MAPPED:
            yield f"{entry.outcome.value}: {file.file}:{entry.lines}: `{entry.text}`: {entry.note}"
    for item in file.missing:
        yield f"error: {file.file}:{item.line}: {item.reason}: add `{item.option} {item.value}`"
