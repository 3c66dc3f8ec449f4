"""``gpuctl delete``: delete the objects of documents, or jobs, pools, quotas and namespaces by name."""

from __future__ import annotations

import os
import re
from typing import Literal

import click

from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.change_runner import (
    Invocation,
    cluster_change,
    service_change,
    several_clusters_changing_options,
)
from gpuctl.cli.options.completion_callbacks import complete_job, complete_namespace, complete_pool, complete_quota
from gpuctl.cli.options.connection_options import checkpoint_option
from gpuctl.cli.options.document_options import CompileOptions, compile_options, require_inputs
from gpuctl.cli.options.multi_cluster import chosen_clusters, multi_cluster_change
from gpuctl.cli.options.named_jobs import read_named_jobs
from gpuctl.cli.options.planning_options import documents_of
from gpuctl.cli.options.platform_option import platform_settings
from gpuctl.cli.options.reading_options import ReadingOptions, reject_platform
from gpuctl.cli.options.sweep_option import sweep_option
from gpuctl.cli.output.plan_results import finish
from gpuctl.hints import JobHint
from gpuctl.language.kinds import WORKLOADS as JOB_KINDS
from gpuctl.usecases.changes.deleting import delete_documents, delete_jobs
from gpuctl.usecases.changes.deletion_by_name import delete_namespaces, delete_pools, delete_quotas
from gpuctl.usecases.changes.service_changes import delete_by_service, delete_named_by_service
from gpuctl.usecases.changes.several_clusters import prepare_delete
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.service.service_client import not_offered_by_service

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
"""The kinds that can be deleted by name, with their aliases."""
_COMPLETE = {"job": complete_job, "pool": complete_pool, "quota": complete_quota, "namespace": complete_namespace}


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the kind, then names of that kind."""
    given = context.params.get("arguments") or ()
    if not given:
        return [kind for kind in dict.fromkeys(KINDS.values()) if kind.startswith(incomplete)]
    complete = _COMPLETE.get(KINDS.get(given[0], ""))
    return complete(context, parameter, incomplete) if complete else []


@click.command(
    "delete",
    short_help="Delete jobs, pools and quotas, by file or by name.",
    epilog="Examples:\n\n  $ gpuctl delete -f training.yaml\n\n  $ gpuctl delete job qwen-sft\n\n"
    "  $ gpuctl delete pool training-pool --yes",
)
@click.argument("arguments", nargs=-1, metavar="[KIND NAME...] [FILE...]", shell_complete=_complete)
@click.option("-f", "--filename", "filenames", multiple=True, metavar="FILE", help="A file, a directory, or -.")
@sweep_option("Delete all jobs of this sweep.")
@compile_options
@checkpoint_option
@click.option("--force", is_flag=True, help="Delete pods without their grace period.")
@click.option("--keep-labels", is_flag=True, help="Leave a pool's labels on its nodes.")
@click.option("--namespace-too", is_flag=True, help="With a quota: also delete its namespace and everything in it.")
@several_clusters_changing_options
def command(
    arguments: tuple[str, ...],
    filenames: tuple[str, ...],
    sweep: str,
    compiling: CompileOptions,
    without_checkpoint: bool,
    force: bool,
    keep_labels: bool,
    namespace_too: bool,
    invocation: Invocation,
) -> int:
    """Delete jobs, pools, quotas and namespaces, and wait until they are gone.

    KIND is job, pool, quota or namespace; without KIND, name files. Only the objects that gpuctl makes from the
    documents are deleted: other objects with the same labels stay, and so do namespaces and priority classes. Jobs of a
    deleted pool keep running, and its nodes keep their GPU type. The name of a quota is its user's or its document's.
    """
    run = RunOptions(invocation.timeout, force, checkpoint=not without_checkpoint)
    if sweep and (arguments or filenames):
        raise click.UsageError("Name jobs or files, or a sweep with --sweep; not both")
    if sweep:
        reading = ReadingOptions(invocation.connection, compiling.platform)
        found = read_named_jobs((), sweep, reading, compiling.namespace, as_json=invocation.as_json)
        arguments = ("job", *found)
    kind = KINDS.get(arguments[0]) if arguments else None
    if namespace_too and kind != "quota":
        raise click.UsageError("--namespace-too goes with `gpuctl delete quota USER`")
    if kind is not None:
        if filenames:
            raise click.UsageError(f"Name {kind}s, or files with -f; not both")
        names = [_named(kind, text) for text in arguments[1:]]
        if not names or not all(names):
            raise click.UsageError(f"Name the {kind}: `gpuctl delete {kind} NAME`")
        return _delete_named(
            kind, names, compiling, run, invocation, keep_labels=keep_labels, namespace_too=namespace_too
        )
    for argument in arguments:
        if re.fullmatch(r"[a-z0-9][a-z0-9-]*", argument) and not os.path.exists(argument):
            raise click.UsageError(
                f"There is no file `{argument}`. If `{argument}` is a job: {JobHint('delete', argument)}."
            )
    inputs = [*filenames, *arguments]
    require_inputs(inputs, "gpuctl delete -f training.yaml")
    return _delete_documents(documents_of(compiling, inputs), run, invocation, keep_labels=keep_labels)


def _delete_named(
    kind: str,
    names: list[str],
    compiling: CompileOptions,
    run: RunOptions,
    invocation: Invocation,
    *,
    keep_labels: bool,
    namespace_too: bool,
) -> int:
    platform, namespace = compiling.platform, compiling.namespace
    with service_change(invocation) as by_service:
        if by_service is not None:
            reject_platform(platform)
            served = _served(kind, by_service.service.url, namespace_too)
            plan = delete_named_by_service(
                by_service.service, served, names, namespace, run, by_service.callbacks, keep_labels=keep_labels
            )
    if by_service is not None:
        return finish(plan, as_json=invocation.as_json)
    with cluster_change(invocation) as (session, callbacks):
        settings = platform_settings(platform)
        if kind == "job":
            plan = delete_jobs(session, names, namespace, settings, run, callbacks)
        elif kind == "pool":
            plan = delete_pools(session, names, settings, run, callbacks, keep_labels=keep_labels)
        elif kind == "quota":
            plan = delete_quotas(session, names, settings, run, callbacks, namespace_too=namespace_too)
        else:
            plan = delete_namespaces(session, names, settings, run, callbacks)
    return finish(plan, as_json=invocation.as_json)


def _delete_documents(documents: DocumentOptions, run: RunOptions, invocation: Invocation, *, keep_labels: bool) -> int:
    with service_change(invocation) as by_service:
        if by_service is not None:
            plan = delete_by_service(by_service.service, documents, run, by_service.callbacks, keep_labels=keep_labels)
    if by_service is not None:
        return finish(plan, as_json=invocation.as_json)
    documents, clusters_named = chosen_clusters(documents, invocation)
    if len(clusters_named) > 1:
        with multi_cluster_change(clusters_named, invocation) as clusters:
            clusters.plan(
                documents, lambda session, own, talk: prepare_delete(session, own, run, talk, keep_labels=keep_labels)
            )
            return clusters.carry_out()
    with cluster_change(invocation, cluster=documents.cluster) as (session, callbacks):
        plan = delete_documents(session, documents, run, callbacks, keep_labels=keep_labels)
    return finish(plan, as_json=invocation.as_json)


def _named(kind: str, text: str) -> str:
    """Return the name in an argument; a job may have its kind, or `pod`, before it."""
    prefix, _, name = text.rpartition("/")
    return text if kind == "job" and name and (prefix in JOB_KINDS or prefix == "pod") else name


def _served(kind: str, url: str, namespace_too: bool) -> Literal["job", "pool", "quota"]:
    """Return the kind, if a service can delete it.

    :raises NeedsKubeconfig: a service does not delete namespaces.
    """
    if namespace_too or kind == "namespace":
        said = "`gpuctl delete quota --namespace-too`" if namespace_too else "`gpuctl delete namespace`"
        raise not_offered_by_service(url, said, "the service does not delete namespaces")
    return "job" if kind == "job" else "pool" if kind == "pool" else "quota"
