"""``gpuctl import``: documents from the job descriptions of other tools."""  # noqa: N999

from __future__ import annotations

import sys
from typing import Any

import click

from gpuctl.cli.options.completion_callbacks import complete_pool
from gpuctl.cli.options.platform_option import platform_option
from gpuctl.cli.output import text
from gpuctl.cli.output.import_lines import import_answer, print_remarks
from gpuctl.cli.output.printing import show_value
from gpuctl.frontend.source import STDIN, Source, collect
from gpuctl.importing.import_values import Given, Missing, completed
from gpuctl.importing.tools import IMPORTERS
from gpuctl.usecases.documents.document_import import ImportedFile, import_file


def _pools(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for name, equals, pool in pairs:
        if not name or not pool:
            written = f"{name}{equals}{pool}"
            raise click.BadParameter(f"`{written}` is not PARTITION=POOL.", context, parameter)
    return {name: pool for name, _, pool in pairs}


@click.command(
    "import",
    short_help="Print documents for the jobs of other tools.",
    epilog="Example:\n\n  $ gpuctl import train.sbatch --image train:v1 > train.yaml",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option(
    "--from",
    "tool",
    type=click.Choice(list(IMPORTERS)),
    help="The tool that the files are for. Default: detected.",
)
@click.option("--name", metavar="NAME", help="Name of the job.")
@click.option("--image", metavar="REF", help="Container image.")
@click.option("--nodes", type=click.IntRange(1, 10000), metavar="N", help="Number of nodes of a training.")
@click.option("--gpus-per-node", type=click.IntRange(0, 1000), metavar="N", help="GPUs of each node.")
@click.option("--cpu", metavar="N", help="CPU cores of each node.")
@click.option("--memory", metavar="AMOUNT", help="Memory of each node: 512Gi.")
@click.option("--pool", metavar="POOL", help="Pool of the job.", shell_complete=complete_pool)
@click.option(
    "--partition", "pools", multiple=True, callback=_pools, metavar="P=POOL", help="Pool of a partition; repeatable."
)
@click.option("--workdir", metavar="DIR", help="Directory in the container where the program starts.")
@click.option("--allow-dropped", is_flag=True, help="Exit 0 even if a line is not in the documents.")
@platform_option("The platform's settings. Default: platform.yaml at or above the files, up to the git root.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Format.")
def command(
    files: tuple[str, ...], tool: str | None, allow_dropped: bool, platform: str | None, output: str, **values: Any
) -> int:
    """Print documents for the jobs of other tools: batch scripts of Slurm, commands of Arena, manifests of PyTorchJobs,
    TrainJobs, Jobs, Deployments and StatefulSets, tasks of SkyPilot and dstack.

    Each line of a FILE (- for standard input) is mapped, changed or dropped; standard error lists the last two. Values
    that the file does not name are options; on a terminal there is a question for each. The documents are checked
    before they are printed. The exit code is 1 if a line is dropped, or if a document is not valid.
    """
    found = collect(files)
    text.write(found.diagnostics, {}, sys.stderr)
    results = [_imported(source, Given(**values), tool, platform) for source in found.sources]
    if output == "json":
        show_value(import_answer(results).as_json(), "json")
    else:
        documents = [document for result in results for document in result.documents]
        sys.stdout.write("---\n".join(documents))
        print_remarks(results, allow_dropped=allow_dropped)
    is_done = not found.diagnostics and all(
        result.is_complete or (allow_dropped and result.is_valid) for result in results
    )
    return 0 if is_done else 1


def _imported(source: Source, given: Given, tool: str | None, platform: str | None) -> ImportedFile:
    """Import a file. On a terminal, ask for what is missing."""
    result = import_file(source, given, tool, platform)
    while result.missing and source.name != STDIN and sys.stdin.isatty():
        for item in result.missing:
            given = completed(given, item, _answer(source, item))
        result = import_file(source, given, tool, platform)
    return result


def _answer(source: Source, item: Missing) -> str:
    click.echo(f"{source.name}:{item.line}: {item.reason}", err=True)
    kind = click.IntRange(min=0 if item.option == "--gpus-per-node" else 1) if item.is_number else click.STRING
    return str(click.prompt(item.question, type=kind, err=True))
