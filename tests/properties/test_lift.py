"""``lift`` is the inverse of lowering: from the embedded document, and from the fields alone."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import gpuctl
from gpuctl.backend.canonical_form import canonical
from gpuctl.backend.lift import lift
from properties.scale import examples

PLATFORMS = {
    "none": None,
    "rich": """
kind: platform
version: v0.1
labels: {domain: gpu.example.com}
gpu:
  sharing: hami
  types: {A100: {nvidia.com/gpu.product: [NVIDIA-A100-SXM4-80GB, NVIDIA-A100-PCIE-80GB]}}
  vendors: {nvidia: {resource: nvidia.com/gpu}, amd: {resource: amd.com/gpu}}
training: {backend: jobset, queue: {train: research}}
topology: {levels: [{name: rack, label: example.com/rack}]}
queues: {priority: workload}
inference: {backend: lws}
service: {type: ClusterIP}
routes: {gateway: infra/public, listener: https, tls: true}
image: {pullSecret: login}
spot: {labels: {example.com/spot: "true", example.com/zone: a}, taint: example.com/spot}
network: {rdma: {resource: rdma/hca, count: 2, env: {A: x, NCCL_IB_HCA: mlx5}, annotations: {x.example.com/net: rdma}}}
pools:
  - name: train
    podPatch: {tolerations: [{key: dedicated, operator: Exists}], containers: [{name: main, stdin: true}]}
prometheus: http://prometheus:9090
autoscaling:
  metrics: {gpu: gpu_use, memory: gpu_memory, queue: waiting}
  keda: true
  scaleToZero: true
""",
    "claims": "kind: platform\nversion: v0.1\ngpu: {sharing: volcano}\nstorage: {default: {pvc: {claim: shared, subPath: x}}}\n"
    "routes: {ingress: nginx, annotations: {a: b}}\nspot: {labels: {example.com/spot: yes}}\n"
    "network: {rdma: {resource: rdma/hca}}\n",
    "devices": "kind: platform\nversion: v0.1\ngpu: {allocation: dra, classes: {ascend: npu.example.com, amd: big.amd.com}, "
    "products: {A100: [NVIDIA A100-SXM4-80GB, 'NVIDIA \"A100\"'], T4: [Tesla T4]}}\ntraining: {backend: jobset}\n"
    "inference: {backend: lws}\n",
}
KUEUE = {
    "kueue": "kind: platform\nversion: v0.1\nquota: {backend: kueue}\n",
    "kueue-vendors": "kind: platform\nversion: v0.1\nquota: {backend: kueue}\n"
    "gpu: {vendors: {ascend: {resource: huawei.com/Ascend910}}, sharing: hami}\n",
}
CHANNELS = "notify: {channels: {team: {format: json}, chat: {format: slack}}, default: [team]}\n"
TEXT = st.one_of(
    st.sampled_from(
        ["2e-5", "yes", "{{ messages }}", "{{{{model.name}}", "$(A)", "", "a b", "中文", "line\nline\n", "{{{"]
    ),
    st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=8),
).filter(lambda text: "{{job" not in text and "\ufffe" not in text and "\uffff" not in text)
NAME = st.from_regex(r"\A[a-z][a-z0-9]{0,8}\Z")
PATH = st.from_regex(r"\A(/[a-z0-9]{1,4}){1,3}(\.json)?\Z")


def block(required: dict[str, Any] | None = None, **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with the required keys and any of the optional ones; `_` in names of optional keys stays."""
    return st.fixed_dictionaries(required or {}, optional=optional)


ENV = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": st.sampled_from(["A", "B", "HF_HOME", "FORCE_TORCHRUN"]), "value": TEXT}),
        st.fixed_dictionaries({"name": st.sampled_from(["C", "D"]), "secret": NAME, "key": NAME}),
        st.fixed_dictionaries({"name": st.sampled_from(["C", "E"]), "configMap": NAME, "key": NAME}),
        st.fixed_dictionaries({"name": st.just("F"), "fieldRef": st.sampled_from(["status.podIP", "metadata.name"])}),
    ),
    max_size=3,
    unique_by=lambda item: item["name"],
)
COMMAND = st.one_of(
    st.lists(TEXT, max_size=3),
    st.sampled_from([["llamafactory-cli", "train"], ["deepspeed", "t.py"], ["torchrun", "t.py"]]),
)
CREATE = block(
    {"size": st.sampled_from(["1Gi", "10Gi"])},
    **{"class": st.just("fast"), "access": st.sampled_from(["ReadWriteOnce", "ReadWriteMany"])},
)
WORKDIR = st.one_of(
    block({"path": PATH}, mountPath=PATH, type=st.sampled_from(["Directory", "FileOrCreate"]), readOnly=st.booleans()),
    block({"path": PATH, "pvc": block({"claim": NAME}, subPath=NAME, create=CREATE)}, mountPath=PATH),
    block({"path": PATH, "nfs": st.fixed_dictionaries({"server": NAME, "path": PATH})}, readOnly=st.booleans()),
    block({"path": PATH, "emptyDir": block(size=st.just("1Gi"), medium=st.just("Memory"))}),
)
ENV_FROM = st.lists(
    st.one_of(block({"secret": NAME}, prefix=st.just("A_")), block({"configMap": NAME}, prefix=st.just("B_"))),
    max_size=2,
    unique_by=lambda item: json.dumps(item, sort_keys=True),
)
MODE = st.sampled_from(["0400", "0644", "0755"])
ITEMS = st.lists(block({"key": NAME}, path=NAME, mode=MODE), max_size=2)
MOUNT = st.one_of(
    block({"path": PATH, "configMap": NAME}, items=ITEMS, mode=MODE),
    block({"path": PATH, "secret": NAME}, items=ITEMS, mode=MODE),
    block({"path": PATH, "emptyDir": block(size=st.just("1Gi"), medium=st.just("Memory"))}),
)
MODEL = block({"path": PATH, "image": st.just("models/qwen:v1")})
JOB = {
    "grace": st.sampled_from(["0s", "30s", "5m"]),
    "on": block(stop=st.just(["save"])),
    "namespace": NAME,
    "priority": st.sampled_from(["high", "medium", "low"]),
    "description": TEXT,
    "labels": st.dictionaries(NAME.map(lambda key: f"x-{key}"), NAME, max_size=2),
    "annotations": st.dictionaries(NAME.map(lambda key: f"x.example.com/{key}"), TEXT, max_size=2),
    "checkpoint": st.one_of(
        block(
            {"command": st.lists(TEXT, max_size=2).map(lambda rest: ["save", *rest])},
            timeout=st.sampled_from(["2m", "90s"]),
        ),
        block({"signal": st.sampled_from(["USR1", "HUP"])}, timeout=st.just("1h")),
    ),
}
HELPERS = st.lists(
    block(
        {"name": NAME.map(lambda name: f"h-{name}")},
        image=st.just("tool:v1"),
        command=st.lists(TEXT, max_size=2),
        args=st.lists(TEXT, max_size=2),
        env=ENV,
        resources=block(cpu=st.just("500m"), memory=st.just("1Gi")),
    ),
    max_size=2,
    unique_by=lambda item: item["name"],
)
CAPABILITIES = st.one_of(
    st.lists(st.just("IPC_LOCK"), max_size=1), block(add=st.just(["SYS_PTRACE"]), drop=st.just(["ALL"]))
)
CODE = st.one_of(
    block(
        {"local": st.sampled_from(["src", "../a b/$(C)"]), "sha256": st.just("0123456789abcdef" * 4)},
        path=st.sampled_from(["a", "{{a}}"]),
    ),
    block(
        {
            "git": st.sampled_from(["https://git.example.com/a.git", "git@git.example.com:a/b.git"]),
            "submodules": st.booleans(),
            "ref": st.just("v1"),
        },
        path=st.sampled_from(["a", "./a//b/", "$(A)/$$b", "{{a}}"]),
        secret=NAME,
    ),
)
SECURITY = block(
    user=st.integers(0, 9),
    group=st.integers(0, 9),
    fsGroup=st.integers(0, 9),
    readOnlyRoot=st.booleans(),
    capabilities=CAPABILITIES,
)
RESOURCES = {
    "pool": st.sampled_from(["default", "train", "other"]),
    "queue": st.sampled_from(["research", "team-a"]),
    "gpu": st.integers(0, 8),
    "gpu-type": st.sampled_from(["A100", "T4", ["T4", "A100"], ["A100", "L4", "T4"], ["L4"]]),
    "gpu-memory": st.sampled_from([">=40Gi", "80G", ">= 24Gi"]),
    "gpu-profile": st.sampled_from(["3g.40gb", "1g.10gb+me"]),
    "gpu-share": st.sampled_from(["2Gi", "0.5", "20%", "1.0", {"memory": "2Gi", "cores": "30%"}]),
    "gpu-vendor": st.sampled_from(["nvidia", "amd", "ascend", "kunlunxin"]),
    "cpu": st.sampled_from(["1", "500m", 8]),
    "memory": st.sampled_from(["1Gi", "64Gi", "100G", "1.5Gi"]),
    "shm": st.sampled_from(["1Gi", "32Gi"]),
    "spot": st.booleans(),
    "network": block(rdma=st.sampled_from(["true", "4"]), hostNetwork=st.booleans()),
}
PORTS = st.lists(
    block({"name": NAME, "port": st.integers(2000, 60000)}, targetPort=st.integers(2000, 60000)), max_size=2
)
SERVICE = {
    "port": st.integers(61000, 65535),
    "targetPort": st.integers(61000, 65535),
    "ports": PORTS,
    "type": st.sampled_from(["NodePort", "ClusterIP", "LoadBalancer"]),
    "health_check": st.just("/health"),
    "startup_timeout": st.sampled_from(["10m", "605s", "1h", "45s"]),
    "timeout": st.sampled_from(["30s", "0s", "2m"]),
    "request_limit": st.integers(1, 1000),
    "liveness": st.sampled_from(["/health", "/live"]),
    "drain": st.sampled_from(["15s", "1m"]),
    "route": block({"host": st.just("a.example.com")}, path=st.sampled_from(["/", "/v1", "/v1/"])),
    "disruption": block({"maxUnavailable": st.sampled_from([1, "25%"])}),
}
PATCH = st.one_of(
    st.just({"hostIPC": True}),
    st.just({"terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {}}),
    st.just({"tolerations": [{"key": "a", "operator": "Exists"}], "nodeSelector": {"zone": "b"}}),
    st.just({"containers": [{"name": "main", "env": [{"name": "Z", "value": "1"}]}, {"name": "side", "image": "s:1"}]}),
    st.just({"containers": [{"name": "side", "image": "s:1", "args": ["{{{{job.name}}", "{{ messages }}"]}]}),
    st.just({"securityContext": {"fsGroup": 5}, "terminationGracePeriodSeconds": 60}),
    st.just({"volumes": [{"name": "extra", "emptyDir": {}}], "initContainers": [{"name": "i", "image": "i:1"}]}),
    st.just(
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"
                        ]
                    }
                }
            }
        }
    ),
)
SCALING = block(
    {"enabled": st.just(True), "maxReplicas": st.integers(5, 9)},
    minReplicas=st.integers(0, 5),
    targetMemoryUtilization=st.integers(1, 100),
    scaleUpDelay=st.sampled_from(["0s", "90s"]),
    scaleDownDelay=st.just("5m"),
    metric=st.one_of(
        st.sampled_from(["gpu", "queue"]),
        block(
            {"name": st.sampled_from(["tokens", "gpu_memory"]), "target": st.sampled_from(["5", "500m"])},
            external=st.booleans(),
        ),
        st.just({"query": "sum(waiting)", "target": "1.5"}),
    ),
)


ARRAY = block(
    {"size": st.integers(3, 9)},
    parallelism=st.integers(1, 3),
    retries=st.integers(0, 3),
    max_failed=st.integers(0, 3),
)


SCHEDULE = block(
    {"cron": st.just("*/10 * 1,15 * ?")},
    timezone=st.sampled_from(["Etc/UTC", "Asia/Shanghai"]),
    concurrency=st.sampled_from(["forbid", "allow", "replace"]),
    keep=st.integers(0, 4),
    start_deadline=st.just("1h"),
)
ROLES = st.lists(
    block(
        {"name": NAME},
        nodes=st.integers(1, 3),
        image=st.just("registry.example.com/role:v1"),
        command=COMMAND,
        args=st.lists(TEXT, max_size=2),
        env=ENV,
        ports=st.lists(block({"name": NAME, "port": st.integers(2000, 60000)}), max_size=1),
        resources=block(
            pool=st.sampled_from(["train", "default", "cpu"]),
            gpu=st.integers(0, 8),
            cpu=st.sampled_from(["2", "250m"]),
            memory=st.sampled_from(["1Gi", "8Gi"]),
            shm=st.just("2Gi"),
            **{
                "gpu-type": st.sampled_from(["A100-80G", ["H100-80G", "A100-80G"]]),
                "gpu-profile": st.just("1g.10gb"),
                "gpu-vendor": st.sampled_from(["nvidia", "amd"]),
            },
            spot=st.booleans(),
            network=block(rdma=st.sampled_from(["true", "4"]), hostNetwork=st.booleans()),
        ),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda item: item["name"],
)
LIMITS = block({"max_lifetime": st.just("7d")}, stop_after=st.sampled_from(["2h", "1h30m"]))


@st.composite
def workload(draw: st.DrawFn) -> dict[str, Any]:
    """A document of one of the four kinds of workloads, over all fields."""
    kind = draw(st.sampled_from(["training", "inference", "notebook", "compute"]))
    job = dict(JOB)
    resources = dict(RESOURCES)
    fields: dict[str, Any] = {}
    channels = st.lists(st.sampled_from(["team", "chat"]), max_size=2, unique=True)
    job["notify"] = block({"waiting": st.sampled_from(["1m", "2h"])}, channels=channels)
    if kind == "training":
        events = block(done=st.booleans(), failed=st.booleans(), waiting=st.just("90s"), channels=channels)
        job["notify"] = events.filter(lambda found: any(found.get(event) for event in ("done", "failed", "waiting")))
        job |= {"epochs": st.integers(1, 9), "batch_size": st.integers(1, 9), "retries": st.integers(0, 3)}
        job |= {"max_runtime": st.just("1d2h"), "ttl": st.just("7d")}
        values = st.dictionaries(st.sampled_from(["lr", "seed", "a-b"]), TEXT, min_size=1)
        job["after"] = st.one_of(
            st.lists(NAME, min_size=1, max_size=3, unique=True),
            st.dictionaries(NAME, st.sampled_from(["ok", "any", "failed"]), min_size=1, max_size=3),
        )
        job["sweep"] = st.fixed_dictionaries({"name": NAME, "values": values})
        resources["nodes"] = st.one_of(st.integers(1, 3), st.just({"min": 2, "max": 4}))
        fields["array"] = st.one_of(st.integers(1, 9), ARRAY)
        fields["schedule"] = st.one_of(st.sampled_from(["@daily", "0 2 * * MON-FRI"]), SCHEDULE)
        if draw(st.booleans()):
            fields = {"roles": ROLES}
            resources.pop("nodes")
            resources.pop("gpu-share")
    if kind == "inference":
        resources["nodes"] = st.integers(1, 3)
    environment = block(
        {"image": st.just("registry.example.com/app:v1")},
        command=COMMAND,
        args=st.lists(TEXT, max_size=3),
        env=ENV,
        envFrom=ENV_FROM,
        workdir=PATH,
        imagePullSecret=st.one_of(NAME, st.lists(NAME, max_size=2, unique=True)),
    )
    document: dict[str, Any] = {"kind": kind, "version": "v0.1"}
    document["job"] = draw(block({"name": NAME}, **job))
    document["environment"] = draw(environment)
    document |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "resources": block(**resources),
                "storage": block(
                    workdirs=st.lists(WORKDIR, max_size=3),
                    mounts=st.lists(MOUNT, max_size=2),
                    models=st.lists(MODEL, max_size=1),
                ),
                "code": CODE,
                "init": HELPERS,
                "sidecars": HELPERS,
                "security": SECURITY,
                "podPatch": PATCH,
                **fields,
            },
        )
    )
    if document.get("resources", {}).get("nodes", 1) != 1:
        document["resources"] |= draw(block(topology=st.sampled_from(["host", {"preferred": "host"}])))
    if kind != "training" and draw(st.booleans()):
        service = dict(SERVICE)
        if kind != "notebook":
            service["replicas"] = st.integers(0, 3)
        document["service"] = draw(block(**service))
    if kind == "notebook":
        document |= draw(st.fixed_dictionaries({}, optional={"notebook": LIMITS}))
    if kind == "inference":
        model = block(
            source=st.just("hub"), name=NAME, version=st.just("v1"), format=st.just("gguf"), cache=st.booleans()
        )
        document |= draw(st.fixed_dictionaries({}, optional={"model": model, "autoscaling": SCALING}))
    names = [role["name"] for role in document.get("roles", [])]
    if names:
        primary = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        document |= {"primary": primary} if primary else {}
        for place, role in enumerate(document["roles"][1:], start=1):
            needed = draw(st.lists(st.sampled_from(names[:place]), max_size=1))
            role |= {"dependsOn": needed} if needed else {}
    return document


def compiled(document: dict[str, Any], platform: str, **options: Any) -> gpuctl.Compilation:
    """A document, written as JSON, which is YAML too."""
    text = (PLATFORMS | KUEUE)[platform] or "kind: platform\nversion: v0.1\n"
    source = gpuctl.Source("platform.yaml", text + CHANNELS)
    return gpuctl.compile(gpuctl.Source("job.yaml", json.dumps(document)), platform=source, **options)


_NOT_SERVED = {True: ("gpu-share",), False: ("gpu-memory",)}
"""Fields that a platform does not serve, by whether it claims devices."""


def own(result: gpuctl.Compilation) -> list[dict[str, Any]]:
    """The objects that belong to the document alone."""
    return [item.object for item in result.lowered if not item.shared]


# Both metrics of its autoscaler have the name of the platform's.
SAME_METRIC = {
    "kind": "inference",
    "version": "v0.1",
    "job": {"name": "a"},
    "environment": {"image": "registry.example.com/app:v1"},
    "autoscaling": {
        "enabled": True,
        "maxReplicas": 5,
        "metric": {"name": "gpu_memory", "target": "5"},
        "targetMemoryUtilization": 1,
    },
}

# The user's variable has the name of one that gpuctl adds to such a command, and a value that looks like a template.
OWN_TORCHRUN = {
    "kind": "training",
    "version": "v0.1",
    "job": {"name": "a"},
    "environment": {"image": "registry.example.com/app:v1"},
    "roles": [
        {
            "name": "a",
            "nodes": 2,
            "command": ["llamafactory-cli", "train"],
            "env": [{"name": "FORCE_TORCHRUN", "value": "{{{{model.name}}"}],
        }
    ],
}

# On several nodes, gpuctl has a port `rendezvous`, or uses the role's port of that number.
OWN_PORTS = {
    "kind": "training",
    "version": "v0.1",
    "job": {"name": "a"},
    "environment": {"image": "registry.example.com/app:v1"},
    "roles": [
        {"name": "a", "ports": [{"name": "rendezvous", "port": 7000}]},
        {"name": "b", "nodes": 2, "ports": [{"name": "master", "port": 29500}]},
    ],
}

BRACES_IN_PATCH = {
    "kind": "compute",
    "version": "v0.1",
    "job": {"name": "a"},
    "environment": {"image": "registry.example.com/app:v1"},
    "podPatch": {"containers": [{"name": "side", "image": "s:1", "args": ["{{{{job.name}}"]}]},
}


@pytest.mark.parametrize("platform", PLATFORMS)
@examples(120)
@given(document=workload())
@example(document=SAME_METRIC)
@example(document=OWN_TORCHRUN)
@example(document=OWN_PORTS)
@example(document=BRACES_IN_PATCH)
def test_lifted_workloads_compile_to_the_same_objects(platform: str, document: dict[str, Any]) -> None:
    resources = document.get("resources", {})
    for field in _NOT_SERVED[platform == "devices"]:
        resources.pop(field, None)
    if "gpu-profile" in resources:
        resources.pop("gpu-memory", None)
    result = compiled(document, platform, embed=True)
    assume(result.ok)
    (read,) = result.documents
    (lifted,) = lift(copy.deepcopy(result.objects), result.settings)
    assert lifted == canonical(read)
    assert own(compiled(lifted, platform, embed=True)) == own(result)

    plain = compiled(document, platform)
    (from_fields,) = lift(copy.deepcopy(plain.objects), result.settings, use_annotation=False)
    again = compiled(from_fields, platform)
    assert again.ok, [(item.message, item.path) for item in again.diagnostics]
    assert own(again) == own(plain)


def training_from_fields(platform: str, **blocks: Any) -> dict[str, Any]:
    """Return the document of a training with these blocks, as lifted from its object's fields alone."""
    document = {
        "kind": "training",
        "version": "v0.1",
        "job": {"name": "train"},
        "environment": {"image": "app:v1", "command": ["run"]},
        **blocks,
    }
    result = compiled(document, platform)
    (lifted,) = lift(result.objects, result.settings, use_annotation=False)
    return lifted


@pytest.mark.parametrize(
    "source",
    [
        {"type": "Directory"},
        {"pvc": {"claim": "shared", "subPath": "x"}},
        {"nfs": {"server": "nas", "path": "/export"}},
        {"emptyDir": {"size": "1Gi", "medium": "Memory"}},
    ],
    ids=lambda source: next(iter(source)),
)
def test_workdir_sources_are_lifted_from_fields(source: dict[str, Any]) -> None:
    """Read back from the fields alone, whatever random documents happen to contain."""
    workdir = {"path": "/data", **source}
    lifted = training_from_fields("none", storage={"workdirs": [workdir]})
    assert lifted["storage"]["workdirs"] == [workdir]


def test_spot_nodes_are_lifted_from_fields() -> None:
    lifted = training_from_fields("rich", resources={"spot": True})
    assert lifted["resources"]["spot"] is True


@pytest.mark.parametrize("types", ["A100", ["A100", "H100"]])
@pytest.mark.parametrize("platform", ["none", "claims"])
def test_gpu_types_are_lifted_from_fields(platform: str, types: str | list[str]) -> None:
    lifted = training_from_fields(platform, resources={"gpu": 1, "gpu-type": types})
    assert lifted["resources"]["gpu-type"] == types


def test_mounts_are_lifted_from_fields() -> None:
    items = [{"key": "a", "path": "b/c", "mode": "0400"}, {"key": "d"}]
    mounts = [{"path": "/etc/app", "configMap": "settings", "items": items, "mode": "0444"}]
    lifted = training_from_fields("none", storage={"mounts": mounts})
    assert lifted["storage"]["mounts"] == mounts


def test_created_claims_are_lifted_from_fields() -> None:
    """Read back with the claims among the objects; the group that a notebook gets for them is not stated."""
    create = {"size": "10Gi", "class": "fast", "access": "ReadWriteMany"}
    workdirs = [{"path": "/work", "pvc": {"claim": "lab", "create": create}}, {"path": "/in", "pvc": {"claim": "in"}}]
    document = {
        "kind": "notebook",
        "version": "v0.1",
        "job": {"name": "lab"},
        "environment": {"image": "app:v1"},
        "storage": {"workdirs": workdirs},
    }
    result = compiled(document, "none")
    (lifted,) = lift(result.objects, result.settings, use_annotation=False)
    assert lifted["storage"]["workdirs"] == workdirs
    assert "security" not in lifted
    assert compiled(lifted, "none").objects == result.objects


POOL = block(
    {"pool": block({"name": NAME}, description=TEXT)},
    nodes=st.dictionaries(
        NAME,
        block(
            **{
                "gpu-type": st.sampled_from(["", "A100"]),
                "gpu-count": st.integers(0, 8),
                "gpu-profiles": st.dictionaries(st.just("1g.10gb"), st.integers(0, 7)),
            }
        ),
        max_size=3,
    ),
    quota=block(maxJobs=st.integers(1, 9), maxGpuPerJob=st.integers(1, 9)),
)
LIMITS = block(
    {
        "gpu": st.one_of(
            st.integers(0, 9), st.dictionaries(st.sampled_from(["nvidia", "amd"]), st.integers(0, 9), min_size=1)
        )
    },
    cpu=st.sampled_from(["1", "500m"]),
    gpu_profiles=st.dictionaries(st.just("1g.10gb"), st.integers(0, 9)),
    memory=st.just("4Gi"),
    maxJobs=st.integers(0, 9),
)
KUEUE_LIMITS = block(
    cpu=st.sampled_from(["1", "500m"]),
    memory=st.just("4Gi"),
    borrow=st.integers(1, 9),
    weight=st.integers(1, 9),
    maxJobs=st.integers(0, 9),
    **{
        "gpu-profiles": st.dictionaries(st.just("1g.10gb"), st.integers(0, 9), min_size=1),
        "gpu-types": st.dictionaries(st.sampled_from(["H100", "A100_80G", "rtx.4090"]), st.integers(0, 9), min_size=1),
    },
)
KUEUE_QUOTA = block(
    {
        "quota": block({"name": NAME}, description=TEXT),
        "users": st.dictionaries(NAME, st.one_of(LIMITS, KUEUE_LIMITS), min_size=1, max_size=3),
    },
    default=block(cpu=st.just("2"), gpu=st.just(2)),
)
QUOTA = block(
    {
        "quota": block({"name": NAME}, description=TEXT),
        "users": st.dictionaries(NAME, LIMITS, min_size=1, max_size=3),
    },
    default=block(cpu=st.just("2")),
)


@pytest.mark.parametrize("kind", ["pool", "quota"])
@pytest.mark.parametrize("platform", PLATFORMS)
@examples(40)
@given(data=st.data())
def test_lifted_pools_and_quotas_compile_to_the_same_objects(platform: str, kind: str, data: st.DataObject) -> None:
    document = {"kind": kind, "version": "v0.1", **data.draw(POOL if kind == "pool" else QUOTA)}
    result = compiled(document, platform, embed=True)
    assume(result.ok)
    (read,) = result.documents
    (lifted,) = lift(result.objects, result.settings)
    assert lifted == canonical(read)
    plain = own(compiled(document, platform))
    (from_fields,) = lift(plain, result.settings, use_annotation=False)
    assert own(compiled(from_fields, platform)) == plain


@pytest.mark.parametrize("platform", ["kueue", "kueue-vendors"])
@examples(40)
@given(limits=KUEUE_QUOTA)
def test_lifted_quotas_of_kueue_compile_to_the_same_objects(platform: str, limits: dict[str, Any]) -> None:
    document = {"kind": "quota", "version": "v0.1", **limits}
    result = compiled(document, platform, embed=True)
    assume(result.ok)
    (read,) = result.documents
    assert lift(result.objects, result.settings) == [canonical(read)]
    plain = own(compiled(document, platform))
    (from_fields,) = lift(plain, result.settings, use_annotation=False)
    assert own(compiled(from_fields, platform)) == plain


TRAININGS = ({}, {"resources": {"nodes": 2, "gpu": 8}}, {"command": ["deepspeed", "--no_ssh", "train.py"]})


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("more", TRAININGS, ids=("one", "two", "deepspeed"))
def test_hash_suffix_is_not_lifted_into_the_name(platform: str, more: dict[str, Any]) -> None:
    """The document has the job's name, and nothing of the names by which pods find each other."""
    environment = {"image": "registry.example.com/a:1", **({"command": more["command"]} if "command" in more else {})}
    resources = more.get("resources", {"nodes": 2} if "command" in more else {})
    document = {"kind": "training", "job": {"name": "a"}, "environment": environment, "resources": resources}
    hashed = own(compiled({**document, "version": "v0.1"}, platform, gitops="argocd"))
    plain = compiled({**document, "version": "v0.1"}, platform)
    assert {item["metadata"]["name"] for item in hashed}.isdisjoint({"a", "a-hostfile"})
    (lifted,) = lift(hashed, plain.settings, use_annotation=False)
    assert own(compiled(lifted, platform)) == own(plain)


def test_foreign_objects_are_not_lifted() -> None:
    result = compiled(
        {"kind": "compute", "version": "v0.1", "job": {"name": "a"}, "environment": {"image": "a:1"}}, "none"
    )
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "x", "labels": {"app": "a"}},
        "spec": {},
    }
    assert len(lift([foreign, *result.objects])) == 1
    assert lift([foreign]) == []


def test_only_defaults_that_lowering_leaves_out_are_not_lifted() -> None:
    """What a user wrote stays if it is a default elsewhere, or replaces a value of lowering."""
    patch = {
        "initContainers": [{"name": "mesh", "image": "mesh:v1", "restartPolicy": "Always"}],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "containers": [
            {
                "name": "main",
                "startupProbe": {"failureThreshold": 3},
                "lifecycle": {"preStop": {"httpGet": {"path": "/stop", "port": 8000}}},
            }
        ],
    }
    document = {
        "kind": "inference",
        "version": "v0.1",
        "job": {"name": "chat"},
        "environment": {"image": "app:v1", "command": ["run"]},
        "resources": {"gpu": 1},
        "service": {"port": 8000, "health_check": "/health", "startup_timeout": "10m"},
        "podPatch": patch,
    }
    result = compiled(document, "none")
    objects = copy.deepcopy(own(result))
    for item in objects:
        item["metadata"]["uid"] = "1"
        if item["kind"] == "Deployment":
            [main] = item["spec"]["template"]["spec"]["containers"]
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                defaults = {"periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}
                main[name] = {**defaults, **main[name]}
            main["lifecycle"]["preStop"]["httpGet"]["scheme"] = "HTTP"
    (lifted,) = lift(objects, result.settings, use_annotation=False)
    lifted["podPatch"]["initContainers"][0].pop("env")
    assert lifted["podPatch"] == patch


def test_server_defaults_are_not_lifted_as_a_patch() -> None:
    """Neither in the pod nor in its containers; fields that a user wrote stay."""
    patch = {"hostNetwork": True, "containers": [{"name": "main", "stdin": True}]}
    scaling = {"enabled": True, "minReplicas": 1, "maxReplicas": 4}
    document = {
        "kind": "inference",
        "version": "v0.1",
        "job": {"name": "chat"},
        "environment": {"image": "app:v1"},
        "resources": {"gpu": 1},
        "autoscaling": scaling,
        "podPatch": patch,
    }
    result = compiled(document, "none")
    assert result.ok
    objects = copy.deepcopy(own(result))
    for item in objects:
        item["metadata"]["uid"] = "1"
        if item["kind"] == "HorizontalPodAutoscaler":
            # Source: autoscaling/v2, minReplicas: "defaults to 1 pod".
            assert item["spec"].pop("minReplicas") == 1
        if item["kind"] == "Deployment":
            pod = item["spec"]["template"]["spec"]
            pod.setdefault("dnsPolicy", "ClusterFirst")
            pod |= {"securityContext": {}, "terminationGracePeriodSeconds": 30}
            pod["containers"][0] |= {"terminationMessagePath": "/dev/termination-log"}
    (lifted,) = lift(objects, result.settings, use_annotation=False)
    # The node's network is a field of the document, too.
    assert {**lifted.get("podPatch", {}), **lifted["resources"].get("network", {})} == patch
    assert {key: lifted["autoscaling"][key] for key in ("enabled", "minReplicas", "maxReplicas")} == scaling
