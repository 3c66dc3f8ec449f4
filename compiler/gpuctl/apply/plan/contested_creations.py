"""The new workloads of a plan that compete for room or quota. They are created one after another.

If they were created concurrently, timing would decide which of them start. In sequence the most important ones come
first, and equals in the order of the plan. Then the result is what ``fit`` predicts, and no workload starts only to be
evicted at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.plan.plan import Step
from gpuctl.capacity.fit.job_fit import Fit
from gpuctl.objects.api_resources import Key

_QUEUES = "Kueue's queues"
"""The quota that Kueue's queues share is not analysed: an unnecessary sequence costs only a moment."""


def creates_workload(step: Step) -> bool:
    """Return True if the step creates a workload without deleting another object first."""
    return step.action == "create" and step.method == "post"


def sequential_groups(steps: Sequence[Step], answers: Sequence[Fit]) -> list[list[Key]]:
    """Return groups of workloads to create in sequence. ``answers`` are the plan's ``fit`` answers, in that order.

    A group whose answers are all certain in any order needs no sequence. Replacements are not included: each is created
    when its old object is gone.
    """
    created = {step.key: step for step in steps if creates_workload(step)}
    scarce = {step.key.namespace for step in steps if any(wait.cause == "quota" for wait in step.waits)}
    coming: list[tuple[Key, set[object]]] = []
    lanes: list[set[object]] = []
    for answer in answers:
        key = answer.demand.key
        if key not in created:
            continue
        # The nodes (by component), the quota of the namespace, and Kueue's queues.
        contested: set[object] = {answer.component, *(scarce & {key.namespace})}
        if created[key].queued:
            contested.add(_QUEUES)
        coming.append((key, contested))
        if not answer.certain:
            met = [lane for lane in lanes if lane & contested]
            lanes = [*(lane for lane in lanes if lane not in met), contested.union(*met)]
    result = [[key for key, contested in coming if contested & lane] for lane in lanes]
    return [keys for keys in result if len(keys) > 1]
