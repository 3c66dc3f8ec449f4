"""``fit`` of jobs that come into Kueue's queues together, and whom the real Kueue admits."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from control_plane import ControlPlane
from gpuctl.capacity.job_fit import Fit
from properties.scale import at_least
from support.queue_trials import Seen, run_trials
from support.queue_worlds import queue_trial
from support.real_parts import control_plane_binaries

pytestmark = pytest.mark.slow

WORLDS = [500_000 + seed for seed in range(at_least(8))]


@pytest.fixture(scope="module")
def seen() -> Iterator[list[Seen]]:
    """What became of the worlds on a control plane without nodes, where Kueue admits and jobs make pods."""
    with ControlPlane(control_plane_binaries(queues=True), queues=True) as plane:
        plane.stop_program("kwok")
        plane.stop_program("kube-scheduler")
        yield run_trials(plane, [queue_trial(seed) for seed in WORLDS])


def _is_right(world: Seen, answer: Fit) -> bool:
    return (answer.demand.name in world.admitted) == (answer.verdict in ("fits", "preempts"))


def _told(seen: list[Seen]) -> list[tuple[Seen, Fit]]:
    return [(world, answer) for world in seen for answer in world.answers().values()]


def _shown(cases: list[tuple[Seen, Fit]]) -> str:
    return "\n".join(
        json.dumps(
            [
                world.trial.seed,
                answer.demand.name,
                answer.verdict,
                answer.depends,
                answer.certain,
                answer.demand.name in world.admitted,
                answer.reason,
            ]
        )
        for world, answer in cases
    )


def test_what_is_certain_is_so(seen: list[Seen]) -> None:
    told = [(world, answer) for world, answer in _told(seen) if answer.certain]
    wrong = [item for item in told if not _is_right(*item)]
    assert not wrong, _shown(wrong)
    assert len(told) >= 3 * len(WORLDS)


def test_of_all_jobs_nearly_all_are_told_right(seen: list[Seen]) -> None:
    told = _told(seen)
    wrong = [item for item in told if not _is_right(*item)]
    assert len(wrong) <= 0.03 * len(told), f"{len(wrong)} of {len(told)}\n{_shown(wrong)}"
    assert not [answer for _, answer in told if answer.verdict == "unknown"]
    assert len({answer.verdict for _, answer in told}) >= 3


def _stopped(answer: Fit) -> set[str]:
    return {victim.pod.owner.partition("/")[2] for victim in answer.victims}


def test_who_loses_quota_is_told(seen: list[Seen]) -> None:
    """The jobs whose pods are among the victims are those that Kueue stops: all where that is certain, most elsewhere,
    as which of several jobs alike is stopped depends on the order in which others come."""
    right = wrong = 0
    for world in seen:
        answers = world.answers().values()
        told = set().union(*map(_stopped, answers))
        right += len(told & world.lost)
        wrong += len(told ^ world.lost)
        assert set().union(*(_stopped(answer) for answer in answers if answer.certain)) <= world.lost
    assert right >= 3 * wrong, (right, wrong)
