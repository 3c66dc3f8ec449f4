"""Random clusters given to the real kube-scheduler, and to ``fit``: what becomes of both."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from gpuctl.kube.configuration import open_session
from support.fit_parts import World
from support.fit_worlds import shared_objects
from support.hasty_scheduler import has_tried_all, hasten

Object = dict[str, Any]

BATCH = 72
"""Worlds whose jobs are submitted together. Pods that wait are tried again at every event, all of them: worlds of many
jobs come in smaller batches."""
LOOKS = 5
"""A look at all pods is followed by a pause of so many times as long, of a second at least and of less than ``QUIET``: looks
are work that the scheduler waits for."""
QUIET = 4.0
"""Seconds without a change after which the scheduler is done: it repeats an attempt after one second."""
PATIENCE = 600.0
STILL = 15.0
"""Seconds without any change of a pod. After that, a pod that still waits with a nominated node is not retried for
minutes: another pod has taken the room, or the last victim had gone before its deletion, so that no event followed the
preemption. A restarted scheduler tries all pods, as this one would after five minutes
(``DefaultPodMaxInUnschedulablePodsDuration`` of pkg/scheduler/backend/queue).
"""
MERGE_PATCH = "application/merge-patch+json"
_SHORT = ("fits-when-empty", "never")
_PLURALS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
}


class Seen(NamedTuple):
    """The scheduler's decisions in a world: the bound pods of each job, and the evicted fillers."""

    bound: dict[str, int]
    evicted: frozenset[str]


class Trial(NamedTuple):
    """A world with the snapshot of it, what the scheduler did, and did when the fillers were gone."""

    world: World
    snapshot: Snapshot
    now: Seen
    empty: Seen | None

    def answers(self) -> dict[str, Fit]:
        """Our verdicts by the names of jobs."""
        return {answer.demand.name: answer for answer in fit(self.snapshot, self.world.jobs)}


class Trials:
    """The worlds in one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = Api(plane)

    def run(self, worlds: list[World], *, shared: bool = True, batch: int = BATCH) -> list[Trial]:
        """Build the worlds, submit their jobs, and see what the scheduler makes of them.

        :param shared: make what all worlds need, too.
        :param batch: how many worlds have their jobs submitted together.
        """
        for obj in shared_objects() if shared else ():
            self._create(obj, "")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._build, worlds))
            self._await_refusals(worlds)
            session = open_session(kubeconfig=str(self.plane.kubeconfig()))
            whole = load(render(take_snapshot(session)))
            session.close()
            snapshots = [_part(whole, item) for item in worlds]
            parts = {item.seed: snapshot for item, snapshot in zip(worlds, snapshots, strict=True)}
            now: dict[int, Seen] = {}
            empty: dict[int, Seen] = {}
            emptied: list[World] = []
            for start in range(0, len(worlds) + batch, batch):
                submitted = worlds[start : start + batch]
                list(pool.map(self._submit, submitted))
                list(pool.map(self._empty, emptied))
                seen = self._watch([*submitted, *emptied])
                empty.update((item.seed, seen[item.seed]) for item in emptied)
                now.update((item.seed, seen[item.seed]) for item in submitted)
                done, emptied = emptied, [item for item in submitted if _tells_when_empty(item, parts[item.seed])]
                list(pool.map(self._give_up, [*done, *(item for item in submitted if item not in emptied)]))
        return [Trial(item, parts[item.seed], now[item.seed], empty.get(item.seed)) for item in worlds]

    def _create(self, obj: Object, namespace: str, status: Object | None = None) -> None:
        path = _PLURALS[obj["kind"]].format(namespace)
        self.api.call("POST", path, obj)
        if status is not None:
            self.api.call("PATCH", f"{path}/{obj['metadata']['name']}/status", status, MERGE_PATCH)

    def _build(self, item: World) -> None:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": item.namespace}}
        self._create(space, "")
        for node in item.nodes:
            self._create(node, "")
            # The API server itself taints a new node, as not ready.
            taints = {"spec": {"taints": node["spec"].get("taints", [])}}
            self.api.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", taints, MERGE_PATCH)
        for obj in item.limits:
            self._create(obj, item.namespace)
        for obj, status in [*item.fillers, *item.budgets, *item.quotas]:
            self._create(obj, item.namespace, status)
        path = _PLURALS["Pod"].format(item.namespace)
        for pod, _ in item.fillers:
            if "finalizers" in pod["metadata"]:
                self.api.call("DELETE", f"{path}/{pod['metadata']['name']}")
        for pod in item.waiting:
            self._create(pod, item.namespace)

    def _await_refusals(self, worlds: list[World]) -> None:
        """Let the scheduler say that it has no node for the pods that are to wait."""
        names = {(item.namespace, pod["metadata"]["name"]) for item in worlds for pod in item.waiting}
        last: list[Any] = []
        quiet_since = began = time.monotonic()
        while names and time.monotonic() - quiet_since < QUIET:
            pods = {_place_of(pod): pod for pod in self.api.call("GET", "/api/v1/pods")["items"]}
            now = [(place, pod["spec"].get("nodeName"), _is_refused(pod, True)) for place, pod in pods.items()]
            here = [pods[name] for name in names & pods.keys()]
            if now != last or not all(_is_refused(pod, True) or pod["spec"].get("nodeName") for pod in here):
                last, quiet_since = now, time.monotonic()
            assert time.monotonic() - began < PATIENCE, f"the scheduler says nothing of {names}"
            time.sleep(0.5)

    def _submit(self, item: World) -> None:
        """Create the pods that a job controller would make, in turn; those that a quota refuses are left out."""
        for job in item.jobs:
            self._submit_job(item, job)

    def _submit_job(self, item: World, job: Object) -> None:
        template, name = job["spec"]["template"], job["metadata"]["name"]
        for number in range(job["spec"]["parallelism"]):
            metadata = {**template["metadata"], "name": f"{name}-{number}"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            status, answer = self.api.request("POST", _PLURALS["Pod"].format(item.namespace), pod)
            assert status == 201 or "quota" in answer["message"], answer["message"]

    def _empty(self, item: World) -> None:
        """Delete the fillers that no DaemonSet would make again."""
        for pod, _ in item.fillers:
            if "ownerReferences" not in pod["metadata"]:
                self.api.request("DELETE", f"/api/v1/namespaces/{item.namespace}/pods/{pod['metadata']['name']}")

    def _give_up(self, item: World) -> None:
        """Delete what waits: the scheduler would try it again at every event."""
        path = _PLURALS["Pod"].format(item.namespace)
        for pod in self.api.call("GET", f"{path}?fieldSelector=spec.nodeName=")["items"]:
            self.api.request("DELETE", f"{path}/{pod['metadata']['name']}")

    def _watch(self, worlds: list[World]) -> dict[int, Seen]:
        """Wait until the scheduler has nothing left to do, and look."""
        last: dict[int, Seen] = {}
        before: Any = None
        quiet_since = changed = began = time.monotonic()
        version, anew = "", False
        while True:
            self.plane.check()
            began_look = time.monotonic()
            now = self._version()
            if now != version:
                # Taken before the look: what changes between the two is looked at again.
                version, (seen, waiting) = now, self._look(worlds)
            if (seen, waiting) != before:
                before, changed = (seen, waiting), time.monotonic()
            if seen != last or waiting:
                last, quiet_since = seen, time.monotonic()
            quiet, still = (time.monotonic() - since > most for since, most in ((quiet_since, QUIET), (changed, STILL)))
            if (quiet or still) and has_tried_all(self.plane):
                if quiet or anew:
                    return last
                hasten(self.plane)
                anew, changed = True, time.monotonic()
            assert time.monotonic() - began < PATIENCE, (
                f"the scheduler does not come to rest: {[*map(_place_of, waiting)]}"
            )
            time.sleep(min(max(1.0, LOOKS * (time.monotonic() - began_look)), QUIET - 1))

    def _version(self) -> str:
        """Return a value that changes with every change of a pod: the pods of all worlds are several megabytes."""
        nobody = "/api/v1/pods?resourceVersion=0&fieldSelector=metadata.name%3Dnobody"
        return str(self.api.call("GET", nobody)["metadata"]["resourceVersion"])

    def _look(self, worlds: Iterable[World]) -> tuple[dict[int, Seen], list[Object]]:
        pods: dict[str, list[Object]] = {}
        for pod in self.api.call("GET", "/api/v1/pods?resourceVersion=0")["items"]:
            pods.setdefault(pod["metadata"]["namespace"], []).append(pod)
        seen: dict[int, Seen] = {}
        waiting: list[Object] = []
        for item in worlds:
            here = pods.get(item.namespace, [])
            names = {pod["metadata"]["name"] for pod in here}
            bound = dict.fromkeys((job["metadata"]["name"] for job in item.jobs), 0)
            # A pod keeps its nominated node and waits for ever if other pods do not leave the room, or take it.
            held = is_held(item) or bool(item.waiting)
            for pod in here:
                name = pod["metadata"]["name"].rsplit("-", 1)[0]
                if name in bound:
                    bound[name] += bool(pod["spec"].get("nodeName"))
                    if not pod["spec"].get("nodeName") and not _is_refused(pod, held):
                        waiting.append(pod)
            there = [*(pod for pod, _ in item.fillers), *item.waiting]
            evicted = frozenset(pod["metadata"]["name"] for pod in there) - names
            seen[item.seed] = Seen(bound, evicted)
        return seen, waiting


def is_held(item: World) -> bool:
    """Return True if pods that are being deleted never end."""
    return any("finalizers" in pod["metadata"] for pod, _ in item.fillers)


def _place_of(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _tells_when_empty(item: World, snapshot: Snapshot) -> bool:
    """Return True if the scheduler's decision without the fillers is conclusive: for a single job that no quota
    refuses.
    """
    if item.waiting or is_held(item):
        return False
    return len(item.jobs) == 1 and not item.quotas and fit(snapshot, item.jobs)[0].verdict in _SHORT


def _is_refused(pod: Object, held: bool) -> bool:
    """Return True if the scheduler has rejected a pod, and will make no room for it."""
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    told = any(item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable" for item in conditions)
    return told and (held or not status.get("nominatedNodeName"))


def _part(whole: Snapshot, item: World) -> Snapshot:
    """The part of a snapshot that is about a world: its pods ask for its nodes only."""
    names = {node["metadata"]["name"] for node in item.nodes}

    def own(entries: list[Object]) -> list[Object]:
        return [entry for entry in entries if entry["namespace"] == item.namespace]

    return replace(
        whole,
        nodes=[node for node in whole.nodes if node["name"] in names],
        pods=own(whole.pods),
        quotas=[quota for quota in whole.quotas if quota["metadata"]["namespace"] == item.namespace],
        limit_ranges=own(whole.limit_ranges),
        budgets=own(whole.budgets),
    )


def disagreements(trial: Trial) -> list[str]:
    """Return the differences between our answers and the scheduler's decisions."""
    result = []
    answers = trial.answers()
    asked = {job["metadata"]["name"]: job["spec"]["parallelism"] for job in trial.world.jobs}
    certain = all(answer.verdict != "unknown" and not answer.depends for answer in answers.values())
    victims: set[str] = set()
    held = any(pod.get("deleting") for pod in trial.snapshot.pods)
    for name, answer in answers.items():
        pods, bound = asked[name], trial.now.bound[name]
        if answer.verdict in ("fits", "preempts"):
            # Room that others leave some time is not there yet where they never do.
            if bound < pods and not (answer.verdict == "preempts" and held and not answer.certain):
                result.append(f"{name}: {answer.verdict}, but {bound} of {pods} pods were bound")
        elif answer.verdict in _SHORT:
            if bound == pods:
                result.append(f"{name}: {answer.verdict}, but all {pods} pods were bound")
            if bound != answer.starts and answer.certain:
                result.append(f"{name}: {answer.starts} pods would start, but {bound} of {pods} did")
        if answer.verdict == "preempts" and not answer.victims:
            result.append(f"{name}: preempts nobody")
        victims |= {victim.pod.name for victim in answer.victims}
        if trial.empty is not None and answer.verdict in _SHORT:
            bound = trial.empty.bound[name]
            # Nodes of a world that are not ready stay so.
            expected = answer.verdict == "fits-when-empty" and "is not ready yet" not in answer.reason
            if (bound == pods) != expected:
                result.append(f"{name}: {answer.verdict}, but {bound} of {pods} pods were bound in the empty cluster")
    if certain:
        # Those that waited before may have evicted others.
        evicted = trial.now.evicted & {pod["name"] for pod in trial.snapshot.pods}
        exact = all(answer.certain for answer in answers.values())
        if (evicted != victims) if exact else (bool(evicted) != bool(victims)):
            result.append(f"evicts {sorted(victims)}, but {sorted(evicted)} were evicted")
    return result
