"""The objects in the cluster: a few lists by gpuctl's label, and single reads of the objects that jobs share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gpuctl.kube.api_errors import ApiError, if_allowed, or_refusal
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
    for key, result in _get_each(session, [key for key in sorted(wanted) if key.kind in SHARED_KINDS]):
        if isinstance(result, ApiError):
            unreadable[key] = result.message
        elif result is not None:
            found[key] = result
    listings = _listings(wanted, jobs)
    for objects in session.each(lambda listing: _ours(session, listing), listings):
        found.update((key_of(obj), obj) for obj in objects)
    if all(listing.kind != _TEMPLATE for listing in listings):
        # Few jobs have any, so they are read only where a job claims devices.
        claiming = {key.namespace for key, obj in found.items() if key.kind in WORKLOADS and _claims_devices(obj)}
        found.update((key_of(obj), obj) for obj in _ours(session, _Listing(_TEMPLATE, claiming)))
    if foreign:
        found.update(read_objects(session, set(wanted) - found.keys() - unreadable.keys()))
        return LiveState(found, unreadable)
    # An object whose label `app` another tool has changed is not in the lists.
    by_job = {listing.kind for listing in listings if listing.labels != OURS}
    for key, result in _get_each(session, [key for key in sorted(wanted) if key.kind in by_job and key not in found]):
        if isinstance(result, dict) and is_ours(result):
            found[key] = result
    return LiveState(found, unreadable)


class _Listing(NamedTuple):
    """A list of gpuctl's objects of a kind. ``required``: the namespaces that the user has to be allowed to read."""

    kind: str
    namespaces: set[str]
    labels: str = OURS
    required: Collection[str] = ()


def _listings(wanted: Iterable[Key], jobs: Mapping[str, Collection[str]]) -> list[_Listing]:
    """Return the lists that have the wanted objects, and all companions of the jobs."""
    required: dict[str, set[str]] = {}
    for key in sorted(wanted):
        if key.kind not in SHARED_KINDS:
            required.setdefault(key.kind, set()).add(key.namespace)
    skipped = () if SERVICES & required.keys() else _SERVING
    of_jobs = [kind for kind in JOB_KINDS if kind not in skipped and (kind != _TEMPLATE or kind in required)]
    names = sorted({name for group in jobs.values() for name in group})
    result = []
    for kind in dict.fromkeys((*required, *of_jobs)):
        namespaces = required.get(kind, set()).union(jobs if kind in of_jobs else ())
        is_by_job = kind in of_jobs and len(names) <= _FEW_JOBS and namespaces <= jobs.keys()
        labels = f"{OURS},app in ({','.join(names)})" if is_by_job else OURS
        if namespaces:
            result.append(_Listing(kind, namespaces, labels, required.get(kind, ())))
    return result


def _claims_devices(workload: Object) -> bool:
    return any(template["spec"].get("resourceClaims") for template, _ in pod_templates(workload))


def _get_each(session: Session, keys: Sequence[Key]) -> Iterator[tuple[Key, Object | ApiError | None]]:
    return zip(keys, session.each(lambda key: or_refusal(partial(session.get, key)), keys), strict=True)


def _ours(session: Session, listing: _Listing) -> list[Object]:
    """List gpuctl's objects of a kind, per namespace or in the whole cluster.

    One list of the whole cluster is used if there are many namespaces and it is allowed. With few namespaces no objects
    of other teams are read.
    """
    kind, namespaces, labels, required = listing
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


def read_version(session: Session, key: Key, uid: str) -> Object | None:
    """Return the current version of an object; None if it is gone, also if a new object has its name.

    It is listed: a user who may end jobs does not always have the right to get single ones.
    """
    found, _ = session.list_objects(key.resource, key.namespace, fields=f"metadata.name={key.name}")
    return next((obj for obj in found if obj["metadata"]["uid"] == uid), None)
