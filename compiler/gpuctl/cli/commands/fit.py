"""``gpuctl fit``: whether jobs would get their pods placed, and what stands against it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gpuctl.cli.options.connecting import cluster_options, json_option
from gpuctl.cli.options.document_options import chosen_inputs, compile_options, input_options
from gpuctl.cli.options.snapshots import check_choice, loaded, snapshot_option, tell_unreadable

if TYPE_CHECKING:
    from gpuctl.capacity.fit import Fit
    from gpuctl.capacity.snapshot import Snapshot
    from gpuctl.cli.options.planning_options import Documents
    from gpuctl.compilation import Compilation

_HOLDERS = 3
# What documents say of pools' nodes, nodes themselves know better: whether a pool, a type, so large a node is there.
_SETTLED = frozenset({"GPU401", "GPU402", "GPU403"})
SAID = {
    "fits": "fits now",
    "preempts": "fits by evicting others",
    "fits-when-empty": "does not fit now, only when others end",
    "never": "never fits",
    "unknown": "is unknown",
}
"""What each verdict is called."""
_COLOURS = {"fits": "green", "preempts": "yellow", "fits-when-empty": "red", "never": "red", "unknown": "magenta"}


@click.command(
    "fit",
    short_help="Tell whether jobs would find room, and whom they would evict.",
    epilog="Exit code 0: every job fits, perhaps by evicting others; 1: some job does not; above: it could not be "
    "told.\n\nExample:\n\n  $ gpuctl fit -f training.yaml --snapshot cluster.json",
)
@input_options
@compile_options
@cluster_options
@snapshot_option("Judge by what `gpuctl snapshot` wrote (- for standard input), not by the cluster itself.")
@json_option
def command(
    filenames: tuple[str, ...],
    paths: tuple[str, ...],
    platform: str | None,
    namespace: str | None,
    strict: bool,
    kubeconfig: str | None,
    context: str | None,
    snapshot_file: str | None,
    output: str,
    as_json: bool,
) -> int:
    """Tell of each job whether all its pods would find room at once, as Kubernetes' own scheduler decides.

    Jobs are placed one after another, those with the highest priority first. Pods of a job that runs already count as
    given back: an apply replaces them. Changes nothing.
    """
    from gpuctl.capacity.fit import fit
    from gpuctl.cli.options.connecting import cluster_errors
    from gpuctl.cli.options.planning_options import Documents
    from gpuctl.kube.api_errors import ClusterError

    inputs = chosen_inputs(filenames, paths, "gpuctl fit -f training.yaml --snapshot cluster.json")
    check_choice(snapshot_file, kubeconfig, context, inputs)
    documents = Documents(inputs, platform, namespace, strict)
    as_json = as_json or output == "json"
    with cluster_errors():
        try:
            if snapshot_file is not None:
                compilation, snapshot = _compiled(documents, "default", as_json=as_json), loaded(snapshot_file)
            else:
                compilation, snapshot = _from_cluster(documents, kubeconfig, context, as_json=as_json)
        except ClusterError as error:
            if as_json:
                click.echo(json.dumps({"jobs": [], "error": error.message}, indent=2, ensure_ascii=False))
            raise
    answers = fit(snapshot, compilation.objects)
    if as_json:
        click.echo(json.dumps({"jobs": [answer.as_json() for answer in answers]}, indent=2, ensure_ascii=False))
    else:
        _show(answers)
    tell_unreadable(snapshot)
    verdicts = {answer.verdict for answer in answers}
    return 1 if verdicts & {"never", "fits-when-empty"} else 2 if "unknown" in verdicts else 0


def _from_cluster(
    documents: Documents, kubeconfig: str | None, context: str | None, *, as_json: bool
) -> tuple[Compilation, Snapshot]:
    from gpuctl.apply.state.cluster_snapshot import take_snapshot
    from gpuctl.cli.options.connecting import connected

    session = connected(kubeconfig, context)
    try:
        return _compiled(documents, session.namespace, as_json=as_json), take_snapshot(session)
    finally:
        session.close()


def _compiled(documents: Documents, namespace: str, *, as_json: bool) -> Compilation:
    """Compile for what a cluster or a snapshot of it has; what is wrong with the documents ends the command (1)."""
    from gpuctl.cli.output import json as json_printer
    from gpuctl.cli.output import text
    from gpuctl.compilation import compile
    from gpuctl.frontend.diagnostics import Severity

    result = compile(
        documents.inputs,
        platform=documents.platform,
        namespace=documents.namespace or namespace,
        strict=documents.strict,
        nodes=True,
        namespaces=True,
        tolerated=_SETTLED,
    )
    errors = {item.code for item in result.diagnostics if item.severity is Severity.ERROR} - _SETTLED
    told = [
        item._replace(severity=Severity.WARNING) if item.code in _SETTLED and not errors else item
        for item in result.diagnostics
        if item.code != "GPU401" or errors
    ]
    text.write(told, result.sources, sys.stderr)
    if errors:
        if as_json:
            click.echo(json_printer.render(result.diagnostics), nl=False)
        raise click.exceptions.Exit(1)
    return result


def _show(answers: list[Fit]) -> None:
    if not answers:
        click.echo("There is no job in the documents.", err=True)
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    for answer in answers:
        for line in lines(answer, coloured=coloured):
            click.echo(line)


def lines(answer: Fit, *, coloured: bool = False) -> Iterator[str]:
    """An answer for people: the verdict, then what it rests on."""
    from gpuctl.backend.api_resources import RESOURCES
    from gpuctl.capacity.shortage import told

    demand, found = answer.demand, answer.balance
    title = f"{RESOURCES[demand.kind].title}/{demand.name} -n {demand.namespace}"
    pods = "1 pod" if demand.pods == 1 else f"{demand.pods} pods"
    asked = ", ".join(told(name, amount) for name, amount in found.per_pod.items())
    said = SAID[answer.verdict]
    if coloured:
        said = click.style(said, fg=_COLOURS[answer.verdict])
    yield f"{title}: {said} ({pods}{f' of {asked}' if asked else ''})"
    if answer.reason:
        yield f"  reason: {answer.reason}"
    for victim in answer.victims:
        of = "" if victim.pod.owner == f"Pod/{victim.pod.name}" else f" of {victim.pod.owner}"
        pod = f"pod {victim.pod.name} -n {victim.pod.namespace}{of}"
        yield f"  evicts: {pod} on {victim.node} (priority {victim.pod.priority})"
    if answer.verdict in ("fits", "unknown") and not answer.victims:
        return
    held = [
        f"{holder.owner} -n {holder.namespace} {told(found.scarce, holder.amount).split()[0]}"
        for holder in found.held_by[:_HOLDERS]
    ]
    if held:
        more = len(found.held_by) - len(held)
        yield f"  {found.scarce} held by: {', '.join(held)}{f' and {more} others' if more else ''}"
    if answer.change is not None:
        yield f"  smallest change: {answer.change}"
