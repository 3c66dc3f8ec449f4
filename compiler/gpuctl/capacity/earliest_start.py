"""When a job that does not fit now will: which of the work that runs has to end before, and until when that has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.capacity.component_input import ComponentInput
from gpuctl.capacity.placement import initial_state, place_pods
from gpuctl.capacity.scheduler_model import NodeInfo, PlacedPod
from gpuctl.capacity.verdicts import EndingWorkload, Fit, Opening

_TRIED = 16


class _Work(NamedTuple):
    """A workload whose pods end; ``at`` is when the last of them has, at the latest."""

    at: str
    namespace: str
    owner: str


def with_earliest_start(component: ComponentInput, answers: Sequence[Fit], now: str) -> list[Fit]:
    """The answers, with when the only job of a scene that finds no room now finds some.

    Nothing is known where other jobs of the scene may have that room.

    :param scene: one on whose nodes nobody waits for room.
    :param now: the time of the snapshot.
    """
    late = [position for position, answer in enumerate(answers) if answer.verdict != "fits"]
    if len(late) != 1 or component.cluster.nominated:
        return list(answers)
    (position,) = late
    answer, admission = answers[position], component.admissions[position]
    if answer.verdict != "fits-when-empty" or admission.refusals or not admission.settled:
        return list(answers)
    found = _opening(component, now)
    return [replace(one, opening=found) if one is answer else one for one in answers]


def _opening(component: ComponentInput, now: str) -> Opening | None:
    every = sorted(
        _Work(max(pod.ends for pod in pods), *key) for key, pods in _by_owner(component.cluster.node_infos).items()
    )
    if not every or not _fits_without(component, every):
        return None
    # With more that has ended it fits all the same: the first number of endings that is enough.
    least, most = 1, len(every)
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if _fits_without(component, every[:middle]) else (middle + 1, most)
    needed = every[:most]
    for work in needed[:-1][-_TRIED:]:
        fewer = [item for item in needed if item is not work]
        if _fits_without(component, fewer):
            needed = fewer
    return Opening(now, needed[-1].at, [EndingWorkload(work.namespace, work.owner, work.at) for work in needed])


def _by_owner(node_infos: Sequence[NodeInfo]) -> dict[tuple[str, str], list[PlacedPod]]:
    """The pods with a known end, by their workloads."""
    result: dict[tuple[str, str], list[PlacedPod]] = {}
    for node_info in node_infos:
        for pod in node_info.pods:
            if pod.ends:
                result.setdefault((pod.namespace, pod.owner), []).append(pod)
    return result


def _fits_without(component: ComponentInput, ended: Collection[_Work]) -> bool:
    """Whether all jobs of a scene fit, in any case, when some work has ended."""
    gone = {(work.namespace, work.owner) for work in ended}
    node_infos = [
        node_info.without(pod for pod in node_info.pods if pod.ends and (pod.namespace, pod.owner) in gone)
        for node_info in component.cluster.node_infos
    ]
    groups = [item for own in component.reported_groups for item in own]
    outcome = place_pods(
        initial_state(node_infos, component.cluster.names_hosts), groups, component.cluster.budgets, final=True
    )
    wanted = sum(number for _, number in groups)
    if not (outcome.exhaustive or outcome.is_uniform):
        return False
    return all(sum(end.placed.values()) == wanted and not end.evicted for end in outcome.states)
