"""Killed while it goes back: SIGKILL at every write of an `apply --wait --rollback` whose training fails, and of a
`rollback`, before and after the server acts. After `recover` each job is the old or the new one, never absent; the next
apply brings about what it says, and another writes nothing.

An apply acts on what the server has: of the namespaces that a recovery has left in one state the next is run in one.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from fault_tools.calls import MOMENTS, PARTS, Call, Counter, to_the_last
from fault_tools.documents import OLD, inference, notebook, text, training
from fault_tools.proxy import on
from fault_tools.site import Base, Site, site
from fault_tools.world import HISTORY, Seen, Snapshot, is_bookkeeping, lost, rest, state_of, touched, unlike
from properties.scale import part_of

WORKERS = 4
FAILS = training("v2")
FAILS["job"] = {**FAILS["job"], "annotations": {"gpuctl.test/outcome": "gpu-unavailable"}}
BAD = text(FAILS, inference(), notebook())
"""The documents that are applied: the training's pods are rejected, so it fails at once and is never seen running."""


class Outcome(NamedTuple):
    """The result of a run: whether it reached the write to kill at, and what was wrong afterwards."""

    reached: bool
    problems: list[str]


def _without_bookkeeping(now: Snapshot) -> Snapshot:
    return {key: live for key, live in now.items() if not is_bookkeeping(key, live)}


class Way:
    """A way back, which is killed: ``arguments`` are those of the command, ``before`` is what was applied first."""

    def __init__(self, base: Base, directory: Path, name: str) -> None:
        self.base = base
        self.directory = directory
        self.name = name
        self.writes = 0
        self.new = self._new()
        self._recovered = Seen()
        self._final = Seen()

    def _new(self) -> Snapshot:
        """Return the objects that exist after the training has failed, without a rollback."""
        with site(self.base, f"{self.name}-new", self.directory / "new") as place:
            place.prepare(OLD)
            place.file.write_text(BAD)
            assert place.apply(place.direct).code == 0
            return _without_bookkeeping(place.snapshot())

    def run(self, call: Call) -> Outcome:
        """Kill the command at one call, recover, look, and apply the old documents twice."""
        with site(self.base, f"{self.name}-{call.name}", self.directory / call.name) as place:
            place.prepare(OLD)
            old = place.snapshot()
            arguments = self._arguments(place)
            counter = Counter(call)
            result = place.disturb(arguments, lambda victim: on(counter.is_the_call, MOMENTS[call.moment](victim)))
            expected = -signal.SIGKILL if counter.found is not None else self._undisturbed_code
            problems = [] if result.code == expected else [f"ended with {result.code}: {result.stdout}{result.stderr}"]
            self.writes = max(self.writes, counter.seen["write"])
            place.proxy.reset()
            recovered = place.recover()
            if recovered.code:
                problems.append(f"recover ended with {recovered.code}: {recovered.stderr}")
            now = place.snapshot()
            problems += [*lost(now, old, self.new), *rest(now), *touched(now, old)]
            problems += self._afterwards(place, now, old)
            where = f"{call.moment} {counter.found}" if counter.found is not None else str(call)
            return Outcome(counter.found is not None, [f"{where}: {problem}" for problem in problems])

    @property
    def _undisturbed_code(self) -> int:
        return 1 if self.name == "waiting" else 0

    def _arguments(self, place: Site) -> list[str]:
        place.file.write_text(BAD)
        if self.name == "waiting":
            return [*place.apply_arguments, "--wait", "--rollback"]
        assert place.apply(place.direct).code == 0
        return ["rollback", "train", "-n", place.namespace, "--yes"]

    def _afterwards(self, place: Site, recovered: Snapshot, old: Snapshot) -> list[str]:
        if not self._recovered.is_new(_state(place, recovered, old)):
            return []
        place.file.write_text(OLD)
        applied = place.apply(place.direct)
        problems = [] if applied.code == 0 else [f"the next apply ended with {applied.code}: {applied.stderr}"]
        final = place.snapshot()
        problems += [*unlike(final, _without_bookkeeping(old)), *rest(final)]
        if not self._final.is_new(_state(place, final, old)):
            return problems
        place.proxy.reset()
        place.apply()
        return problems + [f"the third apply wrote {write}" for write in place.proxy.writes()]


def _state(place: Site, now: Snapshot, old: Snapshot) -> str:
    """All that an apply can see: the objects, how the training stands, and which documents are remembered."""
    secrets = [item["metadata"] for item in place.base.api.list_objects("Secret", place.namespace)]
    past = sorted(item["name"] for item in secrets if HISTORY in (item.get("labels") or {}))
    train = now[("Job", "train")].object if ("Job", "train") in now else {}
    ends = [item["type"] for item in (train.get("status") or {}).get("conditions") or []]
    return f"{state_of(now, old, place.base.recorded(BAD).hashes(place.namespace))} {past} {ends}"


@pytest.mark.usefixtures("shared_objects")
@pytest.mark.parametrize("name", ["waiting", "rollback"])
def test_rollback_killed_at_every_write(name: str, base: Base, tmp_path: Path) -> None:
    way = Way(base, tmp_path, name)
    undisturbed = way.run(Call("write", 10_000, "before"))
    assert undisturbed.problems == []
    assert way.writes >= (14 if name == "waiting" else 6)

    def both(number: int) -> list[Outcome]:
        return [way.run(Call("write", number, moment)) for moment in part_of(("before", "after"), 2)]

    problems = [problem for one in to_the_last(both, way.writes, WORKERS, PARTS) for problem in one.problems]
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)
