"""A database with a year of usage of a large cluster: 10,000 GPUs, held by 1,000 workloads for three days each."""

from __future__ import annotations

from pathlib import Path

from gpuctl_usage.facts import DAY, HOUR, AllocationSnapshot, Holding, WorkloadAllocation, WorkloadKey
from gpuctl_usage.store.database import open_database
from gpuctl_usage.store.hours import PeriodLength
from gpuctl_usage.sums import Group, LabeledWorkload, Level, RolledUp, Sums

END = 1_767_225_600
"""2026-01-01, 00:00 UTC."""
DAYS, HOURS_OF_DAYS, SNAPSHOTS = 365, 2, 12
BEGIN = END - DAYS * DAY
WORKLOADS, LASTS, NAMESPACES, TEAMS = 1000, 3, 20, 40
EVER = WORKLOADS + (DAYS - 1) * WORKLOADS // LASTS
"""Number of workloads of the year."""
GPUS = 8.0


def write_year(file: Path, uid: str, name: str) -> None:
    """Write the days of the year, the hours of its last days, the intervals of its pods and some snapshots."""
    database = open_database(str(file))
    cluster = database.cluster(uid, name)
    seen = 0
    for day in range(BEGIN, END, DAY):
        now = _active(day)
        database.put_holdings(cluster, [_holding(number, day) for number in range(seen, now.stop)], day + DAY)
        seen = now.stop
        database.put_rolled_up(cluster, _period(day, DAY), False, PeriodLength.DAY)
    for hour in range(END - HOURS_OF_DAYS * DAY, END, HOUR):
        database.put_rolled_up(cluster, _period(hour, HOUR), False)
    for day in range(END - HOURS_OF_DAYS * DAY, END, DAY):
        hours = database.hours(cluster, day, day + DAY)
        database.put_day(cluster, _period(day, DAY), {start: state.digest for start, state in hours.items()})
    for time in range(END - SNAPSHOTS * 300, END, 300):
        held = tuple(WorkloadAllocation(_workload(number), GPUS, number % 100) for number in _active(time))
        database.put_snapshot(cluster, AllocationSnapshot(time, 10_000, WORKLOADS * GPUS, held))
    database.close()


def held_by(number: int, seconds: float) -> float:
    """Return the GPU-seconds that a workload holds in a time: no two of a hundred hold the same."""
    return GPUS * seconds * (1 - number % 100 / 1000)


def _active(time: int) -> range:
    first = (time - BEGIN) // DAY * WORKLOADS // LASTS
    return range(first, first + WORKLOADS)


def _workload(number: int) -> WorkloadKey:
    return WorkloadKey(f"team-{number % NAMESPACES}", "Job", f"training-{number}", f"uid-{number}")


def _labels(number: int) -> dict[str, str]:
    return {"team": f"team-{number % TEAMS}"}


def _holding(number: int, day: int) -> Holding:
    key, end = _workload(number), day + LASTS * DAY
    place = key.namespace, key.name, key, f"node-{number % WORKLOADS}"
    held = GPUS * (1 - number % 100 / 1000), "H100", _labels(number), {}
    return Holding(f"pod-{number}", *place, *held, float(day), float(day), float(end) if end <= END else None)


def _period(start: int, seconds: int) -> RolledUp:
    groups: dict[Group, Sums] = {}
    holders = set()
    for number in _active(start):
        key = _workload(number)
        of_workload = Group(Level.WORKLOAD, f"{key.namespace}/{key.kind}/{key.name}", key.uid)
        held = held_by(number, seconds)
        seen = {50 + number % 40: seconds // 60}
        groups[of_workload] = Sums(held, held, obs_gpu_s=held, util_gpu_s=held * (50 + number % 40), histogram=seen)
        groups[of_workload].pod_s, groups[of_workload].workloads = float(seconds), 1
        names = (Group(Level.CLUSTER), Group(Level.NAMESPACE, "", key.namespace), Group(Level.MODEL, "", "H100"))
        for group in (*names, Group(Level.LABEL, "team", _labels(number)["team"])):
            whole = groups.setdefault(group, Sums())
            whole.alloc_gpu_s += held
            whole.obs_gpu_s += held
            whole.util_gpu_s += held * (50 + number % 40)
            whole.workloads += 1
        holders.add(LabeledWorkload(key, tuple(_labels(number).items()), ()))
    for group in (Group(Level.CLUSTER), Group(Level.MODEL, "", "H100")):
        groups[group].cap_gpu_s = 10_000.0 * seconds
        groups[group].free_gpu_s = groups[group].cap_gpu_s - groups[group].alloc_gpu_s
    return RolledUp(start, float(seconds), groups, f"{seconds} {start}", 0, frozenset(holders))
