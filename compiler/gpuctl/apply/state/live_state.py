"""What is in the cluster now: a few lists of what carries our label, and single reads of what jobs share."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import OPTIONAL, RESOURCES, WORKLOADS, Key, Object, key_of
from gpuctl.objects.label_names import MANAGED_BY

OURS = f"{MANAGED_BY}=gpuctl"
COMPANIONS = ("Service", "ConfigMap", "HorizontalPodAutoscaler")
JOB_KINDS = (*WORKLOADS, *COMPANIONS)
_BY_NAME = frozenset({"Namespace", "PriorityClass", "Node"})
# Namespaces up to which a list of each costs less than one of everybody's objects.
_FEW = 4


class LiveState(NamedTuple):
    """The live objects, and the keys that may not be read (key -> why)."""

    objects: dict[Key, Object]
    unreadable: dict[Key, str]


def survey(session: Session, wanted: Collection[Key], job_namespaces: Collection[str]) -> LiveState:
    """The live state of ``wanted``, and everything of ours beside the jobs in ``job_namespaces``.

    :raises ApiError: a kind that is wanted may not be listed.
    """
    found: dict[Key, Object] = {}
    unreadable: dict[Key, str] = {}
    named = [key for key in sorted(wanted) if key.kind in _BY_NAME]
    for key, result in zip(named, session.each(lambda key: _get(session, key), named), strict=True):
        if isinstance(result, ApiError):
            unreadable[key] = result.message
        elif result is not None:
            found[key] = result
    needed: dict[str, set[str]] = {}
    for key in sorted(wanted):
        if key.kind not in _BY_NAME:
            needed.setdefault(key.kind, set()).add(key.namespace)
    required = {kind: set(namespaces) for kind, namespaces in needed.items()}
    for kind in JOB_KINDS:
        needed.setdefault(kind, set()).update(job_namespaces)
    tasks = [(kind, namespaces) for kind, namespaces in needed.items() if namespaces]
    for objects in session.each(lambda task: _ours(session, task[0], task[1], required.get(task[0], set())), tasks):
        found.update((key_of(obj), obj) for obj in objects)
    return LiveState(found, unreadable)


def _get(session: Session, key: Key) -> Object | ApiError | None:
    try:
        return session.get(key)
    except ApiError as error:
        if error.lacks_permission:
            return error
        raise


def _ours(session: Session, kind: str, namespaces: set[str], required: set[str]) -> list[Object]:
    """Our objects of a kind: a list of each namespace, or of all where there are many and that is allowed.

    In a few namespaces nothing is read of what other teams have.
    """
    resource = RESOURCES[kind]
    if len(namespaces) > _FEW:
        try:
            items, _ = session.list_objects(resource, labels=OURS)
        except ApiError as error:
            if not error.lacks_permission and not error.is_missing:
                raise
        else:
            return [item for item in items if item["metadata"].get("namespace") in namespaces]
    result: list[Object] = []
    for namespace in sorted(namespaces):
        try:
            result += session.list_objects(resource, namespace, labels=OURS)[0]
        except ApiError as error:
            if error.is_missing and kind in OPTIONAL:
                # The kind is not installed: a create will say so, and nothing of it can be there.
                continue
            if error.lacks_permission and namespace not in required:
                continue
            raise
    return result


def read(session: Session, keys: Iterable[Key]) -> dict[Key, Object]:
    """The named objects that exist."""
    keys = list(keys)
    found = session.each(session.get, keys)
    return {key: obj for key, obj in zip(keys, found, strict=True) if obj is not None}
