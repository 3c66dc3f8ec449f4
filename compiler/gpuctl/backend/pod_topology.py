"""Closeness of the pods of a training: by Kueue in a queue, by pod affinity otherwise."""

from __future__ import annotations

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import selector
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.topology_block import Topology
from gpuctl.objects.api_resources import Object
from gpuctl.objects.queueing import TOPOLOGIES

_RULES = {
    "required": "requiredDuringSchedulingIgnoredDuringExecution",
    "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
}


def topology_annotations(context: Context, model: Job) -> dict[str, str]:
    """Return the annotation with which the pods of a queued training request a level from Kueue."""
    level = _level(context, model)
    if level is None or context.settings.queue_of_job(model) is None:
        return {}
    strength, label = level
    return {TOPOLOGIES[strength]: label}


def pod_affinity(context: Context, document: Document, model: Job) -> Object:
    """Return the affinity of a training's pods to each other, if Kueue does not place them.

    The scheduler accepts the first pod, which no other pod matches, because it matches its own rule.
    """
    level = _level(context, model)
    if level is None or context.settings.queue_of_job(model) is not None:
        return {}
    strength, label = level
    term: Object = {"labelSelector": {"matchLabels": selector(context, document, model)}, "topologyKey": label}
    if strength == "preferred":
        term = {"weight": 100, "podAffinityTerm": term}
    return {"podAffinity": {_RULES[strength]: [term]}}


def _level(context: Context, model: Job) -> tuple[str, str] | None:
    """Return the strength and the node label of the requested level; None without one."""
    topology: Topology | None = getattr(model.resources, "topology_block", None)
    if topology is None:
        return None
    label = context.settings.topology_labels.get(topology.level)
    return None if label is None else ("required" if topology.required is not None else "preferred", label)


def lift_topology(context: Context, template: Object, own: dict[str, str]) -> str | Object | None:
    """Return `resources.topology` of a pod template; None without one.

    :param own: the selector of the job's pods.
    """
    levels = {label: name for name, label in context.settings.topology_labels.items()}
    annotations = template["metadata"].get("annotations", {})
    affinity = template["spec"].get("affinity", {}).get("podAffinity", {})
    for strength, rule in _RULES.items():
        terms = [item.get("podAffinityTerm", item) for item in affinity.get(rule, [])]
        labels = [term["topologyKey"] for term in terms if term.get("labelSelector") == {"matchLabels": own}]
        for label in filter(levels.get, [annotations.get(TOPOLOGIES[strength]), *labels]):
            return levels[label] if strength == "required" else {strength: levels[label]}
    return None
