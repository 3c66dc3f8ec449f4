"""Other tools create and delete objects between the requests of an apply: their objects stay, and messages are true.

Before each write of an apply, and after the last one, gpuctl is killed; deleted objects go. Before the recovery,
another tool takes each free name, and creates objects beside it that look like parts of our jobs. `recover` and the
next apply leave these alone and report them; after they have gone, both finish. The same holds if gpuctl is not killed,
and other tools create objects, or delete ours, while it runs.

A command depends only on the state of the server: of the runs with one state (``state_of``: all that a command can see)
one is continued to the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fault_tools.calls import MOMENTS, PARTS, Call, Counter, First, to_the_last
from fault_tools.documents import NEW, OLD, inference, text
from fault_tools.proxy import Predicate, Request, meanwhile, on
from fault_tools.site import Base, Site, site
from fault_tools.world import Seen, Snapshot, is_bookkeeping, lost, rest, state_of, touched
from fault_tools.zygote import Result
from properties.scale import part_of

Object = dict[str, Any]

WORKERS = 6
FEWER = 2 * PARTS
"""Where nothing is killed, `make test` takes one of this many parts of the writes."""
POD = {"containers": [{"name": "main", "image": "registry.example.com/theirs:v1"}]}
THEIRS: dict[tuple[str, str], Object] = {
    ("Job", "train"): {
        "apiVersion": "batch/v1",
        "spec": {"suspend": True, "template": {"spec": {**POD, "restartPolicy": "Never"}}},
    },
    ("Deployment", "serve"): {
        "apiVersion": "apps/v1",
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {"metadata": {"labels": {"app": "theirs"}}, "spec": POD},
        },
    },
    ("Service", "svc-more"): {"apiVersion": "v1", "spec": {"ports": [{"port": 80}]}},
}
"""The objects that another tool creates under free names of ours."""
# One job that is replaced, one that scales as well, and one that is new.
DOCUMENTS = NEW + "---\n" + text({**inference(), "job": {"name": "more", "priority": "medium"}})
LOOKALIKE = ("ConfigMap", "foreign-lookalike")
LABELS = {"app": "train", "app.kubernetes.io/managed-by": "gpuctl", "runwhere.ai/job-type": "training"}


def _create_foreign_objects(place: Site) -> Snapshot:
    """Create objects of other tools under the free names; return those that exist now."""
    place.wait_for_deleted()
    now = place.snapshot()
    made = {key for key in THEIRS if key not in now}
    for kind, name in made:
        place.base.api.create({**THEIRS[kind, name], "kind": kind, "metadata": {"name": name}}, place.namespace)
    lookalike = {"apiVersion": "v1", "kind": LOOKALIKE[0], "metadata": {"name": LOOKALIKE[1], "labels": LABELS}}
    place.base.api.create({**lookalike, "data": {"key": "theirs"}}, place.namespace)
    return {key: live for key, live in place.snapshot().items() if key in made or key == LOOKALIKE}


def _delete_foreign_objects(place: Site, theirs: Snapshot) -> None:
    """They go away again."""
    for kind, name in theirs:
        place.base.api.delete(kind, place.namespace, name)
    place.base.api.wait(lambda: not any(_uids(place, theirs)), "what was others' to go")


def _uids(place: Site, keys: Iterable[tuple[str, str]]) -> list[str]:
    """Return the uids of the objects with these names that exist."""
    objects = [place.base.api.get(kind, place.namespace, name) for kind, name in keys]
    return [str(found["metadata"]["uid"]) for found in objects if found is not None]


def _changed(theirs: Snapshot, now: Snapshot) -> list[str]:
    """Return the objects that differ from what their owner created."""
    return [
        f"{'/'.join(key)}, which is somebody else's, was touched"
        for key, live in theirs.items()
        if key not in now or (now[key].uid, now[key].spec) != (live.uid, live.spec)
    ]


class Undisturbed(NamedTuple):
    """An undisturbed apply: the objects that it creates, and the number of its writes."""

    wanted: Snapshot
    writes: int


class Run(NamedTuple):
    """The result of a run: what was wrong, and the names that were taken."""

    reached: bool
    taken: frozenset[tuple[str, str]]
    problems: list[str]


def _makes(kind: str, name: str) -> Predicate:
    """Requests that make an object, or change it."""

    def test(request: Request) -> bool:
        if not request.is_write or request.method == "DELETE":
            return False
        body = json.loads(request.body)
        return (body["kind"], body["metadata"]["name"]) == (kind, name)

    return test


@dataclass(frozen=True)
class World:
    """The place of a test's runs. ``seen`` are the states that they have reached."""

    base: Base
    directory: Path
    wanted: Snapshot
    seen: Seen

    def at_write(self, number: int, moment: str) -> Run:
        """Others come at the n-th write."""
        call = Call("write", number, moment)
        return _run(self, call.name, Counter(call), moment)

    def at_making(self, kind: str, name: str, moment: str) -> Run:
        """Others come when an object is about to be made: however the writes follow each other, its name is empty."""
        return _run(self, f"{kind}-{name}-{moment}".lower(), First(_makes(kind, name)), moment)


def _run(world: World, name: str, counter: Counter | First, moment: str) -> Run:
    """Create foreign objects at a call at which the apply is killed or continues; recover, apply; remove them, recover,
    apply.
    """
    base, wanted = world.base, world.wanted
    with site(base, f"foreign-{name}", world.directory / name) as place:
        place.prepare(OLD)
        place.file.write_text(DOCUMENTS)
        old = place.snapshot()
        came: list[Snapshot] = []
        moments = {**MOMENTS, "alive": lambda _: meanwhile(lambda: came.append(_create_foreign_objects(place)))}
        first = place.disturb(place.apply_arguments, lambda victim: on(counter.is_the_call, moments[moment](victim)))
        if counter.found is None:
            return Run(False, frozenset(), [])
        theirs = came[0] if came else _create_foreign_objects(place)
        taken = frozenset(theirs) - {LOOKALIKE}
        deleted = {key for key in taken if key in old}
        problems = _changed(theirs, place.snapshot())
        if came:
            problems += _told(first, taken)
        where = f"{moment} {counter.found}"
        if not world.seen.is_new(_state(place, old)):
            return Run(True, taken, [f"{where}: {problem}" for problem in problems])
        for words in (place.recover_arguments, place.apply_arguments):
            result = place.run(words, place.direct)
            problems += _changed(theirs, place.snapshot())
            if "Traceback" in result.stderr:
                problems.append(f"{words[0]} broke: {result.stderr}")
            if words[0] == "recover" and taken & deleted and result.code != 1:
                problems.append(f"recover ended with {result.code}: {result.stdout}{result.stderr}")
            problems += [
                f"recover says nothing of {kind}/{name}: {result.stdout}{result.stderr}"
                for kind, name in taken & deleted
                if words[0] == "recover"
                and not re.search(rf"/{name} in \S+ cannot be created again: .* not gpuctl's", result.stderr)
            ]
            if taken and words[0] == "apply" and result.code != 1:
                problems.append(f"{words[0]} ended with {result.code}: {result.stdout}{result.stderr}")
            problems += [
                f"{words[0]} does not name {kind} {name}: {result.stdout}{result.stderr}"
                for kind, name in taken
                if words[0] == "apply" and name not in result.stdout + result.stderr
            ]
        _delete_foreign_objects(place, {key: live for key, live in theirs.items() if key in taken})
        for words in (place.recover_arguments, place.apply_arguments):
            result = place.run(words, place.direct)
            if result.code:
                problems.append(
                    f"when they had gone {words[0]} ended with {result.code}: {result.stdout}{result.stderr}"
                )
        now = place.snapshot()
        problems += _changed({key: live for key, live in theirs.items() if key == LOOKALIKE}, now)
        now.pop(LOOKALIKE, None)
        problems += [*lost(now, wanted, wanted), *rest(now), *touched(now, old)]
    return Run(True, taken, [f"{where}: {problem}" for problem in problems])


def _state(place: Site, old: Snapshot) -> str:
    return state_of(place.snapshot(), old, place.base.recorded(DOCUMENTS).hashes(place.namespace))


def _told(result: Result, taken: frozenset[tuple[str, str]]) -> list[str]:
    """Return what is wrong with the output of an apply during which names were taken."""
    said = result.stdout + result.stderr
    problems = [f"it does not name {kind} {name}" for kind, name in taken if name not in said]
    if result.code != (1 if taken else 0) or "Traceback" in said or '"' in said:
        problems.append(f"it ended with {result.code}")
    return [f"{problem}:\n{said}" for problem in problems]


@pytest.fixture(scope="module")
def undisturbed(base: Base, shared_objects: None, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Return the documents applied without interference."""
    with site(base, "foreign-wanted", tmp_path_factory.mktemp("wanted")) as place:
        place.prepare(OLD)
        place.file.write_text(DOCUMENTS)
        assert place.apply().code == 0
        now = place.snapshot()
        wanted = {key: live for key, live in now.items() if not is_bookkeeping(key, live)}
        return Undisturbed(wanted, len(place.proxy.writes()))


@pytest.mark.parametrize("moment", part_of(["before", "alive"], 2))
def test_other_tools_take_free_names(base: Base, tmp_path: Path, undisturbed: Undisturbed, moment: str) -> None:
    world = World(base, tmp_path, undisturbed.wanted, Seen())
    parts = PARTS if moment == "before" else FEWER
    runs = to_the_last(lambda number: [world.at_write(number, moment)], undisturbed.writes, WORKERS, parts)
    if moment == "before":
        runs.append(world.at_write(undisturbed.writes, "after"))
    with ThreadPoolExecutor(WORKERS) as pool:
        made = list(pool.map(lambda key: world.at_making(*key, moment), THEIRS))
    assert [key for key, run in zip(THEIRS, made, strict=True) if key not in run.taken] == []
    problems = [problem for run in (*runs, *made) for problem in run.problems]
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)


def test_other_tools_delete_our_objects(base: Base, tmp_path: Path, undisturbed: Undisturbed) -> None:
    """Objects that are already gone do not matter: the apply creates the wanted ones, whenever they were deleted."""
    seen = Seen()
    wanted = undisturbed.wanted

    def run(number: int) -> list[Run]:
        with site(base, f"lost-{number}", tmp_path / f"lost-{number}") as place:
            place.prepare(OLD)
            place.file.write_text(DOCUMENTS)
            old = place.snapshot()
            counter = Counter(Call("write", number, "alive"))

            def delete() -> None:
                gone = set(_uids(place, THEIRS))
                for key in THEIRS:
                    base.api.delete(key[0], place.namespace, key[1])
                base.api.wait(lambda: gone.isdisjoint(_uids(place, THEIRS)), "what is ours to go")

            result = place.disturb(place.apply_arguments, lambda _: on(counter.is_the_call, meanwhile(delete)))
            if counter.found is None:
                return [Run(False, frozenset(), [])]
            said = result.stdout + result.stderr
            problems = [f"it ended with {result.code}"] if result.code else []
            if seen.is_new(_state(place, old)):
                recovered, again = place.recover(place.direct), place.apply(place.direct)
                if recovered.code or again.code:
                    problems.append(f"then:\n{recovered}\n{again}")
                now = place.snapshot()
                problems += [*lost(now, wanted, wanted), *rest(now), *touched(now, old)]
            return [Run(True, frozenset(), [f"{counter.found}: {problem}:\n{said}" for problem in problems])]

    problems = [problem for run in to_the_last(run, undisturbed.writes, WORKERS, FEWER) for problem in run.problems]
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)
