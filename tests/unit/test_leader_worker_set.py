"""LeaderWorkerSets without a cluster: their pods, the name's length, and what they need, hold and lose."""

from __future__ import annotations

from typing import Any

import pytest

import gpuctl
from gpuctl.capacity.admission.quota_charges import charged_objects
from gpuctl.capacity.fit.job_fit import fit
from gpuctl.capacity.fit.partial_starts import held_while_waiting
from gpuctl.objects.label_names import GROUP_INDEX, LEADER_WORKER_SET_NAME, MANAGED_BY
from gpuctl.objects.pod_templates import pod_templates, replicas, short_path
from gpuctl.objects.server_defaults import without_defaults
from gpuctl.objects.workload_state import pods_of_each
from support.fit_objects import cluster, job, node, running

Object = dict[str, Any]
PLATFORM = gpuctl.Source("platform.yaml", "kind: platform\nversion: v0.1\ninference: {backend: lws}\n")
AUTOSCALED = "autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 5, metric: queue}\n"


def compiled(name: str = "chat", nodes: int = 2, rest: str = "service: {replicas: 2}\n") -> gpuctl.Compilation:
    """Return the compilation of an inference with 8 GPUs on each node."""
    text = (
        f"kind: inference\nversion: v0.1\njob: {{name: {name}, namespace: team}}\nenvironment: {{image: app:1}}\n"
        f"resources: {{nodes: {nodes}, gpu: 8, cpu: 8, memory: 64Gi}}\n{rest}"
    )
    return gpuctl.compile(gpuctl.Source("job.yaml", text), platform=PLATFORM)


def lowered(**changes: Any) -> Object:
    """Return the LeaderWorkerSet of an inference."""
    return next(obj for obj in compiled(**changes).objects if obj["kind"] == "LeaderWorkerSet")


def member(name: str, on: str, replica: int, owner: str, *, ours: bool = True, priority: int = 0) -> Object:
    """Return a running pod of the LeaderWorkerSet ``chat``."""
    labels = {LEADER_WORKER_SET_NAME: "chat", GROUP_INDEX: str(replica), **({MANAGED_BY: "gpuctl"} if ours else {})}
    owned = {"group": "apps", "kind": "StatefulSet", "name": owner}
    return running(name, on, gpus=8, priority=priority, labels=labels, owner=owned)


def test_pods_of_replicas_are_counted() -> None:
    chat = lowered(nodes=3)
    assert [number for _, number in pod_templates(chat)] == [2, 4]
    assert replicas(chat) == 6
    found = [(item.object["kind"], item.number) for item in charged_objects(chat)]
    made = [("StatefulSet", 3), ("ControllerRevision", 4), ("Service", 1)]
    assert found == [("LeaderWorkerSet", 1), *made, ("Pod", 2), ("Pod", 4)]
    assert [item.number for item in charged_objects(chat, [])] == [1, 3, 4, 1]


def test_leaders_alone_have_probes_and_ports() -> None:
    leader, worker = (template["spec"] for template, _ in pod_templates(lowered(rest="service: {health_check: /ok}\n")))
    assert leader["containers"][0].keys() - worker["containers"][0].keys() == {
        "ports",
        "startupProbe",
        "readinessProbe",
        "livenessProbe",
    }


@pytest.mark.parametrize(
    ("length", "rest", "ok"),
    [
        (50, "", True),
        (51, "", False),
        (50, "service: {replicas: 10}\n", True),
        (50, "service: {replicas: 11}\n", False),
        (49, "service: {replicas: 11}\n", True),
        (50, "autoscaling: {enabled: true, maxReplicas: 11, metric: queue}\n", False),
    ],
)
def test_name_leaves_room_for_the_number_of_the_replica(length: int, rest: str, ok: bool) -> None:
    found = [item.code for item in compiled("a" * length, rest=rest).diagnostics]
    assert ("GPU217" not in found) is ok


@pytest.mark.parametrize(("nodes", "verdict", "starts"), [(4, "fits", 4), (3, "fits-when-empty", 3)])
def test_all_pods_of_all_replicas_need_room(nodes: int, verdict: str, starts: int) -> None:
    names = [str(number) for number in range(4)]
    busy = [running(f"on-{name}", name, 8, priority=1_000_000) for name in names[nodes:]]
    have = cluster([node(name) for name in names], busy)
    (answer,) = fit(have, compiled().objects)
    assert (answer.verdict, answer.demand.pods, answer.starts) == (verdict, 4, starts)


def test_autoscaled_replicas_are_counted_whole() -> None:
    have = cluster([node(str(number)) for number in range(6)])
    (answer,) = fit(have, compiled(rest=AUTOSCALED).objects)
    assert (answer.verdict, answer.demand.pods) == ("fits", 6)


def test_one_replica_holds_gpus_while_it_waits_and_several_are_independent() -> None:
    have = cluster([node("a"), node("busy")], [running("other", "busy", 8, priority=1_000_000)])
    (one,) = fit(have, compiled(rest="").objects)
    assert held_while_waiting(one.demand, 1)["nvidia.com/gpu"] > 0
    (two,) = fit(have, compiled().objects)
    assert held_while_waiting(two.demand, 1) == {}


@pytest.mark.parametrize("ours", [True, False])
def test_eviction_of_a_worker_ends_its_replica(ours: bool) -> None:
    """The replica of another tool may end: its policy is not in a snapshot."""
    pods = [
        member("chat-0", "a", 0, "chat", ours=ours, priority=10),
        member("chat-0-1", "b", 0, "chat-0", ours=ours),
        member("chat-1", "c", 1, "chat", ours=ours, priority=10),
    ]
    (answer,) = fit(cluster([node(name) for name in "abc"], pods), [job(gpus=8, priority="high")])
    assert answer.verdict == "preempts"
    assert {victim.pod.name for victim in answer.victims} == {"chat-0", "chat-0-1"}


def test_pods_belong_to_their_leader_worker_set() -> None:
    def live(kind: str, name: str) -> Object:
        return {"kind": kind, "metadata": {"name": name, "uid": f"of-{name}-{kind}"}, "spec": {}}

    def pod(owner: str, uid: str = "x") -> Object:
        owners = [{"kind": "StatefulSet", "name": owner, "uid": uid, "controller": True}]
        return {"metadata": {"ownerReferences": owners}}

    workloads = [live("LeaderWorkerSet", "my-chat"), live("StatefulSet", "note"), live("LeaderWorkerSet", "my")]
    pods = [pod("my-chat"), pod("my-chat-1"), pod("my-chat-1-2"), pod("note", "of-note-StatefulSet"), pod("my-0")]
    assert [len(mine) for mine in pods_of_each(pods, workloads)] == [2, 1, 1]


def test_defaults_of_the_webhook_are_no_drift() -> None:
    rollout = {
        "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0, "partition": 0},
        "type": "RollingUpdate",
    }
    group = {"size": 2, "restartPolicy": "RecreateGroupOnPodRestart"}
    spec = {
        "rolloutStrategy": rollout,
        "startupPolicy": "LeaderCreated",
        "networkConfig": {"subdomainPolicy": "Shared"},
    }
    assert without_defaults({**spec, "leaderWorkerTemplate": group}) == {"leaderWorkerTemplate": {"size": 2}}
    deployed = {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    assert without_defaults({"strategy": deployed}) == {"strategy": deployed}


def test_fields_of_both_templates_have_one_short_name() -> None:
    paths = [f"spec.leaderWorkerTemplate.{part}Template.spec.containers[main].image" for part in ("leader", "worker")]
    assert {short_path(path) for path in paths} == {"containers[main].image"}
