"""``fit`` of many jobs at once, and what the real kube-scheduler makes of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from gpuctl.capacity.fit import Fit
from properties.scale import at_least
from support.fit_submissions import KINDS, submission
from support.fit_trials import Trial, Trials
from support.hasty_scheduler import scheduler_alone

WORLDS = [300_000 + seed for seed in range(at_least(12))]


@pytest.fixture(scope="module")
def trials() -> Iterator[list[Trial]]:
    """What became of the worlds in a control plane of which only the scheduler acts."""
    with scheduler_alone() as plane:
        yield Trials(plane).run([submission(seed) for seed in WORLDS])


def _is_right(trial: Trial, answer: Fit) -> bool:
    """Whether a job found room, all of it, as it was told."""
    started = trial.now.bound[answer.demand.name] == answer.demand.pods
    return started == (answer.verdict in ("fits", "preempts"))


def _told(trials: list[Trial]) -> list[tuple[Trial, Fit]]:
    return [(trial, answer) for trial in trials for answer in trial.answers().values()]


def _shown(cases: list[tuple[Trial, Fit]]) -> str:
    return "\n".join(
        json.dumps(
            [
                trial.world.seed,
                KINDS[trial.world.seed % len(KINDS)],
                answer.demand.name,
                answer.verdict,
                answer.likelihood,
                answer.certain,
                [trial.now.bound[answer.demand.name], answer.demand.pods],
                answer.reason,
            ]
        )
        for trial, answer in cases
    )


def test_what_is_certain_is_so(trials: list[Trial]) -> None:
    told = [(trial, answer) for trial, answer in _told(trials) if answer.certain]
    wrong = [(trial, answer) for trial, answer in told if not _is_right(trial, answer)]
    assert len(told) >= 100
    assert not wrong, _shown(wrong)


def test_nearly_all_answers_are_right(trials: list[Trial]) -> None:
    told = _told(trials)
    unknown = [item for item in told if item[1].verdict == "unknown"]
    wrong = [item for item in told if item not in unknown and not _is_right(*item)]
    assert len(unknown) * 50 <= len(told), _shown(unknown)
    assert len(wrong) * 100 <= 3 * len(told), f"{len(wrong)} of {len(told)}\n{_shown(wrong)}"
    verdicts = Counter(answer.verdict for _, answer in told)
    assert min(verdicts[verdict] for verdict in ("fits", "preempts", "fits-when-empty")) >= 10, dict(verdicts)


def test_victims_are_those_that_are_evicted(trials: list[Trial]) -> None:
    """Where no other pods of the same rank may be taken instead."""
    told = [item for item in _told(trials) if item[1].victims and "of the same rank" not in item[1].reason]
    wrong = [
        (trial, answer)
        for trial, answer in told
        if not {victim.pod.name for victim in answer.victims} <= trial.now.evicted
    ]
    assert len(told) >= 40
    assert len(wrong) * 20 <= len(told), _shown(wrong)
