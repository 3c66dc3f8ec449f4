"""``gpuctl apply``: bring the cluster to what documents say."""

from __future__ import annotations

import click

from gpuctl.cli.connecting import changing_options, cluster_options
from gpuctl.cli.inputs import chosen_inputs, compile_options, input_options


@click.command(
    "apply",
    short_help="Bring the cluster to what documents say.",
    epilog="Examples:\n\n  $ gpuctl apply -f training.yaml\n\n  $ gpuctl apply -f jobs/ --set team-a --prune",
)
@input_options
@compile_options
@cluster_options
@click.option(
    "--dry-run",
    type=click.Choice(["client", "server"]),
    help="Print the plan and change nothing: checked by the API server, or compared here alone.",
)
@click.option("--set", "set_name", metavar="NAME", help="Record what is applied as a set, for --prune.")
@click.option("--prune", is_flag=True, help="Delete what the set contains and the documents no longer do.")
@click.option("--allow-source", is_flag=True, help="Let the set come from other files than before.")
@click.option("--allow-empty", is_flag=True, help="Let --prune delete all, when there is no document left.")
@click.option("--strategy", type=click.Choice(["replace", "rolling"]), help="How changed services are changed.")
@click.option("--relower", is_flag=True, help="Replace also what only a newer gpuctl lowers otherwise.")
@click.option("--adopt", is_flag=True, help="Take over objects and fields that others hold.")
@click.option("--force", is_flag=True, help="End the pods of what is replaced without their grace period.")
@click.option("--wait", is_flag=True, help="Wait until what was applied runs, or is finished.")
@changing_options
def command(
    filenames: tuple[str, ...],
    paths: tuple[str, ...],
    platform: str | None,
    namespace: str | None,
    strict: bool,
    kubeconfig: str | None,
    context: str | None,
    dry_run: str | None,
    set_name: str | None,
    prune: bool,
    allow_source: bool,
    allow_empty: bool,
    strategy: str | None,
    relower: bool,
    adopt: bool,
    force: bool,
    wait: bool,
    yes: bool,
    timeout: float,
    output: str,
    as_json: bool,
) -> int:
    """Bring the cluster to what documents say.

    What did not change is left alone. What changed is deleted and created again; everything is checked before anything
    is deleted, and if the new object cannot be created the old one is. What would end running work is asked first.
    """
    from gpuctl.cli.changing import Manner, apply_documents
    from gpuctl.cli.requests import Documents

    inputs = chosen_inputs(filenames, paths, "gpuctl apply -f training.yaml")
    as_json = as_json or output == "json"
    manner = Manner(kubeconfig, context, yes, timeout, as_json, dry_run=dry_run, force=force, wait=wait)
    return apply_documents(
        Documents(inputs, platform, namespace, strict),
        manner,
        set_name=set_name,
        prune=prune,
        allow_source=allow_source,
        allow_empty=allow_empty,
        strategy=strategy,
        relower=relower,
        adopt=adopt,
    )
