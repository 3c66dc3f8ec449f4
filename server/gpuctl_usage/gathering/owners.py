"""Finds the top-level workload of a pod by following owner references on the API server.

Any user who can create the pod can write an owner reference. An owner therefore counts only if it is in the pod's
namespace and has the uid of the reference; cluster-scoped owners and other uids are ignored. An owner that no longer
exists or cannot be read is known by its reference only. The Jobs of a CronJob count for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError, ClusterError, if_allowed
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object, Resource
from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import WorkloadKey
from gpuctl_usage.gathering.object_facts import FactMaker, OwnerReference, PodFacts, Texts, owner_reference, written_at
from gpuctl_usage.gathering.tracked_objects import Belonging
from gpuctl_usage.ttl_cache import TtlCache

OWNER_TTL = 240.0
"""Seconds for which an owner is cached; the next snapshot sees changes of its labels."""
_KINDS_TTL = HOUR
_RETRY_AFTER = 10.0
"""Seconds without requests after the API server failed to respond."""
_MAX_DEPTH = 8
_GROUP_VERSION = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?v[a-z0-9]{1,20}", re.ASCII)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_BUILT_IN = {
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "DaemonSet"): "daemonsets",
    ("batch/v1", "Job"): "jobs",
    ("batch/v1", "CronJob"): "cronjobs",
}


class _Owner(NamedTuple):
    uid: str
    owner: OwnerReference | None
    labels: Texts
    annotations: Texts
    written: float | None


class Owners:
    """Finds owners and caches them, one request for all pods of an owner."""

    def __init__(self, session: Session, maker: FactMaker) -> None:
        self._session = session
        self._maker = maker
        self._owners: TtlCache[tuple[str, str], _Owner | None] = TtlCache(OWNER_TTL)
        self._kinds: TtlCache[str, Mapping[str, Resource]] = TtlCache(_KINDS_TTL)
        self._away_until = 0.0

    def of(self, pod: PodFacts) -> Belonging:
        """Return the top-level workload of a pod."""
        belonging = Belonging(WorkloadKey(pod.namespace, "Pod", pod.name, pod.uid))
        reference = pod.owner
        for _ in range(_MAX_DEPTH):
            if reference is None:
                return belonging
            key = WorkloadKey(pod.namespace, reference.kind, reference.name, reference.uid)
            if time.monotonic() < self._away_until:
                return Belonging(key, certain=False)
            try:
                resource = self._resource(reference)
                if resource is not None and not resource.namespaced:
                    return belonging
                found = self._find(resource, pod.namespace, reference) if resource is not None else None
            except ClusterError:
                # Prevents thousands of pods from waiting for a timeout each.
                self._away_until = time.monotonic() + _RETRY_AFTER
                return Belonging(key, certain=False)
            except (KeyError, TypeError, AttributeError, ValueError):
                # Aggregated APIs may answer in any form.
                return Belonging(key, certain=False)
            if found is None:
                return Belonging(key, certain=False)
            if found.uid != reference.uid:
                return belonging._replace(certain=False)
            belonging = Belonging(key, found.labels, found.annotations, found.written)
            reference = found.owner
        return belonging

    def _find(self, resource: Resource, namespace: str, reference: OwnerReference) -> _Owner | None:
        """Return an owner; None if it does not exist or cannot be read.

        :raises ClusterError: the API server did not respond.
        """
        if not _NAME.fullmatch(reference.name):
            return None
        path = resource.path(namespace, reference.name)
        # The uid is part of the key: a later object of the same name is another owner.
        return self._owners.get((path, reference.uid), partial(self._asked, path))

    def _asked(self, path: str) -> _Owner | None:
        try:
            found = self._session.metadata_at(path)
        except ApiError as error:
            if error.lacks_permission:
                return None
            raise
        return None if found is None else self._made(found)

    def _made(self, found: Object) -> _Owner:
        uid = str(found["metadata"].get("uid") or "")
        return _Owner(
            uid, owner_reference(found), self._maker.labels(found), self._maker.annotations(found), written_at(found)
        )

    def _resource(self, reference: OwnerReference) -> Resource | None:
        """Return the API resource of an owner's kind; None if the cluster does not have the kind."""
        if not _GROUP_VERSION.fullmatch(reference.api_version):
            return None
        group, _, version = reference.api_version.rpartition("/")
        plural = _BUILT_IN.get((reference.api_version, reference.kind))
        if plural is not None:
            return Resource(group, version, plural, reference.kind)
        found = self._kinds.get(reference.api_version, lambda: self._discovered(group, version))
        return found.get(reference.kind)

    def _discovered(self, group: str, version: str) -> Mapping[str, Resource]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        answer: Mapping[str, Any] = if_allowed(lambda: self._session.request("GET", path), {})
        return {
            str(item["kind"]): Resource(group, version, str(item["name"]), str(item["kind"]), bool(item["namespaced"]))
            for item in answer.get("resources") or []
            if "/" not in str(item["name"])
        }
