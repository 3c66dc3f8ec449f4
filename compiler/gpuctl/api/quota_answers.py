"""Quotas and namespaces as JSON: ``get`` and ``describe`` of them. Amounts are cores, bytes and pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuctl.api.json_values import listed, number
from gpuctl.api.node_answers import holders
from gpuctl.reading.namespace_rows import Namespace, NamespaceRow
from gpuctl.reading.quota_rows import Limit, QuotaState


def quota_list(quotas: Iterable[QuotaState]) -> dict[str, Any]:
    """``get quotas -o json``."""
    return listed(map(_quota, quotas))


def quota_answer(quotas: Sequence[QuotaState]) -> dict[str, Any]:
    """``describe quota -o json``: the quota; a list where the name stands for several users."""
    return _quota(quotas[0]) if len(quotas) == 1 else quota_list(quotas)


def _quota(quota: QuotaState) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": quota.name,
        "namespace": quota.namespace,
        "description": quota.description,
        "status": quota.status,
    }
    for name, unit in (("cpu", ""), ("memory", "Bytes"), ("gpu", "")):
        total, used = quota.amount(name)
        value |= {f"{name}Total{unit}": number(total), f"{name}Used{unit}": number(used)}
    jobs, counted = quota.amount("jobs")
    return {
        **value,
        "maxJobs": number(jobs),
        "jobsUsed": number(counted),
        "resources": [_limit(limit) for limit in quota.limits],
        "defaultRequest": quota.defaults,
        "createdAt": quota.created_at,
    }


def _limit(limit: Limit) -> dict[str, Any]:
    return {
        "resource": limit.resource,
        "name": limit.name,
        "vendor": limit.vendor,
        "unit": limit.unit,
        "total": number(limit.total),
        "used": number(limit.used),
        "free": number(limit.free),
        "usedPercent": limit.percent,
    }


def namespace_list(namespaces: Iterable[NamespaceRow]) -> dict[str, Any]:
    """``get namespaces -o json``."""
    return listed(map(_namespace, namespaces))


def namespace_answer(namespace: Namespace) -> dict[str, Any]:
    """``describe namespace -o json``: with all that is in it."""
    return {
        **_namespace(namespace.row),
        "labels": namespace.labels,
        "quotas": [_quota(quota) for quota in namespace.quotas],
        "runningJobs": holders(item for item in namespace.holders if item.node),
        "waitingJobs": holders(item for item in namespace.holders if not item.node),
    }


def namespace_detail(namespace: Namespace) -> dict[str, Any]:
    """``GET /namespaces/{namespaceName}``: as :func:`namespace_answer`, with all jobs counted and whose quotas are."""
    quotas = [{**_quota(quota), "isManaged": quota.is_ours} for quota in namespace.quotas]
    return {**namespace_answer(namespace), "allJobs": namespace.all_jobs, "quotas": quotas}


def _namespace(namespace: NamespaceRow) -> dict[str, Any]:
    return {
        "name": namespace.name,
        "status": namespace.status,
        "jobs": namespace.jobs,
        "pods": namespace.pods,
        "gpuUsed": namespace.gpu_used,
        "quotas": list(namespace.quotas),
        "createdAt": namespace.created_at,
    }
