"""``gpuctl new``: ask for the fields of a starter document."""

from __future__ import annotations

import sys

import click

from gpuctl.cli.commands.init import checked_name, print_starter, starter_options
from gpuctl.language.kinds import KINDS, WORKLOADS
from gpuctl.usecases.documents.starter_documents import pools_to_choose


@click.command(
    "new",
    short_help="Ask for the fields of a starter document, and print it.",
    epilog="Example:\n\n  $ gpuctl new training --gpu 2 > new.yaml",
)
@starter_options
def command(kind: str | None, name: str | None, image: str | None, gpu: int | None, pool: str | None) -> int:
    """Print a commented, valid document of a KIND, as `gpuctl init` does.

    On a terminal it asks for what no option names: kind, name, image, GPUs, and one of the cluster's pools. The
    questions go to standard error, so that `gpuctl new > job.yaml` writes the document only.
    """
    if not sys.stdin.isatty():
        return print_starter(kind, name, image, gpu, pool)
    if kind is None:
        kind = click.prompt("Kind", type=click.Choice(KINDS), default="training", err=True)
    if name is None and kind != "platform":
        name = click.prompt("Name", default=f"my-{kind}", value_proc=lambda text: checked_name(kind, text), err=True)
    if kind in WORKLOADS:
        image = image or click.prompt("Image", err=True)
        if gpu is None:
            gpu = click.prompt(
                "GPUs of a pod", type=click.IntRange(min=0), default=0 if kind == "compute" else 1, err=True
            )
        if pool is None and (pools := pools_to_choose()):
            pool = click.prompt("Pool", type=click.Choice([*pools, "default"]), default=pools[0], err=True)
    return print_starter(kind, name, image, gpu, pool)
