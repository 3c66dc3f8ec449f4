"""``gpuctl delete``: take away what documents, or the names of jobs, pools, quotas and namespaces, stand for."""

from __future__ import annotations

import click

from gpuctl.cli.options.completing import complete_deletion
from gpuctl.cli.options.connecting import changing_options, cluster_options
from gpuctl.cli.options.document_options import chosen_inputs, compile_options

KINDS = {
    "job": "job",
    "jobs": "job",
    "pool": "pool",
    "pools": "pool",
    "quota": "quota",
    "quotas": "quota",
    "namespace": "namespace",
    "namespaces": "namespace",
    "ns": "namespace",
}
"""What can be deleted by name, by each of its names."""


@click.command(
    "delete",
    short_help="Delete jobs, pools and quotas, by file or by name.",
    epilog="Examples:\n\n  $ gpuctl delete -f training.yaml\n\n  $ gpuctl delete job qwen-sft\n\n"
    "  $ gpuctl delete pool training-pool --yes",
)
@click.argument("arguments", nargs=-1, metavar="[KIND NAME...] [FILE...]", shell_complete=complete_deletion)
@click.option("-f", "--filename", "filenames", multiple=True, metavar="FILE", help="A file, a directory, or -.")
@compile_options
@cluster_options
@click.option("--force", is_flag=True, help="End pods without their grace period, and nothing else.")
@click.option("--keep-labels", is_flag=True, help="Leave a pool's labels on its nodes.")
@click.option("--namespace-too", is_flag=True, help="With a quota delete its namespace, and all that is in it.")
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
    namespace_too: bool,
    yes: bool,
    timeout: float,
    output: str,
    as_json: bool,
) -> int:
    """Delete jobs, pools, quotas and namespaces, and wait until they are gone.

    KIND is job, pool, quota or namespace; without it files are named. Deleted is what gpuctl makes from the documents,
    and nothing else: other objects with the same labels stay, and so do namespaces and priority classes. A pool's jobs
    go on running; the GPU types of its nodes stay. A quota's name is its user's, or its document's.
    """
    from gpuctl.cli.changing import Manner, delete_documents, delete_jobs

    manner = Manner(kubeconfig, context, yes, timeout, output == "json" or as_json, force=force)
    kind = KINDS.get(arguments[0]) if arguments else None
    if namespace_too and kind != "quota":
        raise click.UsageError("--namespace-too goes with `gpuctl delete quota USER`")
    if kind is not None:
        if filenames:
            raise click.UsageError(f"Name {kind}s, or files with -f; not both")
        names = [name.rpartition("/")[2] for name in arguments[1:]]
        if not names or not all(names):
            raise click.UsageError(f"Name the {kind}: `gpuctl delete {kind} NAME`")
        if kind == "job":
            return delete_jobs(names, namespace, platform, manner)
        from gpuctl.cli.removing import Removal, remove

        return remove(Removal(kind, names, platform, keep_labels, namespace_too), manner)
    from gpuctl.cli.options.planning_options import Documents

    inputs = chosen_inputs(filenames, arguments, "gpuctl delete -f training.yaml")
    return delete_documents(Documents(inputs, platform, namespace, strict), manner, keep_labels=keep_labels)
