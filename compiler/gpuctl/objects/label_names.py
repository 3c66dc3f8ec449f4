"""Labels and annotations that gpuctl writes on objects, and what they say about who owns a job."""

from __future__ import annotations

from collections.abc import Mapping

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gpuctl"
"""The value of that label on what gpuctl makes."""
OWNERS = ("team", "creator", "project")
"""Labels of the user's own whose value says whose a job is: the first that it has."""
CHECKPOINT = "checkpoint"
"""The annotation, under the platform's domain, that says how a workload saves its progress, as JSON."""

LABEL_MAX = 63
"""Characters of a label's value, and of the name of a label, at most."""


def owner_of(labels: Mapping[str, str]) -> str | None:
    """Return the owner of a job by its labels; None if they name none."""
    return next((labels[name] for name in OWNERS if labels.get(name)), None)


def managed_labels() -> dict[str, str]:
    """Labels of objects that belong to no job."""
    return {MANAGED_BY: MANAGER}
