"""Terminating namespaces: all their objects are deleted, and nothing can be created there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key


def terminating_message(namespace: str) -> str:
    """Return why nothing is recovered in a terminating namespace."""
    return say("the namespace {namespace} is terminating, and everything in it is deleted", namespace=namespace)


def find_terminating(session: Session, namespaces: Iterable[str]) -> frozenset[str]:
    """Return those namespaces that are terminating or gone; a namespace that cannot be read is not included."""
    found = set()
    for namespace in sorted(namespaces):
        with contextlib.suppress(ClusterError):
            obj = session.get(Key("Namespace", "", namespace))
            if obj is None or obj["metadata"].get("deletionTimestamp"):
                found.add(namespace)
    return frozenset(found)
