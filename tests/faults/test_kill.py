"""Nothing is lost if a command is killed at any moment: SIGKILL at every write, before the server acts or after it has.

Each write gets a namespace of its own: the start state, the command killed at that write, `gpuctl recover`. Then every
object is the old or the new one; the same apply creates the wanted objects, and a third one writes nothing. Ctrl-C at
every call is the same without `recover`: the command itself restores the objects.

A killed process leaves only the state of the server. A kill after a write leaves the same state as a kill before the
next one, unless the server continues by itself, as after a delete. So commands are killed before every write, and after
deletes and the last one. Reads change nothing: only some before the first write are tested. Ctrl-C is tested at every
call, because the command itself handles it.

Before its first write a command has changed nothing: this is checked, so one namespace serves for many such runs. An
apply, too, depends only on the state of the server: of the namespaces that a recovery has left in one state
(``state_of``: all that a command can see) the next applies run in one.

`make test` tests a part of these calls, selected by the commit, `make test-all` all of them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

import pytest

from fault_tools.calls import MOMENTS, PARTS, Call, Counter, Kind
from fault_tools.documents import NEW, NEW_SERVICES, OLD, OLD_SERVICES, inference, notebook, text
from fault_tools.proxy import Policy, first_of, nth, on, refuse
from fault_tools.site import Base, Site, Victim, ends_workload, makes_job, site
from fault_tools.world import Seen, Snapshot, changed, is_bookkeeping, lost, rest, state_of, touched, unlike
from fault_tools.zygote import Result
from properties.scale import part_of

WORKERS = 6
PLACES = 3
"""Namespaces side by side for what ends before it has written anything."""
SLACK: dict[Kind, int] = {"call": 8, "look": 8, "write": 2, "read": 8}
"""The number of calls that a run may make less than the undisturbed one: the number of polls and of lease renewals
depends on time.
"""


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
SERVICES = Scenario("services", OLD_SERVICES, NEW_SERVICES)
INTERRUPTED = Scenario("interrupted", OLD, NEW)


class Outcome(NamedTuple):
    """The result of a run: whether it reached the call, and what was wrong afterwards."""

    call: Call
    reached: bool
    problems: list[str]


UNDISTURBED = Call("call", 0, "before")
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
        self.deletes: list[int] = []
        """The numbers of its writes that were deletes, counted from 1."""
        self.new = self._wanted()
        self._recovered = Seen()
        self._final = Seen()

    def _wanted(self) -> Snapshot:
        """Return the objects that the documents create without disturbance."""
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
        """End the command at one call, recover, look, and apply twice more."""
        namespace = f"{self.scenario.name}-{call.name}"
        with site(self.base, namespace, self.directory / namespace, self.scenario.flags) as place:
            old = self._prepare(place)
            result, counter = self._disturbed(place, call)
            found = counter.found
            if call == UNDISTURBED:
                self.calls = counter.seen
                writes = [record.request for record in place.proxy.records if record.request.is_write]
                self.deletes = [number for number, write in enumerate(writes, 1) if write.method == "DELETE"]
            where = _where(place, counter)
            # Ctrl-C during the last write: what is under way is finished, and then there is nothing left undone.
            done = call.moment == "interrupt" and result.code == 0 and not unlike(place.snapshot(), self.new)
            problems = [] if done else _ended(result, ENDS[call.moment] if found else int(self.scenario.refused))
            place.proxy.reset(self._policy(Counter(UNDISTURBED), None))
            if not found or call.moment != "interrupt":
                recovery = place.recover()
                if recovery.code:
                    problems.append(f"recover ended with {recovery.code}: {recovery.stderr}")
            problems += self._afterwards(place, old)
        return Outcome(call, found is not None, [f"{where}: {problem}" for problem in problems])

    def looks(self, moment: str, numbers: Iterable[int]) -> list[Outcome]:
        """End the command at reads before its first write, one after the other, until there is no such read."""
        numbers = iter(numbers)
        first = next(numbers)
        namespace = f"{self.scenario.name}-{Call('look', first, moment).name}"
        outcomes = []
        with site(self.base, namespace, self.directory / namespace, self.scenario.flags) as place:
            self._prepare(place)
            place.wait_for_deleted()
            before = place.snapshot()
            for number in chain([first], numbers):
                call = Call("look", number, moment)
                result, counter = self._disturbed(place, call)
                if counter.found is None:
                    outcomes.append(Outcome(call, False, []))
                    break
                problems = [*_ended(result, ENDS[moment]), *changed(place.snapshot(), before)]
                where = _where(place, counter)
                outcomes.append(Outcome(call, True, [f"{where}: {problem}" for problem in problems]))
        return outcomes

    def killed_at_every_call(self) -> list[str]:
        """Return what was wrong in any of the killed runs."""
        problems = self._undisturbed()
        some = sorted({1, self.calls["look"] // 2, self.calls["look"]} - {0})
        after = [
            Call("write", number, "after") for number in part_of(sorted({*self.deletes, self.calls["write"]}), PARTS)
        ]
        return problems or self._all({"write": "before"}, [partial(self.looks, "before", some)], after)

    def interrupted_at_every_call(self) -> list[str]:
        """Return what was wrong in any of the interrupted runs."""
        first = range(1, PLACES + 1)
        looks = [partial(self.looks, "interrupt", count(number, PLACES)) for number in part_of(first, PLACES)]
        return self._undisturbed() or self._all({"write": "interrupt", "read": "interrupt"}, looks)

    def _undisturbed(self) -> list[str]:
        return self.run(UNDISTURBED).problems

    def _all(
        self, ways: dict[Kind, str], looks: Sequence[Callable[[], list[Outcome]]], more: Iterable[Call] = ()
    ) -> list[str]:
        """Return what was wrong in any of the runs that end at calls of these kinds, from the first to the last, or at
        others.
        """
        # Some runs need a call more than the first did: until one does not, there are more to come.
        calls = [
            Call(kind, number, way)
            for kind, way in ways.items()
            for number in (*part_of(range(1, self.calls[kind] + 1), PARTS), self.calls[kind] + 1)
        ]
        with ThreadPoolExecutor(WORKERS) as pool:
            under_way = [pool.submit(look) for look in looks]
            outcomes = list(pool.map(self.run, [*calls, *more]))
            for look in under_way:
                outcomes += look.result()
        for kind, way in ways.items():
            number = self.calls[kind] + 1
            outcome = next(outcome for outcome in outcomes if outcome.call == Call(kind, number, way))
            while outcome.reached:
                number += 1
                outcome = self.run(Call(kind, number, way))
                outcomes.append(outcome)
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

    def _disturbed(self, place: Site, call: Call) -> tuple[Result, Counter]:
        """Return the result of the command that was ended at a call, and that of the call."""
        counter = Counter(call)
        arguments = place.recover_arguments if self.scenario.wrecked else place.apply_arguments
        return place.disturb(arguments, lambda victim: self._policy(counter, victim)), counter

    def _policy(self, counter: Counter, victim: Victim | None) -> Policy:
        policies = [_REFUSAL] if self.scenario.refused else []
        if victim is not None:
            policies.insert(0, on(counter.is_the_call, MOMENTS[counter.call.moment](victim)))
        return first_of(*policies)

    def _afterwards(self, place: Site, old: Snapshot) -> list[str]:
        """Return what is wrong after the recovery, after an apply, and after another one."""
        recovered = place.snapshot()
        problems = [*lost(recovered, old, self.new), *rest(recovered), *touched(recovered, old)]
        problems = [f"afterwards: {problem}" for problem in problems]
        hashes = place.base.recorded(self.scenario.wanted).hashes(place.namespace)
        if not self._recovered.is_new(state_of(recovered, old, hashes)):
            return problems
        second = place.apply(place.direct)
        final = place.snapshot()
        if second.code:
            problems.append(f"the next apply ended with {second.code}: {second.stderr}")
        remains = [*unlike(final, self.new), *rest(final), *touched(final, old)]
        problems += [f"after the next apply: {problem}" for problem in remains]
        if not self._final.is_new(state_of(final, old, hashes)):
            return problems
        place.proxy.reset()
        third = place.apply()
        if third.code:
            problems.append(f"the third apply ended with {third.code}: {third.stderr}")
        return problems + [f"the third apply wrote {write}" for write in place.proxy.writes()]


def _where(place: Site, counter: Counter) -> str:
    """The call at which the command was ended, and what became of it."""
    call = counter.call
    found = next((str(item) for item in place.proxy.records if item.request is counter.found), None)
    return f"{call} was not reached" if found is None else f"{call.moment} {found}"


def _ended(result: Result, expected: int) -> list[str]:
    if result.code == expected:
        return []
    return [f"the command ended with {result.code}, not {expected}: {result.stderr}{result.stdout}"]


@pytest.mark.usefixtures("shared_objects")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_apply_killed_at_every_call(scenario: Scenario, base: Base, tmp_path: Path) -> None:
    problems = World(scenario, base, tmp_path).killed_at_every_call()
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)


@pytest.mark.usefixtures("shared_objects")
def test_apply_interrupted_at_every_call(base: Base, tmp_path: Path) -> None:
    problems = World(INTERRUPTED, base, tmp_path).interrupted_at_every_call()
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_objects")
def test_apply_of_all_kinds_killed_at_every_call(service_base: Base, tmp_path: Path) -> None:
    """With a CronJob, a LeaderWorkerSet, a ScaledObject, a budget, and a route that becomes an Ingress."""
    problems = World(SERVICES, service_base, tmp_path).killed_at_every_call()
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)
