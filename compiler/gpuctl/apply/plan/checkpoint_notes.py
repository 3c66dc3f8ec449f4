"""The checkpoints that run before a plan is carried out: those of running work that it ends."""

from __future__ import annotations

import shlex

from gpuctl.apply.plan.lost_work import running_since
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.language.checkpoint_block import parse_checkpoint
from gpuctl.language.display_text import shorten
from gpuctl.language.masking import redact
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, annotations_of
from gpuctl.objects.elastic_jobs import SIZE_PATHS
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import TEMPLATE_PATHS

_SHOWN = 120


def note_checkpoints(plan: Plan, keys: Records) -> None:
    """Set ``checkpoint`` of each step that ends running work, from the annotation of its live object."""
    for step in plan.steps:
        text = annotations_of(step.live).get(keys.checkpoint) if step.live is not None else None
        if text is not None and _ends_work(step):
            step.checkpoint = describe_checkpoint(text)
        step.unsaved = text is not None and step.checkpoint is None


def _ends_work(step: Step) -> bool:
    """Return True if a step ends running pods, or restarts their program: with their workload, one by one by a new
    template, or by another number of nodes.
    """
    if step.deletes:
        return step.key.kind in WORKLOADS and step.running is not None
    if step.method != "put" or step.live is None or running_since(step.live) is None:
        return False
    return any(change.path.startswith(TEMPLATE_PATHS) or change.path in SIZE_PATHS for change in step.changes)


def describe_checkpoint(text: str) -> str:
    """Return an annotation's checkpoint as users see it: ``python save.py (at most 2m)``. Credentials are masked."""
    checkpoint = parse_checkpoint(text)
    if checkpoint is None:
        return say("its annotation is invalid")
    if checkpoint.signal is not None:
        return say("signal {signal} ({timeout})", signal=checkpoint.signal, timeout=checkpoint.timeout)
    return say(
        "{command} (at most {time})",
        command=shorten(redact(shlex.join(checkpoint.command)), _SHOWN),
        time=checkpoint.timeout,
    )
