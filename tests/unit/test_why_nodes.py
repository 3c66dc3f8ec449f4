"""``gpuctl why`` for pods that no node accepts, in pools of several kinds of nodes: recorded worlds with other nodes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gpuctl.capacity.pods.demand import model_demands
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.language.settings import Settings
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.queues.queue_position import KueueLists
from gpuctl.reading.why import pending_pods
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.explanation import explain
from gpuctl.reading.why.finding import Finding
from support.fit_objects import GPU_CLASS, device_class, resource_claim, resource_slice, running
from support.why_records import RECORDED, load

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
TAINT = {"key": "dedicated", "value": "research", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
POOL, TYPE = "runwhere.ai/pool", "runwhere.ai/gpu-type"


def node(name: str, gpus: int = 0, **more: Any) -> Object:
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    return {"name": name, "labels": labels, "allocatable": allocatable, **more}


def gpu_nodes(number: int = 4, gpus: int = 8, **more: Any) -> list[Object]:
    return [node(f"gpu-{place}", gpus, **copy.deepcopy(more)) for place in range(1, number + 1)]


def waiting(
    nodes: list[Object], gpus: int = 2, *, selector: Object | None = None, snapshot: Object | None = None, **spec: Any
) -> Evidence:
    """Return the evidence of a pod that waits for one of these nodes, based on the record of a GPU shortage."""
    evidence, _ = load(RECORDED / "gpu-shortage.json")
    (pod,) = copy.deepcopy(evidence.pods)
    pod["spec"].pop("affinity", None)
    pod["spec"]["nodeSelector"] = selector or {}
    for part in ("requests", "limits"):
        amounts = pod["spec"]["containers"][0]["resources"][part]
        amounts.update(cpu="1", memory="1Gi", **{GPU: str(gpus)})
    pod["spec"].update(spec)
    job = Job(evidence.job.identity, evidence.job.workload, [pod])
    assert evidence.snapshot is not None
    have = replace(evidence.snapshot, **{"nodes": nodes, "pods": [], **(snapshot or {})})
    return replace(evidence, job=job, snapshot=have)


def finding_of(evidence: Evidence) -> Finding:
    return explain(evidence).finding


@pytest.mark.parametrize(
    ("state", "cause", "said"),
    [
        ({"taints": [TAINT]}, "taint", "have a taint that it does not tolerate, dedicated=research:NoSchedule"),
        ({"unschedulable": True}, "cordoned", "are cordoned"),
        ({"taints": [NOT_READY]}, "nodes-not-ready", "are not ready"),
    ],
    ids=["tainted", "cordoned", "not-ready"],
)
def test_open_cpu_node_does_not_hide_closed_gpu_nodes(state: Object, cause: str, said: str) -> None:
    answer = finding_of(waiting([node("cpu-1"), *gpu_nodes(**state)]))
    assert answer.cause == cause
    assert f"all 4 nodes of the cluster that are large enough (2 GPUs) {said}" in answer.message
    assert set(answer.numbers["nodeNames"]) == {f"gpu-{number}" for number in range(1, 5)}
    assert "device plugin" not in str(answer.fix)


LIMIT = {"type": "Container", "defaultRequest": {"memory": "1Ti"}, "default": {"memory": "1Ti"}}


@pytest.mark.parametrize(
    "later",
    [
        {"limit_ranges": [{"namespace": "preemption-22", "name": "later", "limits": [LIMIT]}]},
        {"runtime_classes": [{"name": "kata", "overhead": {"memory": "1Ti"}}]},
    ],
    ids=["limit-range", "overhead"],
)
def test_admission_changes_no_pod_that_exists(later: Object) -> None:
    """The API server adds the defaults of LimitRanges and the overhead of RuntimeClasses when a pod is created."""
    evidence = waiting(gpu_nodes(2, unschedulable=True), snapshot=later, runtimeClassName="kata")
    assert evidence.job.identity.namespace == "preemption-22"
    resources = evidence.pods[0]["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        del resources[part]["memory"]
    assert finding_of(evidence).cause == "cordoned"


def test_message_that_no_node_has_gpus_only_if_none_has() -> None:
    assert "no node there has any nvidia.com/gpu" in finding_of(waiting([node("cpu-1"), node("cpu-2")])).message
    # The nodes that are large enough are closed; a smaller one is open.
    answer = finding_of(waiting([node("cpu-1"), node("small", 1), *gpu_nodes(taints=[TAINT])], gpus=4))
    assert answer.cause == "taint"
    # No node is large enough, whatever its state.
    answer = finding_of(waiting([node("cpu-1"), *gpu_nodes(gpus=2, taints=[TAINT])], gpus=4))
    assert (answer.cause, answer.message) == (
        "gpu-shortage",
        "needs 4 GPUs on one node; the largest has 2 in all, so it never fits",
    )


@pytest.mark.parametrize(
    ("nodes", "job", "fix"),
    [
        (4, {}, "spread it over more nodes: `resources.nodes: 4` with `resources.gpu: 2`"),
        (3, {}, "ask for 2 nvidia.com/gpu per pod instead of 8"),
        (4, {"backoffLimitPerIndex": 0}, "ask for 2 nvidia.com/gpu per pod instead of 8"),
        (4, {"env": [{"name": "PET_NNODES", "value": "1:4"}]}, "ask for 2 nvidia.com/gpu per pod instead of 8"),
    ],
    ids=["enough", "too-few-nodes", "array", "elastic"],
)
def test_fix_names_a_number_of_nodes_that_the_job_can_have(nodes: int, job: Object, fix: str) -> None:
    evidence = waiting(gpu_nodes(nodes, gpus=2), gpus=8)
    workload = copy.deepcopy(evidence.job.workload)
    assert workload is not None
    workload["spec"]["template"]["spec"]["containers"][0]["env"] = job.pop("env", [])
    workload["spec"].update(job)
    assert finding_of(replace(evidence, job=replace(evidence.job, workload=workload))).fix == fix


def test_fix_never_labels_a_cpu_node() -> None:
    """GPU types as in ``get gpu-types``, which also reads the labels of feature discovery."""
    l4 = node("gpu-2", 8, labels={"nvidia.com/gpu.product": "NVIDIA-L4"})
    answer = finding_of(waiting([node("cpu-1"), l4], 1, selector={TYPE: "NVIDIA-L4"}))
    assert answer.cause == "node-selector"
    assert "gpu-2 has it by the label nvidia.com/gpu.product=NVIDIA-L4" in answer.message
    assert answer.fix is not None
    assert answer.fix.startswith(f"`gpuctl label node gpu-2 {TYPE}=NVIDIA-L4`")
    assert "types: {NVIDIA-L4: {nvidia.com/gpu.product: NVIDIA-L4}}" in answer.fix
    assert "cpu-1" not in answer.fix


@pytest.mark.parametrize(
    ("product", "wanted", "fix"),
    [
        ("Tesla-T4-SHARED", "T4", f"`gpuctl label node gpu-1 {TYPE}=T4`"),
        ("NVIDIA-L40", "L4", "another `resources.gpu-type`: `gpuctl get gpu-types` shows what nodes have"),
    ],
)
def test_fix_for_a_similar_gpu_type(product: str, wanted: str, fix: str) -> None:
    nodes = [node("cpu-1"), node("gpu-1", 8, labels={"nvidia.com/gpu.product": product})]
    answer = finding_of(waiting(nodes, 1, selector={TYPE: wanted}))
    assert answer.fix is not None
    assert answer.fix.startswith(fix)


def test_fix_keeps_the_gpu_type_of_labelled_nodes() -> None:
    """Nodes with another type in the platform's label keep it; the type that names the wanted one is advised."""
    a100 = gpu_nodes(1, labels={TYPE: "A100-80G", "nvidia.com/gpu.product": "A100-80G"})
    l4 = [node(f"l4-{number}", 8, labels={TYPE: "L4"}) for number in range(3)]
    answer = finding_of(waiting([*a100, *l4], 1, selector={TYPE: "a100"}))
    assert answer.fix == "`resources.gpu-type: A100-80G`"


def test_several_gpu_types_are_alternatives() -> None:
    """A pool without any of them is reported, and a shortage names all of them."""
    term = {"matchExpressions": [{"key": TYPE, "operator": "In", "values": ["H100", "A100"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    answer = finding_of(waiting(gpu_nodes(1, labels={TYPE: "L4"}), affinity=affinity))
    assert (answer.cause, answer.message) == (
        "node-selector",
        "no node of the cluster has the GPU type H100 or A100; it has L4 (1 node)",
    )
    answer = finding_of(waiting(gpu_nodes(1, gpus=1, labels={TYPE: "A100"}), affinity=affinity))
    assert (answer.cause, answer.message) == (
        "gpu-shortage",
        "needs 2 H100 or A100 on one node; the largest has 1 in all, so it never fits",
    )


def test_gpus_of_another_vendor_are_named() -> None:
    """With several vendors, neither a label nor a device plugin gives the job GPUs that it does not request."""
    amd = node("amd-1", labels={"amd.com/gpu.product-name": "MI300"})
    amd["allocatable"]["amd.com/gpu"] = "8"
    answer = finding_of(waiting([node("cpu-1"), amd]))
    assert answer.message == "needs 2 GPUs on one node; no node there has any nvidia.com/gpu; amd-1 has amd.com/gpu"
    assert answer.fix == "`resources.gpu-vendor: amd` asks for amd.com/gpu; or use another `resources.pool`"
    answer = finding_of(waiting([node("cpu-1"), amd, *gpu_nodes(1, labels={TYPE: "L4"})], selector={TYPE: "MI300"}))
    assert "has the GPU type MI300; it has L4 (1 node); amd-1 has it by the label" in answer.message
    assert answer.message.endswith("; it has amd.com/gpu, which the job does not ask for")
    assert answer.fix is not None
    assert answer.fix.startswith("`resources.gpu-vendor: amd`, and `gpuctl label node amd-1")
    amd["labels"][TYPE] = "MI300"
    answer = finding_of(waiting([node("cpu-1"), amd, *gpu_nodes(1)], selector={TYPE: "MI300"}))
    assert (answer.cause, str(answer.fix).split(" asks")[0]) == ("gpu-shortage", "`resources.gpu-vendor: amd`")
    cordoned = gpu_nodes(1, unschedulable=True)
    assert finding_of(waiting([node("cpu-1"), amd, *cordoned])).cause == "cordoned"


def test_fix_labels_unlabelled_gpu_nodes() -> None:
    answer = finding_of(waiting([node("cpu-1"), *gpu_nodes(2)], 1, selector={TYPE: "h100"}))
    assert answer.fix == f"label the nodes that have it: `gpuctl label node gpu-1 {TYPE}=h100`"


@pytest.mark.parametrize("offered", [device_class(), device_class("gpu.nvidia.com", resource=None)])
def test_gpus_of_a_driver_have_a_type(offered: Object) -> None:
    """Nodes of a driver (DRA) do not report their GPUs as allocatable."""
    nodes = [node("cpu-1"), node("dra-1"), node("dra-2", labels={"nvidia.com/gpu.product": "L4"})]
    slices = [resource_slice(name, 4) for name in ("dra-1", "dra-2")]
    devices = {"device_classes": [offered], "resource_slices": slices}
    answer = finding_of(waiting(nodes, 1, selector={TYPE: "h100"}, snapshot=devices))
    assert answer.message == "no node of the cluster has the GPU type h100; it has no type (1 node), L4 (1 node)"
    assert answer.fix == f"label the nodes that have it: `gpuctl label node dra-1 {TYPE}=h100`"


def test_fix_for_an_unknown_pool() -> None:
    nodes = [node("cpu-1"), *gpu_nodes(1), node("gpu-9", 8, labels={POOL: "training-pool"})]
    answer = finding_of(waiting(nodes, selector={POOL: "trainig-pool"}))
    assert (answer.cause, answer.fix) == ("unknown-pool", "did you mean `resources.pool: training-pool`?")
    answer = finding_of(waiting(nodes, selector={POOL: "vision"}))
    assert answer.fix is not None
    assert answer.fix.endswith(f"`gpuctl label node gpu-1 {POOL}=vision`")
    answer = finding_of(waiting([node("cpu-1"), nodes[-1]], selector={POOL: "vision"}))
    assert "label" not in str(answer.fix)


def held_back(record: str, gpus: int, nodes: list[Object], **parts: Any) -> Evidence:
    """A job without pods that a quota or Kueue holds back, in a cluster of these nodes."""
    evidence, _ = load(RECORDED / f"{record}.json")
    workload = copy.deepcopy(evidence.job.workload)
    assert workload is not None
    spec = workload["spec"]["template"]["spec"]
    spec.pop("affinity", None)
    spec["nodeSelector"] = {}
    for part in ("requests", "limits"):
        spec["containers"][0]["resources"].setdefault(part, {}).update({GPU: str(gpus)})
    have = Snapshot("2026-11-26T12:00:00Z", nodes, [])
    return replace(evidence, job=Job(evidence.job.identity, workload, []), snapshot=have, **parts)


def test_pods_of_the_cluster_are_modeled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster of 5,000 pods it takes most of the time."""
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return model_demands(*arguments)

    monkeypatch.setattr(pending_pods, "model_demands", counted)
    answer = explain(waiting(gpu_nodes(gpus=4), gpus=8))
    assert (answer.finding.cause, len(calls)) == ("gpu-shortage", 1)
    assert answer.ruled_out


def test_job_that_never_fits_is_reported_before_a_full_quota() -> None:
    answer = explain(held_back("quota-exceeded", 16, gpu_nodes()))
    assert answer.finding.cause == "gpu-shortage"
    assert answer.finding.message.startswith(
        "needs 16 GPUs on one node; the largest has 8 in all, so it never fits; besides, quota team has no room"
    )
    assert answer.finding.fix == "spread it over more nodes: `resources.nodes: 2` with `resources.gpu: 8`"
    assert finding_of(held_back("quota-exceeded", 8, gpu_nodes())).cause == "quota-exceeded"
    # A user who may not read nodes gets the finding about the quota.
    assert finding_of(replace(held_back("quota-exceeded", 16, gpu_nodes()), snapshot=None)).cause == "quota-exceeded"


def test_job_that_never_fits_is_reported_before_its_queue() -> None:
    assert finding_of(held_back("queued", 16, gpu_nodes())).cause == "gpu-shortage"
    assert finding_of(held_back("queued", 3, gpu_nodes())).cause == "queued"
    # An admission check may add nodes for admitted jobs.
    evidence = held_back("queued", 16, gpu_nodes())
    assert evidence.kueue is not None
    checked = copy.deepcopy(evidence.kueue.cluster_queues) or []
    checked[0]["spec"]["admissionChecks"] = ["provisioning"]
    with_checks = KueueLists(**{**evidence.kueue._asdict(), "cluster_queues": checked})
    assert finding_of(replace(evidence, kueue=with_checks)).cause == "queued"


def holder(name: str, kind: str, gpus: int, owner: str | None = None, cpu: str = "1") -> Object:
    labels = {"app": name, "runwhere.ai/job-type": kind, **({"creator": owner} if owner else {})}
    requests = {"requests": {GPU: str(gpus), "cpu": cpu}, "limits": {GPU: str(gpus), "cpu": cpu}}
    spec = {"containers": [{"name": "main", "resources": requests}]}
    metadata = {"name": f"{name}-x", "namespace": "team", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def quota_fix(holders: list[Object], need: int = 4, hard: int = 8) -> str:
    """Return the advice for a GPU quota that these pods use up."""
    used = sum(int(pod["spec"]["containers"][0]["resources"]["requests"][GPU]) for pod in holders)
    evidence = held_back("quota-exceeded", need, gpu_nodes())
    evidence = replace(evidence, settings=Settings(), namespace_pods=holders)
    limits, taken = {f"requests.{GPU}": str(hard)}, {f"requests.{GPU}": str(used)}
    assert evidence.quotas is not None
    quota = {**evidence.quotas[0], "spec": {"hard": limits}, "status": {"hard": limits, "used": taken}}
    answer = finding_of(replace(evidence, quotas=[quota], events=[]))
    assert answer.cause == "quota-exceeded"
    assert answer.fix is not None
    assert "delete" not in answer.fix
    return answer.fix.partition("ask for less")[0]


def test_quota_fix_names_the_jobs_to_wait_for() -> None:
    small, large = holder("small", "training", 2), holder("large", "training", 6, "anna")
    assert quota_fix([small, large]) == "wait until training/large (owner anna) has ended, "
    # The smallest job that frees enough.
    assert quota_fix([small, large], need=2) == "wait until training/small has ended, "
    # Several jobs together, trainings before services.
    two = [holder("a", "training", 2), holder("b", "training", 2), holder("c", "inference", 4, "bob")]
    assert quota_fix(two) == "wait until training/a and training/b have ended, "
    # A service does not end by itself.
    assert quota_fix([holder("api", "inference", 8, "bob")]) == "ask the owners of inference/api (owner bob) for room, "
    # The end of all jobs would not be enough: the quota was lowered.
    assert quota_fix([holder(f"j{number}", "training", 4) for number in range(9)], hard=8) == ""


DEVICES: Object = {
    "device_classes": [device_class()],
    "resource_slices": [resource_slice("dra-1", 4)],
}


def test_uncounted_devices_are_not_a_gpu_shortage() -> None:
    """A DeviceClass that offers the resource, and pods that claim devices in a way that is not counted."""
    unreadable: Object = {"unreadable": ["deviceClasses"]}
    answer = finding_of(waiting(gpu_nodes(1, 2), 4, snapshot=unreadable))
    assert (answer.cause, "DeviceClasses could not be read" in answer.message) == ("unknown", True)
    answer = finding_of(waiting([node("dra-1")], 4, snapshot={**DEVICES, "unreadable": ["resourceClaims"]}))
    assert (answer.cause, "ResourceClaims could not be read" in answer.message) == ("unknown", True)
    # If every node is closed, devices make no difference.
    tainted = waiting([node("dra-1", taints=[TAINT])], 4, snapshot={**DEVICES, "unreadable": ["resourceClaims"]})
    assert finding_of(tainted).cause in ("taint", "gpu-shortage")
    claims = [{"name": "cards", "resourceClaimName": "cards"}]
    answer = finding_of(waiting(gpu_nodes(1), 0, resourceClaims=claims))
    assert "its pods claim devices (resourceClaims: cards); the ResourceClaim cards" in answer.message


def test_holder_is_the_job_and_not_a_part_of_it() -> None:
    owner = {"kind": "Job", "name": "pretrain-node-0"}
    labels = {"jobset.sigs.k8s.io/jobset-name": "pretrain"}
    pods = [running(f"pretrain-{place}", f"node-{place}", 8, owner=owner, labels=labels) for place in range(2)]
    answer = finding_of(waiting([node("node-0", 8), node("node-1", 8)], 4, snapshot={"pods": pods}))
    assert [(item["job"], item["pods"]) for item in answer.numbers["heldBy"]] == [("JobSet/pretrain", 2)]


def test_job_that_never_fits_waits_for_no_other_job() -> None:
    pods = [running("four", "node-0", 4, owner={"kind": "Job", "name": "four"})]
    answer = finding_of(waiting([node("node-0", 8)], 100, snapshot={"pods": pods}))
    assert (answer.cause, answer.numbers["heldBy"]) == ("gpu-shortage", [])


def test_holders_of_devices_are_named() -> None:
    """Devices are counted whether a pod gets them by an extended resource or by a claim."""
    pods = [running("four", "dra-1", 4, owner={"kind": "Job", "name": "four"})]
    held = {**DEVICES, "resource_claims": [resource_claim("four", "dra-1", 0, 1, 2)]}
    answer = finding_of(waiting([node("dra-1")], 4, snapshot={**held, "pods": pods}))
    assert (answer.cause, answer.message) == (
        "gpu-shortage",
        "needs 4 GPUs on one node; the only node has 1 free",
    )
    assert [(item["job"], item[GPU]) for item in answer.numbers["heldBy"]] == [("Job/four", 3)]
    option = {"class": GPU_CLASS, "count": 2}
    template = {"namespace": "team", "name": "cards", "requests": [[option]]}
    claims = [{"name": "cards", "resourceClaimTemplateName": "cards"}]
    evidence = waiting([node("dra-1")], 0, resourceClaims=claims, snapshot={**held, "pods": pods})
    template["namespace"] = evidence.job.identity.namespace
    assert evidence.snapshot is not None
    answer = finding_of(replace(evidence, snapshot=replace(evidence.snapshot, resource_claim_templates=[template])))
    assert (answer.cause, answer.message) == (
        "resource-shortage",
        f"needs 2 DeviceClass/{GPU_CLASS} on one node; the only node has 1 free",
    )
    assert "device plugin" not in str(answer.fix)


def test_missing_resource_claim_is_reported() -> None:
    claims = [{"name": "cards", "resourceClaimTemplateName": "absent"}, {"name": "more", "resourceClaimName": "none"}]
    missing: Object = {("ResourceClaimTemplate", "absent"): None, ("ResourceClaim", "none"): None}
    evidence = replace(waiting(gpu_nodes(1), 0, resourceClaims=claims), device_claims=missing)
    answer = finding_of(evidence)
    assert answer.cause == "resource-claim-missing"
    assert "there is no ResourceClaimTemplate absent in" in answer.message
    assert "(nor none)" in answer.message
    # Before the scheduler has set a condition.
    (pod,) = copy.deepcopy(evidence.pods)
    pod["status"].pop("conditions")
    job = Job(evidence.job.identity, evidence.job.workload, [pod])
    assert finding_of(replace(evidence, job=job)).cause == "resource-claim-missing"
    # The claim cannot be read, and the controller has recorded an event.
    event = {
        "reason": "FailedResourceClaimCreation",
        "message": 'PodResourceClaim cards: resource claim template "absent" not finding_of',
        "involvedObject": {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "source": {"component": "resource_claim"},
        "lastTimestamp": "2026-11-26T12:00:00Z",
    }
    answer = finding_of(replace(evidence, job=job, device_claims={}, events=[event]))
    assert (answer.cause, 'resource claim template "absent" not finding_of' in answer.message) == (
        "resource-claim-missing",
        True,
    )


def test_all_missing_volume_claims_are_named() -> None:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("datasets", "output", "there")]
    claims: Object = {"datasets": None, "output": None, "there": {"status": {"phase": "Bound"}, "metadata": {}}}
    answer = finding_of(replace(waiting(gpu_nodes(), volumes=volumes), claims=claims))
    assert answer.cause == "claim-missing"
    assert "there are no PersistentVolumeClaims datasets and output in" in answer.message
    assert answer.fix is not None
    assert answer.fix.startswith("create the claims datasets and output")


def test_pods_of_different_roles_that_wait_for_the_same_are_counted_together() -> None:
    evidence = waiting(gpu_nodes(), volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "corpus"}}])
    (pod,) = evidence.job.pods
    others = []
    for place, gpus in enumerate((2, 0)):
        other = copy.deepcopy(pod)
        other["metadata"].update(name=f"other-{place}", uid=f"other-{place}")
        other["spec"]["containers"][0]["resources"]["limits"][GPU] = str(gpus)
        others.append(other)
    job = replace(evidence.job, pods=[pod, *others])
    answer = finding_of(replace(evidence, job=job, claims={"corpus": None}))
    assert (answer.cause, answer.numbers["waitingPods"]) == ("claim-missing", 3)
    assert answer.message.startswith("3 pods of 3 wait: there is no PersistentVolumeClaim corpus")


@pytest.mark.parametrize(
    ("difference", "cause"),
    [
        (
            {"initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"limits": {GPU: "7"}}}]},
            "gpu-shortage",
        ),
        ({"overhead": {"memory": "1Ti"}}, "memory-shortage"),
        (
            {
                "topologySpreadConstraints": [
                    {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
                ]
            },
            "topology-spread",
        ),
    ],
    ids=["sidecar", "overhead", "spread"],
)
def test_pods_that_other_nodes_can_run_are_not_identical(difference: Object, cause: str) -> None:
    """The older pod fits; the other role's pod does not."""
    evidence = waiting(gpu_nodes())
    (pod,) = evidence.job.pods
    other = copy.deepcopy(pod)
    other["metadata"].update(name="other", uid="other")
    other["spec"].update(difference)
    found = finding_of(replace(evidence, job=replace(evidence.job, pods=[pod, other])))
    assert (found.cause, found.pod) == (cause, "other")


def test_words_of_another_scheduler_are_quoted_if_nodes_have_room() -> None:
    """Volcano holds all pods of a group back for one that does not fit."""
    evidence = waiting(gpu_nodes(), schedulerName="volcano")
    said = "pod group is not ready, 2 Pending, 2 minAvailable"
    (pod,) = evidence.pods
    for item in pod["status"]["conditions"]:
        item["message"] = said
    found = finding_of(evidence)
    assert found.cause == "unknown"
    assert found.message == f"the scheduler volcano found no node, though gpu-1 seems to have room now: {said}"
