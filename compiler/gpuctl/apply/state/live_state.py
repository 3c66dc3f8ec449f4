"""The objects in the cluster: a few lists by gpuctl's label, and single reads of the objects that jobs share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import OPTIONAL, RESOURCES, SERVICES, SHARED_KINDS, WORKLOADS, Key, Object, key_of
from gpuctl.objects.label_names import MANAGED_BY
from gpuctl.objects.ownership_metadata import is_ours
from gpuctl.objects.pod_templates import pod_templates

OURS = f"{MANAGED_BY}=gpuctl"
_SERVING = ("HorizontalPodAutoscaler", "ScaledObject", "PodDisruptionBudget", "HTTPRoute", "Ingress")
"""Companions that only services have."""
_TEMPLATE = "ResourceClaimTemplate"
COMPANIONS = ("Service", "ConfigMap", _TEMPLATE, *_SERVING)
JOB_KINDS = (*WORKLOADS, *COMPANIONS)
# Up to this many namespaces, one list per namespace is cheaper than one list of the whole cluster.
_FEW = 4
# Up to this many jobs, objects are selected by job name: a namespace may hold thousands of other jobs.
_FEW_JOBS = 20


class LiveState(NamedTuple):
    """The live objects, and the keys that the user may not read, with the reason."""

    objects: dict[Key, Object]
    unreadable: dict[Key, str]


def read_live_state(
    session: Session, wanted: Collection[Key], jobs: Mapping[str, Collection[str]], *, foreign: bool = False
) -> LiveState:
    """Read the live state of ``wanted``, and all of gpuctl's objects of some jobs.

    :param jobs: namespace -> names of the jobs.
    :param foreign: also read objects of ``wanted`` that are not gpuctl's.
    :raises ApiError: the user may not list a kind that is wanted.
    """
    found: dict[Key, Object] = {}
    unreadable: dict[Key, str] = {}
    named = [key for key in sorted(wanted) if key.kind in SHARED_KINDS]
    for key, result in zip(named, session.each(lambda key: _get(session, key), named), strict=True):
        if isinstance(result, ApiError):
            unreadable[key] = result.message
        elif result is not None:
            found[key] = result
    needed: dict[str, set[str]] = {}
    for key in sorted(wanted):
        if key.kind not in SHARED_KINDS:
            needed.setdefault(key.kind, set()).add(key.namespace)
    required = {kind: set(namespaces) for kind, namespaces in needed.items()}
    skipped = {*(() if SERVICES & needed.keys() else _SERVING), *(() if _TEMPLATE in needed else (_TEMPLATE,))}
    kinds = [kind for kind in JOB_KINDS if kind not in skipped]
    for kind in kinds:
        needed.setdefault(kind, set()).update(jobs)
    names = sorted({name for group in jobs.values() for name in group})
    selected = {kind for kind in kinds if len(names) <= _FEW_JOBS and needed[kind] <= jobs.keys()}
    tasks = [
        (kind, namespaces, f"{OURS},app in ({','.join(names)})" if kind in selected else OURS)
        for kind, namespaces in needed.items()
        if namespaces
    ]
    for objects in session.each(lambda task: _ours(session, *task, required.get(task[0], set())), tasks):
        found.update((key_of(obj), obj) for obj in objects)
    if _TEMPLATE in skipped:
        # Few jobs have any, so they are read only if a job claims devices.
        claiming = {key.namespace for key, obj in found.items() if key.kind in WORKLOADS and _claims_devices(obj)}
        if claiming:
            objects = _ours(session, _TEMPLATE, claiming, OURS, set())
            found.update((key_of(obj), obj) for obj in objects)
    if foreign:
        found.update(read_objects(session, set(wanted) - found.keys() - unreadable.keys()))
        return LiveState(found, unreadable)
    # An object whose label `app` another tool has changed is not in the lists.
    unseen = [key for key in sorted(wanted) if key.kind in selected and key not in found]
    for key, result in zip(unseen, session.each(lambda key: _get(session, key), unseen), strict=True):
        if isinstance(result, dict) and is_ours(result):
            found[key] = result
    return LiveState(found, unreadable)


def _claims_devices(workload: Object) -> bool:
    return any(template["spec"].get("resourceClaims") for template, _ in pod_templates(workload))


def _get(session: Session, key: Key) -> Object | ApiError | None:
    try:
        return session.get(key)
    except ApiError as error:
        if error.lacks_permission:
            return error
        raise


def _ours(session: Session, kind: str, namespaces: set[str], labels: str, required: set[str]) -> list[Object]:
    """List gpuctl's objects of a kind, per namespace or in the whole cluster.

    One list of the whole cluster is used if there are many namespaces and it is allowed. With few namespaces no objects
    of other teams are read.
    """
    resource = RESOURCES[kind]
    if len(namespaces) > _FEW:
        items = if_allowed(lambda: session.list_objects(resource, labels=labels)[0], None)
        if items is not None:
            return [item for item in items if item["metadata"].get("namespace") in namespaces]
    result: list[Object] = []
    for namespace in sorted(namespaces):
        try:
            result += session.list_objects(resource, namespace, labels=labels)[0]
        except ApiError as error:
            if error.is_missing and kind in OPTIONAL:
                # The kind is not installed, so it has no objects; a create will fail with the reason.
                continue
            if error.lacks_permission and namespace not in required:
                continue
            raise
    return result


def read_objects(session: Session, keys: Iterable[Key]) -> dict[Key, Object]:
    """Return those of the named objects that exist."""
    keys = list(keys)
    found = session.each(session.get, keys)
    return {key: obj for key, obj in zip(keys, found, strict=True) if obj is not None}
