"""Labels and annotations that gpuctl writes on objects, and the labels that name a job's owner."""

from __future__ import annotations

from collections.abc import Mapping

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpuctl"
"""Value of that label on objects that gpuctl creates."""
OWNERS = ("team", "creator", "project")
"""Labels of the user whose value names the owner of a job; the first one present counts."""
CHECKPOINT = "checkpoint"
"""Annotation, under the platform's domain, with a workload's checkpoint settings as JSON."""

LABEL_MAX = 63
"""Maximum length of a label's value, and of a label's name, characters."""


def owner_of(labels: Mapping[str, str]) -> str | None:
    """Return the owner of a job by its labels; None if they name none."""
    return next((labels[name] for name in OWNERS if labels.get(name)), None)


def managed_labels() -> dict[str, str]:
    """Return the labels of objects that belong to no job."""
    return {MANAGED_BY: MANAGER}
