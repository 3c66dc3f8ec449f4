"""``gpuctl delete``: take away what documents, or a job's name, stand for."""

from __future__ import annotations

import click

from gpuctl.cli.connecting import changing_options, cluster_options
from gpuctl.cli.inputs import chosen_inputs, compile_options


@click.command(
    "delete",
    short_help="Delete jobs, by file or by name.",
    epilog="Examples:\n\n  $ gpuctl delete -f training.yaml\n\n  $ gpuctl delete job qwen-sft",
)
@click.argument("arguments", nargs=-1, metavar="[job NAME...] [FILE...]")
@click.option("-f", "--filename", "filenames", multiple=True, metavar="FILE", help="A file, a directory, or -.")
@compile_options
@cluster_options
@click.option("--force", is_flag=True, help="End pods without their grace period, and nothing else.")
@click.option("--keep-labels", is_flag=True, help="Leave a pool's labels on its nodes.")
@changing_options
def command(
    arguments: tuple[str, ...],
    filenames: tuple[str, ...],
    platform: str | None,
    namespace: str | None,
    strict: bool,
    kubeconfig: str | None,
    context: str | None,
    force: bool,
    keep_labels: bool,
    yes: bool,
    timeout: float,
    output: str,
    as_json: bool,
) -> int:
    """Delete jobs, pools and quotas, and wait until they are gone.

    Deleted is what gpuctl makes from the documents, and nothing else: other objects with the same labels stay, and so
    do namespaces and priority classes.
    """
    from gpuctl.cli.changing import Manner, delete_documents, delete_jobs
    from gpuctl.cli.requests import Documents

    manner = Manner(kubeconfig, context, yes, timeout, output == "json" or as_json, force=force)
    if arguments and arguments[0] in ("job", "jobs"):
        if filenames:
            raise click.UsageError("Name jobs, or files with -f; not both")
        if len(arguments) == 1:
            raise click.UsageError("Name the job: `gpuctl delete job NAME`")
        return delete_jobs(arguments[1:], namespace, manner)
    inputs = chosen_inputs(filenames, arguments, "gpuctl delete -f training.yaml")
    return delete_documents(Documents(inputs, platform, namespace, strict), manner, keep_labels=keep_labels)
