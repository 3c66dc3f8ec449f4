"""Check of the limits in a pool's definition in the cluster: GPUs of one job, unfinished jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.pool_labels import in_pool
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Key, key_of, labels_of
from gpuctl.objects.autoscalers import AUTOSCALERS, replica_range
from gpuctl.objects.companion_names import DATA_KEY, config_map_name
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.role_jobs import pools_of
from gpuctl.objects.scheduled_jobs import is_scheduled, run_of
from gpuctl.objects.workload_state import end_state


def check_pool_limits(
    session: Session, steps: Iterable[Step], keys: Records, gpu_resources: frozenset[str]
) -> list[str]:
    """Return errors for jobs of a plan that exceed the limits of their pools.

    A pool whose definition the user may not read has no known limits.
    """
    steps = list(steps)
    coming = [step for step in steps if step.key.kind in WORKLOADS and step.action in ("create", "replace", "update")]
    coming = [step for step in coming if step.method in ("post", "put", "apply") and step.desired is not None]
    pools: dict[str, list[Step]] = {}
    for step in coming:
        for pool in pools_of(step.desired, keys.pool) if step.desired is not None else ():
            pools.setdefault(pool, []).append(step)
    errors: list[str] = []
    for pool, jobs in sorted(pools.items()):
        quota = _quota_of(session, steps, pool)
        per_job, most = quota.get("maxGpuPerJob"), quota.get("maxJobs")
        if isinstance(per_job, int):
            errors += _over(jobs, steps, pool, per_job, gpu_resources, keys)
        new = [step for step in jobs if step.action == "create"]
        if isinstance(most, int) and new:
            gone = {key_of(step.live) for step in steps if step.deletes and step.live is not None}
            there = _unfinished(session, pool, keys) - gone
            total = len(there | {step.key for step in jobs})
            if total > most:
                errors.append(
                    say(
                        "pool {pool} allows {most} unfinished jobs: there are {jobs}, and {more} would be added",
                        pool=pool,
                        most=most,
                        jobs=len(there),
                        more=len(new),
                    )
                )
    return errors


def _quota_of(session: Session, steps: Iterable[Step], pool: str) -> dict[str, Any]:
    key = Key("ConfigMap", SYSTEM_NAMESPACE, config_map_name(pool))
    planned = next((step.desired for step in steps if step.key == key and step.method == "apply"), None)
    definition = planned or if_allowed(lambda: session.get(key), None)
    try:
        document = yaml.safe_load(((definition or {}).get("data") or {}).get(DATA_KEY) or "")
    except yaml.YAMLError:
        return {}
    quota = document.get("quota") if isinstance(document, dict) else None
    return quota if isinstance(quota, dict) else {}


def _over(
    jobs: Iterable[Step], steps: Iterable[Step], pool: str, most: int, gpu_resources: frozenset[str], keys: Records
) -> Iterable[str]:
    scaled = {
        step.key[1:]: replica_range(step.desired)[1]
        for step in steps
        # A step that only joins the set has no spec.
        if step.key.kind in AUTOSCALERS and step.desired is not None and "spec" in step.desired
    }
    for step in jobs:
        assert step.desired is not None
        total = 0
        # The runs of a schedule are created by its controller, which knows no pools.
        job = run_of(step.desired) if is_scheduled(step.desired) else step.desired
        for template, pods in pod_templates(job):
            if labels_of(template).get(keys.pool) != pool:
                continue
            requests = pod_requests(template["spec"])
            each = sum(int(amount) for name, amount in requests.items() if name in gpu_resources)
            total += each * (scaled.get(step.key[1:]) or pods)
        if total > most:
            yield say(
                "{job}: asks for {amount} GPUs in all; pool {pool} allows {most} per job",
                job=step.title,
                amount=total,
                pool=pool,
                most=most,
            )


def _unfinished(session: Session, pool: str, keys: Records) -> set[Key]:
    """Return the pool's unfinished jobs: in all namespaces, or if that is forbidden, in the context's."""
    scope = Scope(session, None)
    found = [obj for kind in WORKLOADS for obj in scope.all_if_allowed(kind, labels=in_pool(kind, pool, keys)) or []]
    return {key_of(obj) for obj in found if end_state(obj) is None and pool in pools_of(obj, keys.pool)}
