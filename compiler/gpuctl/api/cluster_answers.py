"""Plans for several clusters, before and after they are carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuctl.api.error_meanings import meaning_of
from gpuctl.api.plan_answers import difference_code, plan_value, preview_code, result_code
from gpuctl.apply.plan.cluster_plan import ClusterPlan
from gpuctl.apply.plan.plan import Plan
from gpuctl.kube.api_errors import ClusterError


def clusters_value(plans: Sequence[ClusterPlan], *, error: str | None = None) -> dict[str, Any]:
    """Return the plans of all clusters, masked. ``error``: why no cluster was changed."""
    value: dict[str, Any] = {"clusters": [_cluster(item) for item in plans]}
    if error is not None:
        value["error"] = error
    return value


def _cluster(item: ClusterPlan) -> dict[str, Any]:
    told = plan_value(item.plan or Plan(), error="\n".join(item.obstacles) or None)
    return {"cluster": item.name, "server": item.server or None, "state": item.state, **told}


def clusters_preview_code(plans: Sequence[ClusterPlan]) -> int:
    """Return the exit code of plans that were not carried out: the highest one."""
    return max(_failed(item.error) if item.error is not None else preview_code(item.plan or Plan()) for item in plans)


def clusters_difference_code(plans: Sequence[ClusterPlan]) -> int:
    """Return the exit code of a comparison with several clusters: 0 no differences, 1 differences, 2 or more
    undetermined.
    """
    return max(
        max(2, _failed(item.error)) if item.error is not None else difference_code(item.plan or Plan())
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
