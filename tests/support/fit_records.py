"""Worlds with the verdicts of the real kube-scheduler and the real Kueue, kept for tests without a control plane.

``cd tests && ../.venv/bin/python -m support.fit_records`` records all of them again: after an update of Kubernetes or
Kueue in ``tests/binaries``, and after a change of what a snapshot has. Nothing in the files is written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from control_plane import ControlPlane
from control_plane.releases import releases
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from support.fit_oddities import oddity
from support.fit_parts import World
from support.fit_submissions import YIELDING, submission
from support.fit_trials import Seen, Trial, Trials
from support.fit_worlds import world
from support.hasty_scheduler import scheduler_alone
from support.queue_trials import Seen as SeenQueues
from support.queue_trials import run_trials
from support.queue_worlds import QueueTrial, lone_job_trial, queue_trial
from support.real_parts import control_plane_binaries

TESTS = Path(__file__).parents[1]
RECORDED = TESTS / "unit" / "recorded-fit"
TELLING = (
    *(0, 4, 7, 9, 12, 14, 17, 19, 21, 22, 23, 25, 28, 32, 33, 37, 43, 47, 48, 50, 53, 57, 59, 60, 63, 66),
    *(68, 71, 78, 80, 83, 86, 101, 105, 116, 118, 121, 133, 138, 140, 144, 145, 148, 150, 173, 191, 192),
    *(203, 206, 207, 208, 229, 242, 247, 253, 259, 267, 272, 288, 309, 313, 353, 367, 388, 429, 473),
)
"""Seeds of worlds that tell what few others do: each rule of the scheduler shows in three of them, where it shows in as
many at all; and some about quotas."""
TELLING_ODDITIES = (1, 5, 8, 11, 32, 116, 176, 194)
_SUBMITTED_TOGETHER = 8
_QUEUES_TOGETHER = 3


class Seeds(NamedTuple):
    """The seeds of a set of worlds, by generator."""

    worlds: Iterable[int]
    oddities: Iterable[int]
    submissions: Iterable[int]
    yielding: Iterable[int]
    queues: Iterable[int]
    lone_jobs: Iterable[int]


SETS = {
    "known": Seeds(
        TELLING,
        [200_000 + seed for seed in TELLING_ODDITIES],
        [300_002, 300_003, 300_004, 300_008, 300_010],
        [306_000, 306_002],
        range(500_000, 500_012),
        [520_000 + seed for seed in (2, 8, 17, 20, 22, 24, 42, 46, 51)],
    ),
    "held-out": Seeds(
        range(2_000, 2_020),
        range(202_000, 202_006),
        [303_002, 303_003, 303_004],
        [309_001],
        range(502_000, 502_006),
        range(520_060, 520_072),
    ),
}
"""``held-out`` worlds are not read while ``fit`` is changed: they show whether it is fitted to the others."""


def dump_trial(trial: Trial) -> str:
    """Return what the scheduler did with a world, as JSON."""
    parts: dict[str, Any] = {
        "kubernetes": releases()["kubernetes"],
        "seed": trial.world.seed,
        "features": sorted(trial.world.features),
        "now": _seen_value(trial.now),
        "empty": None if trial.empty is None else _seen_value(trial.empty),
        "jobs": trial.world.jobs,
    }
    space = [item for item in trial.snapshot.namespaces if item["name"] == trial.world.namespace]
    return _text(parts, replace(trial.snapshot, namespaces=space))


def load_trial(path: Path) -> Trial:
    """Return a recorded world: of its objects only the jobs, all else is in its snapshot."""
    value = json.loads(path.read_text())
    found = World(value["seed"], jobs=value["jobs"], features=set(value["features"]))
    empty = None if value["empty"] is None else _seen(value["empty"])
    return Trial(found, load(json.dumps(value["snapshot"])), _seen(value["now"]), empty)


def dump_queues(seen: SeenQueues) -> str:
    """Return what Kueue did with a world, as JSON."""
    trial = seen.trial
    parts = {
        **{name: releases()[name] for name in ("kubernetes", "kueue")},
        "seed": trial.seed,
        "admitted": sorted(seen.admitted & {job["metadata"]["name"] for job in trial.coming}),
        "lost": sorted(seen.lost),
        "jobs": trial.coming,
    }
    return _text(parts, _own_part(seen.snapshot, trial))


def load_queues(path: Path) -> SeenQueues:
    """Return a recorded world of queues: of its objects only the jobs that come, all else is in its snapshot."""
    value = json.loads(path.read_text())
    trial = QueueTrial(value["seed"], f"queues-{value['seed']}", coming=value["jobs"])
    return SeenQueues(trial, load(json.dumps(value["snapshot"])), set(value["admitted"]), set(value["lost"]))


def trials_of(name: str) -> list[Trial]:
    """Return the recorded worlds of a set, by file."""
    return [load_trial(path) for path in sorted((RECORDED / name / "scheduler").glob("*.json"))]


def queues_of(name: str) -> list[SeenQueues]:
    """Return the recorded queues of a set, by file."""
    return [load_queues(path) for path in sorted((RECORDED / name / "kueue").glob("*.json"))]


def record_worlds(plane: ControlPlane, seeds: Seeds, directory: Path, *, shared: bool) -> None:
    """Let the scheduler judge worlds, and write what it did.

    :param shared: create the objects that all worlds need.
    """
    trials = Trials(plane)
    few = [*map(world, seeds.worlds), *map(oddity, seeds.oddities)]
    many = [*map(submission, seeds.submissions), *(submission(seed, YIELDING) for seed in seeds.yielding)]
    done = trials.run(few, shared=shared) + trials.run(many, shared=False, batch=_SUBMITTED_TOGETHER)
    directory.mkdir(parents=True, exist_ok=True)
    for trial in done:
        (directory / f"{trial.world.namespace}.json").write_text(dump_trial(trial))


def record_queues(plane: ControlPlane, seeds: Seeds, directory: Path) -> None:
    """Let Kueue judge worlds of queues, and write what it did."""
    directory.mkdir(parents=True, exist_ok=True)
    left = [*map(queue_trial, seeds.queues), *map(lone_job_trial, seeds.lone_jobs)]
    while left:
        some, left = left[:_QUEUES_TOGETHER], left[_QUEUES_TOGETHER:]
        for seen in run_trials(plane, some):
            (directory / f"{seen.trial.namespace}.json").write_text(dump_queues(seen))


def _seen_value(seen: Seen) -> dict[str, Any]:
    return {"bound": seen.bound, "evicted": sorted(seen.evicted)}


def _seen(value: dict[str, Any]) -> Seen:
    return Seen(value["bound"], frozenset(value["evicted"]))


def _own_part(whole: Snapshot, trial: QueueTrial) -> Snapshot:
    """Return the part of a snapshot that is about a world of queues."""
    own = {item["metadata"]["name"] for item in (*trial.flavors, *trial.cohorts, *trial.cluster_queues)}
    lists = whole.kueue or {}
    kept = {
        name: [item for item in lists[name] if item["name"] in own]
        for name in ("clusterqueues", "cohorts", "resourceflavors")
    }
    kept.update(
        (name, [item for item in lists[name] if item["namespace"] == trial.namespace])
        for name in ("localqueues", "workloads")
    )
    return replace(
        whole,
        namespaces=[item for item in whole.namespaces if item["name"] == trial.namespace],
        jobs=[item for item in whole.jobs if item["namespace"] == trial.namespace],
        kueue={**lists, **kept},
    )


def _text(parts: dict[str, Any], snapshot: Snapshot) -> str:
    """Return a record with a line for each item."""
    lines = [f'"{name}": {_listed(item)}' for name, item in parts.items()]
    return "{" + ",\n".join([*lines, f'"snapshot": {render(snapshot)}']) + "}\n"


def _listed(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return json.dumps(value)
    return "[" + ",\n".join(json.dumps(item, separators=(",", ":"), sort_keys=True) for item in value) + "]"


def main() -> None:
    """Record all sets."""
    with scheduler_alone() as plane:
        for number, (name, seeds) in enumerate(SETS.items()):
            record_worlds(plane, seeds, RECORDED / name / "scheduler", shared=number == 0)
    with ControlPlane(control_plane_binaries(queues=True), queues=True) as plane:
        plane.stop_program("kwok")
        plane.stop_program("kube-scheduler")
        for name, seeds in SETS.items():
            record_queues(plane, seeds, RECORDED / name / "kueue")


if __name__ == "__main__":
    main()
