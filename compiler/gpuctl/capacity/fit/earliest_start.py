"""The earliest time at which a job fits that does not fit now: when running work with a deadline has ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.capacity.fit.component_input import ComponentInput
from gpuctl.capacity.fit.verdicts import EndingWorkload, Fit, Opening
from gpuctl.capacity.scheduler.cluster_state import initial_state
from gpuctl.capacity.scheduler.placement import place_pods
from gpuctl.capacity.scheduler.scheduler_model import NodeInfo, PlacedPod

_TRIED = 16


class _Work(NamedTuple):
    """A workload with a known end. ``at``: the latest time at which its last pod has ended."""

    at: str
    namespace: str
    owner: str


def with_earliest_start(component: ComponentInput, answers: Sequence[Fit], now: str) -> list[Fit]:
    """Add an opening to the answer of the only job of a component that has no room now.

    If other jobs of the component may take the room, no opening is known.

    :param component: a component without pending pods on its nodes.
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
    # More ended work never hurts: search for the smallest number of endings that suffices.
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
    """Return the pods with a known end, by workload."""
    result: dict[tuple[str, str], list[PlacedPod]] = {}
    for node_info in node_infos:
        for pod in node_info.pods:
            if pod.ends:
                result.setdefault((pod.namespace, pod.owner), []).append(pod)
    return result


def _fits_without(component: ComponentInput, ended: Collection[_Work]) -> bool:
    """Return True if all jobs of a component fit in every case after some work has ended."""
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
