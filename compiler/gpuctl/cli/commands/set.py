"""``gpuctl set``: change fields of documents in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpuctl.api.document_answers import SetAnswer, SetField
from gpuctl.cli.output import json, text
from gpuctl.cli.output.file_changes import print_difference, replace_file
from gpuctl.cli.output.printing import show_value
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import STDIN, collect
from gpuctl.usecases.documents.change_options import InvalidOptions
from gpuctl.usecases.documents.field_setting import set_fields


@click.command(
    "set",
    short_help="Change fields of documents in a file.",
    epilog="Examples:\n\n  $ gpuctl set training.yaml resources.gpu=2 environment.env.LR=2e-5\n\n"
    "  $ gpuctl set training.yaml --image train=registry.example.com/train:v2",
)
@click.argument("file", type=click.Path(dir_okay=False), metavar="FILE")
@click.argument("fields", nargs=-1, metavar="[[NAME:]PATH=VALUE]...")
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="NAME=REF",
    help="Use this image wherever one is called NAME, without its tag; repeatable.",
)
@click.option("--job", metavar="NAME", help="The document to change, if the file has several.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the file would change.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format.")
def command(
    file: str, fields: tuple[str, ...], images: tuple[str, ...], job: str | None, check: bool, output: str
) -> int:
    """Change fields of documents in a FILE, and print the difference. A PATH is written as `gpuctl explain` takes it, a
    VALUE as in the file.

    Comments, quotes, order and line breaks stay. A field that is missing is added, and one that the new value excludes
    is removed. The result is checked; a file that would not be valid is not written. Standard input (-) is printed with
    the changes.
    """
    if not fields and not images:
        raise click.UsageError("Name a field: `gpuctl set train.yaml resources.gpu=8`")
    found = collect([file])
    try:
        if not found.sources:
            raise InvalidDocuments(found.diagnostics, {})
        source = found.sources[0]
        result = set_fields(source, fields, images, job)
    except InvalidOptions as error:
        raise click.UsageError(str(error)) from None
    except InvalidDocuments as error:
        text.write(error.diagnostics, error.sources, sys.stderr)
        if output == "json":
            click.echo(json.render(error.diagnostics), nl=False)
        click.echo(f"{file}: not changed", err=True)
        return 1
    before, after = source.mark + source.text, source.mark + result.text
    changed = after != before
    is_stream = source.name == STDIN
    if changed and not check and not is_stream:
        replace_file(Path(source.path or source.name), after)
    for document, path in result.removed if output == "text" else ():
        click.echo(f"{document}: `{path}` is removed; it cannot stand beside the new values", err=True)
    if output == "json":
        items = [
            SetField(document=name, path=change.path, old=change.old, new=change.new) for name, change in result.changes
        ]
        show_value(SetAnswer(file=source.name, written=changed and not check, changes=items).as_json(), "json")
    elif is_stream and not check:
        sys.stdout.write(after)
    else:
        print_difference(before, after, (f"{source.name} (before)", f"{source.name} (after)"))
    return 1 if check and changed else 0
