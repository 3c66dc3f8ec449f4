"""``fit`` compared with the API server's admission, claims, attached volumes and resizes.

The real API server and scheduler decide random clusters, each of which contains one of these cases.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.api.fit_answers import fit_job
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from gpuctl.kube.configuration import open_session
from properties.scale import at_least, part_of
from support.fit_admission import CLASSES, DRIVER, KINDS, AdmissionWorld, admission_world
from support.fit_trials import MERGE_PATCH, QUIET
from support.hasty_scheduler import has_tried_all, scheduler_alone

Object = dict[str, Any]

WORLDS = part_of(range(at_least(280)), 16)
PATIENCE = 240.0
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""No volumes are provisioned in this module; test_fit_unbound_claims covers provisioning."""


class Trial(NamedTuple):
    """A world, its snapshot and the outcome of its pod: the reason of a rejection, or the node and the evicted pods."""

    world: AdmissionWorld
    snapshot: Snapshot
    refused: str
    node: str
    evicted: frozenset[str]

    @property
    def answer(self) -> Fit:
        """The answer of ``fit``."""
        (found,) = fit(self.snapshot, [self.world.pod])
        return found


class Trials:
    """All worlds, in one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = Api(plane)

    def run(self, worlds: list[AdmissionWorld]) -> list[Trial]:
        """Build all worlds, take a snapshot, and submit their pods."""
        for obj in _shared():
            self._create(obj)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._build, worlds))
            self._wait_for_admission()
            session = open_session(kubeconfig=str(self.plane.kubeconfig()))
            whole = load(render(take_snapshot(session)))
            session.close()
            refused = list(pool.map(self._submit, worlds))
        pods = self._pods_at_rest({item.namespace for item, said in zip(worlds, refused, strict=True) if not said})
        return [
            Trial(item, _part(whole, item), said, *_seen(item, pods))
            for item, said in zip(worlds, refused, strict=True)
        ]

    def _create(self, obj: Object, status: Object | None = None) -> None:
        path = _path(obj)
        self.api.call("POST", path, obj)
        if status:
            self.api.call("PATCH", f"{path}/{obj['metadata']['name']}/status", {"status": status}, MERGE_PATCH)

    def _build(self, item: AdmissionWorld) -> None:
        self._create(_object("v1", "Namespace", item.namespace, labels=item.labels))
        amounts = {"cpu": "8" if item.kind == "resize" else "64", "memory": "64Gi", "pods": "20"}
        labels = {"example.com/admission": str(item.seed), "kubernetes.io/hostname": item.node}
        node = _object("v1", "Node", item.node, labels=labels)
        self._create({**node, "status": {"allocatable": amounts, "capacity": amounts}})
        # The API server taints a new node as not ready.
        self.api.call("PATCH", f"/api/v1/nodes/{item.node}", {"spec": {"taints": []}}, MERGE_PATCH)
        driver = {"name": DRIVER, "nodeID": item.node, "topologyKeys": []}
        if item.csi_limit is not None:
            driver["allocatable"] = {"count": item.csi_limit}
        owner = {"apiVersion": "v1", "kind": "Node", "name": item.node, "uid": "1"}
        csi_node = _object("storage.k8s.io/v1", "CSINode", item.node, ownerReferences=[owner])
        self._create({**csi_node, "spec": {"drivers": [driver]}})
        for obj in [*item.limits, *item.quotas]:
            used = dict.fromkeys(obj["spec"].get("hard", {}), "0")
            metadata = {**obj["metadata"], "namespace": item.namespace}
            status = {"hard": obj["spec"]["hard"], "used": used} if used else None
            self._create({**obj, "metadata": metadata}, status)
        for obj in [*item.volumes, *item.attachments]:
            self._create(obj, {"phase": "Bound"} if obj["kind"] == "PersistentVolume" else None)
        for claim, phase in item.claims:
            self._create(claim, {"phase": phase})
        for pod, status in item.bound:
            self._create(pod, status or {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"})
        for name in item.deleted_claims:
            self.api.call("DELETE", f"/api/v1/namespaces/{item.namespace}/persistentvolumeclaims/{name}")
        if item.is_namespace_deleted:
            self.api.call("DELETE", f"/api/v1/namespaces/{item.namespace}")

    def _wait_for_admission(self) -> None:
        """Wait until the admission plugins' informers have received all objects; limits and quotas are observed by dry
        runs.
        """
        last = "admission-last"
        self._create(_object("v1", "Namespace", last))
        limits = {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}
        self._create({**_object("v1", "LimitRange", last, namespace=last), "spec": limits})
        none = {"count/configmaps": "0"}
        quota = {**_object("v1", "ResourceQuota", last, namespace=last), "spec": {"hard": none}}
        self._create(quota, {"hard": none, "used": none})
        amounts = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
        container = {"name": "main", "image": "x", "resources": amounts}
        pod = {**_object("v1", "Pod", "trial", namespace=last), "spec": {"containers": [container]}}
        for obj, words in (
            (pod, "maximum cpu usage per Container"),
            (_object("v1", "ConfigMap", "trial", namespace=last), f"exceeded quota: {last}"),
        ):
            path = f"/api/v1/namespaces/{last}/{obj['kind'].lower()}s?dryRun=All"
            self.plane.wait_for(
                lambda path=path, obj=obj, words=words: (
                    words in str(self.api.request("POST", path, obj)[1].get("message"))
                ),
                "admission",
            )
        # The informers of the other kinds cannot be observed; they receive their objects at about the same time.
        time.sleep(2)

    def _submit(self, item: AdmissionWorld) -> str:
        status, answer = self.api.request("POST", _path(item.pod), item.pod)
        # A default of a LimitRange can make a pod invalid (422).
        assert status in (201, 403) or (status, item.kind) == (422, "limits"), f"world {item.seed}: {answer['message']}"
        return "" if status == 201 else str(answer["message"])

    def _pods_at_rest(self, namespaces: set[str]) -> list[Object]:
        """Wait until the scheduler has nothing left to do, and return all pods."""
        last: list[Any] = []
        quiet_since = began = time.monotonic()
        while True:
            self.plane.check()
            pods: list[Object] = self.api.call("GET", "/api/v1/pods")["items"]
            mine = [pod for pod in pods if pod["metadata"]["name"] == "wanted"]
            now = sorted((pod["metadata"]["uid"], pod["spec"].get("nodeName")) for pod in pods)
            open_ends = [pod for pod in mine if not _is_settled(pod)]
            if now != last or open_ends:
                last, quiet_since = now, time.monotonic()
            if time.monotonic() - quiet_since > QUIET and has_tried_all(self.plane):
                assert {pod["metadata"]["namespace"] for pod in mine} == namespaces
                return pods
            assert time.monotonic() - began < PATIENCE, f"the scheduler reported nothing about {open_ends}"
            time.sleep(0.5)


def _object(api_version: str, kind: str, name: str, **metadata: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


def _shared() -> list[Object]:
    classes = [
        {**_object("scheduling.k8s.io/v1", "PriorityClass", name), "value": value} for name, value in CLASSES.items()
    ]
    default = _object("scheduling.k8s.io/v1", "PriorityClass", "admission-default")
    storage = [
        {**_object("storage.k8s.io/v1", "StorageClass", name), "provisioner": NO_PROVISIONER, "volumeBindingMode": mode}
        for name, mode in (("admission-late", "WaitForFirstConsumer"), ("admission-early", "Immediate"))
    ]
    return [*classes, {**default, "value": 5, "globalDefault": True}, *storage]


def _path(obj: Object) -> str:
    plurals = {"StorageClass": "storageclasses", "PriorityClass": "priorityclasses"}
    plural = plurals.get(obj["kind"], f"{obj['kind'].lower()}s")
    root = "/apis/" if "/" in obj["apiVersion"] else "/api/"
    namespace = obj["metadata"].get("namespace")
    return f"{root}{obj['apiVersion']}/{f'namespaces/{namespace}/' if namespace else ''}{plural}"


def _is_settled(pod: Object) -> bool:
    """Return True if the scheduler has placed a pod, or has reported it as unschedulable without nominating a node.

    A nominated pod without that condition waits for a volume, which is never provisioned here.
    """
    status = pod.get("status") or {}
    told = any(item["type"] == "PodScheduled" and item["status"] == "False" for item in status.get("conditions") or [])
    return bool(pod["spec"].get("nodeName")) or told != bool(status.get("nominatedNodeName"))


def _seen(item: AdmissionWorld, pods: list[Object]) -> tuple[str, frozenset[str]]:
    here = {pod["metadata"]["name"]: pod for pod in pods if pod["metadata"]["namespace"] == item.namespace}
    node = here["wanted"]["spec"].get("nodeName", "") if "wanted" in here else ""
    return node, frozenset(pod["metadata"]["name"] for pod, _ in item.bound) - here.keys()


def _part(whole: Snapshot, item: AdmissionWorld) -> Snapshot:
    def own(entries: list[Object]) -> list[Object]:
        return [entry for entry in entries if entry["namespace"] == item.namespace]

    return replace(
        whole,
        nodes=[node for node in whole.nodes if node["name"] == item.node],
        pods=own(whole.pods),
        quotas=[quota for quota in whole.quotas if quota["metadata"]["namespace"] == item.namespace],
    )


def disagreement(trial: Trial) -> str | None:
    """Return how the answer differs from the outcome; None if they agree."""
    answer = trial.answer
    victims = {victim.pod.name for victim in answer.victims}
    if trial.refused:
        return None if answer.verdict == "never" else f"{answer.verdict}, but it was refused: {trial.refused}"
    if trial.node:
        wanted = "preempts" if trial.evicted else "fits"
        if answer.verdict != wanted:
            return f"{answer.verdict} ({answer.reason}), but it was placed, and {sorted(trial.evicted)} were evicted"
        if victims != trial.evicted and answer.certain:
            return f"evicts {sorted(victims)}, but {sorted(trial.evicted)} were evicted"
        return None
    if answer.verdict in ("fits", "preempts"):
        return f"{answer.verdict}, but it was not placed"
    if answer.verdict == "unknown" and trial.world.kind != "claims":
        return f"unknown: {answer.reason}"
    return None


@pytest.fixture(scope="module")
def trials() -> Iterator[list[Trial]]:
    """The outcomes of all worlds, in a control plane where only the API server and the scheduler run."""
    with scheduler_alone() as plane:
        yield Trials(plane).run([admission_world(seed) for seed in WORLDS])


def test_fit_agrees_with_admission_and_scheduler(trials: list[Trial]) -> None:
    apart = {trial.world.seed: found for trial in trials if (found := disagreement(trial))}
    first = [trial for trial in trials if trial.world.seed in list(apart)[:3]]
    shown = "\n".join(json.dumps([vars(trial.world), fit_job(trial.answer).as_json()], indent=1) for trial in first)
    assert not apart, f"{len(apart)} of {len(trials)} worlds differ: {json.dumps(apart, indent=1)}\n{shown}"


@pytest.mark.slow
def test_every_kind_of_world_has_placed_and_unplaced_pods(trials: list[Trial]) -> None:
    counts = Counter((trial.world.kind, bool(trial.node)) for trial in trials)
    missing = [(kind, placed) for kind in KINDS for placed in (True, False) if counts[kind, placed] < 3]
    assert not missing, counts
    assert sum(bool(trial.evicted) for trial in trials) >= 3


def test_refusals_name_object_and_field(trials: list[Trial]) -> None:
    for trial in trials:
        reason, namespace = trial.answer.reason, trial.world.namespace
        if trial.refused and trial.world.kind == "limits":
            assert "LimitRange" in reason, reason
            assert "cpu" in reason or "memory" in reason, reason
        elif trial.refused and trial.world.kind == "security":
            assert f"namespace {namespace} (pod-security.kubernetes.io/enforce: " in reason, reason
        elif trial.refused and trial.world.kind == "scopes":
            assert "quota scoped: pods" in reason, reason
        elif trial.refused and trial.world.kind == "namespace":
            assert reason == f"namespace {namespace} is being deleted and accepts no new pods"
        elif trial.world.deleted_claims:
            assert (trial.answer.verdict, reason) == ("never", "claim data is being deleted")


@pytest.mark.slow
def test_fit_uses_the_sizes_of_a_resize(trials: list[Trial]) -> None:
    """With the requests of the pods' specs ``fit`` would be wrong."""

    def by_spec(trial: Trial) -> Trial:
        asked = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["resources"] for pod, _ in trial.world.bound}
        pods = [{**pod, "requests": asked[pod["name"]]["requests"]} for pod in trial.snapshot.pods]
        return trial._replace(snapshot=replace(trial.snapshot, pods=pods))

    assert any(disagreement(by_spec(trial)) for trial in trials if trial.world.kind == "resize")
