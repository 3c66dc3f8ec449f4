"""Models of GitOps controllers that process a revision, as far as they decide which objects are recreated.

Argo CD: gitops-engine's ``pkg/sync/sync_context.go`` of December 2025 (``getSyncTasks``, ``filterOutOfSyncTasks``,
``runTasks``, ``applyObject``, ``pruneObject``) and ``sync_tasks.go``; since 2026 Argo CD reads ``Replace`` and
``Force`` from the live object too. Flux: ``ssa/manager_apply.go`` (``ApplyAll``) and kustomize-controller's
``reconcile``, which prunes after everything is applied.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

Object = dict[str, Any]
Key = tuple[str, str, str]

OPTIONS = "argocd.argoproj.io/sync-options"
WAVE = "argocd.argoproj.io/sync-wave"
PRUNE = "kustomize.toolkit.fluxcd.io/prune"
FORCE = "kustomize.toolkit.fluxcd.io/force"
# What the API server lets change in a Job and a JobSet; of the rest it says that the field is immutable.
_MUTABLE = {"backoffLimit", "ttlSecondsAfterFinished", "suspend", "activeDeadlineSeconds", "parallelism"}
_IMMUTABLE_KINDS = ("Job", "JobSet")


class SyncFailed(Exception):
    """The API server refused an object."""


class Live(NamedTuple):
    """An object in the cluster."""

    object: Object
    uid: int


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


class Cluster:
    """Objects with uids; ``sync`` and ``reconcile`` are what a controller does with a revision."""

    def __init__(self) -> None:
        self.live: dict[Key, Live] = {}
        self._uids = itertools.count(1)

    def uids(self, kind: str) -> dict[Key, int]:
        return {key: live.uid for key, live in self.live.items() if key[0] == kind}

    def create(self, obj: Object) -> None:
        key = key_of(obj)
        if key[1] and key[1] != "default" and ("Namespace", "", key[1]) not in self.live:
            raise SyncFailed(f"namespace {key[1]} is not there")
        self.live[key] = Live(copy.deepcopy(obj), next(self._uids))

    def delete(self, key: Key) -> None:
        self.live.pop(key, None)
        if key[0] == "Namespace":
            self.live = {other: live for other, live in self.live.items() if other[1] != key[2]}

    def update(self, obj: Object) -> None:
        old = self.live[key_of(obj)]
        if _is_refused(old.object, obj):
            raise SyncFailed(f"{key_of(obj)}: field is immutable")
        self.live[key_of(obj)] = Live(copy.deepcopy(obj), old.uid)

    # Argo CD ----------------------------------------------------------------------------------------------

    def sync(self, target: Iterable[Object], *, out_of_sync_only: bool, force: bool = False) -> None:
        """One sync with pruning; ``force`` as in `argocd app sync --force`."""
        wanted = {key_of(obj): obj for obj in target}
        pruned = [key for key in self.live if key not in wanted]
        applied = list(wanted)
        if out_of_sync_only:
            applied = [key for key in applied if key not in self.live or self.live[key].object != wanted[key]]
        waves = {key: _wave(self.live[key].object) for key in pruned}
        # The waves of what is pruned are reversed among themselves.
        distinct = sorted(set(waves.values()))
        reverse = dict(zip(distinct, reversed(distinct), strict=True))
        tasks = [(reverse[wave], key, True) for key, wave in waves.items()]
        tasks += [(_wave(wanted[key]), key, False) for key in applied]
        for wave in sorted({task[0] for task in tasks}):
            for _, key, _ in (task for task in tasks if task[0] == wave and task[2]):
                if key in self.live and "Prune=false" not in _options(self.live[key].object):
                    self.delete(key)
            now = [key for number, key, is_prune in tasks if number == wave and not is_prune]
            for key in sorted(now, key=lambda key: key[0] != "Namespace"):
                self._apply(wanted[key], force)

    def _apply(self, obj: Object, force: bool) -> None:
        key = key_of(obj)
        if key not in self.live:
            self.create(obj)
            return
        options = _options(obj) | _options(self.live[key].object)
        force = force or "Force=true" in options
        if "Replace=true" in options and key[0] != "Namespace" and force:
            # `kubectl replace --force`, whatever differs or does not.
            self.delete(key)
            self.create(obj)
        elif force and _is_refused(self.live[key].object, obj):
            # `kubectl apply --force` deletes and creates what cannot be patched.
            self.delete(key)
            self.create(obj)
        else:
            self.update(obj)

    # Flux -------------------------------------------------------------------------------------------------

    def reconcile(self, target: Iterable[Object]) -> None:
        """One reconciliation with pruning: dry-runs of all, then all that differs, then what is stale."""
        wanted = {key_of(obj): obj for obj in target}
        for key, obj in wanted.items():
            if key in self.live and _is_refused(self.live[key].object, obj):
                if _annotations(obj).get(FORCE) != "enabled":
                    raise SyncFailed(f"{key}: dry-run failed: field is immutable")
                self.delete(key)
        for key in sorted(wanted, key=lambda key: key[0] != "Namespace"):
            self.update(wanted[key]) if key in self.live else self.create(wanted[key])
        for key in [key for key in self.live if key not in wanted]:
            if key in self.live and _annotations(self.live[key].object).get(PRUNE) != "disabled":
                self.delete(key)


def _is_refused(old: Object, new: Object) -> bool:
    def fixed(obj: Object) -> Object:
        return {name: value for name, value in obj["spec"].items() if name not in _MUTABLE}

    return old["kind"] in _IMMUTABLE_KINDS and fixed(old) != fixed(new)


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _options(obj: Object) -> set[str]:
    return set(_annotations(obj).get(OPTIONS, "").split(","))


def _wave(obj: Object) -> int:
    return int(_annotations(obj).get(WAVE, "0"))
