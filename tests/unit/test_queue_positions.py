"""Messages about a job that waits in its queue: missing quota, jobs ahead of it, and whether it can ever be admitted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from gpuctl.capacity.kueue.queue_messages import QueuePath, flavor_headroom, never_admitted_message, queue_wait
from gpuctl.capacity.kueue.queue_quota import quota_trees
from gpuctl.capacity.kueue.queue_state import PodSet, QueuedJob, QueueState, build_queue_state
from gpuctl.capacity.snapshot.kueue_entries import cluster_queue_entry
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.queues.queue_position import KueueLists
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.explanation import explain
from gpuctl.reading.why.finding import Finding

GPU = "nvidia.com/gpu"
Object = dict[str, Any]


def queue(name: str, cohort: str = "", used: int = 0, **flavors: int | str) -> Object:
    """A ClusterQueue with the given number of GPUs per flavor; ``used`` GPUs of the first flavor are reserved."""
    items = [{"name": key, "resources": [{"name": GPU, "nominalQuota": amount}]} for key, amount in flavors.items()]
    reserved = [{"name": next(iter(flavors)), "resources": [{"name": GPU, "total": used}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": [GPU], "flavors": items}]}
    if cohort:
        spec["cohortName"] = cohort
    return {"metadata": {"name": name}, "spec": spec, "status": {"flavorsReservation": reserved}}


def local(name: str, target: str = "gpus", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": target, **spec}}


def waiting(name: str, *sets: int, target: str = "team", created: str = "2026-01-02", **status: Any) -> Object:
    """A Workload with one pod set per number of GPUs, and its requests as Kueue records them in the status."""
    pods = [{"containers": [{"name": "main", "resources": {"requests": {GPU: str(gpus)}}}]} for gpus in sets]
    podsets = [{"name": f"set-{at}", "count": 1, "template": {"spec": spec}} for at, spec in enumerate(pods)]
    asked = [{"name": f"set-{at}", "resources": {GPU: str(gpus)}} for at, gpus in enumerate(sets)]
    metadata = {"name": f"job-{name}", "namespace": "team", "creationTimestamp": created, "uid": name}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True}
    return {
        "metadata": {**metadata, "ownerReferences": [owner]},
        "spec": {"queueName": target, "podSets": podsets},
        "status": {"resourceRequests": asked, **status},
    }


def finding_of(
    own: Object, *others: Object, queues: list[Object], kind: str = "Job", spec: Object | None = None, **lists: Any
) -> Finding:
    """Return the finding for the job of the Workload `own` in the LocalQueue ``team``.

    :param spec: further fields of the job's spec.
    """
    metadata = {"name": "new", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "team"}, "uid": "new"}
    template = {"metadata": {}, "spec": {"containers": []}}
    job = {"kind": kind, "metadata": metadata, "spec": {"suspend": True, "template": template, **(spec or {})}}
    found = KueueLists([own, *others], lists.get("local", [local("team")]), queues, lists.get("cohorts", []))
    settings = Settings()
    evidence = Evidence(
        Job(Identity("team", kind, "new"), job, []),
        records(settings),
        settings,
        datetime(2026, 1, 3, tzinfo=timezone.utc),
        kueue_workload=own,
        kueue=found,
    )
    return explain(evidence).finding


def job_and_state(*sets: int, excluded: tuple[str, ...] = (), **flavors: int) -> tuple[QueuedJob, QueueState]:
    """Return a job with these pod sets and its ClusterQueue's state; `excluded` flavors are closed to the first pod
    set.
    """
    state = build_queue_state([cluster_queue_entry(queue("gpus", **flavors))], [], [{"name": name} for name in flavors])
    without_flavors = [dict.fromkeys(excluded, "is not for it"), *({} for _ in sets[1:])]
    pods = tuple(PodSet(f"set-{at}", {GPU: gpus}, without_flavors[at]) for at, gpus in enumerate(sets))
    return QueuedJob(0, "gpus", 0, "", pods), state


def test_flavors_are_assigned_per_pod_set() -> None:
    found = finding_of(waiting("new", 3, 3), queues=[queue("gpus", a=4, b=4)])
    assert (found.cause, "never" in found.message) == ("queued", False)
    found = finding_of(waiting("new", 1, 3), queues=[queue("gpus", a=2, b=2)])
    assert found.cause == "queue-unusable"
    assert f"one of its pod sets asks for 3 {GPU}, and 2 is the most of one flavor" in found.message
    found = finding_of(waiting("new", 3, 3, 3), queues=[queue("gpus", a=4, b=4)])
    assert found.cause == "queue-unusable"
    assert f"it asks for 9 {GPU} in all, and 8 is the most" in found.message
    found = finding_of(waiting("new", 6), queues=[queue("gpus", a=4, b=4)])
    assert f"it asks for 6 {GPU} in all, and 4 is the most" in found.message
    found = finding_of(waiting("new", 3, 4), queues=[queue("gpus", used=2, a=4, b=4)])
    assert (
        f"it asks for 7 {GPU} (4 of one flavor), 2 free in flavor a (2 of 4 used), 4 free in flavor b" in found.message
    )


@pytest.mark.parametrize(
    ("said", "words", "fix"),
    [
        (
            "Invalid value: null: ResourceClaimTemplate x: FirstAvailable device selection is not supported",
            "Kueue does not support claims with alternatives of GPU types",
            "name one type in `resources.gpu-type`",
        ),
        (
            'Not found: "DeviceClass gpu.nvidia.com is not mapped in DRA configuration for podset main"',
            "Kueue's configuration does not list DeviceClass gpu.nvidia.com",
            "list gpu.nvidia.com in `resources.deviceClassMappings`",
        ),
    ],
)
def test_claims_that_kueue_refuses(said: str, words: str, fix: str) -> None:
    """Texts of Kueue 0.19, ``pkg/dra/claims.go``."""
    where = "spec.podSets[0].template.spec.resourceClaims[0]"
    refused = {"type": "QuotaReserved", "status": "False", "reason": "Misconfigured", "message": f"{where}: {said}"}
    own = {"kind": "Workload", **waiting("new", 0, conditions=[refused])}
    found = finding_of(own, queues=[queue("gpus", a=4)])
    assert found.cause == "queue-unusable"
    assert found.message == f"Kueue's queue team (ClusterQueue gpus) never admits it: {words}"
    assert found.fix is not None
    assert fix in found.fix


def test_claims_that_kueue_tries_to_count_again() -> None:
    said = "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec: timed out"
    failed = {"type": "QuotaReserved", "status": "False", "reason": "Misconfigured", "message": said}
    own = {"kind": "Workload", **waiting("new", 0, conditions=[failed])}
    found = finding_of(own, queues=[queue("gpus", a=4)])
    assert found.message.endswith(f"could not count its devices, and tries again: {said}")


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ('Flavor "a" does not support TopologyAwareScheduling', "queue-unusable"),
        ('Flavor "a" does not contain the requested level', "queue-unusable"),
        (
            'Flavor "a" does not support TopologyAwareScheduling, insufficient unused quota for x in flavor b, 1 more needed',
            "queued",
        ),
    ],
)
def test_flavors_without_the_topology_never_admit_the_job(said: str, cause: str) -> None:
    """Texts of Kueue 0.19, ``pkg/scheduler/flavorassigner/tas_flavorassigner.go``."""
    message = f"couldn't assign flavors to pod set node: {said}"
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    found = finding_of(
        {"kind": "Workload", **waiting("new", 2, conditions=[pending])}, queues=[queue("gpus", a=4, b=4)]
    )
    assert found.cause == cause
    assert ("remove `resources.topology`" in (found.fix or "")) == (cause == "queue-unusable")


@pytest.mark.parametrize(
    ("sets", "flavors", "words"),
    [
        ((3, 3), {"a": 4, "b": 4}, "no flavor has all that it asks for"),
        ((1, 3), {"a": 2, "b": 2}, f"its pod set set-1 asks for 3 {GPU}, and 2 is the most of one flavor"),
        ((3, 3, 3), {"a": 4, "b": 4}, f"it asks for 9 {GPU} in all, and 8 is the most"),
        ((6,), {"a": 4, "b": 4}, f"it asks for 6 {GPU} in all, and 4 is the most"),
    ],
)
def test_never_admitted_message_names_the_limiting_request(
    sets: tuple[int, ...], flavors: dict[str, int], words: str
) -> None:
    job, state = job_and_state(*sets, **flavors)
    assert never_admitted_message(QueuePath("team", "gpus", ""), job, state.rules["gpus"], state).endswith(words)


def test_never_admitted_message_of_a_job_that_is_not_created_yet() -> None:
    """Kueue names its pod sets when it is."""
    job, state = job_and_state(1, 3, a=2, b=2)
    job = replace(job, pod_sets=tuple(pods._replace(name="") for pods in job.pod_sets))
    message = never_admitted_message(QueuePath("team", "gpus", ""), job, state.rules["gpus"], state)
    assert message.endswith(f": one of its pod sets asks for 3 {GPU}, and 2 is the most of one flavor")


_ROLE = {"template": {"spec": {"template": {"metadata": {}, "spec": {"containers": []}}}}}


@pytest.mark.parametrize(
    ("kind", "spec", "fix"),
    [
        ("Job", {}, "or `resources.nodes`: 4 is the most for all nodes together"),
        ("Job", {"backoffLimitPerIndex": 0}, "or `array.parallelism`: 4 is the most for all runs at a time"),
        (
            "JobSet",
            {"replicatedJobs": [{"name": "a", **_ROLE}, {"name": "b", **_ROLE}]},
            "or the `nodes` of its roles: 4 is the most for all nodes together",
        ),
    ],
)
def test_fix_names_the_number_of_pods_that_the_document_has(kind: str, spec: Object, fix: str) -> None:
    found = finding_of({"kind": "Workload", **waiting("new", 9)}, queues=[queue("gpus", a=4)], kind=kind, spec=spec)
    assert found.cause == "queue-unusable"
    assert fix in (found.fix or "")


def test_flavor_counts_if_it_is_open_to_any_pod_set() -> None:
    job, state = job_and_state(2, 2, excluded=("a",), a=4, b=4)
    path, rules, node = (
        QueuePath("team", "gpus", ""),
        state.rules["gpus"],
        quota_trees(state.cluster_queues, [])["gpus"],
    )
    assert [item.slot.flavor for item in flavor_headroom(job, rules, node)] == ["a", "b"]
    assert queue_wait(path, flavor_headroom(job, rules, node), 1) == (
        f"waits in {path}: 1 job is ahead of it",
        f"{path}: 1 job is ahead of it",
    )
    job, state = job_and_state(2, 2, excluded=("a", "b"), a=4, b=4)
    said = never_admitted_message(path, job, rules, state)
    assert said == f"no flavor of {path} is for it: flavor a is not for it, flavor b is not for it"


def test_uncovered_resources_are_taken_from_recorded_requests() -> None:
    """Kueue's Configuration may exclude resources, or count them as other resources."""
    own = waiting("new", 9)
    own["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["example.com/x"] = "1"
    del own["status"]["resourceRequests"]
    found = finding_of(own, queues=[queue("gpus", a=4)])
    assert (found.cause, found.numbers["uncoveredResources"]) == ("queued", [])
    own["status"]["resourceRequests"] = [{"name": "set-0", "resources": {GPU: "1", "example.com/x": "1"}}]
    found = finding_of(own, queues=[queue("gpus", a=4)])
    assert (found.cause, found.numbers["uncoveredResources"]) == ("queue-unusable", ["example.com/x"])
    own["status"]["resourceRequests"] = [{"name": "set-0", "resources": {GPU: "1", "cpu": "0"}}]
    found = finding_of(own, queues=[queue("gpus", a=4)])
    assert (found.cause, found.numbers["uncoveredResources"]) == ("queued", [])


def test_gated_workload_waits_for_its_gates_and_is_not_ahead() -> None:
    gated, later = waiting("new", 1, created="2026-01-01"), waiting("later", 1)
    gated["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/data"}
    found = finding_of(gated, later, queues=[queue("gpus", a=4)])
    assert found.message == (
        "waits in Kueue's queue team (ClusterQueue gpus): Kueue does not admit it before its gates are removed "
        "(kueue.x-k8s.io/admission-gated-by: example.com/data)"
    )
    assert found.fix.startswith("wait for the program or person that removes the annotation")
    assert finding_of(later, gated, queues=[queue("gpus", a=4)]).numbers["position"] == 1


def test_reclaimable_pods_request_nothing() -> None:
    own = waiting("new", 1)
    own["spec"]["podSets"][0]["count"] = 8
    own["status"] = {"reclaimablePods": [{"name": "set-0", "count": 6}]}
    found = finding_of(own, queues=[queue("gpus", used=3, a=4)])
    assert f"it asks for 2 {GPU}, 1 free" in found.message


def test_position_skips_stopped_evicted_and_backed_off_workloads() -> None:
    refused = {"type": "Requeued", "status": "False", "reason": "PodsReadyTimeout"}
    away = {"requeueState": {"requeueAt": "2026-01-09T00:00:00Z"}}
    others = [
        waiting("stopped", 1, target="held", created="2026-01-01"),
        waiting("evicted", 1, created="2026-01-01", conditions=[refused]),
        waiting("away", 1, created="2026-01-01", **away),
    ]
    places = [local("team"), local("held", stopPolicy="Hold")]
    found = finding_of(waiting("new", 2), *others, queues=[queue("gpus", used=3, a=4)], local=places)
    assert found.message.endswith("; it is next")
    assert (found.numbers["position"], found.numbers["waitingJobs"]) == (1, 1)
    first = waiting("first", 1, created="2026-01-01", conditions=[{**refused, "status": "True"}])
    found = finding_of(waiting("new", 2), *others, first, queues=[queue("gpus", used=3, a=4)], local=places)
    assert "1 job is ahead of it (Job/first in team)" in found.message
    found = finding_of(waiting("new", 2, **away), first, queues=[queue("gpus", used=3, a=4)])
    assert found.message.endswith("Kueue keeps it out of the queue for a backoff time, until 2026-01-09T00:00:00Z")
    assert found.numbers["position"] is None


def test_fractional_gpu_quota_is_rounded_up() -> None:
    found = finding_of(waiting("new", 1), queues=[queue("gpus", a="500m")])
    assert found.cause == "queued"


def test_held_by_lists_jobs_in_sibling_cohorts() -> None:
    holder = waiting("holder", 4)
    usage = {"name": "set-0", "count": 1, "flavors": {GPU: "a"}, "resourceUsage": {GPU: "4"}}
    holder["status"] = {
        "admission": {"clusterQueue": "right", "podSetAssignments": [usage]},
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
    }
    stranger = {**holder, "status": {**holder["status"], "admission": {"clusterQueue": "far"}}}
    cohorts = [{"metadata": {"name": name}, "spec": {"parentName": "lab"}} for name in ("west", "east")]
    queues = [queue("gpus", "west", a=0), queue("right", "east", used=4, a=4), queue("far", "other", a=0)]
    found = finding_of(waiting("new", 1), holder, stranger, queues=queues, cohorts=cohorts)
    assert [item["job"] for item in found.numbers["heldBy"]] == ["Job/holder"]
    assert "wait for Job/holder in team to end" in found.fix


def test_job_with_reserved_quota_is_not_told_to_wait_for_its_turn() -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "reserved"}
    own = {**waiting("own", 2, conditions=[reserved]), "kind": "Workload"}
    answer = finding_of(own, queues=[queue("gpus", a100=8)])
    assert answer.message.endswith("its quota is reserved, and it waits for Kueue's next step")
    assert answer.fix is not None
    assert answer.fix.startswith("if this lasts for more than a minute, ask the administrators of the queue")
    own["status"]["admissionChecks"] = [{"name": "capacity", "state": "Pending"}]
    assert str(finding_of(own, queues=[queue("gpus", a100=8)]).fix).startswith("wait for its turn")
