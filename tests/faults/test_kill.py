"""Killed at any moment, nothing is lost: SIGKILL at every API call of a command, before and after the server acts.

Each call gets a namespace of its own: the start state, the command killed at that call, `gpuctl recover`, and then
every object is the old or the new one; the same apply once more brings about what was wanted, and a third writes
nothing. Ctrl-C at every call is the same without `recover`: the command itself puts back what it has taken apart.

What a process that is killed leaves is what the server has: a read changes nothing of it. So reads are killed at before
the server acts, not after as well, and of those before the first write some stand for all. Ctrl-C comes at every call:
what becomes of it is the command's own doing.
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from fault_tools.calls import MOMENTS, Call, Counter, Kind
from fault_tools.documents import NEW, OLD, inference, notebook, text
from fault_tools.proxy import Policy, first_of, nth, on, refuse
from fault_tools.site import Base, Site, Victim, ends_workload, makes_job, site
from fault_tools.world import Snapshot, is_bookkeeping, lost, rest, touched, unlike
from fault_tools.zygote import Result

WORKERS = 6
SLACK: dict[Kind, int] = {"call": 8, "look": 8, "write": 2, "read": 8}
"""How many calls fewer than the undisturbed run a run may need: how often it looks at a cluster depends on time, and so
does how often it renews a lease."""


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


SCENARIOS = [
    Scenario("create", "", OLD, ("--yes", "--create-namespace")),
    Scenario("replace", OLD, NEW),
    # One job goes, and with the change of another its autoscaler.
    Scenario("prune", OLD, text(inference("v2", most=None), notebook()), ("--yes", "--set", "jobs", "--prune")),
    Scenario("rollback", OLD, NEW, refused=True),
    Scenario("recovery", OLD, NEW, wrecked=True),
]
INTERRUPTED = Scenario("interrupted", OLD, NEW)


class Outcome(NamedTuple):
    """How one run went: whether the call was reached, and what was wrong afterwards."""

    call: Call
    reached: bool
    problems: list[str]


UNDISTURBED = Call("call", 0, "before")
KILLED: tuple[tuple[Kind, str], ...] = (("write", "before"), ("write", "after"), ("read", "before"))
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
        self.calls: dict[Kind, int] = {}
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
        namespace = f"{self.scenario.name}-{call.name}"
        with site(self.base, namespace, self.directory / namespace, self.scenario.flags) as place:
            old = self._prepare(place)
            arguments = place.recover_arguments if self.scenario.wrecked else place.apply_arguments
            counter = Counter(call)
            result = place.disturb(arguments, lambda victim: self._policy(counter, victim))
            found = counter.found
            if call == UNDISTURBED:
                self.calls = counter.seen
            where = next((f"{call.moment} {item}" for item in place.proxy.records if item.request is found), "")
            # Ctrl-C during the last write: what is under way is finished, and then there is nothing left undone.
            done = call.moment == "interrupt" and result.code == 0 and not unlike(place.snapshot(), self.new)
            problems = [] if done else self._ended(result, ENDS[call.moment] if found else int(self.scenario.refused))
            place.proxy.reset(self._policy(Counter(UNDISTURBED), None))
            if not found or call.moment != "interrupt":
                recovery = place.recover()
                if recovery.code:
                    problems.append(f"recover ended with {recovery.code}: {recovery.stderr}")
            problems += self._afterwards(place, old)
        where = where or f"{call} was not reached"
        return Outcome(call, found is not None, [f"{where}: {problem}" for problem in problems])

    def killed_at_every_call(self) -> list[str]:
        """What was wrong in any of the runs that are killed."""
        problems = self._undisturbed()
        looks = self.calls.get("look", 0)
        return problems or self._all(
            KILLED, [Call("look", number, "before") for number in {1, looks // 2, looks} - {0}]
        )

    def interrupted_at_every_call(self) -> list[str]:
        """What was wrong in any of the runs that are interrupted."""
        return self._undisturbed() or self._all((("call", "interrupt"),), [])

    def _undisturbed(self) -> list[str]:
        return self.run(UNDISTURBED).problems

    def _all(self, ways: tuple[tuple[Kind, str], ...], calls: list[Call]) -> list[str]:
        """What was wrong in any of the runs that end at some calls, and in all these ways from the first to the last."""
        calls += [Call(kind, number, moment) for kind, moment in ways for number in range(1, self.calls[kind] + 1)]
        with ThreadPoolExecutor(WORKERS) as pool:
            outcomes = list(pool.map(self.run, calls))
        # Some runs need a call more than the first did.
        for kind, moment in ways:
            for number in count(self.calls[kind] + 1):
                outcomes.append(self.run(Call(kind, number, moment)))
                if not outcomes[-1].reached:
                    break
        problems = [problem for outcome in outcomes for problem in outcome.problems]
        return problems + [
            f"{outcome.call} was never reached, and there are {self.calls}"
            for outcome in outcomes
            if not outcome.reached and outcome.call.number <= self.calls[outcome.call.kind] - SLACK[outcome.call.kind]
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

    def _policy(self, counter: Counter, victim: Victim | None) -> Policy:
        policies = [_REFUSAL] if self.scenario.refused else []
        if victim is not None:
            policies.insert(0, on(counter.is_the_call, MOMENTS[counter.call.moment](victim)))
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
    problems = World(scenario, base, tmp_path).killed_at_every_call()
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)


@pytest.mark.usefixtures("shared_objects")
def test_interrupted_at_every_call(base: Base, tmp_path: Path) -> None:
    problems = World(INTERRUPTED, base, tmp_path).interrupted_at_every_call()
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)
