"""``gpuctl init``: a commented, valid starter document."""

from __future__ import annotations

import click

KINDS = ("training", "inference", "notebook", "compute", "pool", "quota", "platform")


@click.command(
    "init",
    short_help="Print a commented starter document.",
    epilog="Example:\n\n  $ gpuctl init training > training.yaml",
)
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.option("--name", metavar="NAME", help="Name of the job, pool or quota.")
def command(kind: str, name: str | None) -> int:
    """Print a commented, valid document of a KIND: training, inference, notebook, compute, pool, quota or platform."""
    from importlib.resources import files

    from gpuctl.language.kinds import WORKLOADS
    from gpuctl.language.names import is_dns_1035_label, longest_job_name, nearest_dns_label

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
    return 0
