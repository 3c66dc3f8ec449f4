"""Labels and annotations that gpuctl writes on objects, and the labels that name a job's owner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpuctl"
"""Value of that label on objects that gpuctl creates."""
OWNERS = ("team", "creator", "project")
"""Labels of the user whose value names the owner of a job; the first one present counts. `app` is not among them: it is
the job's own name.
"""
CHECKPOINT = "checkpoint"
"""Annotation, under the platform's domain, with a workload's checkpoint settings as JSON."""
SWEEP = "sweep"
"""Label, under the platform's domain, with the name of the sweep that a training is part of."""
SWEEP_VALUES = "sweep-values"
"""Annotation, under the platform's domain, with the values of a training in its sweep as JSON."""
SWEEP_SIZE = "sweep-size"
"""Annotation, under the platform's domain, of the first job of a sweep with the number of its jobs. Apply writes it."""
URL = "url"
"""Annotation, under the platform's domain, with the address of a service outside the cluster."""
SCALES_TO_ZERO = "scales-to-zero"
"""Annotation, under the platform's domain, of a service whose autoscaler may stop all of its pods."""
STOP_AFTER = "stop-after"
"""Annotation, under the platform's domain, with the time without activity after which a notebook is paused."""
MAX_LIFETIME = "max-lifetime"
"""Annotation, under the platform's domain, with the time after which a notebook is paused."""

AFTER = "after"
"""Annotation, under the platform's domain, with the prerequisites of a training and their conditions as JSON."""
ENDED_BEFORE = "ended-before"
"""Annotation, under the platform's domain, with the prerequisites that have ended and how they ended as JSON."""
RELEASED = "released-at"
"""Annotation, under the platform's domain, with the time at which a training's prerequisites were met."""
NOTIFY = "notify"
"""Annotation, under the platform's domain, with the events of a job to report and the channels as JSON."""

LEADER_WORKER_SET_NAME = "leaderworkerset.sigs.k8s.io/name"
"""Label that LeaderWorkerSet sets on a pod: the name of its LeaderWorkerSet."""
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
"""Label that LeaderWorkerSet sets on a pod: the number of its replica."""
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
"""Label that LeaderWorkerSet sets on a pod: its rank in the replica; the leader's is 0."""

LABEL_MAX = 63
"""Maximum length of a label's value, and of a label's name, characters."""


def owner_of(*sources: Mapping[str, str]) -> str | None:
    """Return the owner that a job's labels name, or further sources such as its annotations; None without one."""
    return next((values[name] for values in sources for name in OWNERS if values.get(name)), None)


def managed_labels() -> dict[str, str]:
    """Return the labels of objects that belong to no job."""
    return {MANAGED_BY: MANAGER}


def sweep_values(obj: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the values of a training in its sweep, from its annotation ``key``; empty without a readable one."""
    try:
        found = json.loads(((obj.get("metadata") or {}).get("annotations") or {}).get(key) or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
