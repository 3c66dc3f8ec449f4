"""``apply`` and ``create``: documents brought about on one cluster, on several, or by a service."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gpuctl.api.cluster_answers import clusters_preview_code
from gpuctl.apply.run.options import RunOptions
from gpuctl.cli.options.changing import ChangeManner, changing, finished, serviced
from gpuctl.cli.options.each_cluster import chosen_clusters, each_cluster
from gpuctl.cli.output.cluster_lines import show_cluster_plans
from gpuctl.usecases.applying import apply_request, preview_request, request_for
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions
from gpuctl.usecases.service_changes import apply_by_service
from gpuctl.usecases.several_clusters import prepare_apply


def apply_or_show(
    documents: DocumentOptions, planning: PlanOptions, run: RunOptions, manner: ChangeManner, dry_run: str | None
) -> int:
    """``apply`` and ``create``: carried out, or with ``dry_run`` (``client``, ``server``) shown; the exit code."""
    with serviced(manner) as told:
        if told is not None:
            if dry_run == "client":
                raise click.UsageError("--dry-run=client compares here; a service compares there: --dry-run=server")
            plan = apply_by_service(told.service, documents, planning, run, told.callbacks, preview=bool(dry_run))
    if told is not None:
        return finished(plan, manner, dry_run)
    documents, names = chosen_clusters(documents, manner)
    if len(names) > 1:
        return _on_each(names, documents, planning, run, manner, dry_run)
    with changing(manner, cluster=documents.cluster) as (session, callbacks):
        wanted = request_for(session, documents, planning, callbacks, offline=dry_run == "client")
        if dry_run is None:
            plan = apply_request(session, wanted, run, callbacks)
        else:
            with session.within(run.timeout):
                plan = preview_request(session, wanted, callbacks, checkpoint=run.checkpoint)
    return finished(plan, manner, dry_run)


def _on_each(
    names: Sequence[str],
    documents: DocumentOptions,
    planning: PlanOptions,
    run: RunOptions,
    manner: ChangeManner,
    dry_run: str | None,
) -> int:
    with each_cluster(names, manner) as clusters:
        offline = dry_run == "client"
        clusters.plan(
            documents, lambda session, own, talk: prepare_apply(session, own, planning, run, talk, offline=offline)
        )
        if dry_run is None:
            return clusters.carry_out()
        show_cluster_plans(clusters.plans, dry_run, as_json=manner.as_json)
    return clusters_preview_code(clusters.plans)
