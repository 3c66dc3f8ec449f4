"""A database with a year of usage of a large cluster: 10,000 GPUs, held by 1,000 workloads for three days each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.facts import AllocationSnapshot, Holding, WorkloadAllocation, WorkloadKey
from gpuctl_usage.store.database import open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Group, LabeledWorkload, Level, RolledUp, Sums

END = 1_767_225_600
"""2026-01-01, 00:00 UTC."""
DAYS, HOURS_OF_DAYS, SNAPSHOTS = 365, 1, 12
BEGIN = END - DAYS * DAY
WORKLOADS, LASTS, NAMESPACES, TEAMS = 1000, 3, 20, 40
EVER = WORKLOADS + (DAYS - 1) * WORKLOADS // LASTS
"""Number of workloads of the year."""
GPUS = 8.0


def write_year(file: Path, uid: str, name: str) -> None:
    """Write the days of the year, the hours of its last days, the intervals of its pods and some snapshots."""
    database = open_database(str(file))
    cluster = database.put_cluster(uid, name)
    seen = 0
    for day in range(BEGIN, END, DAY):
        now = _active(day)
        database.put_changes(cluster, day + DAY, holdings=[_holding(number, day) for number in range(seen, now.stop)])
        seen = now.stop
        database.put_rolled_up(cluster, _period(day, DAY), False, PeriodLength.DAY)
    for hour in range(END - HOURS_OF_DAYS * DAY, END, HOUR):
        database.put_rolled_up(cluster, _period(hour, HOUR), False)
    for day in range(END - HOURS_OF_DAYS * DAY, END, DAY):
        hours = database.hours(cluster, day, day + DAY)
        database.put_day(cluster, _period(day, DAY), {start: state.digest for start, state in hours.items()})
    for time in range(END - SNAPSHOTS * 300, END, 300):
        held = tuple(WorkloadAllocation(_workload(number), GPUS, number % 100) for number in _active(time))
        database.put_changes(cluster, snapshots=[AllocationSnapshot(time, 10_000, WORKLOADS * GPUS, held)])
    database.close()


def held_by(number: int, seconds: float) -> float:
    """Return the GPU-seconds that a workload holds in a time: no two of a hundred hold the same."""
    return GPUS * seconds * (1 - number % 100 / 1000)


def _active(time: int) -> range:
    first = (time - BEGIN) // DAY * WORKLOADS // LASTS
    return range(first, first + WORKLOADS)


@cache
def _workload(number: int) -> WorkloadKey:
    return WorkloadKey(f"team-{number % NAMESPACES}", "Job", f"training-{number}", f"uid-{number}")


def _labels(number: int) -> dict[str, str]:
    return {"team": f"team-{number % TEAMS}"}


@cache
def _holder(number: int) -> LabeledWorkload:
    return LabeledWorkload(_workload(number), tuple(_labels(number).items()), ())


@cache
def _group(number: int) -> Group:
    key = _workload(number)
    return Group(Level.WORKLOAD, f"{key.namespace}/{key.kind}/{key.name}", key.uid)


def _holding(number: int, day: int) -> Holding:
    key, end = _workload(number), day + LASTS * DAY
    place = key.namespace, key.name, key, f"node-{number % WORKLOADS}"
    held = GPUS * (1 - number % 100 / 1000), "H100", _labels(number), {}
    return Holding(f"pod-{number}", *place, *held, float(day), float(day), float(end) if end <= END else None)


def _period(start: int, seconds: int) -> RolledUp:
    active = _active(start)
    groups: dict[Group, Sums] = {}
    cluster, model = Sums(), Sums()
    namespaces, teams = [Sums() for _ in range(NAMESPACES)], [Sums() for _ in range(TEAMS)]
    for number in active:
        held, utilization = held_by(number, seconds), 50 + number % 40
        own = Sums(held, held, obs_gpu_s=held, util_gpu_s=held * utilization, histogram={utilization: seconds // 60})
        own.pod_s, own.workloads = float(seconds), 1
        groups[_group(number)] = own
        for whole in (cluster, model, namespaces[number % NAMESPACES], teams[number % TEAMS]):
            whole.alloc_gpu_s += held
            whole.obs_gpu_s += held
            whole.util_gpu_s += held * utilization
            whole.workloads += 1
    for whole in (cluster, model):
        whole.cap_gpu_s = 10_000.0 * seconds
        whole.free_gpu_s = whole.cap_gpu_s - whole.alloc_gpu_s
    groups |= {Group(Level.CLUSTER): cluster, Group(Level.MODEL, "", "H100"): model}
    groups |= {Group(Level.NAMESPACE, "", f"team-{number}"): item for number, item in enumerate(namespaces)}
    groups |= {Group(Level.LABEL, "team", f"team-{number}"): item for number, item in enumerate(teams)}
    holders = frozenset(_holder(number) for number in active)
    return RolledUp(start, float(seconds), groups, f"{seconds} {start}", 0, holders)
