"""``gpuctl init``: print a commented, valid starter document."""

from __future__ import annotations

import sys
from importlib.resources import files

import click

from gpuctl.cli.commands.explain import kinds
from gpuctl.cli.output.printing import show_next_steps
from gpuctl.hints import NextStep, use_document
from gpuctl.language.kinds import ALIASES, KINDS, WORKLOADS
from gpuctl.language.names import is_dns_1035_label, longest_job_name, nearest_dns_label
from gpuctl.language.spelling import nearest


def _kind(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value is None:
        listed = "".join(f"\n  gpuctl init {kind:<9}  {text}" for kind, text in kinds())
        raise click.UsageError(f"Name the KIND of the document:{listed}", context)
    kind = ALIASES.get(value, value)
    if kind not in KINDS:
        close = nearest(value, KINDS)
        hint = f"Did you mean `{close}`?" if close else f"The kinds are {', '.join(KINDS)}."
        raise click.BadParameter(f"there is no kind `{value}`. {hint}", context, parameter)
    return kind


def complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete kinds of documents."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@click.command(
    "init",
    short_help="Print a commented starter document.",
    epilog="Example:\n\n  $ gpuctl init training > training.yaml",
)
@click.argument("kind", required=False, metavar="KIND", callback=_kind, shell_complete=complete_kind)
@click.option("--name", metavar="NAME", help="Name of the job, pool or quota.")
def command(kind: str, name: str | None) -> int:
    """Print a commented, valid document of a KIND: training, inference, notebook, compute, pool, quota or platform."""
    text = (files("gpuctl.cli") / "starters" / f"{kind}.yaml").read_text(encoding="utf-8")
    if name is not None:
        if kind == "platform":
            raise click.UsageError("A platform has no name.")
        if not is_dns_1035_label(name):
            legal = nearest_dns_label(name, letter_first=True)
            hint = f" Did you mean `{legal}`?" if legal else ""
            raise click.BadParameter(f"`{name}` is not a legal name.{hint}", param_hint="--name")
        longest, reason = longest_job_name(kind) if kind in WORKLOADS else (63, "it is a label")
        if len(name) > longest:
            raise click.BadParameter(f"the name can have {longest} characters, because {reason}.", param_hint="--name")
        first = next(line for line in text.splitlines() if line.startswith("  name: "))
        text = text.replace(first, f"  name: {name}", 1)
    click.echo(text, nl=False)
    if sys.stdout.isatty():
        file, named = f"{kind}.yaml", ("--name", name) if name is not None else ()
        show_next_steps(NextStep(("init", kind, *named), "writes it to a file", file), *use_document(file))
    else:
        show_next_steps(*use_document("FILE"))
    return 0
