"""Live workloads: their state, and the object that recreates them."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from gpuctl.apply.plan.admin_deletion import delete_namespaces, plan_namespace_deletion
from gpuctl.apply.plan.lost_work import running_since
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.run import lease as leases
from gpuctl.apply.run.deletion_watch import DeletionWatch
from gpuctl.apply.run.interrupts import Interrupts
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.stage_execution import RunState, StageExecution
from gpuctl.apply.state.live_state import OURS
from gpuctl.kube import process_identity
from gpuctl.kube.api_errors import ApiError, ClusterError, ConnectionFailed
from gpuctl.kube.reflector import Event, WatchedList
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import QUEUE_LABEL, RESOURCES, Key, Resource, key_of
from gpuctl.objects.autoscalers import resume_patch
from gpuctl.objects.label_names import MANAGED_BY
from gpuctl.objects.ownership_metadata import PART_OF, records
from gpuctl.objects.queueing import is_held
from gpuctl.objects.recreated_objects import carried_over, recreatable, restorable
from gpuctl.objects.timestamps import age, format_timestamp
from gpuctl.objects.workload_start import replicas_before_pause
from gpuctl.objects.workload_state import end_state, is_pod_of, pods_of_each

KEYS = records(Settings())
FORBIDDEN = ApiError(403, "Forbidden", 'x "a" is forbidden: User "dora" cannot update resource "x" in API group ""')
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
SERVER_METADATA = {
    "uid": "u",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2030-01-01T00:00:00Z",
    "managedFields": [],
    "finalizers": ["foregroundDeletion", "example.com/keep"],
}


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("2030-01-02T03:04:00Z", "5s"),
        ("2030-01-02T03:02:05Z", "2m"),
        ("2030-01-02T00:04:05Z", "3h"),
        ("2029-12-31T03:04:05Z", "2d"),
        ("2030-01-02T03:05:00Z", "0s"),
        (None, "unknown time"),
    ],
)
def test_age_in_the_largest_unit(then: str | None, expected: str) -> None:
    assert age(then, NOW.timestamp()) == expected


def job(**status: Any) -> dict[str, Any]:
    labels = {"app": "x", "controller-uid": "u", "job-name": "x"}
    labels |= {"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "x"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "x", "namespace": "n", "labels": {"app": "x"}, **SERVER_METADATA},
        "spec": {
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "suspend": False,
            "template": {"metadata": {"creationTimestamp": None, "labels": labels}, "spec": {}},
        },
        "status": status,
    }


COMPLETE = [{"type": "Complete", "status": "True"}]
FAILED = [{"type": "Failed", "status": "True"}]


@pytest.mark.parametrize(
    ("status", "ended", "runs"),
    [
        ({"active": 1, "startTime": "2000-01-01T00:00:00Z"}, None, True),
        ({}, None, False),
        ({"conditions": COMPLETE}, "finished", False),
        ({"conditions": FAILED}, "failed", False),
        ({"succeeded": 1, "active": 3}, None, True),
        ({"conditions": [{"type": "Complete", "status": "False"}]}, None, False),
    ],
)
def test_end_state_and_running_state_of_a_job(status: dict[str, Any], ended: str | None, runs: bool) -> None:
    assert end_state(job(**status)) == ended
    assert (running_since(job(**status)) is not None) == runs


def test_running_job_is_recreated_without_server_fields() -> None:
    again = recreatable(job(active=1))
    assert again["metadata"] == {
        "name": "x", "namespace": "n", "labels": {"app": "x"}, "finalizers": ["example.com/keep"],
    }  # fmt: skip
    assert again["spec"] == {"suspend": False, "template": {"metadata": {"labels": {"app": "x"}}, "spec": {}}}
    assert "status" not in again


def test_finished_job_is_recreated_suspended() -> None:
    assert recreatable(job(conditions=COMPLETE))["spec"]["suspend"] is True
    assert recreatable(job(conditions=FAILED))["spec"]["suspend"] is True


def test_service_is_recreated_without_its_cluster_ip() -> None:
    service = {
        "kind": "Service",
        "metadata": {"name": "x"},
        "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]},
    }
    assert recreatable(service)["spec"] == {}
    service["spec"] = {"clusterIP": "None", "clusterIPs": ["None"]}
    assert recreatable(service)["spec"]["clusterIP"] == "None"


def deployment(replicas: int | None, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    return {"kind": "Deployment", "metadata": {"name": "x", "annotations": annotations or {}}, "spec": spec}


def test_autoscaled_deployment_keeps_its_live_replicas() -> None:
    assert carried_over(deployment(None), deployment(5), KEYS)["spec"] == {"replicas": 5}
    assert carried_over(deployment(2), deployment(5), KEYS)["spec"] == {"replicas": 2}


def test_pause_is_carried_over() -> None:
    again = carried_over(deployment(3), deployment(0, {KEYS.paused: "2"}), KEYS)
    assert (again["spec"], again["metadata"]["annotations"]) == ({"replicas": 0}, {KEYS.paused: "3"})
    paused = job()
    paused["metadata"]["annotations"] = {KEYS.paused: "1"}
    paused["spec"]["suspend"] = True
    assert carried_over(job(), paused, KEYS)["spec"]["suspend"] is True


def test_pause_that_another_client_has_ended_is_not_carried_over() -> None:
    again = carried_over(deployment(3), deployment(2, {KEYS.paused: "2"}), KEYS)
    assert (again["spec"], again["metadata"]["annotations"]) == ({"replicas": 3}, {})
    started = job()
    started["metadata"]["annotations"] = {KEYS.paused: "1"}
    started["spec"]["suspend"] = False
    for again in carried_over(job(), started, KEYS), restorable(started, KEYS, None):
        assert not again["spec"].get("suspend")
    # Kueue suspends it in a moment.
    started["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    assert carried_over(job(), started, KEYS)["spec"]["suspend"] is True


@pytest.mark.parametrize("kind", ["Job", "JobSet", "CronJob"])
@pytest.mark.parametrize("live_kind", ["Job", "JobSet", "CronJob"])
def test_pause_of_a_training_is_carried_over_to_another_form(live_kind: str, kind: str) -> None:
    def form(kind: str, queue: str, annotations: dict[str, str]) -> dict[str, Any]:
        labels = {} if kind == "CronJob" else {QUEUE_LABEL: queue}
        return {"kind": kind, "metadata": {"name": "x", "labels": labels, "annotations": annotations}, "spec": {}}

    annotations = {KEYS.paused: "0", KEYS.pause_reason: "idle"}
    live = form(live_kind, "team.held-by-gpuctl", annotations) | {"spec": {"suspend": True}}
    again = carried_over(form(kind, "team", {}), live, KEYS)
    assert (again["spec"], again["metadata"]["annotations"]) == ({"suspend": True}, annotations)
    # Kueue would start it in its queue.
    assert is_held(again) is (kind != "CronJob")


def test_pause_of_a_service_is_carried_over_to_another_form() -> None:
    groups = {**deployment(3), "kind": "LeaderWorkerSet"}
    again = carried_over(groups, deployment(0, {KEYS.paused: "2"}), KEYS)
    assert (again["spec"], again["metadata"]["annotations"]) == ({"replicas": 0}, {KEYS.paused: "3"})


def autoscaler(least: int, annotations: dict[str, str], kind: str = "HorizontalPodAutoscaler") -> dict[str, Any]:
    names = ("minReplicaCount", "maxReplicaCount") if kind == "ScaledObject" else ("minReplicas", "maxReplicas")
    spec = dict(zip(names, (least, 4), strict=True))
    return {"kind": kind, "metadata": {"name": "x", "annotations": annotations}, "spec": spec}


def test_resumed_autoscaler_has_the_minimum_of_a_document_applied_meanwhile() -> None:
    again = carried_over(autoscaler(2, {}), autoscaler(1, {KEYS.paused: "0"}), KEYS)
    assert again["spec"]["minReplicas"] == 1
    assert resume_patch(again, KEYS.paused) == {
        "metadata": {"annotations": {KEYS.paused: None}},
        "spec": {"minReplicas": 2},
    }
    scaled = carried_over(autoscaler(2, {}, "ScaledObject"), autoscaler(2, {KEYS.paused: "0"}, "ScaledObject"), KEYS)
    assert scaled == autoscaler(2, {}, "ScaledObject")


@pytest.mark.parametrize("text", ["", "two", "²", "-1", "9" * 5000])
def test_pause_marks_that_another_client_has_written(text: str) -> None:
    assert replicas_before_pause(deployment(0, {KEYS.paused: text}), KEYS) == 1
    patch = resume_patch(autoscaler(1, {KEYS.paused: text}), KEYS.paused)
    assert patch is not None
    assert patch["spec"] == {"minReplicas": 0}
    assert not process_identity.is_dead("#".join(("a@b", text, "1", process_identity.holder_identity().split("#")[3])))


def test_set_label_and_strategy_are_carried_over() -> None:
    live = deployment(1, {KEYS.strategy: "rolling", "somebody.example/note": "1"})
    live["metadata"]["labels"] = {PART_OF: "applyset-x", "theirs": "1"}
    metadata = carried_over(deployment(1), live, KEYS)["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({PART_OF: "applyset-x"}, {KEYS.strategy: "rolling"})


def pod_owned_by(kind: str, name: str, uid: str = "x", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {**metadata, "ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True}]}}


def test_pods_of_workloads_with_similar_names_are_distinguished() -> None:
    def live(kind: str, name: str, *jobs: str) -> dict[str, Any]:
        spec = {"replicatedJobs": [{"name": job} for job in jobs]}
        return {"kind": kind, "metadata": {"name": name, "uid": f"of-{name}"}, "spec": spec}

    workloads = [
        live("Deployment", "chat"),
        live("Deployment", "chat-v2"),
        live("JobSet", "train", "node", "a-b"),
        live("JobSet", "train-big", "node"),
        live("Job", "train-node"),
        live("StatefulSet", "chat"),
    ]

    def of(pod: dict[str, Any]) -> list[tuple[str, str]]:
        assert [bool(mine) for mine in pods_of_each([pod], workloads)] == [is_pod_of(pod, item) for item in workloads]
        return [(item["kind"], item["metadata"]["name"]) for item in workloads if is_pod_of(pod, item)]

    assert of(pod_owned_by("ReplicaSet", "chat-6c9f")) == [("Deployment", "chat")]
    assert of(pod_owned_by("ReplicaSet", "chat-v2-77d5")) == [("Deployment", "chat-v2")]
    assert of(pod_owned_by("ReplicaSet", "chat-v3-77d5")) == []
    assert of(pod_owned_by("Job", "train-node-0")) == [("JobSet", "train")]
    assert of(pod_owned_by("Job", "train-a-b-12")) == [("JobSet", "train")]
    assert of(pod_owned_by("Job", "train-big-node-0")) == [("JobSet", "train-big")]
    assert of(pod_owned_by("Job", "train-node", "of-train-node")) == [("Job", "train-node")]
    assert of(pod_owned_by("Job", "train-other")) == []
    assert of({"metadata": {}}) == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ConnectionFailed("no answer"),
            "whether this run still holds its lease, not renewed for 60 s, is unknown: no answer",
        ),
        (FORBIDDEN, None),
    ],
)
def test_lease_that_cannot_be_renewed_is_not_presumed_held(error: ClusterError, reason: str | None) -> None:
    """Another run may have taken it over, unless nobody can renew leases here."""

    class Unreachable:
        def server_time(self) -> float:
            return 0.0

        def replace(self, body: Any) -> Any:
            raise error

    unreachable: Any = Unreachable()
    held = leases.Leases(unreachable, Interrupts())
    assert held.check() is None
    held._held = {Key("Lease", "team", leases.NAMESPACE_LEASE): {"metadata": {}, "spec": {}}}
    held._renewed -= 60
    assert held.check() == reason


def test_age_of_a_lease_does_not_depend_on_the_local_clock() -> None:
    """The holder and this process may have different clocks; both use that of the API server."""
    holder = {"holderIdentity": "carol@far#4711#1#machine", "acquireTime": "2001-09-09T00:46:40Z"}

    class Held:
        def get(self, key: Key) -> Any:
            return {"metadata": {"uid": "u"}, "spec": holder}

        def server_time(self) -> float:
            return 1_000_000_000.0

    session: Any = Held()
    key = Key("Lease", "team", leases.NAMESPACE_LEASE)
    with pytest.raises(leases.LeaseHeld, match=r"carol@far .* is applying in team, begun 1h ago"):
        leases.Leases(session, Interrupts()).acquire([key], -1.0, lambda text: None)


def test_namespaces_deleted_before_a_refusal_are_reported() -> None:
    class OneIsForbidden:
        patience = 1.0

        def delete(self, key: Key, uid: str, **options: Any) -> bool:
            if key.name == "b":
                raise FORBIDDEN
            return True

        def get(self, key: Key) -> None:
            return None

    def plan(*names: str) -> Plan:
        live = {"kind": "Namespace", "metadata": {"uid": "u"}}
        return Plan([Step("delete", Key("Namespace", "", name), live=live, method="delete") for name in names])

    session: Any = OneIsForbidden()
    both, shown = plan("a", "b"), list[str]()
    delete_namespaces(session, both, 1.0, lambda step: shown.append(step.key.name), lambda text: None)
    assert [step.result for step in both.steps] == ["done", "failed"]
    assert sorted(shown) == ["a", "b"]
    with pytest.raises(ApiError):
        delete_namespaces(session, plan("b"), 1.0, lambda step: None, lambda text: None)


STARTED = format_timestamp(NOW - timedelta(hours=3, minutes=5))


def named(kind: str, name: str, owner: Any = None, **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "n", "uid": f"{kind}-{name}", "creationTimestamp": STARTED}
    if owner is not None:
        reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return {"kind": kind, "metadata": metadata, **fields}


def pod(name: str, owner: Any = None, *, running: bool = True) -> dict[str, Any]:
    states = [{"name": "main", "state": {"running": {"startedAt": STARTED}}}] if running else []
    return named("Pod", name, owner, status={"phase": "Running" if running else "Pending", "containerStatuses": states})


class NamespaceObjects:
    """A session with the objects of a namespace, some kinds of which may not be listed.

    :param served: further kinds: group -> kinds.
    """

    def __init__(self, objects: Any, forbidden: Any = (), served: Any = None) -> None:
        self.objects = objects
        self.forbidden = set(forbidden)
        self.served = served or {}

    def server_time(self) -> float:
        return NOW.timestamp()

    def request(self, method: str, path: str, *, accept: str) -> Any:
        verbs = ["delete", "list"]
        groups = {
            group: [
                {"resource": f"{kind.lower()}s", "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": verbs}
                for kind in kinds
            ]
            for group, kinds in self.served.items()
        }
        return {
            "items": [
                {"metadata": {"name": group}, "versions": [{"version": version, "resources": kinds}]}
                for group, kinds in groups.items()
                for version in ("v2", "v1")
                if path == ("/apis" if group else "/api")
            ]
        }

    def get(self, key: Key) -> Any:
        return {"kind": "Namespace", "metadata": {"name": "n", "uid": "n"}} if key.kind == "Namespace" else None

    def list_objects(self, resource: Resource, namespace: str) -> Any:
        if resource.kind in self.forbidden:
            raise FORBIDDEN
        return [obj for obj in self.objects if obj["kind"] == resource.kind], "1"

    def list_metadata(self, resource: Resource, namespace: str) -> Any:
        metadata = [obj["metadata"] for obj in self.list_objects(resource, namespace)[0]]
        return [{"kind": "PartialObjectMetadata", "metadata": item} for item in metadata]

    def each(self, task: Any, items: Any) -> list[Any]:
        return list(map(task, items))


def test_question_about_a_namespace_counts_each_object_with_its_controller() -> None:
    """Also objects of foreign controllers and of kinds that gpuctl does not know, each once."""
    flow, idle = named("Workflow", "build"), named("Workflow", "idle")
    lost = named("Job", "left", {"kind": "Cluster", "metadata": {"name": "c", "uid": "elsewhere"}}, status={})
    step = named("Job", "build-1", flow, status={"active": 1, "startTime": STARTED})
    agent, web = named("DaemonSet", "agent"), named("Deployment", "web", status={"readyReplicas": 1})
    replicas = named("ReplicaSet", "web-6d4f8b7c9d", web)
    pods = [pod("build-1-x", step), pod("agent-x", agent, running=False), pod("web-6d4f8b7c9d-x2z4k", replicas)]
    more = [named("Job", f"job-{number}", status={}) for number in range(2)]
    rights = [named("ServiceAccount", name) for name in ("default", "builder")]
    data = [named("PersistentVolumeClaim", "cache", flow), named("ConfigMap", "kube-root-ca.crt")]
    served = {
        "": ["Pod", "ConfigMap", "ServiceAccount", "Event"],
        "apps": ["Deployment", "DaemonSet", "ReplicaSet"],
        "argoproj.io": ["Workflow", "Sensor"],
        "batch": ["Job"],
    }
    objects = [flow, idle, lost, step, agent, web, replicas, *pods, *more, *rights, *data, named("Event", "e")]
    session: Any = NamespaceObjects(objects, {"Sensor"}, served)
    (question,) = plan_namespace_deletion(session, ["n"], KEYS).confirm
    running = "deployment/web (running for 3h), workflow/build (running for 3h)"
    assert question == (
        f"deletes namespace n and everything in it: {running}, job/left, job/job-0, job/job-1, 1 more (1 daemonset), "
        "1 persistentvolumeclaim, 1 serviceaccount, 1 workflow.argoproj.io; sensors.argoproj.io could not be read"
    )


def test_question_about_a_namespace_names_what_runs_and_what_may_not_be_read() -> None:
    """Pods that wait for a node have no work to lose. A run that a user started is not in the status of its CronJob."""
    active = {"active": 1, "startTime": STARTED}
    waiting, running = named("Job", "waiting", status=active), named("Job", "running", status=active)
    schedule = named("CronJob", "nightly", spec={}, status={})
    run = named("Job", "nightly-r1", schedule, status=active)
    objects = [
        waiting,
        running,
        schedule,
        run,
        pod("a", waiting, running=False),
        pod("b", running),
        pod("c", run),
        pod("lone"),
    ]
    objects.append(pod("agent", {"kind": "DaemonSet", "metadata": {"name": "agent", "uid": "d"}}))
    session: Any = NamespaceObjects(objects, {"Service"})
    forbidden = session.forbidden
    beginning = "deletes namespace n and everything in it: "
    (question,) = plan_namespace_deletion(session, ["n"], KEYS).confirm
    jobs = "job/running (running for 3h), cronjob/nightly (running for 3h), pod/lone (running for 3h), job/waiting"
    rest = "1 pod of other controllers; services may not be read"
    assert question == f"{beginning}{jobs}, {rest}"
    forbidden.add("Pod")
    (question,) = plan_namespace_deletion(session, ["n"], KEYS).confirm
    jobs = "job/waiting (running for 3h), job/running (running for 3h), cronjob/nightly (running for 3h)"
    assert question == f"{beginning}{jobs}; pods, services may not be read"
    forbidden.update(RESOURCES)
    (question,) = plan_namespace_deletion(session, ["n"], KEYS).confirm
    assert question.startswith(f"{beginning}jobs, ")
    assert question.endswith(" may not be read")


@pytest.mark.parametrize("error", [ConnectionFailed("no answer"), KeyboardInterrupt()])
def test_deleted_namespaces_are_reported_though_the_wait_fails(error: BaseException) -> None:
    class FailsForOne:
        patience = 1.0

        def delete(self, key: Key, uid: str, **options: Any) -> bool:
            return True

        def get(self, key: Key) -> None:
            if key.name == "b":
                raise error

    live = {"kind": "Namespace", "metadata": {"uid": "u"}}
    plan = Plan([Step("delete", Key("Namespace", "", name), live=live, method="delete") for name in ("a", "b")])
    shown = list[str]()
    session: Any = FailsForOne()
    with pytest.raises(KeyboardInterrupt) if isinstance(error, KeyboardInterrupt) else contextlib.nullcontext():
        delete_namespaces(session, plan, 1.0, lambda step: shown.append(step.key.name), lambda text: None)
    assert shown == ["a", "b"]
    assert [step.result for step in plan.steps] == ["done", "failed"]
    assert plan.outage == isinstance(error, ConnectionFailed)
    assert plan.steps[1].error in (
        "namespace/b: whether it is gone is unknown: no answer",
        "namespace/b: interrupted: Kubernetes continues the deletion",
    )


def test_object_that_loses_its_label_while_it_is_deleted_is_awaited() -> None:
    """It leaves the watched list as a deleted one does."""
    live = job()
    live["metadata"]["labels"][MANAGED_BY] = "gpuctl"
    stored, gone = [live], list[Key]()

    class Api:
        def list_objects(self, resource: Resource, namespace: str, *, labels: str = "", fields: str = "") -> Any:
            return [obj for obj in stored if not labels], "1"

    session: Any = Api()
    waiter = DeletionWatch(session, stored, gone.append)
    left = Event("DELETED", "Job", live, WatchedList("Job", "n", OURS))
    waiter._on_event(left)
    assert waiter.poll() == {key_of(live)}
    assert gone == []
    stored.clear()
    waiter._on_event(left)
    assert waiter.poll() == set()
    assert gone == [key_of(live)]


def test_wait_for_deletions_ends_when_the_credentials_are_refused() -> None:
    """An expired token is reported at once, not after the timeout."""
    live, looks = job(), list[str]()
    step = Step("replace", key_of(live), desired=live, live=live, method="delete")
    plan = Plan([step])

    class Api:
        patience = 1.0
        executor = ThreadPoolExecutor(1)

        def list_objects(self, *arguments: Any, **options: Any) -> Any:
            raise ApiError(401, "Unauthorized", "Unauthorized")

        get = list_objects

    class Writes:
        leaving = frozenset[str]()

        def delete_live(self, step: Step) -> str:
            return "deleted"

    def look(text: str) -> None:
        looks.append(text)
        assert len(looks) < 5, "the wait goes on"

    session: Any = Api()
    writes: Any = Writes()
    state = RunState(session, plan, RunOptions(), RunCallbacks(on_wait=look), writes, next_look=0.0)
    StageExecution(state, plan.steps).execute()
    assert step.result == "failed"
    assert step.error == (
        "job.batch/x in n: whether it is gone is unknown: the API server does not accept the credentials (401 "
        "Unauthorized) (log in again, or check the user of the kubeconfig's context); the new one is created by "
        "`gpuctl recover` or the next apply once it is gone"
    )
    assert plan.outage


def test_lease_holder_is_dead_if_its_process_ended() -> None:
    mine = process_identity.holder_identity()
    assert not process_identity.is_dead(mine)
    who, pid, _, machine = mine.split("#")
    assert pid == str(os.getpid())
    assert process_identity.is_dead("#".join((who, pid, "1", machine))), "the same pid, but another process"
    assert not process_identity.is_dead("#".join((who, pid, "1", "another machine"))), "unknown on another machine"
    assert not process_identity.is_dead("somebody else's form")
    assert process_identity.describe_holder(mine) == f"{who} (process {pid})"
