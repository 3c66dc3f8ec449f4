"""Every example that the product's documents print of the API, sent as printed; the answer is the printed one.

``seed_examples/`` has them, a file each: method, path, parameters, body, status and answer, without the comments between
the lines. ``REPLAYS`` says of each what in this world stands for the names of its path, how the world has to be before
it, and what is answered otherwise than printed, and why. What answers have beyond it is the subject of the other files.
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
"""What ``...`` stands for in the documents of the examples; the fields are those of the printed answers."""
LOG = "2024-06-01 10:06:00 [INFO] Starting training...\n2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87\n"
BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""


class World:
    """The cluster of the examples, with the service before it."""

    def __init__(self, plane: ControlPlane, api: Api, served: Served, job_id: str) -> None:
        self.plane, self.api, self.served, self.job_id = plane, api, served, job_id

    def label(self, node: str, key: str, value: str | None) -> None:
        """Set or delete a label; the service knows it."""
        name = quote(key, safe="")
        if value is None:
            assert self.served.client().delete(f"/nodes/{node}/labels/{name}").status_code in {200, 404}
        else:
            body = {"key": key, "value": value, "overwrite": True}
            self.served.call("POST", f"/nodes/{node}/labels", json=body)

    def submit(self) -> str:
        """The job of the examples once more, in the writer's namespace; its id."""
        content = f"kind: training\nversion: v0.1\njob:\n  name: {JOB}\n{REST}"
        made = self.served.call("POST", "/jobs", "writer", status=201, content=content, headers=YAML)
        return str(made["jobId"])

    def clear(self) -> None:
        """The writer has no jobs, and no pods that hold GPUs."""
        for item in self.served.get("/jobs", namespace=WRITER_S)["items"]:
            self.served.client().delete(f"/jobs/{item['jobId']}", params={"force": "true"})
        self.served.until("/jobs", lambda value: value["total"] == 0, namespace=WRITER_S)
        self.served.until("/pools/training-pool", lambda value: value["gpuUsed"] == 16)


@pytest.fixture(scope="module")
def world(plane: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """What the examples name: pools, nodes, labels, a job that runs and prints, and a Prometheus that measures it."""
    directory = tmp_path_factory.mktemp("seeds")
    with populated(plane):
        plane.kubectl("delete", "pod", f"{JOB}-abcde", "-n", TEAM, "--force", "--grace-period=0")
        plane.kubectl("label", "node", "node-1", "node-2", "node-6", f"{TYPE}=a100-80g")
        plane.kubectl("label", "node", "node-4", f"{NVIDIA_TYPE}=t4")
        fresh_namespaces(plane, WRITER_S)
        with serving(_made(directory / "before"), plane.kubeconfig(), USERS) as before:
            pod, job_id = _submitted(plane, before)
        exporter = Exporter()
        exporter.lines += _measured(pod)
        latency = {"networkLatency": {"query": 'avg(latency{pod=~"$pods"})', "text": "{value}ms"}}
        latency["throughput"] = {"query": 'sum(tokens{pod=~"$pods"})', "text": "{value} tokens/sec"}
        with (
            running_prometheus(directory, history=_history(pod), targets=[exporter.address]) as url,
            serving(
                _made(directory / "own"), plane.kubeconfig(), USERS, prometheus=url, metrics=json.dumps(latency)
            ) as own,
        ):
            own.until(f"/jobs/{job_id}", lambda value: value["metrics"]["throughput"] is not None)
            own.until("/jobs", _has_progress, namespace=TEAM, kind="training")
            yield World(plane, api, own, job_id)
        exporter.close()
        plane.kubectl("delete", "namespace", WRITER_S, "--wait=false")
        plane.kubectl("delete", "job", JOB, "-n", TEAM, "--cascade=foreground")


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _submitted(plane: ControlPlane, served: Served) -> tuple[str, str]:
    """The pools and the job, which runs on node-1 and has printed something: its pod and its id."""
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


def _measured(pod: str) -> list[str]:
    """What an exporter says now. The job has four GPUs; what they do in the mean is what its description prints."""
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


def _history(pod: str) -> str:
    """What was measured at the times of the example."""
    labels = f'{{gpu="0",exported_namespace="{TEAM}",exported_pod="{pod}"}}'
    lines = []
    for name, values in {"GPU_UTIL": (75.2, 89.2), "FB_USED": (65 * 1024, 68 * 1024)}.items():
        lines.append(f"# TYPE DCGM_FI_DEV_{name} gauge")
        lines += [f"DCGM_FI_DEV_{name}{labels} {value} {BEGIN + 300 * (n + 1)}" for n, value in enumerate(values)]
    return "\n".join(lines)


# The table --------------------------------------------------------------------------------------------------

Names = Mapping[str, str]


def the_job(world: World) -> Names:
    """That which runs."""
    return {"jobId": world.job_id}


def another_job(world: World) -> Names:
    """One that may be changed."""
    return {"jobId": world.submit()}


def a_paused_job(world: World) -> Names:
    """One that can be resumed."""
    job_id = world.submit()
    world.served.call("POST", f"/jobs/{job_id}/pause", "writer")
    return {"jobId": job_id}


def nothing(world: World) -> Names:
    """The world as it is."""
    return {}


def the_pool(world: World) -> Names:
    """That with everything."""
    return {"poolName": "training-pool"}


def no_pool(world: World) -> Names:
    """There are the nodes, and no definition."""
    world.served.client().delete("/pools/experiment-pool", params={"confirm": "true"})
    for node in ("node-4", "node-5"):
        world.label(node, POOL, "experiment-pool")
    return {}


def labelled(world: World) -> Names:
    """The node has the label of the examples."""
    world.label("node-1", NVIDIA_TYPE, "a100-80g")
    return {"nodeName": "node-1", "key": NVIDIA_TYPE}


def labelled_otherwise(world: World) -> Names:
    """The node has another type."""
    world.label("node-1", NVIDIA_TYPE, "a100-40g")
    return {"nodeName": "node-1", "key": NVIDIA_TYPE}


def not_labelled(world: World) -> Names:
    """The node has no such label."""
    world.label("node-1", NVIDIA_TYPE, None)
    return {"nodeName": "node-1", "key": NVIDIA_TYPE}


def no_models(world: World) -> Names:
    """The nodes of the batch have no such label."""
    for node in ("node-2", "node-3"):
        world.label(node, MODEL, None)
    return {}


@dataclass(frozen=True)
class Replay:
    """How an example is sent: ``before`` gives the names of its path, ``otherwise`` is what is not as printed."""

    before: Callable[[World], Names] = nothing
    user: str = "admin"
    otherwise: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


POOL_OF_LABELS = {"labels[gpuctl/pool]": r".*'key': 'runwhere.ai/pool', 'value': 'training-pool'.*"}
"""The domain of labels is the platform's, and not ``gpuctl``."""
ALL_OF_THE_NODES = {"total": r"\d+"}
"""The world has more than five."""
COUNTED = {"gpuDetail[gpu-2].status": "used"}
"""Kubernetes says how many GPUs are taken, and not which: with four of them the third counts as taken."""

REPLAYS: dict[str, Replay] = {
    "7.2.1-1-create-job": Replay(user="writer"),
    "7.2.1-2-create-job-batch": Replay(user="writer"),
    "7.2.1-3-list-jobs": Replay(otherwise={"total": r"\d+"}),
    # A Job is called as the job is, and a training on one node has one pod.
    "7.2.1-4-get-job": Replay(
        the_job, otherwise={"k8sResources.jobName": JOB, "k8sResources.pods": rf"\['{JOB}-[a-z0-9]{{5}}'\]"}
    ),
    "7.2.1-5-delete-job": Replay(another_job, "writer"),
    "7.2.1-6-pause-job": Replay(another_job, "writer"),
    "7.2.1-6-resume-job": Replay(a_paused_job, "writer"),
    "7.2.2-1-list-pools": Replay(),
    "7.2.2-2-get-pool": Replay(the_pool),
    "7.2.2-3-create-pool": Replay(no_pool),
    # To the nanosecond, so that ``since`` can go on behind it.
    "7.2.3-1-job-logs": Replay(the_job, otherwise={"lastTimestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"}),
    "7.2.3-2-job-metrics": Replay(the_job),
    "7.2.4-1-check-right": Replay(user="writer"),
    "7.2.5-1-list-nodes": Replay(labelled, otherwise=ALL_OF_THE_NODES),
    # What kwok reports of a node's system is empty.
    "7.2.5-2-get-node": Replay(
        labelled, otherwise={**POOL_OF_LABELS, **COUNTED, "k8sStatus.kernelVersion": "", "k8sStatus.osImage": ""}
    ),
    "7.2.5-3-gpu-detail": Replay(
        otherwise={**ALL_OF_THE_NODES, "items[node-1].gpus[gpu-2].status": COUNTED["gpuDetail[gpu-2].status"]}
    ),
    "7.2.5-4-label-of-all-nodes": Replay(labelled, otherwise=ALL_OF_THE_NODES),
    "7.2.6-1-set-label": Replay(not_labelled),
    "7.2.6-1-set-label-conflict": Replay(labelled_otherwise),
    "7.2.6-2-set-label-batch": Replay(no_models),
    # The node that is not there is called otherwise, as node-3 is.
    "7.2.6-2-set-label-batch-partly": Replay(no_models, renamed={"node-3": "node-33"}),
    "7.2.6-3-get-label": Replay(labelled),
    "7.2.6-3-get-label-not-found": Replay(not_labelled),
    "7.2.6-4-gpu-labels": Replay(labelled, otherwise=ALL_OF_THE_NODES),
    "7.2.6-5-delete-label": Replay(labelled),
    "7.2.6-5-delete-label-not-found": Replay(not_labelled),
}
ELSEWHERE = {
    ("DELETE", "/pools/{poolName}"),
    ("GET", "/quotas"),
    ("GET", "/quotas/{userName}"),
    ("POST", "/quotas"),
    ("DELETE", "/quotas/{userName}"),
}
"""Of these the tables have a line, and no example: ``test_what_the_quick_start_creates`` asks them."""


def test_the_table_is_complete() -> None:
    assert REPLAYS.keys() == EXAMPLES.keys()
    replayed = {(example["method"], example["path"]) for example in EXAMPLES.values()}
    assert {tuple(operation) for operation in TABLE} - replayed == ELSEWHERE


# Documents of the quick start ---------------------------------------------------------------------------------

QUICK_START = ("training-job", "inference-service", "notebook-job", "nginx-job")


def printed_document(name: str) -> str:
    """A document that the quick start prints, to the letter."""
    [path] = (GOLDEN / f"seed-readme-{name}" / "input").iterdir()
    return path.read_text()


@pytest.fixture
def unmade(served: Served) -> Iterator[None]:
    """What the quick start creates is not there, and does not stay either."""

    def remove() -> None:
        for path in ("/pools/training-pool", "/quotas/elon-musk", "/quotas/sam-altman"):
            served.client().delete(path, params={"confirm": "true"})

    remove()
    yield
    remove()


@pytest.mark.usefixtures("unmade")
def test_what_the_quick_start_creates(served: Served, api: Api, plane: ControlPlane) -> None:
    """A pool and a quota, as YAML; and what the tables of the API have besides."""
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


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("name", QUICK_START)
def test_a_job_of_the_quick_start(served: Served, api: Api, name: str, form: str) -> None:
    """To the letter, in both forms."""
    text = printed_document(name)
    document = yaml.safe_load(text)
    body: dict[str, Any] = {"content": text, "headers": YAML} if form == "yaml" else {"json": {"yamlContent": text}}
    made = served.call("POST", "/jobs", "anna", status=201, **body)
    job = document["job"]["name"]
    expected = {**EXAMPLES["7.2.1-1-create-job"]["answer"], "jobId": f"{job}-xxxxx", "name": job}
    try:
        assert differences({**expected, "kind": document["kind"]}, made) == []
        assert served.get(f"/jobs/{made['jobId']}", "anna")["pool"] == document["resources"]["pool"]
    finally:
        served.call("DELETE", f"/jobs/{made['jobId']}", "anna", params={"force": "true"})
        served.until("/jobs", lambda value: job not in {item["name"] for item in value["items"]}, "anna")


# The examples -------------------------------------------------------------------------------------------------


def filled(value: Any, renamed: Mapping[str, str]) -> Any:
    """A printed value with what ``...`` stands for in documents, and with other names."""
    text = json.dumps(value, ensure_ascii=False)
    for name, other in renamed.items():
        text = re.sub(rf"\b{name}\b", other, text)
    return json.loads(text.replace("\\n...", json.dumps(f"\n{REST}")[1:-1]))


def forms_of(example: Mapping[str, Any]) -> list[str]:
    return ["json", "yaml"] if "body" in example else ["json", "yaml", "accept"]


@pytest.mark.parametrize(("name", "form"), [(name, form) for name in EXAMPLES for form in forms_of(EXAMPLES[name])])
def test_the_example(world: World, name: str, form: str) -> None:
    """In JSON; and in YAML: bodies by their type, answers by the header or the parameter."""
    example, replay = EXAMPLES[name], REPLAYS[name]
    world.clear()
    names = replay.before(world)
    path = example["path"].format_map({key: quote(value, safe="") for key, value in names.items()})
    given: dict[str, Any] = {"params": dict(example.get("query", {})), "headers": {}}
    if "body" in example:
        body = filled(example["body"], replay.renamed)
        if form == "json":
            given["json"] = body
        else:
            # Documents of jobs are YAML as they are.
            content = body.get("yamlContent") or yaml.safe_dump(body, allow_unicode=True)
            given |= {"content": content, "headers": dict(YAML)}
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
            # Other tests' jobs may still be going.
            told = world.served.call("GET", path, replay.user, params=query)["total"]
            return bool(told == len(everything["items"]))

        # Some lists have no pages.
        pages = {} if path in ("/pools", "/quotas") else {"pageSize": 1000}
        world.served.until(path, is_total, replay.user, **{**query, **pages})


def test_pausing_keeps_the_job_and_resuming_brings_it_back(world: World) -> None:
    """What the messages of the examples say in other words."""
    world.clear()
    job_id = world.submit()
    for path, status in (("pause", "paused"), ("resume", "running")):
        world.served.call("POST", f"/jobs/{job_id}/{path}", "writer")
        world.served.until(f"/jobs/{job_id}", lambda value, status=status: value["status"] == status, "writer")
    world.clear()


PRINTED: dict[str, dict[str, tuple[str, ...]]] = {
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
"""The parameters of reading, with the values that are printed for them; a pod is called as it is here."""


@pytest.mark.parametrize("path", PRINTED)
def test_the_values_of_parameters(world: World, path: str) -> None:
    """Each by itself narrows what is answered to what it names."""
    where = path.format(jobId=world.job_id)

    def everything() -> Any:
        query = {"pageSize": 1000} if path in {"/jobs", "/nodes"} else {"startTime": "2024-06-01T10:00:00Z"}
        return world.served.call("GET", where, params=query if "logs" not in path else {})

    [pod] = world.served.get(f"/jobs/{world.job_id}")["k8sResources"]["pods"]
    for name, values in PRINTED[path].items():
        for value in (pod if name == "pod" and text == "the-pod" else text for text in values):
            begin = {"startTime": "2024-06-01T10:00:00Z"} if name in {"metric", "endTime"} else {}
            query = {**begin, name: value}
            found = world.served.call("GET", where, params=query)
            if name == "metric":
                assert found.keys() == {value}
            elif "items" in found and name in {"kind", "status"}:
                # Other tests' jobs may still be going.
                world.plane.wait_for(
                    lambda name=name, value=value, query=query: (
                        world.served.call("GET", where, params={**query, "pageSize": 1000})["items"]
                        == [item for item in everything()["items"] if item[name] == value]
                    ),
                    f"the list of {name} {value}",
                )
            elif name == "pool":
                assert found["total"] < everything()["total"]


def test_following_is_a_websocket(world: World) -> None:
    """The same path with ``follow=true``, with the header: each line of the example is a frame."""
    url = f"{world.served.url.replace('http', 'ws', 1)}/api/v1/jobs/{world.job_id}/logs?follow=true"
    header = {"Authorization": f"Bearer {world.served.tokens['viewer']}"}
    with connect(url, additional_headers=header) as socket:
        frames = [json.loads(socket.recv(timeout=60)) for _ in range(2)]
    assert [frame["text"] for frame in frames] == EXAMPLES["7.2.3-1-job-logs"]["answer"]["logs"]


# The statuses ---------------------------------------------------------------------------------------------------


def test_the_statuses(world: World, tmp_path: Path) -> None:
    """Of "状态码规范", by the causes that are printed; 500 is of a cluster that fails, which is 503 here."""
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
