"""``fit`` and the real kube-scheduler where claims have no volume yet: volumes that are there, and that drivers make.

The scheduler and Kubernetes' own volume controllers are real; what a CSI driver does, make a volume for a claim that the
scheduler has chosen a node for, is done here.
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
from gpuctl.capacity.job_fit import Fit, fit
from gpuctl.capacity.snapshot_document import Snapshot, load, render
from gpuctl.kube.configuration import open_session
from properties.scale import part_of
from support.fit_trials import MERGE_PATCH
from support.fit_volumes import HOST_NAME, ZONE, VolumeWorld, affinity, volume_world
from support.hasty_scheduler import has_tried_all, hasten
from support.real_parts import control_plane_binaries

Object = dict[str, Any]

WORLDS = part_of(range(int(os.environ.get("GPUCTL_VOLUME_WORLDS", "120"))), 8)
BATCH = 40
PATIENCE = 240.0
QUIET = 6.0
"""Seconds without a change after which the scheduler, the controllers and the driver are done: each tries every second."""
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
    """A world, the snapshot of it, and how many pods of each job the scheduler bound."""

    world: VolumeWorld
    snapshot: Snapshot
    bound: dict[str, int]

    def answers(self) -> dict[str, Fit]:
        """Our answers by the names of jobs."""
        return {answer.demand.name: answer for answer in fit(self.snapshot, self.world.jobs)}


def apart(trial: Trial) -> list[str]:
    """Where answers of which we are certain are not what happened."""
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
    """The worlds in one control plane."""

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
                bound = self._rest(batch)
                trials += [Trial(item, _part(whole, item), bound[item.namespace]) for item in batch]
                list(pool.map(self._give_up, batch))
        return trials

    def _create(self, obj: Object) -> None:
        path = _PATHS[obj["kind"]].format(obj["metadata"].get("namespace", ""))
        self.api.call("POST", path, obj)

    def _build(self, item: VolumeWorld) -> None:
        self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": item.namespace}})
        for node in item.nodes:
            self._create(node)
            # The API server itself taints a new node, as not ready.
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
        """The pods that a job controller would make, the most important first."""
        jobs = sorted(item.jobs, key=lambda job: -CLASSES[job["spec"]["template"]["spec"]["priorityClassName"]])
        for job in jobs:
            template, name = job["spec"]["template"], job["metadata"]["name"]
            for number in range(job["spec"]["parallelism"]):
                metadata = {**template["metadata"], "name": f"{name}-{number}", "namespace": item.namespace}
                self._create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})

    def _give_up(self, item: VolumeWorld) -> None:
        path = _PATHS["Pod"].format(item.namespace)
        for pod in self.api.call("GET", f"{path}?fieldSelector=spec.nodeName=")["items"]:
            self.api.request("DELETE", f"{path}/{pod['metadata']['name']}")

    def _rest(self, worlds: list[VolumeWorld]) -> dict[str, dict[str, int]]:
        """Wait until nothing changes, and count the pods of each job that have a node."""
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
                (pod["metadata"]["namespace"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""), _is_told(pod))
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
        """What CSI drivers do: a volume for each claim of theirs that has a node."""
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
                        self._create(_made(found[claim["metadata"]["namespace"]], claim, node))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _made(item: VolumeWorld, claim: Object, node: str) -> Object:
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


def _is_told(pod: Object) -> bool:
    """Whether the scheduler has said that a pod stays where it is."""
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
    """What became of all worlds."""
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
    different = {trial.world.seed: found for trial in trials if (found := apart(trial))}
    shown = "\n".join(_print(trial) for trial in trials if trial.world.seed in list(different)[:2])
    assert not different, f"{len(different)} of {len(trials)} worlds differ: {json.dumps(different, indent=1)}\n{shown}"


@pytest.mark.slow
def test_most_is_known(trials: list[Trial]) -> None:
    """What is not is from where a driver's volume is reached, or which of several claims gets a volume; and who of those
    that contend for one comes first is no certainty."""
    answers = [answer for trial in trials for answer in trial.answers().values()]
    verdicts = Counter(answer.verdict for answer in answers)
    assert verdicts["unknown"] * 4 <= len(answers), verdicts
    assert min(verdicts["fits"], verdicts["never"]) * 5 >= len(answers), verdicts
    certain = sum(answer.certain for answer in answers if answer.verdict != "unknown")
    assert certain * 10 >= 6 * (len(answers) - verdicts["unknown"]), (certain, verdicts)
