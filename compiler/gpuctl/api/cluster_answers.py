"""Plans for several clusters, before and after they are carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuctl.api.base_models import ApiModel
from gpuctl.api.error_meanings import UNDETERMINED, meaning_of
from gpuctl.api.plan_answers import PlanOutput, difference_code, output_fields, preview_code, result_code
from gpuctl.apply.plan.cluster_plan import ClusterPlan, ClusterState
from gpuctl.apply.plan.plan import Plan
from gpuctl.kube.api_errors import ClusterError


class PlannedCluster(ApiModel):
    """A cluster, and the state of its plan."""

    cluster: str
    server: str | None
    state: ClusterState


class ClusterPlanOutput(PlanOutput, PlannedCluster):
    """The plan for one of several clusters."""


class ClusterPlansOutput(ApiModel):
    """``apply -o json`` and similar output for several clusters. ``error``: why no cluster was changed."""

    clusters: list[ClusterPlanOutput]
    error: str | None = None


def clusters_value(plans: Sequence[ClusterPlan], *, error: str | None = None) -> dict[str, Any]:
    """Return the plans of all clusters, masked. ``error``: why no cluster was changed."""
    failure = {} if error is None else {"error": error}
    return ClusterPlansOutput(clusters=list(map(_cluster, plans)), **failure).as_json()


def _cluster(item: ClusterPlan) -> ClusterPlanOutput:
    fields = output_fields(item.plan or Plan(), error="\n".join(item.obstacles) or None)
    return ClusterPlanOutput(cluster=item.name, server=item.server or None, state=item.state, **fields)


def clusters_preview_code(plans: Sequence[ClusterPlan]) -> int:
    """Return the exit code of plans that were not carried out: the highest one."""
    return max(_failed(item.error) if item.error is not None else preview_code(item.plan or Plan()) for item in plans)


def clusters_difference_code(plans: Sequence[ClusterPlan]) -> int:
    """Return the exit code of a comparison with several clusters: 0 no differences, 1 differences, 2 or more
    undetermined.
    """
    return max(
        max(UNDETERMINED, _failed(item.error)) if item.error is not None else difference_code(item.plan or Plan())
        for item in plans
    )


def clusters_result_code(plans: Sequence[ClusterPlan]) -> int:
    """Return the exit code of plans that were carried out: that of the last one started."""
    codes = (
        _failed(item.error) if item.error is not None else result_code(item.plan or Plan())
        for item in plans
        if item.state != "not-run"
    )
    return next((code for code in codes if code), 0)


def _failed(error: ClusterError) -> int:
    meaning = meaning_of(error)
    return meaning.exit_code if meaning is not None else 3
