"""The objects that the service keeps in part give the same answers as whole objects: jobs, nodes, pools and quotas."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.api.job_detail_answers import JobMetrics, job_description
from gpuctl.api.job_list_answers import job_rows
from gpuctl.api.namespace_answers import NamespaceList
from gpuctl.api.node_answers import GpusOfNode, NodeItem
from gpuctl.api.node_label_answers import GpuLabels
from gpuctl.api.pool_answers import PoolReport
from gpuctl.api.quota_answers import QuotaList
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import WORKLOADS, labels_of
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.reading.jobs.job_facts import job_facts
from gpuctl.reading.jobs.job_objects import group_by_job
from gpuctl.reading.jobs.job_rows import platform_keys, rows_of_jobs
from gpuctl.reading.nodes.inventory import Inventory
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import read_nodes
from gpuctl.reading.nodes.pool_rows import read_pools
from gpuctl.reading.queues.namespace_rows import NamespaceLists, read_namespaces
from gpuctl.reading.queues.quota_rows import read_quotas
from gpuctl_server.mirror.job_board import ListedJob, job_id
from gpuctl_server.mirror.progress import _logging_pod
from gpuctl_server.mirror.trimming import Trimmer, malformed_reason
from properties.scale import examples
from support.why_records import RECORDED, load

Object = dict[str, Any]
GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SETTINGS = Settings()
KEYS = records(SETTINGS)
NAMES = platform_keys(SETTINGS, KEYS)
GPUS = PlatformGpus(SETTINGS)
TIMES = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:07Z", "2026-01-02T00:00:00Z"])
WORDS = st.sampled_from(["Error", "OOMKilled", "CrashLoopBackOff", "Evicted", "NodeLost", "Unschedulable", "x y\n z"])


@cache
def lowered() -> dict[str, list[Object]]:
    """Objects that the golden cases become, by kind."""
    found: dict[str, list[Object]] = {}
    for path in sorted(GOLDEN.glob("*/expected/**/*")):
        if not path.is_file():
            continue
        try:
            objects = list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))
        except (yaml.YAMLError, UnicodeDecodeError):
            continue
        for obj in objects:
            if isinstance(obj, dict) and {"apiVersion", "kind", "metadata"} <= obj.keys():
                found.setdefault(obj["kind"], []).append(obj)
    return found


def created(obj: Object, number: int, namespace: str = "team-a") -> Object:
    """Return an object as an API server has it, with all the fields that it adds."""
    obj = copy.deepcopy(obj)
    obj["metadata"] |= {
        "uid": f"uid-{obj['kind']}-{number}",
        "resourceVersion": str(number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "gpuctl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
    }
    obj["metadata"].setdefault("namespace", namespace)
    obj["metadata"]["annotations"] = {
        **(obj["metadata"].get("annotations") or {}),
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    return obj


def states() -> st.SearchStrategy[Object]:
    return st.one_of(
        st.just({}),
        st.fixed_dictionaries({"running": st.fixed_dictionaries({"startedAt": TIMES})}),
        st.fixed_dictionaries({"waiting": st.fixed_dictionaries({"reason": WORDS}, optional={"message": WORDS})}),
        st.fixed_dictionaries(
            {
                "terminated": st.fixed_dictionaries(
                    {"exitCode": st.sampled_from([0, 1, 137])},
                    optional={
                        "reason": WORDS,
                        "message": WORDS,
                        "signal": st.just(9),
                        "startedAt": TIMES,
                        "finishedAt": TIMES,
                    },
                )
            }
        ),
    )


def statuses(names: list[str]) -> st.SearchStrategy[list[Object]]:
    return st.tuples(
        *(
            st.fixed_dictionaries(
                {"name": st.just(name), "state": states(), "imageID": st.just("sha256:1")},
                optional={"ready": st.booleans(), "restartCount": st.integers(0, 9), "started": st.booleans()},
            )
            for name in names
        )
    ).map(list)


CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Ready", "PodScheduled", "Initialized"]),
            "status": st.sampled_from(["True", "False"]),
        },
        optional={"reason": WORDS, "message": WORDS, "lastTransitionTime": TIMES, "lastProbeTime": TIMES},
    ),
    max_size=3,
    unique_by=lambda item: item["type"],
)


def pod_of(workload: Object, template: Object, number: int, uid: int) -> Object:
    """Return a pod as the workload's controller makes it, without a status."""
    kind, owner, namespace = workload["kind"], workload["metadata"]["name"], workload["metadata"]["namespace"]
    metadata = {**(template.get("metadata") or {}), "name": f"{owner}-{number}", "namespace": namespace}
    pod = created({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}, uid)
    pod["metadata"]["ownerReferences"] = [
        {"kind": kind, "name": owner, "uid": "u", "controller": True, "apiVersion": "v1"}
    ]
    return pod


@st.composite
def pods_of(draw: st.DrawFn, workload: Object, first: int) -> list[Object]:
    """Pods of a workload, however far they are."""
    pods = []
    for template, _ in pod_templates(workload):
        for number in range(draw(st.integers(0, 3))):
            pod = pod_of(workload, template, number, first + number)
            spec = pod["spec"]
            pod["metadata"]["creationTimestamp"] = draw(TIMES)
            if draw(st.booleans()):
                spec["nodeName"] = draw(st.sampled_from(["n1", "n2"]))
            if draw(st.integers(0, 5)) == 0:
                pod["metadata"]["deletionTimestamp"] = draw(TIMES)
            names = [item["name"] for item in spec["containers"]]
            init = [item["name"] for item in spec.get("initContainers") or []]
            pod["status"] = draw(
                st.one_of(
                    st.just({}),
                    st.fixed_dictionaries(
                        {"phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])},
                        optional={
                            "conditions": CONDITIONS,
                            "containerStatuses": statuses(names),
                            "initContainerStatuses": statuses(init),
                            "podIP": st.just("10.0.0.1"),
                            "startTime": TIMES,
                            "reason": WORDS,
                            "message": WORDS,
                            "qosClass": st.just("Burstable"),
                        },
                    ),
                )
            )
            if draw(st.integers(0, 9)) == 0:
                del pod["status"]
            pods.append(pod)
    return pods


def golden_jobs() -> list[Object]:
    """Return the workloads of all golden cases."""
    return [obj for kind in WORKLOADS for obj in lowered().get(kind, ()) if KEYS.job_type in labels_of(obj)]


@st.composite
def worlds(draw: st.DrawFn) -> list[Object]:
    """A few jobs of golden cases with their Services, autoscalers and pods."""
    kinds = lowered()
    found: list[Object] = []
    for number, obj in enumerate(draw(st.lists(st.sampled_from(golden_jobs()), min_size=1, max_size=3)), 1):
        main = created({**obj, "metadata": {**obj["metadata"], "namespace": f"team-{number}"}}, number * 100)
        main["status"] = draw(
            st.sampled_from(
                [
                    {},
                    {
                        "conditions": [
                            {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                        ]
                    },
                    {
                        "conditions": [
                            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}
                        ]
                    },
                    {"readyReplicas": 1, "replicas": 2, "startTime": "2026-01-01T00:00:05Z"},
                ]
            )
        )
        found.append(main)
        found += draw(pods_of(main, number * 100 + 1))
        for kind in ("Service", "HorizontalPodAutoscaler"):
            for other in kinds.get(kind, ()):
                if labels_of(other).get("app") == labels_of(obj).get("app"):
                    found.append(
                        created(
                            {**other, "metadata": {**other["metadata"], "namespace": f"team-{number}"}},
                            number * 100 + 50,
                        )
                    )
    return found


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] in kinds]


def of_jobs(objects: list[Object]) -> list[Any]:
    """Return all answers about jobs."""
    jobs = group_by_job(of_kind(objects, *WORKLOADS), of_kind(objects, "Pod"), KEYS)
    told: list[Any] = [job_rows(rows_of_jobs(jobs, NAMES, by_job=by_job)).as_json() for by_job in (True, False)]
    for job in jobs:
        beside = [obj for obj in objects if obj["metadata"].get("namespace") == job.identity.namespace]
        scaler = next(iter(of_kind(beside, "HorizontalPodAutoscaler")), None)
        facts = job_facts(job, of_kind(beside, "Service"), scaler, NAMES, SETTINGS)
        described = job_description(facts.row.job_id, facts, JobMetrics(), facts.resources["gpuType"])
        told += [described.model_dump(), facts.row.state.word, facts.conditions, job_id(job)]
        listed_job = ListedJob(job_id(job), job, facts.row)
        speaker = _logging_pod(listed_job)
        told.append(None if speaker is None else speaker["metadata"]["uid"])
    return told


def of_nodes(objects: list[Object]) -> list[Any]:
    """Return all answers about nodes, pools, quotas and namespaces."""
    nodes, pods = of_kind(objects, "Node"), of_kind(objects, "Pod")
    states = read_nodes(nodes, pods, KEYS, GPUS)
    quotas, ranges = of_kind(objects, "ResourceQuota"), of_kind(objects, "LimitRange")
    inventory = Inventory(nodes, pods, of_kind(objects, "ConfigMap"))
    contents = NamespaceLists(of_kind(objects, "Namespace"), (), quotas, ranges, pods, of_kind(objects, *WORKLOADS))
    return [
        NodeItem.listed(states),
        GpusOfNode.listed(states),
        GpuLabels.listed(states),
        [PoolReport.model_validate(pool).as_json() for pool in read_pools(inventory, SETTINGS, KEYS)],
        QuotaList.of(read_quotas(quotas, ranges, SETTINGS, foreign=True)).as_json(),
        NamespaceList.of(
            item.row for item in read_namespaces(contents, SETTINGS, platform_keys(SETTINGS, KEYS))
        ).as_json(),
    ]


def assert_same(objects: list[Object]) -> None:
    before = copy.deepcopy(objects)
    assert [malformed_reason(obj) for obj in objects] == [None] * len(objects)
    trimmer = Trimmer()
    trimmed = [trimmer.trim(obj) for obj in objects]
    assert objects == before, "what was listed is not changed"
    for read in (of_jobs, of_nodes):
        whole = read(objects)
        assert read(trimmed) == whole
        # Reading changes nothing either: what is kept is shared by many.
        assert read(trimmed) == whole


def test_trimmed_pod_of_every_golden_job_reads_the_same() -> None:
    """Each field of a pod that a row shows, such as the GPU types of its required node affinity."""
    objects = []
    for number, obj in enumerate(golden_jobs()):
        job = created({**obj, "metadata": {**obj["metadata"], "namespace": f"team-{number}"}}, 100 * number)
        pods = [
            pod_of(job, template, place, 100 * number + place + 1)
            for place, (template, _) in enumerate(pod_templates(job))
        ]
        objects += [job, *pods]
    assert_same(objects)


@examples(25)
@given(worlds())
def test_trimmed_golden_jobs_read_the_same(objects: list[Object]) -> None:
    assert_same(objects)


@examples(25)
@given(worlds(), st.data())
def test_trimmed_nodes_pools_and_quotas_read_the_same(objects: list[Object], data: st.DataObject) -> None:
    resources = st.sampled_from(["nvidia.com/gpu", "huawei.com/Ascend910", "cpu", "memory", "pods"])
    amounts = st.dictionaries(resources, st.sampled_from(["0", "1", "8", "64", "2Ti", "1500m"]))
    for number, name in enumerate(("n1", "n2")):
        node_labels = {
            KEYS.pool: data.draw(st.sampled_from(["training-pool", "other"])),
            SETTINGS.label("gpu-type"): "A100",
        }
        objects.append(
            created(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": node_labels}}, 9000 + number
            )
            | {
                "spec": data.draw(
                    st.fixed_dictionaries({}, optional={"unschedulable": st.just(True), "podCIDR": st.just("x")})
                ),
                "status": {
                    "allocatable": data.draw(amounts),
                    "capacity": data.draw(amounts),
                    "conditions": [
                        {"type": "Ready", "status": data.draw(st.sampled_from(["True", "False", "Unknown"]))}
                    ],
                    "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Ubuntu", "kernelVersion": "5"},
                    "images": [{"names": ["x"], "sizeBytes": 1}],
                },
            }
        )
    for kind in ("ResourceQuota", "LimitRange", "Namespace", "ConfigMap"):
        chosen = data.draw(st.lists(st.sampled_from(lowered().get(kind) or [None]), max_size=2))
        objects += [
            created(
                {**obj, "metadata": {**obj["metadata"], "name": f"{obj['metadata']['name']}-{number}"}}, 9500 + number
            )
            for number, obj in enumerate(chosen)
            if obj is not None and (kind != "ConfigMap" or KEYS.pool in labels_of(obj))
        ]
    assert_same(objects)


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda path: path.stem)
def test_trimmed_recorded_jobs_read_the_same(path: Path) -> None:
    """Recorded from control planes: all fields that controllers and kubelet write."""
    evidence, _ = load(path)
    job = evidence.job
    nodes = [node for node in evidence.nodes.values() if node is not None]
    objects = [*([job.workload] if job.workload else []), *job.pods, *nodes, *(evidence.quotas or [])]
    kinds = {id(node): ("v1", "Node") for node in nodes} | {id(pod): ("v1", "Pod") for pod in job.pods}
    kinds |= {id(quota): ("v1", "ResourceQuota") for quota in evidence.quotas or []}
    named = [
        {"apiVersion": kinds.get(id(obj), ("", ""))[0], "kind": kinds.get(id(obj), ("", ""))[1], **obj}
        for obj in objects
    ]
    assert_same(json.loads(json.dumps(named)))
    assert job_rows(rows_of_jobs([job], NAMES)).total
