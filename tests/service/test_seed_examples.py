"""Replay every API example that the product's documents print, and compare the answer with the printed one.

``seed_examples/`` holds the examples, one file each: method, path, parameters, body, status and answer, without the
comments between the lines. For each example ``REPLAYS`` states:

- the objects of this cluster that replace the names in its path,
- how the cluster is prepared,
- which values differ from the printed ones, and why.

Other files test answers beyond the printed ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from websockets.sync.client import connect

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import fresh_namespaces
from support.documents_sent import YAML
from support.node_world import POOL, TYPE
from support.printed_answers import differences
from support.prometheus_server import Exporter, running_prometheus
from support.seed_world import MODEL, NVIDIA_TYPE, TEAM, documents, populated
from support.served import Served, serving

EXAMPLES = {
    path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "seed_examples").glob("*.json"))
}
TABLE = json.loads((Path(__file__).parent / "seed_examples" / "tables" / "2-readme.json").read_text())["operations"]
GOLDEN = Path(__file__).resolve().parents[2] / "golden"
WRITER_S = "seed-writer"
USERS = {
    "admin": ("admin", None, None),
    "writer": ("user", (WRITER_S,), None),
    "viewer": ("viewer", None, None),
}
JOB = "qwen2-7b-sft"
DESCRIPTIONS = {"training-pool": "用于模型训练的资源池", "inference-pool": "用于推理服务的资源池"}
REST = """\
environment:
  image: registry.example.com/llama-factory-deepspeed:v0.8.0
  command: ["llama-factory-cli", "train", "--stage", "sft"]
resources:
  pool: training-pool
  gpu: 4
  gpu-type: a100-80g
  cpu: 32
  memory: 128Gi
"""
"""Text that replaces ``...`` in the documents of the examples; the fields are those of the printed answers."""
LOG = "2024-06-01 10:06:00 [INFO] Starting training...\n2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87\n"
BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""


class World:
    """The cluster of the examples and a service for it."""

    def __init__(self, plane: ControlPlane, api: Api, served: Served, job_id: str) -> None:
        self.plane, self.api, self.served, self.job_id = plane, api, served, job_id

    def label(self, node: str, key: str, value: str | None) -> None:
        """Set or delete a label through the service, so that its mirror has the change."""
        name = quote(key, safe="")
        if value is None:
            assert self.served.client().delete(f"/nodes/{node}/labels/{name}").status_code in {200, 404}
        else:
            body = {"key": key, "value": value, "overwrite": True}
            self.served.call("POST", f"/nodes/{node}/labels", json=body)

    def submit(self) -> str:
        """Submit the job of the examples again, in the writer's namespace; return its id."""
        content = f"kind: training\nversion: v0.1\njob:\n  name: {JOB}\n{REST}"
        made = self.served.call("POST", "/jobs", "writer", status=201, content=content, headers=YAML)
        return str(made["jobId"])

    def clear(self) -> None:
        """Delete the writer's jobs and wait until they hold no GPUs."""
        for item in self.served.get("/jobs", namespace=WRITER_S)["items"]:
            self.served.client().delete(f"/jobs/{item['jobId']}", params={"force": "true"})
        self.served.until("/jobs", lambda value: value["total"] == 0, namespace=WRITER_S)
        self.served.until("/pools/training-pool", lambda value: value["gpuUsed"] == 16)


@pytest.fixture(scope="module")
def world(plane: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Build what the examples name: pools, nodes, labels, a running job with logs, and a Prometheus with its metrics."""
    directory = tmp_path_factory.mktemp("seeds")
    with populated(plane):
        plane.kubectl("delete", "pod", f"{JOB}-abcde", "-n", TEAM, "--force", "--grace-period=0")
        plane.kubectl("label", "node", "node-1", "node-2", "node-6", f"{TYPE}=a100-80g")
        plane.kubectl("label", "node", "node-4", f"{NVIDIA_TYPE}=t4")
        fresh_namespaces(plane, WRITER_S)
        with serving(_new_directory(directory / "before"), plane.kubeconfig(), USERS) as before:
            pod, job_id = _create_pools_and_job(plane, before)
        exporter = Exporter()
        exporter.lines += _exporter_lines(pod)
        latency = {"networkLatency": {"query": 'avg(latency{pod=~"$pods"})', "text": "{value}ms"}}
        latency["throughput"] = {"query": 'sum(tokens{pod=~"$pods"})', "text": "{value} tokens/sec"}
        with (
            running_prometheus(directory, history=_metric_history(pod), targets=[exporter.address]) as url,
            serving(
                _new_directory(directory / "own"),
                plane.kubeconfig(),
                USERS,
                prometheus=url,
                metrics=json.dumps(latency),
            ) as own,
        ):
            own.until(f"/jobs/{job_id}", lambda value: value["metrics"]["throughput"] is not None)
            own.until("/jobs", _has_progress, namespace=TEAM, kind="training")
            yield World(plane, api, own, job_id)
        exporter.close()
        plane.kubectl("delete", "namespace", WRITER_S, "--wait=false")
        plane.kubectl("delete", "job", JOB, "-n", TEAM, "--cascade=foreground")


def _new_directory(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _create_pools_and_job(plane: ControlPlane, served: Served) -> tuple[str, str]:
    """Create the pools and a job that runs on node-1 and has printed logs; return its pod and its id."""
    for document in documents():
        name = document["pool"]["name"]
        pool = {**document["pool"], "description": DESCRIPTIONS.get(name, "")}
        served.call("POST", "/pools", status=201, json={**document, "pool": pool})
    content = (
        f"kind: training\nversion: v0.1\njob:\n  name: {JOB}\n  namespace: {TEAM}\n{REST}"
        "podPatch: {nodeSelector: {kubernetes.io/hostname: node-1}}\n"
    )
    job_id = served.call("POST", "/jobs", status=201, content=content, headers=YAML)["jobId"]
    value = served.until(f"/jobs/{job_id}", lambda value: value["status"] == "running")
    [pod] = value["k8sResources"]["pods"]
    plane.write_log(TEAM, pod, f"{LOG}65%|######5   | 650/1000\n")
    return pod, str(job_id)


def _has_progress(value: Any) -> bool:
    return any(item["progress"] == 65 for item in value["items"])


def _exporter_lines(pod: str) -> list[str]:
    """Return the exporter's current metrics. The job has four GPUs; their means are the values that the example prints."""
    lines = [f'latency{{pod="{pod}"}} 1.8', f'tokens{{pod="{pod}"}} 245']
    own = f',exported_namespace="{TEAM}",exported_pod="{pod}"'
    gpus = [(0, 89.2, 72, own), (1, 91.5, 75, own), (2, 0, 0, ""), (3, 88, 62, own), (4, 88.1, 63, own)]
    for node, gpu, share, used, size, whose in (
        *(("node-1", gpu, share, used, 80, whose) for gpu, share, used, whose in gpus),
        ("node-3", 0, 0, 0, 40, ""),
    ):
        labels = f'{{gpu="{gpu}",Hostname="{node}"{whose}}}'
        amounts = {"GPU_UTIL": share, "FB_USED": used * 1024, "FB_FREE": (size - used) * 1024, "FB_TOTAL": size * 1024}
        lines += [f"DCGM_FI_DEV_{name}{labels} {value}" for name, value in amounts.items()]
    return lines


def _metric_history(pod: str) -> str:
    """Return the measurements at the times of the example."""
    labels = f'{{gpu="0",exported_namespace="{TEAM}",exported_pod="{pod}"}}'
    lines = []
    for name, values in {"GPU_UTIL": (75.2, 89.2), "FB_USED": (65 * 1024, 68 * 1024)}.items():
        lines.append(f"# TYPE DCGM_FI_DEV_{name} gauge")
        lines += [f"DCGM_FI_DEV_{name}{labels} {value} {BEGIN + 300 * (n + 1)}" for n, value in enumerate(values)]
    return "\n".join(lines)


# The table --------------------------------------------------------------------------------------------------

Names = Mapping[str, str]


def running_job(world: World) -> Names:
    return {"jobId": world.job_id}


def new_job(world: World) -> Names:
    """Create a job that the example may change."""
    return {"jobId": world.submit()}


def paused_job(world: World) -> Names:
    job_id = world.submit()
    world.served.call("POST", f"/jobs/{job_id}/pause", "writer")
    return {"jobId": job_id}


def no_preparation(world: World) -> Names:
    """Leave the cluster unchanged."""
    return {}


def training_pool(world: World) -> Names:
    return {"poolName": "training-pool"}


def pool_without_definition(world: World) -> Names:
    """Delete the pool's definition; its nodes keep their labels."""
    world.served.client().delete("/pools/experiment-pool", params={"confirm": "true"})
    for node in ("node-4", "node-5"):
        world.label(node, POOL, "experiment-pool")
    return {}


def node_labelled(world: World) -> Names:
    """Give the node the label of the examples."""
    world.label("node-1", NVIDIA_TYPE, "a100-80g")
    return {"nodeName": "node-1", "key": NVIDIA_TYPE}


def node_with_other_label(world: World) -> Names:
    """Give the node another GPU type."""
    world.label("node-1", NVIDIA_TYPE, "a100-40g")
    return {"nodeName": "node-1", "key": NVIDIA_TYPE}


def node_without_label(world: World) -> Names:
    """Remove the label from the node."""
    world.label("node-1", NVIDIA_TYPE, None)
    return {"nodeName": "node-1", "key": NVIDIA_TYPE}


def nodes_without_model(world: World) -> Names:
    """Remove the label from the nodes of the batch."""
    for node in ("node-2", "node-3"):
        world.label(node, MODEL, None)
    return {}


@dataclass(frozen=True)
class Replay:
    """The way to replay an example.

    before: prepares the cluster and returns the names in the path.
    otherwise: values that differ from the printed ones, as regular expressions.
    renamed: printed names and the names to send instead.
    """

    before: Callable[[World], Names] = no_preparation
    user: str = "admin"
    otherwise: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


POOL_LABEL = {"labels[gpuctl/pool]": r".*'key': 'runwhere.ai/pool', 'value': 'training-pool'.*"}
"""The domain of labels is the platform's instead of ``gpuctl``."""
MORE_NODES = {"total": r"\d+"}
"""The cluster has more than five nodes."""
THIRD_GPU_USED = {"gpuDetail[gpu-2].status": "used"}
"""Kubernetes reports how many GPUs are allocated, not which: with four of them the third is shown as used."""

REPLAYS: dict[str, Replay] = {
    "7.2.1-1-create-job": Replay(user="writer"),
    "7.2.1-2-create-job-batch": Replay(user="writer"),
    "7.2.1-3-list-jobs": Replay(otherwise={"total": r"\d+"}),
    # A Job has the job's name, and a training on one node has one pod.
    "7.2.1-4-get-job": Replay(
        running_job, otherwise={"k8sResources.jobName": JOB, "k8sResources.pods": rf"\['{JOB}-[a-z0-9]{{5}}'\]"}
    ),
    "7.2.1-5-delete-job": Replay(new_job, "writer"),
    "7.2.1-6-pause-job": Replay(new_job, "writer"),
    "7.2.1-6-resume-job": Replay(paused_job, "writer"),
    "7.2.2-1-list-pools": Replay(),
    "7.2.2-2-get-pool": Replay(training_pool),
    "7.2.2-3-create-pool": Replay(pool_without_definition),
    # In nanoseconds, so that ``since`` can continue after it.
    "7.2.3-1-job-logs": Replay(running_job, otherwise={"lastTimestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"}),
    "7.2.3-2-job-metrics": Replay(running_job),
    "7.2.4-1-check-right": Replay(user="writer"),
    "7.2.5-1-list-nodes": Replay(node_labelled, otherwise=MORE_NODES),
    # kwok reports empty system information for a node.
    "7.2.5-2-get-node": Replay(
        node_labelled,
        otherwise={**POOL_LABEL, **THIRD_GPU_USED, "k8sStatus.kernelVersion": "", "k8sStatus.osImage": ""},
    ),
    "7.2.5-3-gpu-detail": Replay(
        otherwise={**MORE_NODES, "items[node-1].gpus[gpu-2].status": THIRD_GPU_USED["gpuDetail[gpu-2].status"]}
    ),
    "7.2.5-4-label-of-all-nodes": Replay(node_labelled, otherwise=MORE_NODES),
    "7.2.6-1-set-label": Replay(node_without_label),
    "7.2.6-1-set-label-conflict": Replay(node_with_other_label),
    "7.2.6-2-set-label-batch": Replay(nodes_without_model),
    # The printed name of the missing node is node-3, which exists here.
    "7.2.6-2-set-label-batch-partly": Replay(nodes_without_model, renamed={"node-3": "node-33"}),
    "7.2.6-3-get-label": Replay(node_labelled),
    "7.2.6-3-get-label-not-found": Replay(node_without_label),
    "7.2.6-4-gpu-labels": Replay(node_labelled, otherwise=MORE_NODES),
    "7.2.6-5-delete-label": Replay(node_labelled),
    "7.2.6-5-delete-label-not-found": Replay(node_without_label),
}
WITHOUT_EXAMPLE = {
    ("DELETE", "/pools/{poolName}"),
    ("GET", "/quotas"),
    ("GET", "/quotas/{userName}"),
    ("POST", "/quotas"),
    ("DELETE", "/quotas/{userName}"),
}
"""The tables list these operations without an example: ``test_quick_start_pool_and_quota_are_created`` calls them."""


def test_every_printed_operation_is_replayed() -> None:
    assert REPLAYS.keys() == EXAMPLES.keys()
    replayed = {(example["method"], example["path"]) for example in EXAMPLES.values()}
    assert {tuple(operation) for operation in TABLE} - replayed == WITHOUT_EXAMPLE


# Documents of the quick start ---------------------------------------------------------------------------------

QUICK_START = ("training-job", "inference-service", "notebook-job", "nginx-job")


def printed_document(name: str) -> str:
    """Return a document exactly as the quick start prints it."""
    [path] = (GOLDEN / f"seed-readme-{name}" / "input").iterdir()
    return path.read_text()


@pytest.fixture
def without_quick_start_objects(served: Served) -> Iterator[None]:
    """Delete the objects that the quick start creates, before and after the test."""

    def remove() -> None:
        for path in ("/pools/training-pool", "/quotas/elon-musk", "/quotas/sam-altman"):
            served.client().delete(path, params={"confirm": "true"})

    remove()
    yield
    remove()


@pytest.mark.usefixtures("without_quick_start_objects")
def test_quick_start_pool_and_quota_are_created(served: Served, api: Api, plane: ControlPlane) -> None:
    """Create a pool and a quota from YAML, and call the operations that the tables list without an example."""
    made = served.call("POST", "/pools", status=201, content=printed_document("train-pool"), headers=YAML)
    assert differences({**EXAMPLES["7.2.2-3-create-pool"]["answer"], "name": "training-pool"}, made) == []
    assert served.get("/pools/training-pool")["description"] == "训练任务专用资源池"
    assert served.call("DELETE", "/pools/training-pool")["status"] == "deleted"
    made = served.call("POST", "/quotas", status=201, content=printed_document("quota-config"), headers=YAML)
    assert differences({"name": "team-resource-quota", "status": "created", "message": "..."}, made) == []
    users = {"elon-musk", "sam-altman"}
    assert users <= {item["namespace"] for item in served.get("/quotas")["items"]}
    limits = {item["name"]: item["total"] for item in served.get("/quotas/elon-musk")["resources"]}
    assert limits == {"cpu": 10, "memory": 20 << 30, "gpu": 4}
    for user in users:
        assert served.call("DELETE", f"/quotas/{user}")["status"] == "deleted"
        served.get(f"/quotas/{user}", status=404)


@pytest.mark.parametrize("name", QUICK_START)
def test_quick_start_job_is_created(served: Served, name: str) -> None:
    text = printed_document(name)
    document = yaml.safe_load(text)
    made = served.call("POST", "/jobs", "anna", status=201, content=text, headers=YAML)
    job = document["job"]["name"]
    expected = {**EXAMPLES["7.2.1-1-create-job"]["answer"], "jobId": f"{job}-xxxxx", "name": job}
    try:
        assert differences({**expected, "kind": document["kind"]}, made) == []
        assert served.get(f"/jobs/{made['jobId']}", "anna")["pool"] == document["resources"]["pool"]
    finally:
        served.call("DELETE", f"/jobs/{made['jobId']}", "anna", params={"force": "true"})
        served.until("/jobs", lambda value: job not in {item["name"] for item in value["items"]}, "anna")


# The examples -------------------------------------------------------------------------------------------------


def expand_document(value: Any, renamed: Mapping[str, str]) -> Any:
    """Return a printed value with ``...`` in documents expanded and with other names."""
    text = json.dumps(value, ensure_ascii=False)
    for name, other in renamed.items():
        text = re.sub(rf"\b{name}\b", other, text)
    return json.loads(text.replace("\\n...", json.dumps(f"\n{REST}")[1:-1]))


def forms_of(example: Mapping[str, Any]) -> list[str]:
    return ["json", "yaml", "accept"] if example["method"] == "GET" else ["json", "yaml"]


@pytest.mark.parametrize(("name", "form"), [(name, form) for name in EXAMPLES for form in forms_of(EXAMPLES[name])])
def test_example_gets_the_printed_answer(world: World, name: str, form: str) -> None:
    """In JSON and in YAML: documents of jobs by their content type, answers by the header or the parameter."""
    example, replay = EXAMPLES[name], REPLAYS[name]
    world.clear()
    names = replay.before(world)
    path = example["path"].format_map({key: quote(value, safe="") for key, value in names.items()})
    given: dict[str, Any] = {"params": dict(example.get("query", {})), "headers": {}}
    if "body" in example:
        body = expand_document(example["body"], replay.renamed)
        if form == "yaml" and "yamlContent" in body:
            given |= {"content": body["yamlContent"], "headers": dict(YAML)}
        else:
            given["json"] = body
    if form == "accept":
        given["params"]["accept"] = "application/yaml"
    elif form == "yaml":
        given["headers"]["Accept"] = "application/yaml"
    answer = world.served.client(replay.user).request(example["method"], path, **given)
    assert answer.status_code == example["status"], answer.text
    assert answer.headers["content-type"].startswith("application/json" if form == "json" else "application/yaml")
    value = answer.json() if form == "json" else yaml.safe_load(answer.text)
    printed = json.loads(json.dumps(example["answer"]))
    for old, new in replay.renamed.items():
        printed = json.loads(re.sub(rf"\b{old}\b", new, json.dumps(printed)))
    assert differences(printed, value, replay.otherwise) == []
    if "total" in value:
        query = example.get("query", {})

        def is_total(everything: Any) -> bool:
            # Jobs of other tests may still be terminating.
            told = world.served.call("GET", path, replay.user, params=query)["total"]
            return bool(told == len(everything["items"]))

        # These lists have no pages.
        pages = {} if path in ("/pools", "/quotas") else {"pageSize": 1000}
        world.served.until(path, is_total, replay.user, **{**query, **pages})


def test_paused_job_is_kept_and_runs_after_resume(world: World) -> None:
    """The messages of the examples promise the same in other words."""
    world.clear()
    job_id = world.submit()
    for path, status in (("pause", "paused"), ("resume", "running")):
        world.served.call("POST", f"/jobs/{job_id}/{path}", "writer")
        world.served.until(f"/jobs/{job_id}", lambda value, status=status: value["status"] == status, "writer")
    world.clear()


PARAMETER_VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    "/jobs": {
        "kind": ("training", "inference", "notebook"),
        "pool": ("training-pool",),
        "status": ("pending", "running", "succeeded", "failed"),
    },
    "/jobs/{jobId}/logs": {"follow": ("false",), "tail": ("100",), "pod": ("the-pod",)},
    "/jobs/{jobId}/metrics": {
        "metric": ("gpuUtilization", "memoryUsage", "throughput"),
        "startTime": ("2024-06-01T10:00:00Z",),
        "endTime": ("2024-06-01T10:10:00Z",),
    },
    "/nodes": {
        "pool": ("training-pool",),
        "gpuType": ("a100-80g",),
        "status": ("active", "maintaining", "faulty"),
        "accept": ("application/json",),
    },
}
"""Query parameters of reads, with the values that are printed for them; ``the-pod`` stands for the job's pod."""


@pytest.mark.parametrize("path", PARAMETER_VALUES)
def test_printed_parameter_values_filter_the_answer(world: World, path: str) -> None:
    where = path.format(jobId=world.job_id)

    def everything() -> Any:
        query = {"pageSize": 1000} if path in {"/jobs", "/nodes"} else {"startTime": "2024-06-01T10:00:00Z"}
        return world.served.call("GET", where, params=query if "logs" not in path else {})

    [pod] = world.served.get(f"/jobs/{world.job_id}")["k8sResources"]["pods"]
    for name, values in PARAMETER_VALUES[path].items():
        for value in (pod if name == "pod" and text == "the-pod" else text for text in values):
            begin = {"startTime": "2024-06-01T10:00:00Z"} if name in {"metric", "endTime"} else {}
            query = {**begin, name: value}
            found = world.served.call("GET", where, params=query)
            if name == "metric":
                assert found.keys() == {value}
            elif "items" in found and name in {"kind", "status"}:
                # Jobs of other tests may still be terminating.
                world.plane.wait_for(
                    lambda name=name, value=value, query=query: (
                        world.served.call("GET", where, params={**query, "pageSize": 1000})["items"]
                        == [item for item in everything()["items"] if item[name] == value]
                    ),
                    f"the list of {name} {value}",
                )
            elif name == "pool":
                assert found["total"] < everything()["total"]


def test_followed_logs_are_sent_over_a_websocket(world: World) -> None:
    """The same path with ``follow=true`` and the header: each line of the example is one frame."""
    url = f"{world.served.url.replace('http', 'ws', 1)}/api/v1/jobs/{world.job_id}/logs?follow=true"
    header = {"Authorization": f"Bearer {world.served.tokens['viewer']}"}
    with connect(url, additional_headers=header) as socket:
        frames = [json.loads(socket.recv(timeout=60)) for _ in range(2)]
    assert [frame["text"] for frame in frames] == EXAMPLES["7.2.3-1-job-logs"]["answer"]["logs"]


# The statuses ---------------------------------------------------------------------------------------------------


def test_statuses_of_the_printed_error_causes(world: World, tmp_path: Path) -> None:
    """The statuses of "状态码规范" by their printed causes. The document prints 500 for a failing cluster; the service
    returns 503.
    """
    served = world.served
    for text in ("kind: training\n  name: [", "kind: training\nversion: v0.1\n"):
        assert served.call("POST", "/jobs", status=400, json={"yamlContent": text})["error"]
        assert served.call("POST", "/jobs", status=400, content=text, headers=YAML)["error"]
    served.get("/jobs", "", status=401)
    wrong = served.client("").get("/jobs", headers={"Authorization": "Bearer gpuctl_wrong"})
    assert (wrong.status_code, wrong.json()["error"]) == (401, "Unauthorized")
    pool = EXAMPLES["7.2.2-3-create-pool"]["body"]
    for user in ("writer", "viewer"):
        assert served.call("POST", "/pools", user, status=403, json=pool)["error"] == "Forbidden"
    assert served.get("/jobs/not-there-00000", status=404)["error"] == "NotFound"
