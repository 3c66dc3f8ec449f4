"""Results of ``fit`` compared with kube-scheduler and Kueue in recorded worlds (:mod:`support.fit_records`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from control_plane.releases import releases
from gpuctl.capacity.fit.job_fit import Fit
from gpuctl.capacity.fit.verdicts import STARTS, VERDICTS
from support.fit_records import RECORDED, SETS, queues_of, trials_of
from support.fit_submissions import YIELDING
from support.fit_trials import disagreements

NAMES = sorted(SETS)


class FitOutcome(NamedTuple):
    """A result of ``fit``, and how many of the job's pods got a node (all if Kueue admitted it)."""

    world: str
    answer: Fit
    started: int
    evicted: frozenset[str]

    @property
    def is_right(self) -> bool:
        """Return True if the verdict correctly predicts whether all of the job's pods start."""
        return (self.started == self.answer.demand.pods) == (self.answer.verdict in STARTS)

    @property
    def is_unknown(self) -> bool:
        """Return True if the verdict is `unknown` although the snapshot has everything that decides it."""
        return self.answer.verdict == "unknown" and not self.answer.demand.unknown_reasons


@pytest.fixture(scope="module", params=NAMES)
def placed(request: pytest.FixtureRequest) -> list[FitOutcome]:
    """The results for the jobs that the scheduler did or did not place."""
    return [
        FitOutcome(str(trial.world.seed), answer, trial.now.bound[name], trial.now.evicted)
        for trial in trials_of(request.param)
        for name, answer in trial.answers().items()
    ]


@pytest.fixture(scope="module", params=NAMES)
def queued(request: pytest.FixtureRequest) -> list[FitOutcome]:
    """The results for the jobs that Kueue did or did not admit."""
    return list(_queued(request.param))


def _queued(name: str) -> Iterator[FitOutcome]:
    for seen in queues_of(name):
        for job, answer in seen.answers().items():
            started = answer.demand.pods if job in seen.admitted else 0
            yield FitOutcome(str(seen.trial.seed), answer, started, frozenset(seen.lost))


def _shown(outcomes: list[FitOutcome]) -> str:
    return "\n".join(
        json.dumps([item.world, item.answer.demand.name, item.answer.verdict, item.started, item.answer.reason])
        for item in outcomes
    )


def _assert_figures(outcomes: list[FitOutcome]) -> None:
    """Assert that at least 97 % of the results are right, at most 2 % unknown, and no certain result is wrong."""
    known = [item for item in outcomes if not item.answer.demand.unknown_reasons]
    unknown = [item for item in known if item.is_unknown]
    wrong = [item for item in known if not item.is_unknown and not item.is_right]
    misled = [item for item in wrong if item.answer.certain]
    assert not misled, _shown(misled)
    assert len(wrong) * 100 <= 3 * len(known), f"{len(wrong)} of {len(known)} are wrong\n{_shown(wrong)}"
    assert len(unknown) * 100 <= 2 * len(known), f"{len(unknown)} of {len(known)} are unknown\n{_shown(unknown)}"


def test_fit_agrees_with_the_scheduler(placed: list[FitOutcome]) -> None:
    _assert_figures(placed)
    assert len(placed) >= 100
    assert {item.answer.verdict for item in placed} == set(VERDICTS)


def test_fit_agrees_with_kueue(queued: list[FitOutcome]) -> None:
    _assert_figures(queued)
    assert len(queued) >= 60
    assert len({item.answer.verdict for item in queued}) >= 3


def test_certain_victims_are_evicted(placed: list[FitOutcome]) -> None:
    certain = [item for item in placed if item.answer.certain and item.answer.victims]
    wrong = [item for item in certain if not {victim.pod.name for victim in item.answer.victims} <= item.evicted]
    assert not wrong, _shown(wrong)
    assert len(certain) >= 5


class Losses(NamedTuple):
    """The pods of each owner that all jobs of a world evict, as predicted and as observed.

    The pods of an owner are interchangeable. The predictions of all jobs are added up, as a reader of a plan does.
    """

    told: Counter[str]
    seen: Counter[str]


def _losses(name: str, feature: str) -> list[Losses]:
    found = []
    for trial in trials_of(name):
        owners = {pod["name"]: pod["labels"]["app"] for pod in trial.snapshot.pods if "app" in pod["labels"]}
        if feature in trial.world.features:
            told = [owners[victim.pod.name] for answer in trial.answers().values() for victim in answer.victims]
            found.append(Losses(Counter(told), Counter(owners[pod] for pod in trial.now.evicted)))
    return found


@pytest.mark.parametrize(("feature", "percent"), [("preempting", 95), (YIELDING, 80)])
def test_owners_lose_the_predicted_pods(feature: str, percent: int) -> None:
    """Of many jobs that are submitted together; in yielding worlds only a part of the owners loses pods."""
    losses = [loss for name in NAMES for loss in _losses(name, feature)]
    told, seen = (sum(part[index].total() for part in losses) for index in (0, 1))
    both = sum((loss.told & loss.seen).total() for loss in losses)
    assert seen >= 10
    assert both * 100 >= percent * told, f"{both} of {told} predicted pods were lost"
    assert both * 100 >= percent * seen, f"{both} of {seen} lost pods were predicted"


def test_certain_victims_lose_their_quota(queued: list[FitOutcome]) -> None:
    certain = [item for item in queued if item.answer.certain and item.answer.victims]
    wrong = [
        item
        for item in certain
        if not {victim.pod.owner.partition("/")[2] for victim in item.answer.victims} <= item.evicted
    ]
    assert not wrong, _shown(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_small_worlds_agree_in_every_detail(name: str) -> None:
    """With one or two jobs, the pods that start, the victims and the result for an empty cluster agree, too."""
    small = [trial for trial in trials_of(name) if len(trial.world.jobs) <= 2]
    apart = {trial.world.seed: found for trial in small if (found := disagreements(trial))}
    assert not apart, json.dumps(apart, indent=1)
    # Answers that are all uncertain would agree with any scheduler.
    answers = [answer for trial in small for answer in trial.answers().values() if answer.verdict == "preempts"]
    assert sum(answer.certain for answer in answers) * 2 >= len(answers)


def test_records_are_from_the_releases_that_the_tests_build() -> None:
    for path in RECORDED.rglob("*.json"):
        value = json.loads(path.read_text())
        found = {name: value[name] for name in releases() if name in value}
        assert found.items() <= releases().items(), (
            f"{path.name} was recorded with {found}: record it again (support/fit_records.py)"
        )
