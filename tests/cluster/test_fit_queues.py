"""``fit`` of jobs submitted together to Kueue's queues, compared with the admissions of the real Kueue."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from control_plane import ControlPlane
from gpuctl.capacity.fit.job_fit import Fit
from properties.scale import at_least
from support.queue_trials import Seen, run_trials
from support.queue_worlds import lone_job_trial, queue_trial
from support.real_parts import control_plane_binaries

pytestmark = pytest.mark.slow

WORLDS = [500_000 + seed for seed in range(at_least(8))]
LONE_JOBS = [521_000 + seed for seed in range(at_least(6))]


@pytest.fixture(scope="module")
def seen() -> Iterator[list[Seen]]:
    """The outcomes of the worlds on a control plane without nodes, with Kueue and the Job controller."""
    with ControlPlane(control_plane_binaries(queues=True), queues=True) as plane:
        plane.stop_program("kwok")
        plane.stop_program("kube-scheduler")
        together = run_trials(plane, [queue_trial(seed) for seed in WORLDS])
        yield together + run_trials(plane, [lone_job_trial(seed) for seed in LONE_JOBS])


def _is_right(world: Seen, answer: Fit) -> bool:
    return (answer.demand.name in world.admitted) == (answer.verdict in ("fits", "preempts"))


def _cases(seen: list[Seen]) -> list[tuple[Seen, Fit]]:
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


def test_certain_answers_are_right(seen: list[Seen]) -> None:
    told = [(world, answer) for world, answer in _cases(seen) if answer.certain]
    wrong = [item for item in told if not _is_right(*item)]
    assert not wrong, _shown(wrong)
    assert len(told) >= 3 * len(WORLDS)


def test_nearly_all_answers_are_right(seen: list[Seen]) -> None:
    told = _cases(seen)
    wrong = [item for item in told if not _is_right(*item)]
    assert len(wrong) <= 0.03 * len(told), f"{len(wrong)} of {len(told)}\n{_shown(wrong)}"
    assert not [answer for _, answer in told if answer.verdict == "unknown"]
    assert len({answer.verdict for _, answer in told}) >= 3


def _stopped(answer: Fit) -> set[str]:
    return {victim.pod.owner.partition("/")[2] for victim in answer.victims}


def test_predicted_victims_are_the_jobs_that_kueue_stops(seen: list[Seen]) -> None:
    """Kueue stops the jobs whose pods are the victims: all of them if the answer is certain, otherwise most of them,
    because the order of later jobs decides which of several equal jobs is stopped.
    """
    right = wrong = 0
    for world in seen:
        answers = world.answers().values()
        told = set().union(*map(_stopped, answers))
        right += len(told & world.lost)
        wrong += len(told ^ world.lost)
        assert set().union(*(_stopped(answer) for answer in answers if answer.certain)) <= world.lost
    assert right >= 3 * wrong, (right, wrong)
