"""Kueue's admission of jobs that name a queue, before the scheduler sees their pods.

What a snapshot does not contain stays unknown: decisions of admission checks, topology-aware scheduling. Under fair
sharing, only answers that do not depend on Kueue's order are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.capacity.kueue.admission_orders import QueueOutcome, is_never_admitted, is_same_in_parts, simulate_admission
from gpuctl.capacity.kueue.cohorts import cohort_of
from gpuctl.capacity.kueue.job_queues import (
    first_priority,
    is_workload_of,
    queue_name,
)
from gpuctl.capacity.kueue.kueue_configuration import KueueConfiguration, kueue_configuration
from gpuctl.capacity.kueue.kueue_devices import CountedDevices
from gpuctl.capacity.kueue.kueue_requests import (
    held_quota,
    total_requests,
    waiting_requests,
)
from gpuctl.capacity.kueue.queue_checks import DIFFERS_BY_RELEASE, QueueChecks
from gpuctl.capacity.kueue.queue_messages import (
    QueuePath,
    missing_cluster_queue,
    missing_queue,
    never_admitted_message,
)
from gpuctl.capacity.kueue.queue_state import (
    NOT_CREATED,
    ClusterQueueRules,
    PodSet,
    QueuedJob,
    QueueState,
    build_queue_state,
    combines_flavors,
    pod_set,
)
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.pods.incoming_pods import waiting_spec
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import QUEUE_PRIORITY_LABEL, TRAININGS, Object, key_of, labels_of

_LISTS = ("workloads", "localqueues", "clusterqueues", "cohorts", "resourceflavors")
_HELD = ".held-by-gpuctl"
_BY_TOPOLOGY = Template(
    "Kueue places its pods by a topology, which is not part of a snapshot (TopologyAwareScheduling)"
)
_COMBINES = Template("its roles do not fit into the first flavors, and Kueue tries other combinations of flavors")
_EACH_POD = Template("Kueue admits each of its pods on its own: some may start, and others wait or get another flavor")
_DRAINS = "HoldAndDrain"


class QueuedJobStatus(NamedTuple):
    """The status of a job in its queue.

    ``refusal``: why it is never admitted with the current configuration. ``unknown_reason``: why its admission is
    unknown. ``unknown_after_admission``: what decides after it has quota.
    """

    path: QueuePath
    refusal: str = ""
    unknown_reason: str = ""
    unknown_after_admission: str = ""
    job: QueuedJob | None = None


class QueueAdmission(NamedTuple):
    """The jobs in queues by the number of their demand, and the outcome for each root.

    ``workloads``: the snapshot's Workloads by job number. ``unready``: jobs with quota whose pods are not all ready.
    """

    statuses: dict[int, QueuedJobStatus]
    outcomes: dict[str, QueueOutcome]
    state: QueueState
    workloads: dict[int, Object]
    flavors: dict[str, Object]
    configuration: KueueConfiguration = KueueConfiguration()
    unready: frozenset[int] = frozenset()


def admit_queued_jobs(
    snapshot: Snapshot, demands: Sequence[Demand], objects: Sequence[Object]
) -> QueueAdmission | None:
    """Simulate the admission of the jobs that go to a queue; return None if none does."""
    by_key = {key_of(obj): obj for obj in objects}
    lists = snapshot.kueue or {}
    configuration = kueue_configuration(lists)
    named: dict[int, tuple[Object, str]] = {}
    for number, demand in enumerate(demands):
        obj = by_key.get(demand.key)
        queue = "" if obj is None else queue_name(obj, snapshot)
        if obj is not None and demand.pods and (queue or (configuration.holds_all and obj["kind"] in TRAININGS)):
            named[number] = (obj, queue)
    if not named:
        return None
    missing = [name for name in _LISTS if name not in lists]
    if missing:
        unknown_reason = say("Kueue's {lists} could not be read", lists=missing)
        statuses = {
            number: QueuedJobStatus(QueuePath(queue), unknown_reason=unknown_reason)
            for number, (_, queue) in named.items()
        }
        return QueueAdmission(statuses, {}, build_queue_state([], [], []), {}, {})
    return _Builder(snapshot, demands, named, objects, configuration).build()


class _Builder:
    """Builds the queue state of a snapshot and admits jobs."""

    def __init__(
        self,
        snapshot: Snapshot,
        demands: Sequence[Demand],
        named: Mapping[int, tuple[Object, str]],
        objects: Sequence[Object],
        configuration: KueueConfiguration,
    ) -> None:
        lists = snapshot.kueue or {}
        self._lists = lists
        self._demands = demands
        self._named = named
        self._checks = QueueChecks(snapshot, objects, configuration)
        self._state = build_queue_state(lists["clusterqueues"], lists["cohorts"], lists["resourceflavors"])
        moments = sorted({item["since"] for item in lists["workloads"] if "since" in item})
        self._ages = {moment: age for age, moment in enumerate(moments)}
        self._workloads: dict[int, Object] = {}
        self._freed: set[str] = set()
        self._guessed: set[str] = set()

    def build(self) -> QueueAdmission:
        for item in self._lists["workloads"]:
            if any(is_workload_of(obj, item) for obj, _ in self._named.values()):
                held = (item.get("admission") or {}).get("clusterQueue")
                self._freed.update([self._state.roots[held]] if held in self._state.roots else [])
            else:
                self._add(item)
        statuses = {number: self._status(number, *named) for number, named in self._named.items()}
        coming: dict[str, list[QueuedJob]] = {}
        for number in sorted(statuses, key=lambda number: self._demands[number].creation_order):
            job = statuses[number].job
            if job is not None:
                coming.setdefault(self._state.roots[job.queue], []).append(job)
        loose = self._roots_with_unknown_usage(statuses.values())
        found = {}
        for root, jobs in coming.items():
            found[root] = self._admit(root, jobs, statuses, is_loose=root in loose)
        holding = {job.number: self._workloads[job.number] for job in self._state.holding}
        unready = frozenset(number for number, item in holding.items() if not item.get("ready"))
        return QueueAdmission(
            statuses, found, self._state, self._workloads, self._checks.flavors, self._checks.configuration, unready
        )

    def _admit(
        self, root: str, jobs: Sequence[QueuedJob], statuses: dict[int, QueuedJobStatus], *, is_loose: bool
    ) -> QueueOutcome:
        """Simulate the admission of the jobs below a root, and set the statuses of those whose admission is unknown.

        :param is_loose: the usage of the quota is unknown, so that no result is certain.
        """
        part, unknown_order = self._state.part(root), self._unknown_order(root)
        outcome = simulate_admission(part, jobs, retries_waiting=root in self._freed, ordered=not unknown_order)
        combining = {
            job.number
            for job in (*part.waiting, *jobs)
            if combines_flavors(job, part.rules[job.queue]) and not outcome.run.is_admitted(job.number)
        }
        for job in jobs:
            comes_in_parts = self._demands[job.number].kind == "Deployment" and self._demands[job.number].pods > 1
            unknown_reason = "" if job.number in outcome.decided else unknown_order
            if job.number in combining:
                unknown_reason = say(_COMBINES)
            elif comes_in_parts and not is_same_in_parts(job, outcome, part.rules[job.queue]):
                unknown_reason = say(_EACH_POD)
            if unknown_reason and not statuses[job.number].refusal:
                statuses[job.number] = QueuedJobStatus(statuses[job.number].path, unknown_reason=unknown_reason)
        return outcome._replace(holds_in_every_order=False, decided={}) if is_loose or combining else outcome

    def _add(self, item: Object) -> None:
        """Add a Workload of the cluster."""
        admission = item.get("admission")
        queue = self._queue_of(item) if admission is None else admission["clusterQueue"]
        if queue not in self._checks.queues:
            return
        number = len(self._demands) + len(self._workloads)
        rules = self._state.rules[queue]
        sets = tuple(self._waiting_set(item, part, rules) for part in item["podSets"])
        if admission is None and any(part.depends_on_release or part.is_uncounted for part in sets):
            self._guessed.add(self._state.roots[queue])
        created = self._checks.configuration.created(item)
        job = QueuedJob(number, queue, item["priority"], created, sets)
        job.uid, job.since = item["uid"], self._ages.get(item.get("since", ""), 0)
        job.evicted, job.is_untried = item.get("evicted", False), item.get("untried", False)
        if admission is not None and self._is_drained(item, queue):
            job.evicted = job.ends_after_eviction = True
        elif job.evicted:
            job.ends_after_eviction = item.get("leaves", False) or not self._queue_of(item)
        self._workloads[number] = item
        if admission is not None:
            job.held = held_quota(admission)
            self._state.holding.append(job)
        elif (
            not item.get("later")
            and not item.get("gated")
            and (rules.is_strict or not is_never_admitted(self._state, job))
        ):
            self._state.waiting.append(job)

    def _waiting_set(self, item: Object, part: Object, rules: ClusterQueueRules) -> PodSet:
        requests = waiting_requests(part, item["namespace"], self._checks.defaults, self._checks.configuration)
        spec, settings = waiting_spec(part["pod"]), self._checks.configuration
        devices = CountedDevices() if "sums" in part else self._checks.devices.of(spec, item["namespace"])
        count = part["count"]
        requests = CountedDevices(total_requests(dict(devices.added), count), devices.removed).in_requests(requests)
        found = pod_set(part["name"], requests, count, spec, rules, self._checks.flavors, settings)
        found = found._replace(is_uncounted=bool(devices.unknown_reason))
        # A flavor without a topology is excluded for jobs that request one: checkPodSetAndFlavorMatchForTAS.
        is_refused = "refused" in item or "byTopology" in part or bool(devices.refusal)
        return found.without_flavors(rules) if is_refused else found

    def _is_drained(self, item: Object, queue: str) -> bool:
        """Return True if Kueue is about to stop a Workload that has quota, because its queue is drained."""
        local = self._checks.local.get((item["namespace"], item["queue"])) or {}
        return _DRAINS in (local.get("stopPolicy"), self._checks.queues[queue]["spec"].get("stopPolicy"))

    def _queue_of(self, item: Object) -> str:
        """Return the ClusterQueue in which a Workload waits, "" if it cannot be admitted there."""
        local = self._checks.local.get((item["namespace"], item["queue"])) or {"clusterQueue": "", "stopPolicy": ""}
        queue = self._checks.queues.get(local["clusterQueue"])
        if queue is None:
            return ""
        refusal, unknown_reason = self._checks.queue_refusal(local, queue, item["namespace"])
        if unknown_reason:
            self._guessed.add(self._state.roots[queue["name"]])
        return "" if refusal else str(queue["name"])

    def _status(self, number: int, obj: Object, name: str) -> QueuedJobStatus:
        """Return the status of a job by the name of its queue, "" if it names none."""
        namespace = self._demands[number].namespace
        if not name:
            suspends = say("Kueue suspends jobs without a queue (manageJobsWithoutQueueName)")
            return QueuedJobStatus(QueuePath(""), unknown_reason=suspends)
        local = self._checks.local.get((namespace, name))
        if local is None:
            there = (queue for space, queue in self._checks.local if space == namespace)
            refusal = (
                say("Kueue's queue {queue} is how gpuctl holds a job back: nothing starts it", queue=name)
                if name.endswith(_HELD)
                else missing_queue(name, namespace, there)
            )
            return QueuedJobStatus(QueuePath(name), refusal=refusal)
        queue = self._checks.queues.get(local["clusterQueue"])
        path = QueuePath(name, local["clusterQueue"], cohort_of(queue) if queue is not None else "")
        if queue is None:
            return QueuedJobStatus(path, refusal=missing_cluster_queue(path))
        return self._status_in(path, number, obj, local, queue)

    def _status_in(self, path: QueuePath, number: int, obj: Object, local: Object, queue: Object) -> QueuedJobStatus:
        """Return the status of a job in an existing ClusterQueue."""
        demand = self._demands[number]
        refusal, unsure = self._checks.queue_refusal(local, queue, demand.namespace)
        if refusal:
            return QueuedJobStatus(path, refusal=refusal)
        rules = self._state.rules[path.cluster_queue]
        if not rules.is_active:
            return QueuedJobStatus(
                path,
                refusal=say(
                    "{queue} is not active: one of its flavors does not exist, or its cohorts form a cycle", queue=path
                ),
            )
        rank = labels_of(obj).get(QUEUE_PRIORITY_LABEL)
        if rank and rank not in self._checks.ranks:
            if self._checks.knows_ranks:
                return QueuedJobStatus(
                    path,
                    refusal=say(
                        "WorkloadPriorityClass {name} does not exist: Kueue does not process the job", name=rank
                    ),
                )
            return QueuedJobStatus(
                path, unknown_reason=say("WorkloadPriorityClass {name} could not be read", name=rank)
            )
        devices = self._checks.counted_devices(demand, obj)
        refused = self._checks.refusal(demand, obj, queue, devices)
        unknown_reason = unsure or self._checks.unmanaged(demand) or self._checks.unknown_reason(demand, obj, queue)
        if not unknown_reason and not refused:
            unknown_reason = next((item.unknown_reason for item in devices if item.unknown_reason), "")
        if unknown_reason:
            return QueuedJobStatus(path, unknown_reason=unknown_reason)
        priority = self._checks.ranks[rank] if rank else first_priority(demand, obj)
        sets = tuple(self._checks.pod_sets(demand, obj, rules, devices))
        if any(part.depends_on_release for part in sets):
            unknown_reason = say("the flavors that its node selector allows {differ}", differ=say(DIFFERS_BY_RELEASE))
            return QueuedJobStatus(path, unknown_reason=unknown_reason)
        created = obj["metadata"].get("creationTimestamp") or f"{NOT_CREATED}{number:06d}"
        job = QueuedJob(number, path.cluster_queue, priority, created, sets)
        if refused:
            refusal = say("{queue} does not admit it: {reason}", queue=path, reason=refused)
            job = replace(job, pod_sets=tuple(part.without_flavors(rules) for part in sets))
        elif is_never_admitted(self._state, job):
            refusal = never_admitted_message(path, job, rules, self._state)
        if refusal:
            # Other jobs wait behind it in a strict queue.
            return QueuedJobStatus(path, refusal=refusal, job=job if rules.is_strict else None)
        if self._checks.topologies(queue) or self._checks.asks_in_vain(obj, queue):
            return QueuedJobStatus(path, unknown_reason=say(_BY_TOPOLOGY))
        checks = list(queue["spec"].get("checks") or ())
        later = say("after it has quota, Kueue's admission checks decide ({checks})", checks=checks) if checks else ""
        return QueuedJobStatus(path, unknown_after_admission=later, job=job)

    def _roots_with_unknown_usage(self, statuses: Iterable[QueuedJobStatus]) -> set[str]:
        """Return the roots with jobs whose usage is unknown: no result is certain there."""
        roots = self._state.roots
        found = {roots[item.path.cluster_queue] for item in statuses if item.unknown_reason and item.path.cluster_queue}
        return (
            found
            | self._guessed
            | {
                roots[job.queue]
                for job in self._state.waiting
                if any(map(self._checks.is_unknown_usage, self._workloads[job.number]["podSets"]))
                or self._checks.topologies(self._checks.queues[job.queue])
            }
        )

    def _unknown_order(self, root: str) -> str:
        """Return why the order of jobs below a root and the preempted jobs are unknown; "" if they are known."""
        own = [item for item in self._lists["clusterqueues"] if self._state.roots[item["name"]] == root]
        shared = sorted({cohort_of(item) for item in own if item.get("fairSharing")} - {""})
        if shared:
            return say("cohort {cohort} uses fair sharing, which gpuctl does not simulate", cohort=shared[0])
        if any(item.get("admissionScope") for item in own):
            return say("Kueue orders the queue by past usage, which is not part of a snapshot (admissionScope)")
        return ""
