"""``fit`` of many jobs at once, compared with the outcomes of the real kube-scheduler."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from gpuctl.api.fit_answers import fit_job
from gpuctl.capacity.fit.job_fit import Fit
from properties.scale import at_least
from support.fit_parts import GPU
from support.fit_submissions import YIELDING, submission
from support.fit_trials import Trial, Trials
from support.hasty_scheduler import scheduler_alone

pytestmark = pytest.mark.slow

WORLDS = [300_000 + seed for seed in range(at_least(12))]
YIELDING_WORLDS = [306_000 + seed for seed in range(at_least(12))]
PARALLEL_WORLDS = [312_000 + seed for seed in range(at_least(6))]
BATCH = 8
"""Worlds per batch; each world has up to 120 jobs."""
WORKERS = 5
"""Jobs that the Job controller syncs concurrently. Source: ``pkg/controller/job/config/v1alpha1/defaults.go``."""


class Judged(NamedTuple):
    """The outcome of a world, and the answers of `fit` for its jobs."""

    trial: Trial
    answers: list[Fit]


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    """A control plane where only the scheduler runs."""
    with scheduler_alone() as plane:
        yield Trials(plane)


@pytest.fixture(scope="module")
def worlds(trials: Trials) -> list[Judged]:
    """Worlds whose jobs are submitted one after another."""
    return _judged(
        trials.run([*map(submission, WORLDS), *(submission(seed, YIELDING) for seed in YIELDING_WORLDS)], batch=BATCH)
    )


@pytest.fixture(scope="module")
def parallel_worlds(trials: Trials, worlds: list[Judged]) -> list[Judged]:
    """Worlds whose jobs are submitted in parallel, as fast as controllers create pods."""
    more = [*map(submission, PARALLEL_WORLDS)]
    return _judged(trials.run(more, shared=False, batch=BATCH, side_by_side=WORKERS))


def _judged(trials: list[Trial]) -> list[Judged]:
    return [Judged(trial, list(trial.answers().values())) for trial in trials]


def _is_right(trial: Trial, answer: Fit) -> bool:
    """Return True if all pods of a job were bound exactly when the answer predicted it."""
    started = trial.now.bound[answer.demand.name] == answer.demand.pods
    return started == (answer.verdict in ("fits", "preempts"))


def _cases(worlds: list[Judged]) -> list[tuple[Trial, Fit]]:
    return [(trial, answer) for trial, answers in worlds for answer in answers]


def _shown(cases: list[tuple[Trial, Fit]]) -> str:
    return "\n".join(
        json.dumps(
            [
                trial.world.seed,
                sorted(trial.world.features),
                answer.demand.name,
                answer.verdict,
                answer.depends,
                answer.certain,
                [trial.now.bound[answer.demand.name], answer.demand.pods],
                answer.reason,
            ]
        )
        for trial, answer in cases
    )


def test_certain_answers_are_right(worlds: list[Judged], parallel_worlds: list[Judged]) -> None:
    worlds = [*worlds, *parallel_worlds]
    told = [(trial, answer) for trial, answer in _cases(worlds) if answer.certain]
    wrong = [(trial, answer) for trial, answer in told if not _is_right(trial, answer)]
    assert len(told) >= 100
    assert not wrong, _shown(wrong)


def test_nearly_all_answers_are_right(worlds: list[Judged]) -> None:
    told = _cases(worlds)
    unknown = [item for item in told if item[1].verdict == "unknown"]
    wrong = [item for item in told if item not in unknown and not _is_right(*item)]
    assert len(unknown) * 50 <= len(told), _shown(unknown)
    assert len(wrong) * 100 <= 3 * len(told), f"{len(wrong)} of {len(told)}\n{_shown(wrong)}"
    verdicts = Counter(answer.verdict for _, answer in told)
    assert min(verdicts[verdict] for verdict in ("fits", "preempts", "fits-when-empty")) >= 10, dict(verdicts)


def test_predicted_victims_are_evicted(worlds: list[Judged]) -> None:
    """Answers with other pods of equal importance are left out, because the scheduler may evict those instead."""
    told = [item for item in _cases(worlds) if item[1].victims and "of equal importance" not in item[1].reason]
    wrong = [
        (trial, answer)
        for trial, answer in told
        if not {victim.pod.name for victim in answer.victims} <= trial.now.evicted
    ]
    assert len(told) >= 40
    assert len(wrong) * 20 <= len(told), _shown(wrong)


class _Loss(NamedTuple):
    """The losses that all jobs of a world cause: pods by owner, and GPUs, as predicted (told) and as observed (seen).

    Pods are counted per owner, because an owner's pods are interchangeable. The predictions of all jobs are added up,
    as a reader of a plan adds them up.
    """

    told: Counter[str]
    seen: Counter[str]
    gpus_told: int
    gpus_seen: int


def _losses(worlds: list[Judged]) -> list[_Loss]:
    """Return the losses of all worlds with predicted or observed evictions."""
    found = []
    for trial, answers in worlds:
        owners = {pod["metadata"]["name"]: pod["metadata"]["labels"]["app"] for pod, _ in trial.world.fillers}
        gpus = {pod["metadata"]["name"]: _gpus(pod) for pod, _ in trial.world.fillers}
        told = [victim.pod.name for answer in answers for victim in answer.victims]
        seen = trial.now.evicted
        loss = _Loss(
            Counter(owners[name] for name in told),
            Counter(owners[name] for name in seen),
            sum(gpus[name] for name in told),
            sum(gpus[name] for name in seen),
        )
        if told or seen:
            found.append(loss)
    return found


def _gpus(pod: dict[str, Any]) -> int:
    return sum(int(item["resources"]["requests"].get(GPU, 0)) for item in pod["spec"]["containers"])


def test_certain_victims_are_evicted(worlds: list[Judged], parallel_worlds: list[Judged]) -> None:
    worlds = [*worlds, *parallel_worlds]
    told = [(trial, answer, fit_job(answer).as_json()) for trial, answer in _cases(worlds)]
    certain = [(trial, answer, value["victims"]) for trial, answer, value in told if value["victimsCertain"]]
    wrong = [
        (trial, answer)
        for trial, answer, victims in certain
        if not {victim["name"] for victim in victims} <= trial.now.evicted
    ]
    assert sum(bool(victims) for _, _, victims in certain) >= 100
    assert not wrong, _shown(wrong)


def _assert_owners_right(losses: list[_Loss], percent: int) -> None:
    """Assert that the percentage of predicted pods that are lost (precision), and of lost pods that were predicted
    (recall), is high enough.
    """
    told, seen = sum(loss.told.total() for loss in losses), sum(loss.seen.total() for loss in losses)
    both = sum((loss.told & loss.seen).total() for loss in losses)
    assert both * 100 >= percent * told, f"{both} of {told} predicted pods were lost"
    assert both * 100 >= percent * seen, f"{both} of {seen} lost pods were predicted"


def test_owners_lose_the_predicted_pods(worlds: list[Judged]) -> None:
    losses = _losses(worlds)
    assert sum(loss.seen.total() for loss in losses) >= 300
    _assert_owners_right(losses, 95)


def test_owners_lose_the_predicted_pods_when_few_lose_any(worlds: list[Judged]) -> None:
    """If nearly every owner loses pods, any prediction is right. In these worlds few do, and the order of pods matters
    more.
    """
    yielding = [item for item in worlds if YIELDING in item.trial.world.features]
    losses = _losses(yielding)
    owners = sum(len({pod["metadata"]["labels"]["app"] for pod, _ in trial.world.fillers}) for trial, _ in yielding)
    assert 60 <= sum(len(loss.seen) for loss in losses) <= owners / 2
    _assert_owners_right(losses, 80)


def test_total_losses_match_the_prediction(worlds: list[Judged]) -> None:
    losses = _losses(worlds)
    pods = [(loss.told.total(), loss.seen.total()) for loss in losses]
    gpus = [(loss.gpus_told, loss.gpus_seen) for loss in losses]
    for numbers in (pods, gpus):
        off = sum(abs(told - seen) for told, seen in numbers)
        assert off * 100 <= 5 * sum(seen for _, seen in numbers), numbers
        far = [(told, seen) for told, seen in numbers if abs(told - seen) > max(4, seen // 10)]
        assert len(far) * 10 <= len(numbers), far
