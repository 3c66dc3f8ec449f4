"""A year of GPU usage as a small company has it: made up, the same for the same seed, and added up like a real one.

Trainings queue for the A100s, services run day and night and are busy by day, and notebooks are opened in the morning
and sometimes forgotten. What two of the three namespaces may hold is limited, less so in the second half of the time.
Nodes are cordoned for maintenance, and one of them fails now and then.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, GpuQuota, GpuSeries, Holding, WorkloadKey
from gpuctl_usage.gathering.current_allocation import take_snapshot
from gpuctl_usage.rollup.hour import reach, roll_up
from gpuctl_usage.store.database import Database

INTERVAL = 300
"""Seconds from one measurement to the next: a year of one for every fifteen seconds takes too long to add up."""
LABELS = ("team", "project", "app", "env")
ANNOTATIONS = ("cost-center",)
MEMORY = {"A100-80G": 80.0, "L40S-48G": 48.0, "A10-24G": 24.0}
TRAINING_GPUS = (1, 1, 1, 2, 2, 4, 4, 8, 8, 16)
OF_A_POD = 8


class Team(NamedTuple):
    """A team; ``share`` of the trainings, and its mean utilization, percent.

    :param largest: maximum GPUs of a training.
    :param quotas: GPUs that the namespace may hold, one value for each of equal parts of the time; empty: no quota.
    """

    name: str
    cost_center: str
    projects: tuple[str, ...]
    share: int
    use: float
    largest: int
    quotas: tuple[float, ...]


TEAMS = (
    Team("nlp", "cc-100", ("llm-pretrain", "summary"), 5, 88.0, largest=16, quotas=(20.0, 24.0)),
    Team("vision", "cc-200", ("segmentation", "ocr"), 3, 74.0, largest=8, quotas=(12.0, 16.0)),
    Team("speech", "cc-200", ("asr",), 2, 55.0, largest=8, quotas=()),
)
SERVICES = (("nlp", "chat", 3), ("nlp", "embed", 1), ("vision", "ocr-api", 2))
PEOPLE = (("nlp", "li-wei"), ("vision", "zhang-min"), ("speech", "wang-fang"), ("speech", "chen-jie"))


class GpuNode(NamedTuple):
    """A node with GPUs."""

    name: str
    model: str
    gpus: int


class Work(NamedTuple):
    """Submitted work: pods with a number of GPUs, a start time, and a duration in seconds."""

    start: float
    seconds: float
    namespace: str
    kind: str
    name: str
    model: str
    pods: tuple[int, ...]
    labels: dict[str, str]
    cost_center: str


class Year(NamedTuple):
    """The events of a year, by start."""

    holdings: list[Holding]
    capacities: list[Capacity]
    quotas: list[GpuQuota]


def year(nodes: Sequence[GpuNode], start: int, end: int, seed: int = 1) -> Year:
    """Return the events on these nodes between two whole hours. All work has ended at the end."""
    random = Random(seed)
    works = [*_trainings(random, start, end), *_services(random, start, end), *_notebooks(random, start, end)]
    away = {node.name: list(_away(random, start, end)) for node in nodes}
    quotas = list(_quotas(start, end))
    there = sorted(_capacities(nodes, away, start, end), key=_by_start)
    return Year(_placed(nodes, quotas, sorted(works), end), there, quotas)


def write(database: Database, cluster: int, past: Year, start: int, end: int) -> None:
    """Roll the hours from ``start`` up to ``end`` up and write them, with what they were made of."""
    within = [
        [one for one in intervals if one.start < end and (one.end or end) > start]
        for intervals in (past.holdings, past.capacities)
    ]
    database.put_changes(cluster, end, holdings=within[0], capacities=within[1], quotas=past.quotas)
    held, there = _by_hour(past.holdings, start, end), _by_hour(past.capacities, start, end)
    for hour in range(start, end, HOUR):
        here = held[hour]
        later = [one for one in held[hour + HOUR] if one.start < hour + HOUR + reach(INTERVAL)]
        all_of_them = list({(one.pod_uid, one.start): one for one in (*here, *later)}.values())
        samples = [series for one in all_of_them for series in _series(one, hour)]
        keys = {"label_keys": LABELS, "annotation_keys": ANNOTATIONS}
        rolled = roll_up(hour, HOUR, all_of_them, there[hour], samples, INTERVAL, **keys)
        database.put_rolled_up(cluster, rolled, provisional=False)


def write_snapshots(database: Database, cluster: int, past: Year, start: int, end: int) -> None:
    """Write who held GPUs, every five minutes."""
    for moment in range(start, end, INTERVAL):
        held, there = (
            [one for one in intervals if one.start <= moment < (one.end or end)]
            for intervals in (past.holdings, past.capacities)
        )
        measured = [series for one in held for series in _series(one, moment // HOUR * HOUR)]
        database.put_changes(cluster, snapshots=[take_snapshot(moment, held, there, measured)])


def _by_hour(intervals: Sequence[Holding] | Sequence[Capacity], start: int, end: int) -> dict[int, list]:
    found: dict[int, list] = defaultdict(list)
    for one in intervals:
        for hour in range(int(max(one.start, start)) // HOUR * HOUR, int(min(one.end or end, end)) + 1, HOUR):
            found[hour].append(one)
    return found


def _by_start(one: Capacity) -> tuple[float, str]:
    return one.start, one.node


def _is_work_day(moment: float) -> bool:
    # 1970 began on a Thursday.
    return int(moment // DAY + 4) % 7 not in {0, 6}


def _trainings(random: Random, start: int, end: int) -> Iterator[Work]:
    """More of them come in working hours than at night; most take hours, some take days."""
    numbers: dict[str, int] = defaultdict(int)
    moment = float(start)
    while True:
        busy = _is_work_day(moment) and 1 <= moment % DAY / HOUR < 11
        moment += random.expovariate(1 / (1.2 * HOUR if busy else 6 * HOUR))
        if moment >= end:
            return
        team = random.choices(TEAMS, [team.share for team in TEAMS])[0]
        project, gpus = random.choice(team.projects), min(team.largest, random.choice(TRAINING_GPUS))
        numbers[project] += 1
        seconds = min(72 * HOUR, random.lognormvariate(math.log(3.5 * HOUR), 1.0))
        labels = {"team": team.name, "project": project, "app": project, "env": "dev"}
        pods = (OF_A_POD,) * (gpus // OF_A_POD) or (gpus,)
        kind, name = "JobSet" if len(pods) > 1 else "Job", f"{project}-{numbers[project]}"
        yield Work(moment, seconds, team.name, kind, name, "A100-80G", pods, labels, team.cost_center)


def _services(random: Random, start: int, end: int) -> Iterator[Work]:
    """Each is rolled out anew after some days or weeks."""
    centers = {team.name: team.cost_center for team in TEAMS}
    for namespace, name, replicas in SERVICES:
        moment = float(start)
        while moment < end:
            seconds = random.uniform(4 * DAY, 30 * DAY)
            labels = {"team": namespace, "project": name, "app": name, "env": "prod"}
            pods = (1,) * replicas
            yield Work(moment, seconds, namespace, "Deployment", name, "L40S-48G", pods, labels, centers[namespace])
            moment += seconds


def _notebooks(random: Random, start: int, end: int) -> Iterator[Work]:
    """Opened on the morning of a working day (UTC+8), closed in the evening; one in eight is forgotten for days."""
    centers = {team.name: team.cost_center for team in TEAMS}
    for namespace, person in PEOPLE:
        free = float(start)
        for day in range(start // DAY * DAY, end, DAY):
            opened = day + random.uniform(1, 3) * HOUR
            if opened < free or not _is_work_day(day) or random.random() < 0.3:
                continue
            seconds = random.uniform(5, 9) * HOUR if random.random() < 0.875 else random.uniform(1, 6) * DAY
            free = opened + seconds
            # A team without a project, and pods without a user label: not all objects have labels.
            labels = {"team": namespace, "app": person}
            name = f"notebook-{person}"
            yield Work(opened, seconds, namespace, "StatefulSet", name, "A10-24G", (1,), labels, centers[namespace])


def _quotas(start: int, end: int) -> Iterator[GpuQuota]:
    for team in TEAMS:
        seconds = (end - start) / len(team.quotas) if team.quotas else 0.0
        for number, gpus in enumerate(team.quotas):
            yield GpuQuota(team.name, gpus, start + number * seconds, start + (number + 1) * seconds)


def _placed(nodes: Sequence[GpuNode], quotas: Sequence[GpuQuota], works: Sequence[Work], end: int) -> list[Holding]:
    """First come, first served, all pods of a work at once, on the nodes of its model and within its quota."""
    free = {node.name: node.gpus for node in nodes}
    held: defaultdict[str, int] = defaultdict(int)
    waiting: dict[str, list[Work]] = defaultdict(list)
    ends: list[tuple[float, str, str, int]] = []
    found: list[Holding] = []
    arrivals = iter(works)
    coming = next(arrivals, None)
    while coming is not None or ends:
        if coming is not None and (not ends or coming.start < ends[0][0]):
            now = coming.start
            waiting[coming.model].append(coming)
            coming = next(arrivals, None)
        else:
            now, node, namespace, gpus = heapq.heappop(ends)
            free[node] += gpus
            held[namespace] -= gpus
        most = {quota.namespace: quota.gpus for quota in quotas if quota.start <= now}
        for model, queue in waiting.items():
            while (work := _let_in(queue, held, most)) and (where := _room(nodes, free, model, work.pods)) is not None:
                queue.remove(work)
                if now >= end:
                    continue
                for number, (node, gpus) in enumerate(zip(where, work.pods, strict=True)):
                    free[node] -= gpus
                    held[work.namespace] += gpus
                    heapq.heappush(ends, (now + work.seconds, node, work.namespace, gpus))
                    found.append(_holding(work, now, node, gpus, number, end))
    return found


def _let_in(queue: Sequence[Work], held: defaultdict[str, int], most: Mapping[str, float]) -> Work | None:
    """The first one that its quota lets in; behind one that it does not, others of the namespace wait."""
    refused = set()
    for work in queue:
        name = work.namespace
        if name not in refused and held[name] + sum(work.pods) <= most.get(name, math.inf):
            return work
        refused.add(name)
    return None


def _room(nodes: Sequence[GpuNode], free: dict[str, int], model: str, pods: Sequence[int]) -> list[str] | None:
    left = dict(free)
    where = []
    for gpus in pods:
        fits = [node.name for node in nodes if node.model == model and left[node.name] >= gpus]
        if not fits:
            return None
        where.append(min(fits, key=lambda name: left[name]))
        left[where[-1]] -= gpus
    return where


def _holding(work: Work, now: float, node: str, gpus: int, number: int, end: int) -> Holding:
    uid = f"{work.namespace}/{work.name}/{int(work.start)}"
    # A service is one workload through all its rollouts.
    workload = f"{work.namespace}/{work.name}" if work.kind in {"Deployment", "StatefulSet"} else uid
    return Holding(
        *(f"{uid}/{number}", work.namespace, f"{work.name}-{number}-{int(work.start) % 100_000}"),
        workload=WorkloadKey(work.namespace, work.kind, work.name, workload),
        node=node,
        gpus=gpus,
        model=work.model,
        labels=work.labels,
        annotations={"cost-center": work.cost_center},
        start=float(int(now)),
        started=float(int(now)) + 20.0 + 40.0 * noise(uid),
        end=min(float(int(now + work.seconds)), float(end)),
        ending=EndReason.FINISHED,
    )


def _away(random: Random, start: int, end: int) -> Iterator[tuple[float, float, CapacityState]]:
    """Maintenance each month or two, for half a day, and a failure twice a year."""
    moment = float(start)
    while (moment := moment + random.expovariate(1 / (35 * DAY))) < end - DAY:
        failed = random.random() < 0.25
        seconds = random.uniform(0.5, 3) * HOUR if failed else random.uniform(3, 12) * HOUR
        moment = float(int(moment))
        yield moment, float(int(moment + seconds)), CapacityState.NOT_READY if failed else CapacityState.CORDONED
        moment += seconds


def _capacities(
    nodes: Sequence[GpuNode], away: dict[str, list[tuple[float, float, CapacityState]]], start: int, end: int
) -> Iterator[Capacity]:
    for node in nodes:
        since = float(start)
        for left, back, state in away[node.name]:
            yield Capacity(node.name, node.model, node.gpus, CapacityState.READY, since, left)
            yield Capacity(node.name, node.model, node.gpus, state, left, back)
            since = back
        yield Capacity(node.name, node.model, node.gpus, CapacityState.READY, since, float(end))


def _series(holding: Holding, hour: int) -> Iterator[GpuSeries]:
    """Return the samples of its GPUs in an hour, and in the time after it that a measurement covers."""
    last = min(hour + HOUR + reach(INTERVAL), holding.end or math.inf)
    first = max(hour, int(holding.start) + 120) // INTERVAL + 1
    times = [float(turn * INTERVAL) for turn in range(first, int(last) // INTERVAL + 1)]
    # The exporter of one node in twenty hours does not answer.
    if not times or noise(f"{holding.node}/{hour // HOUR}") < 0.02:
        return
    total = MEMORY[holding.model]
    for gpu in range(round(holding.gpus)):
        use = array("d", [_use(holding, gpu, moment) for moment in times])
        used = array("d", [total * (0.15 + 0.008 * value) for value in use])
        name = f"GPU-{holding.node}-{noise(holding.pod_uid):.6f}-{gpu}"
        yield GpuSeries(
            *(holding.node, name, holding.namespace, holding.pod, array("d", times), use),
            memory_used=used,
            memory_total=array("d", [total]) * len(times),
        )


def _use(holding: Holding, gpu: int, moment: float) -> float:
    """Percent, to tenths."""
    kind, chance = holding.workload.kind, noise(f"{holding.pod_uid}/{gpu}/{moment}")
    if kind == "Deployment":
        day = 0.5 + 0.5 * math.cos((moment % DAY / HOUR - 6.5) / 24 * 2 * math.pi)
        value = 12 + 50 * day * (1.0 if _is_work_day(moment) else 0.6) + 14 * (chance - 0.5)
    elif kind == "StatefulSet":
        value = 70 * chance if noise(f"{holding.pod_uid}/{moment // 1800}") < 0.25 else 0.0
    else:
        team = next(team for team in TEAMS if team.name == holding.namespace)
        # One in twelve hangs: it holds its GPUs, and does nothing after the first half hour.
        if noise(holding.workload.uid) < 1 / 12 and moment - holding.start > 1800:
            return 0.0
        value = team.use + 16 * (noise(holding.pod_uid) - 0.5) + 10 * (chance - 0.5)
    return round(min(100.0, max(0.0, value)), 1)


def noise(text: str) -> float:
    """Between 0 and 1, always the same for the same text, on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big") / (1 << 56)
