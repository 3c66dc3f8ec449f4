"""Which new workloads of a plan compete, for room or for quota: they are created one after another.

Created side by side, chance would tell which of them start. In turn, the most important come first, and of equals those
that come first in the plan: what ``fit`` tells is what happens, and nobody takes a place to be evicted a moment later.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.plan.plan import Step
from gpuctl.capacity.job_fit import Fit
from gpuctl.objects.api_resources import Key

_QUEUES = "Kueue's queues"
"""Which of them share quota is not looked at: to create in turn what need not be costs a moment."""


def creates_workload(step: Step) -> bool:
    """Whether nothing goes before a step's workload comes."""
    return step.action == "create" and step.method == "post"


def sequential_groups(steps: Sequence[Step], answers: Sequence[Fit]) -> list[list[Key]]:
    """The workloads that are created in turn, by what ``fit`` says of a plan's, which it has in the order of turns.

    Where what becomes of all of them is certain, whichever comes first, none needs a turn. What comes where something
    else goes first comes when that has gone.
    """
    created = {step.key: step for step in steps if creates_workload(step)}
    scarce = {step.key.namespace for step in steps if any(wait.cause == "quota" for wait in step.waits)}
    coming: list[tuple[Key, set[object]]] = []
    lanes: list[set[object]] = []
    for answer in answers:
        key = answer.demand.key
        if key not in created:
            continue
        # Nodes, its namespace's quota, or Kueue's, by what names them.
        contested: set[object] = {answer.component, *(scarce & {key.namespace})}
        if created[key].queued:
            contested.add(_QUEUES)
        coming.append((key, contested))
        if not answer.certain:
            met = [lane for lane in lanes if lane & contested]
            lanes = [*(lane for lane in lanes if lane not in met), contested.union(*met)]
    result = [[key for key, contested in coming if contested & lane] for lane in lanes]
    return [keys for keys in result if len(keys) > 1]
