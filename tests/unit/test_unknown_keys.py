"""Hints for fields that documents do not have: each line that they print is valid where they say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

import gpuctl
from gpuctl.frontend.chinese_names import CHINESE_NAMES
from gpuctl.language.kinds import KINDS
from gpuctl.language.reference import entries
from gpuctl.language.spelling import fold
from support.cluster_tools import merged

PLATFORM = (
    "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\ninference: {backend: lws}\nnetwork: {rdma: {resource: rdma/hca}}\n"
    "pools: [{name: p}]\nclusters: {here: {server: 'https://api.example.com:6443'}}\nroutes: {ingress: nginx}\n"
    "notify: {channels: {nlp: {format: slack}}, default: [nlp]}\nspot: {labels: {spot: 'true'}}\n"
)
HEAD = {"version": "v0.1", "job": {"name": "demo"}, "environment": {"image": "app:1"}}
SERVICES = ("inference", "notebook", "compute")
PLACEHOLDERS = {
    "URL": "https://git.example.com/x.git",
    "COMMIT": "5f1c0a4b" * 5,
    "NAME": "name",
    "IMAGE": "app:2",
    "NODE": "gpu-1",
    "COMMAND": "true",
    "SYSCTL": "net.core.somaxconn",
    "VALUE": "'1024'",
    "CLUSTER": "here",
    "HOST": "chat.example.com",
    "KEY": "token",
    "POOL": "p",
}
PROBE = {"httpGet": {"port": 8000, "path": "/"}}
OTHER_TOOLS = (
    *("cron", "crontab", "arrays", "tasks", "matrix", "grid", "hyperparameters", "workers", "launcher", "repo"),
    *("world_size", "gpus", "accelerator", "mem", "cpus", "shm_size", "partition", "docker_image", "cmd", "env_vars"),
    *("retry", "restart", "qos", "tags", "cluster", "data", "disk", "pvc", "hparams", "secrets", "email", "elastic"),
    *("metadata", "containers", "privileged", "ipc", "node", "use_spot", "working_dir", "ports"),
    *(
        "env_file",
        "repository",
        "run",
        "script",
        "entrypoint",
        "rdma",
        "infiniband",
        "datasets",
        "walltime",
        "time_limit",
    ),
)
POD_FIELDS: dict[str, Any] = {
    "activeDeadlineSeconds": 3600,
    "affinity": {"podAntiAffinity": {}},
    "automountServiceAccountToken": False,
    "dnsConfig": {"searches": ["example.com"]},
    "dnsPolicy": "Default",
    "enableServiceLinks": False,
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.example.com"]}],
    "hostIPC": True,
    "hostNetwork": True,
    "hostPID": True,
    "initContainers": [{"name": "a", "image": "b:1"}],
    "nodeName": "gpu-1",
    "nodeSelector": {"zone": "a"},
    "runtimeClassName": "nvidia",
    "schedulerName": "volcano",
    "securityContext": {"runAsUser": 1000},
    "serviceAccountName": "trainer",
    "shareProcessNamespace": True,
    "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}],
    "terminationGracePeriodSeconds": 120,
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
}
CONTAINER_FIELDS: dict[str, Any] = {
    "imagePullPolicy": "Always",
    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "startupProbe": PROBE,
    "stdin": True,
    "terminationMessagePath": "/dev/log",
    "tty": True,
    "volumeMounts": [],
}


def errors(document: dict[str, Any]) -> list[gpuctl.Diagnostic]:
    sources = [gpuctl.Source("platform.yaml", PLATFORM), gpuctl.Source("a.yaml", json.dumps(document))]
    return [item for item in gpuctl.compile(sources).diagnostics if item.severity == "error"]


def hint_for(kind: str, key: str, value: Any, block: str) -> str:
    """Return the hint for a key in a block; "" stands for the top of the document."""
    document = {"kind": kind, **HEAD, "resources": {"pool": "p"}}
    changed = {**document, block: {**document.get(block, {}), key: value}} if block else {**document, key: value}
    (error,) = (item for item in errors(changed) if item.code == "GPU203")
    return error.hint or ""


@pytest.mark.parametrize("kind", ["training", *SERVICES])
@pytest.mark.parametrize(
    ("key", "value"), [*POD_FIELDS.items(), *CONTAINER_FIELDS.items(), *((name, "x") for name in OTHER_TOOLS)]
)
@pytest.mark.parametrize("block", ["", "resources"])
def test_printed_line_is_valid(kind: str, key: str, value: Any, block: str) -> None:
    hint = hint_for(kind, key, value, block)
    if kind != "training" and not hint.startswith("write"):
        assert hint.startswith(("a training can have", "the fields here are", "did you mean", "`"))
        return
    if hint.startswith(("did you mean", "remove it", "`")):
        return
    found = re.match(r"write `(.+?)` (?:in `(\w+)`|at the top of the document)", hint)
    assert found, hint
    line = found[1].replace("{...}", json.dumps(value)).replace("[...]", json.dumps(value))
    for name, text in PLACEHOLDERS.items():
        line = re.sub(rf"\b{name}\b", text, line)
    written = yaml.safe_load(re.sub(r"^on:", '"on":', line))
    document = {"kind": kind, **HEAD, "resources": {"pool": "p"}}
    found_errors = errors(merged(document, {found[2]: written} if found[2] else written))
    assert [item.message for item in found_errors] == [], hint


@pytest.mark.parametrize(
    ("kind", "key", "hint"),
    [
        ("training", "rdma", "write `network: {rdma: true}` in `resources`"),
        ("training", "hostNetwork", "write `network: {hostNetwork: true}` in `resources`"),
        ("inference", "livenessProbe", "write `liveness: /healthz` in `service`"),
        ("inference", "cron", 'a training can have `schedule: "0 2 * * *"` at its top'),
        (
            *("training", "nodeName"),
            "write `podPatch: {nodeSelector: {kubernetes.io/hostname: NODE}}` at the top of the document, or use a pool",
        ),
    ],
)
def test_hints_name_the_own_field(kind: str, key: str, hint: str) -> None:
    assert hint_for(kind, key, "x", "") == hint


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "training", **HEAD, "code": {"repo": "x"}},
        {"kind": "training", **HEAD, "profiles": {"large": {"code": {"repo": "x"}}}},
        {"kind": "platform", "version": "v0.1", "defaults": {"training": {"code": {"repo": "x"}}}},
    ],
    ids=["document", "profile", "defaults"],
)
def test_hint_for_a_key_is_that_of_its_block(document: dict[str, Any]) -> None:
    (error,) = gpuctl.compile(gpuctl.Source("a.yaml", json.dumps(document))).diagnostics
    assert error.hint == "did you mean `git`?"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("hostIPC", "write `podPatch: {hostIPC: x}` in `defaults.training`"),
        ("tty", "write `podPatch: {containers: [{name: main, tty: x}]}` in `defaults.training`"),
        ("securityContext", "write `security: {user: 1000}` in `defaults.training`; other fields go into `podPatch`"),
        ("schedule", "`schedule` belongs in `defaults.training`"),
    ],
)
def test_the_top_of_defaults_is_not_that_of_the_platform(key: str, hint: str) -> None:
    document = {"kind": "platform", "version": "v0.1", "defaults": {"training": {"resources": {key: "x"}}}}
    (error,) = gpuctl.compile(gpuctl.Source("a.yaml", json.dumps(document))).diagnostics
    assert error.hint == hint


@pytest.mark.parametrize("kind", ["training", "inference"])
def test_steps_are_one_program(kind: str) -> None:
    hint = hint_for(kind, "steps", [{"run": "python train.py"}], "")
    found = re.match(r"write one program in `environment`, such as `(.+?)`", hint)
    assert found, hint
    document = {"kind": kind, **HEAD, "environment": {"image": "app:1", **yaml.safe_load(found[1])}}
    assert errors(document) == []


CHINESE = """\
类型: training
版本: v0.1
任务: {名称: demo, 优先级: high}
环境: {镜像: "app:1", 命令: [python], 环境变量: {A: b}}
资源: {显卡: 1, 内存: 8Gi, 处理器: 8, 节点数: 2, 资源池: p}
存储: {目录: [{路径: /data, 只读: true}]}
"""


def test_names_in_chinese_mean_the_fields() -> None:
    """Each hint is applied until the document is valid."""
    text = CHINESE
    platform = gpuctl.Source("platform.yaml", PLATFORM)
    for _ in range(20):
        found = gpuctl.compile(gpuctl.Source("a.yaml", text), platform=platform).diagnostics
        error = next((item for item in found if item.severity == "error"), None)
        if error is None:
            break
        assert error.span is not None
        meant = re.fullmatch(r"did you mean `([\w-]+)`\?", error.hint or "")
        assert meant, error
        lines = text.split("\n")
        line = lines[error.span.line - 1]
        start, end = error.span.column - 1, error.span.end_column - 1
        lines[error.span.line - 1] = line[:start] + meant[1] + line[end:]
        text = "\n".join(lines)
    assert yaml.safe_load(text)["resources"] == {"gpu": 1, "memory": "8Gi", "cpu": 8, "nodes": 2, "pool": "p"}


def test_each_chinese_name_stands_for_a_field() -> None:
    fields = {fold(entry.key) for kind in KINDS for entry in entries(kind)}
    assert {name for name in CHINESE_NAMES.values() if fold(name) not in fields} == set()


MOUNT = {"path": "/etc/app", "configMap": "app"}


GIT = {"git": "https://git.example.com/x.git", "ref": "v1"}


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ({"storage": {"mounts": [{**MOUNT, "mountPath": "/x"}]}}, "`path` is written already: keep one"),
        ({"storage": {"mounts": [{**MOUNT, "pathh": "/x"}]}}, "`path` is written already: keep one"),
        ({"code": {**GIT, "commit": "x"}}, "`ref` is written already: keep one"),
        ({"code": {**GIT, "repo": "x"}}, "`git` is written already: keep one"),
        ({"job": {"name": "demo", "on": {"stop": ["x"], "sigterm": ["x"]}}}, "remove it: Kubernetes runs `stop` "),
    ],
    ids=["mount", "misspelt", "other tool", "block of another tool", "hook"],
)
def test_hint_does_not_suggest_a_key_that_is_written_beside(document: dict[str, Any], hint: str) -> None:
    (error,) = (item for item in errors({"kind": "training", **HEAD, **document}) if item.code == "GPU203")
    assert error.hint is not None
    assert error.hint.startswith(hint)


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ({"gpu": 2}, "`gpu` belongs in `resources`"),
        ({"gpu": 2, "resources": {"gpu": 1}}, "`gpu` belongs in `resources`, which has it already"),
        (
            {"walltime": "1h", "job": {**HEAD["job"], "max_runtime": "2h"}},
            "`max_runtime` belongs in `job`, which has it already",
        ),
        ({"gpus_per_node": 8, "resources": {"gpu": 1}}, "`gpu` belongs in `resources`, which has it already"),
        ({"nnodes": 2}, "write `nodes: 2` in `resources`: `gpu` is the number of GPUs per node"),
        ({"resources": {"num_nodes": 2}}, "did you mean `nodes`?"),
        ({"resources": {"gpu": 1, "nproc_per_node": 8}}, "`gpu` is written already: keep one"),
        ({"resources": {"network": {}}, "rdma": True}, "write `network: {rdma: true}` in `resources`"),
    ],
)
def test_hint_for_a_field_of_another_block(document: dict[str, Any], hint: str) -> None:
    documents = [
        {"kind": "training", **HEAD, **document},
        {"kind": "platform", "version": "v0.1", "defaults": {"training": document}},
    ]
    for written in documents:
        found = gpuctl.compile(gpuctl.Source("a.yaml", json.dumps(written))).diagnostics
        error = next(item for item in found if item.code == "GPU203")
        assert error.hint is not None
        assert error.hint.startswith(hint)


def test_parameters_of_a_sweep_in_the_job() -> None:
    document = {"kind": "training", **HEAD, "job": {"name": "demo", "sweep": {"lr": [1, 2]}}}
    hints = [item.hint for item in errors(document) if item.code == "GPU203"]
    assert hints == ["the parameters of a sweep belong in `sweep` at the top of the document"]


@pytest.mark.parametrize(
    ("kind", "document", "hints"),
    [
        ("training", {"resources": {"gpus": 8}}, ["did you mean `gpu`?"]),
        ("training", {"resources": {"cores": 8}}, ["did you mean `cpu`?"]),
        ("training", {"init": [{"name": "a", "cmd": ["a"]}]}, ["did you mean `command`?"]),
        (
            "training",
            {"resources": {"limits": {"nvidia.com/gpu": 8}}},
            ["write `gpu`, `cpu` and `memory` directly in `resources`: requests equal limits"],
        ),
        (
            "training",
            {"pip": ["torch"]},
            ["packages belong in the image; or install them in the program's own shell: "],
        ),
        ("training", {"ports": [6006]}, ["remove it: all ports of the pods are open, "]),
        ("inference", {"resources": {"replicas": 2}}, ["`replicas` belongs in `service`"]),
        ("inference", {"resources": {"num_nodes": 2}}, ["did you mean `nodes`?"]),
        ("inference", {"domain": "a.example.com"}, ["write `route: {host: HOST}` in `service`"]),
        (
            "inference",
            {"autoscaling": {"min": 1, "max": 4}},
            ["did you mean `minReplicas`?", "did you mean `maxReplicas`?"],
        ),
        ("inference", {"model": {"path": "/models/a"}}, ["did you mean `source`?"]),
        (
            "training",
            {"storage": {"workdirs": [{"hostPath": "/data", "target": "/mnt", "secret": "s"}]}},
            [
                "did you mean `path`?",
                "did you mean `mountPath`?",
                "`workdirs` is for directories: write the entry in `storage.mounts`",
            ],
        ),
        ("training", {"storage": {"datasets": ["/data"]}}, ["did you mean `workdirs`?"]),
        (
            "training",
            {"environment": {"image": "a:1", "env": [{"A": "b"}, {"C": "2e-5"}]}},
            ["write `{name: A, value: b}`", "write `{name: C, value: 2e-5}`"],
        ),
        ("training", {"environment": {"image": "a:1", "NCCL_DEBUG": "INFO"}}, ["write `env: {NCCL_DEBUG: INFO}`"]),
        (
            "training",
            {"environment": {"image": "a:1", "env": {"A": {"secretKeyRef": {"name": "a", "key": "b"}}}}},
            ["write `secret: NAME` and `key: KEY`, "],
        ),
    ],
)
def test_words_of_other_tools(kind: str, document: dict[str, Any], hints: list[str]) -> None:
    found = errors({"kind": kind, **HEAD, **document})
    assert [(item.code, (item.hint or "")[: len(hint)]) for item, hint in zip(found, hints, strict=True)] == [
        ("GPU203", hint) for hint in hints
    ]
