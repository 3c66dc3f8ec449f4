"""``fit`` and the real kube-scheduler for claims without a volume: existing volumes, and volumes that CSI drivers
provision.

The scheduler and the volume controllers of Kubernetes are real. This module plays the CSI driver: it creates a volume
for each claim for which the scheduler has selected a node.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from control_plane.processes import Process
from fault_tools.world import Api
from gpuctl.api.fit_answers import fit_job
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from gpuctl.kube.configuration import open_session
from properties.scale import part_of
from support.fit_trials import MERGE_PATCH
from support.fit_volumes import HOST_NAME, ZONE, VolumeWorld, affinity, volume_world
from support.hasty_scheduler import has_tried_all, hasten
from support.real_parts import control_plane_binaries

Object = dict[str, Any]

WORLDS = part_of(range(int(os.environ.get("GPUCTL_VOLUME_WORLDS", "60"))), 8)
BATCH = 40
PATIENCE = 240.0
QUIET = 12.0
"""Seconds without a change after which scheduler, controllers and driver are idle; each of them retries every second.
Six were too few once, beside five other workers.
"""
CLASSES = {"volumes-low": 10, "volumes-mid": 50, "volumes-high": 100}
_CONTROLLERS = "--controllers=persistentvolume-binder-controller,ephemeral-volume-controller"
_PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "Pod": "/api/v1/namespaces/{}/pods",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities",
}


class Trial(NamedTuple):
    """A world, its snapshot, and the number of pods of each job that the scheduler bound."""

    world: VolumeWorld
    snapshot: Snapshot
    bound: dict[str, int]

    def answers(self) -> dict[str, Fit]:
        """Return the answers of `fit` by job name."""
        return {answer.demand.name: answer for answer in fit(self.snapshot, self.world.jobs)}


def contradictions(trial: Trial) -> list[str]:
    """Return the certain answers that differ from the outcome."""
    result = []
    for name, answer in trial.answers().items():
        bound, pods = trial.bound[name], answer.demand.pods
        if not answer.certain:
            continue
        if answer.verdict in ("fits", "preempts") and bound < pods:
            result.append(f"{name}: {answer.verdict}, but {bound} of {pods} pods were bound")
        if answer.verdict in ("never", "fits-when-empty") and bound == pods:
            result.append(f"{name}: {answer.verdict}, but all {pods} pods were bound")
        if answer.verdict != "unknown" and bound != answer.starts:
            result.append(f"{name}: {answer.starts} pods would start, but {bound} of {pods} did")
    return result


class _Worlds:
    """All worlds, in one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.api = Api(plane)
        self.plane = plane

    def run(self, worlds: list[VolumeWorld]) -> list[Trial]:
        for name, value in CLASSES.items():
            self._create(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        with ThreadPoolExecutor(8) as pool, self._drivers(worlds):
            list(pool.map(self._build, worlds))
            self._await_volumes()
            session = open_session(kubeconfig=str(self.plane.kubeconfig()))
            whole = load(render(take_snapshot(session)))
            session.close()
            trials = []
            for start in range(0, len(worlds), BATCH):
                batch = worlds[start : start + BATCH]
                list(pool.map(self._submit, batch))
                bound = self._bound_pods(batch)
                trials += [Trial(item, _part(whole, item), bound[item.namespace]) for item in batch]
                list(pool.map(self._delete_pending, batch))
        return trials

    def _create(self, obj: Object) -> None:
        path = _PATHS[obj["kind"]].format(obj["metadata"].get("namespace", ""))
        self.api.call("POST", path, obj)

    def _build(self, item: VolumeWorld) -> None:
        self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": item.namespace}})
        for node in item.nodes:
            self._create(node)
            # The API server taints a new node as not ready.
            self.api.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": []}}, MERGE_PATCH)
        for obj in [*item.shared, *item.capacities, *item.volumes, *item.claims, *item.fillers]:
            self._create(obj)
        running = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
        for pod in item.fillers:
            path = f"/api/v1/namespaces/{item.namespace}/pods/{pod['metadata']['name']}/status"
            self.api.call("PATCH", path, running, MERGE_PATCH)

    def _await_volumes(self) -> None:
        began = time.monotonic()
        while any(
            item["status"].get("phase") != "Available"
            for item in self.api.call("GET", _PATHS["PersistentVolume"])["items"]
        ):
            assert time.monotonic() - began < PATIENCE, "volumes do not become available"
            time.sleep(0.5)

    def _submit(self, item: VolumeWorld) -> None:
        """Create the pods that the Job controller would create, in order of descending priority."""
        jobs = sorted(item.jobs, key=lambda job: -CLASSES[job["spec"]["template"]["spec"]["priorityClassName"]])
        for job in jobs:
            template, name = job["spec"]["template"], job["metadata"]["name"]
            for number in range(job["spec"]["parallelism"]):
                metadata = {**template["metadata"], "name": f"{name}-{number}", "namespace": item.namespace}
                self._create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})

    def _delete_pending(self, item: VolumeWorld) -> None:
        path = _PATHS["Pod"].format(item.namespace)
        for pod in self.api.call("GET", f"{path}?fieldSelector=spec.nodeName=")["items"]:
            self.api.request("DELETE", f"{path}/{pod['metadata']['name']}")

    def _bound_pods(self, worlds: list[VolumeWorld]) -> dict[str, dict[str, int]]:
        """Wait until nothing changes, and count the bound pods of each job."""
        names = {item.namespace for item in worlds}
        began = quiet = time.monotonic()
        last: Any = None
        while True:
            self.plane.check()
            pods = [
                pod
                for pod in self.api.call("GET", "/api/v1/pods?resourceVersion=0")["items"]
                if pod["metadata"]["namespace"] in names and not pod["metadata"]["name"].startswith("filler")
            ]
            now = sorted(
                (
                    pod["metadata"]["namespace"],
                    pod["metadata"]["name"],
                    pod["spec"].get("nodeName", ""),
                    _is_unschedulable(pod),
                )
                for pod in pods
            )
            if now != last or not all(node or told for _, _, node, told in now):
                last, quiet = now, time.monotonic()
            if time.monotonic() - quiet > QUIET and has_tried_all(self.plane):
                break
            assert time.monotonic() - began < PATIENCE, [item for item in now if not (item[2] or item[3])]
            time.sleep(1)
        result = {item.namespace: {job["metadata"]["name"]: 0 for job in item.jobs} for item in worlds}
        for namespace, name, node, _ in last:
            result[namespace][name.rpartition("-")[0]] += bool(node)
        return result

    @contextmanager
    def _drivers(self, worlds: list[VolumeWorld]) -> Iterator[None]:
        """Provision a volume for each claim with a selected node, as CSI drivers do, until the block ends."""
        ended = threading.Event()
        found = {item.namespace: item for item in worlds}

        def work() -> None:
            made: set[str] = set()
            while not ended.wait(0.3):
                for claim in self.api.call("GET", "/api/v1/persistentvolumeclaims")["items"]:
                    node = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
                    uid = claim["metadata"]["uid"]
                    if node and not claim["spec"].get("volumeName") and uid not in made:
                        made.add(uid)
                        self._create(_provisioned_volume(found[claim["metadata"]["namespace"]], claim, node))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _provisioned_volume(item: VolumeWorld, claim: Object, node: str) -> Object:
    labels = next(one["metadata"]["labels"] for one in item.nodes if one["metadata"]["name"] == node)
    key = {"node": HOST_NAME, "zone": ZONE}.get(item.reach)
    metadata = claim["metadata"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": item.namespace}
    spec = {
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": item.namespace,
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "csi": {"driver": item.driver, "volumeHandle": metadata["uid"]},
        "claimRef": {**reference, "name": metadata["name"], "uid": metadata["uid"]},
        **({} if key is None else {"nodeAffinity": affinity(key, labels[key])}),
    }
    annotations = {"pv.kubernetes.io/provisioned-by": item.driver}
    own = {"name": f"pvc-{metadata['uid']}", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": own, "spec": spec}


def _is_unschedulable(pod: Object) -> bool:
    """Return True if the scheduler has reported a pod as unschedulable without nominating a node."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    told = any(item["type"] == "PodScheduled" and item.get("reason") == "Unschedulable" for item in conditions)
    return told and not (pod.get("status") or {}).get("nominatedNodeName")


def _part(whole: Snapshot, item: VolumeWorld) -> Snapshot:
    names = {node["metadata"]["name"] for node in item.nodes}
    return replace(
        whole,
        nodes=[node for node in whole.nodes if node["name"] in names],
        pods=[pod for pod in whole.pods if pod["namespace"] == item.namespace],
    )


@pytest.fixture(scope="module")
def trials() -> Iterator[list[Trial]]:
    """The outcomes of all worlds."""
    with ControlPlane(control_plane_binaries()) as plane:
        plane.stop_program("kwok")
        plane.stop_program("kube-controller-manager")
        command = [
            str(plane.binaries / "kube-controller-manager"),
            f"--kubeconfig={plane.kubeconfig('controller')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--pvclaimbinder-sync-period=1s",
            _CONTROLLERS,
        ]
        log = plane.directory / "volumes.log"
        plane.processes["kube-controller-manager"] = Process(command, log, plane.directory)
        hasten(plane)
        yield _Worlds(plane).run([volume_world(seed) for seed in WORLDS])


def _print(trial: Trial) -> str:
    answers = [fit_job(answer).as_json() for answer in trial.answers().values()]
    return json.dumps([vars(trial.world), trial.bound, answers], indent=1)


@pytest.mark.slow
def test_fit_agrees_with_the_scheduler(trials: list[Trial]) -> None:
    different = {trial.world.seed: found for trial in trials if (found := contradictions(trial))}
    shown = "\n".join(_print(trial) for trial in trials if trial.world.seed in list(different)[:2])
    assert not different, f"{len(different)} of {len(trials)} worlds differ: {json.dumps(different, indent=1)}\n{shown}"


@pytest.mark.slow
def test_most_answers_are_known_and_certain(trials: list[Trial]) -> None:
    """Answers are unknown if it is unknown from where a driver's volume is reachable, or which of several claims gets a
    volume. They are uncertain if several pods contend for one volume.
    """
    answers = [answer for trial in trials for answer in trial.answers().values()]
    verdicts = Counter(answer.verdict for answer in answers)
    assert verdicts["unknown"] * 4 <= len(answers), verdicts
    assert min(verdicts["fits"], verdicts["never"]) * 5 >= len(answers), verdicts
    certain = sum(answer.certain for answer in answers if answer.verdict != "unknown")
    assert certain * 10 >= 6 * (len(answers) - verdicts["unknown"]), (certain, verdicts)
