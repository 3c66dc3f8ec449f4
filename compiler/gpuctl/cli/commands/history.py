"""``gpuctl history``: list the applied documents of a job."""

from __future__ import annotations

import re

import click

from gpuctl.api.job_history import HistoryAnswer, JobRevision, RevisionChanges
from gpuctl.apply.state.past_documents import PastDocument
from gpuctl.backend.emitter import emit_object
from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.reading_options import (
    ReadingOptions,
    detail_options,
    namespace_options,
    open_context,
    reading_options,
)
from gpuctl.cli.output.history_lines import HEADERS, cells, notes
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.cli.output.yaml_diff import yaml_diff
from gpuctl.usecases.queries.job_queries import document_history


@click.command(
    "history",
    short_help="List the applied documents of a job.",
    epilog="Examples:\n\n  $ gpuctl history qwen-sft\n\n  $ gpuctl history qwen-sft --revision 3\n\n"
    "  $ gpuctl history qwen-sft --diff 3..5",
)
@click.argument("job", metavar="JOB", shell_complete=complete_job)
@click.option("--revision", type=click.IntRange(min=1), metavar="N", help="Print the document of this revision.")
@click.option("--diff", "compared", metavar="N[..M]", help="Show how M, by default the newest, differs from N.")
@detail_options
@namespace_options
@reading_options
def command(
    job: str,
    revision: int | None,
    compared: str | None,
    output: str,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """List the last ten applied documents of a job, newest first: who applied them, when, and from which commit.

    They are stored without credentials in Secrets of the job's namespace, and remain when the job is deleted. `gpuctl
    rollback` applies one again. Any user who may create Secrets there can add entries: for an audit use the API
    server's audit log.
    """
    if revision is not None and compared is not None:
        raise click.UsageError("--revision prints one document, --diff compares two; not both")
    pair = None if compared is None else _pair(compared)
    machine = output in ("json", "yaml")
    with open_context(reading, namespace, as_json=machine) as read_context:
        history = document_history(read_context, job)
        if pair is not None:
            newest = history.rows[0].past.revision
            _compare(history.at(pair[0]), history.at(pair[1] or newest), output)
        elif revision is not None:
            row = history.row(revision)
            past = row.past
            if machine:
                show_value(JobRevision.of(row).as_json(), output)
            else:
                click.echo(emit_object(past.document), nl=False)
                for note in notes(past):
                    read_context.scope.note(note)
        elif machine:
            show_value(HistoryAnswer.of(history).as_json(), output)
        else:
            show_table(HEADERS, map(cells, history.rows), with_blanks=True)
    return 0


def _pair(text: str) -> tuple[int, int | None]:
    """Return the revisions to compare; None means the newest."""
    match = re.fullmatch(r"([1-9]\d{0,8})(?:\.\.([1-9]\d{0,8}))?", text)
    if match is None:
        raise click.UsageError(f"`{text}` is not a revision (3) or two (3..5)")
    return int(match[1]), int(match[2]) if match[2] else None


def _compare(old: PastDocument, new: PastDocument, output: str) -> None:
    if output == "text":
        titles = (f"revision {old.revision}", f"revision {new.revision}")
        for line in yaml_diff(old.document, new.document, titles):
            click.echo(line, nl=False)
        return
    show_value(RevisionChanges.of(old, new).as_json(), output)
