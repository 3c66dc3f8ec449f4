"""The earliest time at which a job fits that does not fit now: when running work with a deadline has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuctl.capacity.fit.component_input import ComponentInput
from gpuctl.capacity.fit.verdicts import EndingWorkload, Fit, Opening
from gpuctl.capacity.scheduler.cluster_state import initial_state
from gpuctl.capacity.scheduler.placement import place_pods

_TRIED = 16
_Work = tuple[str, str]
"""The namespace and the owner of pods with a known end."""


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
    ends: dict[_Work, str] = {}
    for node_info in component.cluster.node_infos:
        for pod in node_info.pods:
            if pod.ends:
                ends[pod.namespace, pod.owner] = max(pod.ends, ends.get((pod.namespace, pod.owner), ""))
    every = sorted(ends, key=lambda work: (ends[work], work))
    if not every or not _fits_without(component, every):
        return None
    # More ended work never hurts: search for the smallest number of endings that suffices.
    least, most = 1, len(every)
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if _fits_without(component, every[:middle]) else (middle + 1, most)
    needed = every[:most]
    for work in needed[:-1][-_TRIED:]:
        fewer = [item for item in needed if item != work]
        if _fits_without(component, fewer):
            needed = fewer
    return Opening(now, ends[needed[-1]], [EndingWorkload(*work, ends[work]) for work in needed])


def _fits_without(component: ComponentInput, ended: Iterable[_Work]) -> bool:
    """Return True if all jobs of a component fit in every case after some work has ended."""
    gone = set(ended)
    node_infos = [
        node_info.without(pod for pod in node_info.pods if pod.ends and (pod.namespace, pod.owner) in gone)
        for node_info in component.cluster.node_infos
    ]
    groups = [item for own in component.reported_groups for item in own]
    outcome = place_pods(initial_state(node_infos, component.cluster.names_hosts), groups, component.cluster.budgets)
    return outcome.surely_places(groups)
