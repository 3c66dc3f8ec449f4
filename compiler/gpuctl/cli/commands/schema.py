"""``gpuctl schema``: print the JSON Schema with which an editor completes and checks documents."""

from __future__ import annotations

import click

from gpuctl.cli.commands.init import complete_kind
from gpuctl.language.json_schema import combined_schema, schema_of, to_json
from gpuctl.language.kinds import ALIASES, KINDS
from gpuctl.language.reference import kind_called
from gpuctl.language.spelling import nearest


@click.command(
    "schema",
    short_help="Print the JSON Schema of a kind, for editors.",
    epilog="Example:\n\n  $ gpuctl schema training > training.schema.json\n\n"
    "VS Code with the YAML extension, and every editor with yaml-language-server, uses it in a document that starts "
    "with this line:\n\n  # yaml-language-server: $schema=training.schema.json",
)
@click.argument("kind", required=False, metavar="[KIND]", shell_complete=complete_kind)
def command(kind: str | None) -> int:
    """Print the JSON Schema (draft-07) of a KIND; without KIND, one for documents of every kind.

    It accepts what gpuctl accepts, in every spelling of the keys. It finds errors within one document; `gpuctl
    validate` finds the others.
    """
    if kind is None:
        click.echo(to_json(combined_schema()), nl=False)
        return 0
    known = kind_called(kind)
    if known is None:
        close = nearest(kind, [*KINDS, *ALIASES])
        hint = f"Did you mean `gpuctl schema {close}`?" if close else f"The kinds are {', '.join(KINDS)}."
        raise click.UsageError(f"There is no kind `{kind}`. {hint}")
    click.echo(to_json(schema_of(known)), nl=False)
    return 0
