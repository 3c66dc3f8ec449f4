"""The common part of ``apply`` and ``create``: on one cluster, on several, or by a service."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gpuctl.api.cluster_answers import clusters_preview_code
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.change_runner import Invocation, cluster_change, service_change, show_outcome
from gpuctl.cli.options.multi_cluster import chosen_clusters, multi_cluster_change
from gpuctl.cli.output.cluster_lines import show_cluster_plans
from gpuctl.usecases.changes.applying import apply_request, preview_request, request_for
from gpuctl.usecases.changes.service_changes import apply_by_service
from gpuctl.usecases.changes.several_clusters import prepare_apply
from gpuctl.usecases.documents.change_options import DocumentOptions


def run_apply(
    documents: DocumentOptions, planning: PlanOptions, run: RunOptions, invocation: Invocation, dry_run: str | None
) -> int:
    """Apply documents, or with ``dry_run`` (``client``, ``server``) show the plan. Return the exit code."""
    with service_change(invocation) as by_service:
        if by_service is not None:
            if dry_run == "client":
                raise click.UsageError("--dry-run=client needs a cluster; with a service use --dry-run=server")
            plan = apply_by_service(
                by_service.service, documents, planning, run, by_service.callbacks, preview=bool(dry_run)
            )
    if by_service is not None:
        return show_outcome(plan, invocation, dry_run)
    documents, names = chosen_clusters(documents, invocation)
    if len(names) > 1:
        return _on_each(names, documents, planning, run, invocation, dry_run)
    with cluster_change(invocation, cluster=documents.cluster) as (session, callbacks):
        wanted = request_for(session, documents, planning, callbacks, offline=dry_run == "client")
        if dry_run is None:
            plan = apply_request(session, wanted, run, callbacks)
        else:
            with session.within(run.timeout):
                plan = preview_request(session, wanted, callbacks, checkpoint=run.checkpoint)
    return show_outcome(plan, invocation, dry_run)


def _on_each(
    names: Sequence[str],
    documents: DocumentOptions,
    planning: PlanOptions,
    run: RunOptions,
    invocation: Invocation,
    dry_run: str | None,
) -> int:
    with multi_cluster_change(names, invocation) as clusters:
        offline = dry_run == "client"
        clusters.plan(
            documents,
            lambda session, own, callbacks: prepare_apply(session, own, planning, run, callbacks, offline=offline),
        )
        if dry_run is None:
            return clusters.carry_out()
        show_cluster_plans(clusters.plans, dry_run, as_json=invocation.as_json)
    return clusters_preview_code(clusters.plans)
