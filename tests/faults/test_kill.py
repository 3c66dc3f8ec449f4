"""Killed at any moment, nothing is lost: SIGKILL at every API call of a command, before and after the server acts.

Each call gets a namespace of its own: the start state, the command killed at that call, `gpuctl recover`, and then
every object is the old or the new one; the same apply once more brings about what was wanted, and a third writes
nothing. Ctrl-C at every call is the same without `recover`: the command itself puts back what it has taken apart.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from fault_tools.documents import inference, notebook, text, training
from fault_tools.proxy import Action, Policy, after, before, first_of, meanwhile, nth, on, refuse
from fault_tools.site import Base, Site, Victim, ends_workload, makes_job, site
from fault_tools.world import Snapshot, is_bookkeeping, lost, rest, touched, unlike
from fault_tools.zygote import Result

WORKERS = 6
SLACK = 8
"""How many calls fewer than the undisturbed run a run may need: how often it looks at a cluster depends on time."""


@dataclass(frozen=True)
class Scenario:
    """A command to kill. ``start`` is what was applied before (empty: not even the namespace is there).

    ``refused``: the server takes no new Job, so that the old one has to be created again. ``wrecked``: the command to
    kill is not the apply but the recovery from one that was killed after its first delete.
    """

    name: str
    start: str
    wanted: str
    flags: tuple[str, ...] = ("--yes",)
    refused: bool = False
    wrecked: bool = False


_ALL = text(training(), inference(), notebook())
_CHANGED = text(training("v2"), inference("v2", port=9000, most=6), notebook())
SCENARIOS = [
    Scenario("create", "", _ALL),
    Scenario("replace", _ALL, _CHANGED),
    # One job goes, and with the change of another its autoscaler.
    Scenario("prune", _ALL, text(inference("v2", most=None), notebook()), ("--yes", "--set", "jobs", "--prune")),
    Scenario("rollback", _ALL, _CHANGED, refused=True),
    Scenario("recovery", _ALL, _CHANGED, wrecked=True),
]
INTERRUPTED = Scenario("interrupted", _ALL, _CHANGED)


class Call(NamedTuple):
    """Which request is the one to kill at, and how: a key of ``MOMENTS``."""

    number: int
    moment: str


class Outcome(NamedTuple):
    """How one run went: whether the call was reached, and what was wrong afterwards."""

    call: Call
    reached: bool
    problems: list[str]


UNDISTURBED = Call(0, "before")
MOMENTS: dict[str, Callable[[Victim], Action]] = {
    "before": lambda victim: before(lambda: victim().kill()),
    "after": lambda victim: after(lambda: victim().kill()),
    "interrupt": lambda victim: meanwhile(lambda: victim().signal(signal.SIGINT)),
}
ENDS = {"before": -signal.SIGKILL, "after": -signal.SIGKILL, "interrupt": 130}

_REFUSAL = on(
    makes_job("v2"),
    refuse(403, "Forbidden", 'admission webhook "policy.example.com" denied the request: not on a Friday'),
)


class World:
    """One scenario; each run has a site of its own."""

    def __init__(self, scenario: Scenario, base: Base, directory: Path) -> None:
        self.scenario = scenario
        self.base = base
        self.directory = directory
        self.calls = 0
        """API calls of the undisturbed run."""
        self.new = self._wanted()

    def _wanted(self) -> Snapshot:
        """What the documents bring about when nothing is in the way."""
        namespace = f"{self.scenario.name}-wanted"
        with site(self.base, namespace, self.directory / namespace, self.scenario.flags) as place:
            if self.scenario.start:
                place.prepare(self.scenario.start)
            place.file.write_text(self.scenario.wanted)
            result = place.apply(place.direct)
            assert result.code == 0, result.stderr
            now = place.snapshot()
        return {key: live for key, live in now.items() if not is_bookkeeping(key, live)}

    def run(self, call: Call) -> Outcome:
        """Kill at one call, recover, look, and apply twice more."""
        namespace = f"{self.scenario.name}-{call.number}-{call.moment}"
        with site(self.base, namespace, self.directory / namespace, self.scenario.flags) as place:
            old = self._prepare(place)
            arguments = place.recover_arguments if self.scenario.wrecked else place.apply_arguments
            result = place.disturb(arguments, lambda victim: self._policy(call, victim))
            records = place.proxy.records
            if call == UNDISTURBED:
                self.calls = len(records)
            reached = 0 < call.number <= len(records)
            # Ctrl-C during the last write: what is under way is finished, and then there is nothing left undone.
            done = call.moment == "interrupt" and result.code == 0 and not unlike(place.snapshot(), self.new)
            problems = [] if done else self._ended(result, ENDS[call.moment] if reached else int(self.scenario.refused))
            place.proxy.reset(self._policy(UNDISTURBED, None))
            if not reached or call.moment != "interrupt":
                recovery = place.recover()
                if recovery.code:
                    problems.append(f"recover ended with {recovery.code}: {recovery.stderr}")
            problems += self._afterwards(place, old)
        where = f"{call.moment} {records[call.number - 1]}" if reached else f"{call} was not reached"
        return Outcome(call, reached, [f"{where}: {problem}" for problem in problems])

    def every_call(self, *moments: str) -> list[str]:
        """What was wrong in any of the runs that are killed at the first call, the second, and so on to the last."""
        undisturbed = self.run(UNDISTURBED)
        if undisturbed.problems:
            return undisturbed.problems
        calls = [Call(number, moment) for number in range(1, self.calls + 1) for moment in moments]
        with ThreadPoolExecutor(WORKERS) as pool:
            outcomes = list(pool.map(self.run, calls))
        # Some runs need a call more than the first did.
        for number in count(self.calls + 1):
            more = [self.run(Call(number, moment)) for moment in moments]
            outcomes += more
            if not any(outcome.reached for outcome in more):
                break
        problems = [problem for outcome in outcomes for problem in outcome.problems]
        return problems + [
            f"{outcome.call} was never reached, and there are {self.calls} calls"
            for outcome in outcomes
            if not outcome.reached and outcome.call.number <= self.calls - SLACK
        ]

    def _prepare(self, place: Site) -> Snapshot:
        if self.scenario.start:
            place.prepare(self.scenario.start)
        place.file.write_text(self.scenario.wanted)
        old = place.snapshot()
        if self.scenario.wrecked:
            wrecked = place.disturb(
                place.apply_arguments, lambda victim: on(nth(1, ends_workload), MOMENTS["after"](victim))
            )
            assert wrecked.code == -signal.SIGKILL, wrecked.stderr
        return old

    def _policy(self, call: Call, victim: Victim | None) -> Policy:
        policies = [_REFUSAL] if self.scenario.refused else []
        if victim is not None and call != UNDISTURBED:
            action = MOMENTS[call.moment](victim)
            policies.insert(0, on(lambda request: request.number == call.number, action))
        return first_of(*policies)

    def _ended(self, result: Result, expected: int) -> list[str]:
        if result.code == expected:
            return []
        return [f"the command ended with {result.code}, not {expected}: {result.stderr}{result.stdout}"]

    def _afterwards(self, place: Site, old: Snapshot) -> list[str]:
        """What is wrong after the recovery, after an apply, and after yet another."""
        recovered = place.snapshot()
        second = place.apply(place.direct)
        final = place.snapshot()
        problems = [*lost(recovered, old, self.new), *rest(recovered), *touched(recovered, old)]
        problems = [f"afterwards: {problem}" for problem in problems]
        if second.code:
            problems.append(f"the next apply ended with {second.code}: {second.stderr}")
        remains = [*unlike(final, self.new), *rest(final), *touched(final, old)]
        problems += [f"after the next apply: {problem}" for problem in remains]
        place.proxy.reset()
        third = place.apply()
        if third.code:
            problems.append(f"the third apply ended with {third.code}: {third.stderr}")
        return problems + [f"the third apply wrote {write}" for write in place.proxy.writes()]


@pytest.mark.usefixtures("shared_objects")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_killed_at_every_call(scenario: Scenario, base: Base, tmp_path: Path) -> None:
    problems = World(scenario, base, tmp_path).every_call("before", "after")
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)


@pytest.mark.usefixtures("shared_objects")
def test_interrupted_at_every_call(base: Base, tmp_path: Path) -> None:
    problems = World(INTERRUPTED, base, tmp_path).every_call("interrupt")
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)
