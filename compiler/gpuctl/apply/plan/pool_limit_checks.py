"""Check of the limits in a pool's definition in the cluster: GPUs of one job, unfinished jobs.

A job counts as if it ran in full: also while it is paused, in a queue, or waits for other jobs. An autoscaled service
counts with its maximum. A scheduled training counts with the GPUs of one run, and among the jobs (``maxJobs``) with its
unfinished runs, at least one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.claim_charges import ClaimCharges
from gpuctl.apply.plan.plan import WRITING, Step
from gpuctl.apply.plan.pool_labels import in_pool
from gpuctl.capacity.admission.quota_charges import DEVICES
from gpuctl.capacity.snapshot.pod_requests import pod_requests, total_of
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.device_drivers import class_limit
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import (
    SERVICES,
    WORKLOADS,
    Key,
    Object,
    controller_of,
    key_of,
    labels_of,
)
from gpuctl.objects.autoscalers import AUTOSCALERS, replica_range
from gpuctl.objects.companion_names import config_map_name, pool_definition, pool_limits
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import pod_templates, with_replicas
from gpuctl.objects.queueing import is_paused
from gpuctl.objects.role_jobs import pools_of
from gpuctl.objects.scheduled_jobs import KIND, is_run
from gpuctl.objects.workload_start import not_started, replicas_before_pause
from gpuctl.objects.workload_state import end_state


class _Change(NamedTuple):
    """A workload after a step, and before it: None for one that does not exist, or is created again.

    ``most_before``, ``most``: the maximum of its autoscaler; None without one.
    """

    step: Step
    after: Object
    before: Object | None
    most: int | None
    most_before: int | None


def check_pool_limits(
    session: Session, steps: Iterable[Step], claims: ClaimCharges, request: ApplyRequest
) -> list[str]:
    """Return errors for jobs of a plan that exceed the limits of their pools.

    A job that exceeds a limit already may change as long as it asks for no more and is not created again. A pool whose
    definition the user may not read has no known limits.
    """
    steps, keys = list(steps), request.keys
    pools: dict[str, list[_Change]] = {}
    for change in _changes(steps):
        for pool in pools_of(change.after, keys.pool):
            pools.setdefault(pool, []).append(change)
    errors: list[str] = []
    for pool, changes in sorted(pools.items()):
        limits = _limits_of(session, steps, pool)
        per_job, most = limits.get("maxGpuPerJob"), limits.get("maxJobs")
        if per_job is not None:
            errors += _oversized(changes, pool, per_job, claims, request)
        if most is not None:
            errors += _too_many(session, steps, changes, pool, most, keys)
    return errors


def _too_many(
    session: Session, steps: Iterable[Step], changes: Iterable[_Change], pool: str, most: int, keys: Records
) -> Iterator[str]:
    """Yield an error if jobs come to a pool that then has too many."""
    unfinished = [change for change in changes if end_state(change.after) is None]
    coming = [change.after for change in unfinished if not _is_unfinished_in(change.step.live, pool, keys)]
    if not coming:
        return
    written = {key for step in steps if step.action in WRITING for key in _keys_of(step)}
    there = [obj for obj in _unfinished(session, pool, keys) if key_of(obj) not in written]
    there += [change.after for change in unfinished if _is_unfinished_in(change.step.live, pool, keys)]
    jobs, total = _count_jobs(there), _count_jobs([*there, *coming])
    if total > max(most, jobs):
        yield say(
            "pool {pool} allows {most} unfinished jobs: there are {jobs}, and {more} would be added",
            pool=pool,
            most=most,
            jobs=jobs,
            more=total - jobs,
        )


def _changes(steps: Iterable[Step]) -> Iterator[_Change]:
    """Yield the workloads that a plan writes, or whose autoscaler it writes."""
    steps = list(steps)
    scalers = [step for step in steps if step.key.kind in AUTOSCALERS]
    most = {step.key[1:]: replica_range(obj)[1] for step in scalers if (obj := _after(step)) is not None}
    before = {step.key[1:]: replica_range(step.live)[1] for step in scalers if step.live is not None}
    scaled = {step.key[1:] for step in scalers if step.action in WRITING}
    for step in steps:
        after, place = _after(step), step.key[1:]
        if step.key.kind not in WORKLOADS or after is None:
            continue
        if step.action in WRITING or (step.key.kind in SERVICES and place in scaled):
            old = step.live if step.action not in ("create", "replace") else None
            yield _Change(step, after, old, most.get(place), before.get(place))


def _after(step: Step) -> Object | None:
    """Return the object as a step leaves it; None if the step deletes it."""
    if step.action in ("delete", "prune"):
        return None
    if step.method == "none" or step.desired is None:
        return step.live
    return _patched(step.live, step.desired) if step.method == "patch" and step.live is not None else step.desired


def _patched(obj: Object, patch: Object) -> Object:
    """Return an object with a JSON merge patch (RFC 7386)."""
    changed = {
        key: _patched(obj.get(key) or {}, value) if isinstance(value, dict) else value for key, value in patch.items()
    }
    return {key: value for key, value in {**obj, **changed}.items() if value is not None}


def _keys_of(step: Step) -> Iterator[Key]:
    """Yield the keys of the objects that a step writes: another form of a job has another kind."""
    yield step.key
    if step.live is not None:
        yield key_of(step.live)


def _limits_of(session: Session, steps: Iterable[Step], pool: str) -> dict[str, int]:
    key = Key("ConfigMap", SYSTEM_NAMESPACE, config_map_name(pool))
    planned = next((step.desired for step in steps if step.key == key and step.method == "apply"), None)
    config_map = planned or if_allowed(lambda: session.get(key), None)
    return pool_limits(pool_definition(config_map or {}))


def _oversized(
    changes: Iterable[_Change], pool: str, most: int, claims: ClaimCharges, request: ApplyRequest
) -> Iterator[str]:
    for change in changes:
        total = _gpus(change.after, change.most, pool, claims, request)
        before = _gpus(change.before, change.most_before, pool, claims, request) if change.before is not None else 0
        if total > max(most, before):
            yield say(
                "{job}: asks for {amount} GPUs in all; pool {pool} allows {most} per job",
                job=change.step.title,
                amount=total,
                pool=pool,
                most=most,
            )


def _gpus(workload: Object, most: int | None, pool: str, claims: ClaimCharges, request: ApplyRequest) -> int:
    """Return the GPUs that a workload requests in a pool when all its pods run.

    :param most: the maximum of its autoscaler; None without one.
    """
    settings, namespace = request.settings, workload["metadata"]["namespace"]
    total = 0
    for template, pods in pod_templates(_in_full(workload, most, request.keys)):
        if labels_of(template).get(request.keys.pool) == pool:
            devices = claims.planned(template, namespace).get(DEVICES) or {}
            each = int(total_of(pod_requests(template["spec"]), settings.gpu_resources))
            total += pods * (each + sum(devices.get(class_limit(name), 0) for name in settings.gpu_classes))
    return total


def _in_full(workload: Object, most: int | None, keys: Records) -> Object:
    """Return a workload with all pods that it may have at once."""
    if workload["kind"] not in SERVICES:
        return not_started(workload)
    if most is None and is_paused(workload, keys):
        most = replicas_before_pause(workload, keys)
    return workload if most is None else with_replicas(workload, most)


def _unfinished(session: Session, pool: str, keys: Records) -> list[Object]:
    """Return the pool's unfinished jobs: in all namespaces, or if that is forbidden, in the context's."""
    scope = Scope(session, None)
    found = [obj for kind in WORKLOADS for obj in scope.all_if_allowed(kind, labels=in_pool(kind, pool, keys)) or []]
    return [obj for obj in found if _is_unfinished_in(obj, pool, keys)]


def _is_unfinished_in(workload: Object | None, pool: str, keys: Records) -> bool:
    return workload is not None and end_state(workload) is None and pool in pools_of(workload, keys.pool)


def _count_jobs(workloads: Iterable[Object]) -> int:
    """Return the number of jobs. An unfinished run counts instead of its schedule."""
    workloads = list(workloads)
    busy = {
        Key(KIND, key_of(obj).namespace, owner["name"])
        for obj in workloads
        if is_run(obj) and (owner := controller_of(obj)) is not None
    }
    return len({key_of(obj) for obj in workloads} - busy)
