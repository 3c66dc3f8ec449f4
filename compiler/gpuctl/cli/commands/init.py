"""``gpuctl init``: print a commented, valid starter document."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gpuctl.cli.commands.explain import kinds
from gpuctl.cli.options.completion_callbacks import complete_pool
from gpuctl.cli.output import text
from gpuctl.cli.output.printing import show_next_steps
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.hints import NextStep, use_document
from gpuctl.language.kinds import ALIASES, KINDS, WORKLOADS
from gpuctl.language.names import is_dns_1035_label, longest_job_name, nearest_dns_label
from gpuctl.language.spelling import nearest
from gpuctl.usecases.documents.change_options import InvalidOptions
from gpuctl.usecases.documents.starter_documents import starter_document

Function = TypeVar("Function", bound=Callable[..., Any])


def _kind(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    kind = ALIASES.get(value, value)
    if kind not in KINDS:
        close = nearest(value, KINDS)
        hint = f"Did you mean `{close}`?" if close else f"The kinds are {', '.join(KINDS)}."
        raise click.BadParameter(f"there is no kind `{value}`. {hint}", context, parameter)
    return kind


def complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete kinds of documents."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def checked_name(kind: str, name: str) -> str:
    """Return a legal name of a document of a kind.

    :raises click.UsageError: it is not legal, or the kind has none.
    """
    if kind == "platform":
        raise click.UsageError("A platform has no name.")
    if not is_dns_1035_label(name):
        legal = nearest_dns_label(name, letter_first=True)
        hint = f" Did you mean `{legal}`?" if legal else ""
        raise click.BadParameter(f"`{name}` is not a legal name.{hint}", param_hint="--name")
    longest, reason = longest_job_name(kind) if kind in WORKLOADS else (63, "it is a label")
    if len(name) > longest:
        raise click.BadParameter(f"the name can have {longest} characters, because {reason}.", param_hint="--name")
    return name


def starter_options(function: Function) -> Function:
    """Add KIND and the options of a starter document."""
    for decorate in (
        click.option("--pool", metavar="NAME", help="Pool of a job's pods.", shell_complete=complete_pool),
        click.option("--gpu", type=click.IntRange(min=0), metavar="N", help="GPUs of each pod of a job."),
        click.option("--image", metavar="IMAGE", help="Container image of a job."),
        click.option("--name", metavar="NAME", help="Name of the job, pool or quota."),
        click.argument("kind", required=False, metavar="KIND", callback=_kind, shell_complete=complete_kind),
    ):
        function = decorate(function)
    return function


@click.command(
    "init",
    short_help="Print a commented starter document.",
    epilog="Example:\n\n  $ gpuctl init training > training.yaml",
)
@starter_options
def command(kind: str | None, name: str | None, image: str | None, gpu: int | None, pool: str | None) -> int:
    """Print a commented, valid document of a KIND: training, inference, notebook, compute, pool, quota or platform.

    `gpuctl new` asks for the values.
    """
    return print_starter(kind, name, image, gpu, pool)


def print_starter(kind: str | None, name: str | None, image: str | None, gpu: int | None, pool: str | None) -> int:
    """Print a starter document with these values, and the next steps."""
    if kind is None:
        listed = "".join(f"\n  gpuctl init {known:<9}  {about}" for known, about in kinds({}))
        raise click.UsageError(f"Name the KIND of the document:{listed}")
    if name is not None:
        checked_name(kind, name)
    given = {"environment.image": image, "resources.gpu": gpu, "resources.pool": pool}
    fields = {path: str(value) for path, value in given.items() if value is not None}
    if fields and kind not in WORKLOADS:
        raise click.UsageError(f"--image, --gpu and --pool are for jobs, not for a {kind}.")
    try:
        document = starter_document(kind, name, fields)
    except InvalidOptions as error:
        raise click.UsageError(str(error)) from None
    except InvalidDocuments as error:
        text.write(error.diagnostics, error.sources, sys.stderr)
        return 1
    click.echo(document, nl=False)
    if sys.stdout.isatty():
        file = f"{kind}.yaml"
        options = {"--name": name, "--image": image, "--gpu": gpu, "--pool": pool}
        words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
        show_next_steps(NextStep(("init", kind, *words), "writes it to a file", file), *use_document(file))
    else:
        show_next_steps(*use_document("FILE"))
    return 0
