"""Validation with the bundled schemas: valid and invalid objects, messages, and drift of the schema files."""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuctl.backend.schema_validation import (
    VERSIONS,
    SchemaValidator,
    Violation,
    schema_validator,
)
from gpuctl.language.settings import Settings
from support.missing_parts import required

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import kubernetes_schemas

DEFAULT_VERSION = Settings().kubernetes_version
ObjectPath = tuple[str | int, ...]

POD_SPEC: dict[str, Any] = {
    "restartPolicy": "Never",
    "nodeSelector": {"nvidia.com/gpu.product": "H100"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "securityContext": {"runAsNonRoot": True, "fsGroup": 1000},
    "volumes": [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "code", "configMap": {"name": "code", "defaultMode": 365}},
    ],
    "containers": [
        {
            "name": "main",
            "image": "registry.example/train:1",
            "command": ["python", "train.py"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "ports": [{"containerPort": 8000, "name": "http"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
            "livenessProbe": {"tcpSocket": {"port": 8000}},
            "resources": {
                "requests": {"cpu": 0.5, "memory": "64Gi"},
                "limits": {"nvidia.com/gpu": "8", "cpu": 8, "memory": "1e12", "example.com/part": "500m"},
            },
            "volumeMounts": [
                {"name": "shm", "mountPath": "/dev/shm"},
                {"name": "data", "mountPath": "/data"},
            ],
        }
    ],
}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC}
SELECTOR: dict[str, Any] = {"matchLabels": {"app": "x"}}
CLAIM_SPEC: dict[str, Any] = {
    "accessModes": ["ReadWriteMany"],
    "resources": {"requests": {"storage": "1Ti"}},
}
JOB_SPEC: dict[str, Any] = {
    "backoffLimit": 0,
    "completionMode": "Indexed",
    "completions": 2,
    "parallelism": 2,
    "podFailurePolicy": {
        "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}],
    },
    "template": TEMPLATE,
}


def make_object(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    """Return an object whose parts are shared neither with other objects nor within it."""
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **fields}
    unshared: dict[str, Any] = json.loads(json.dumps(obj))
    return unshared


VALID: dict[str, dict[str, Any]] = {
    "Job": make_object("batch/v1", "Job", spec=JOB_SPEC),
    "Deployment": make_object(
        "apps/v1",
        "Deployment",
        spec={
            "replicas": 2,
            "selector": SELECTOR,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": TEMPLATE,
        },
    ),
    "StatefulSet": make_object(
        "apps/v1",
        "StatefulSet",
        spec={
            "serviceName": "x",
            "selector": SELECTOR,
            "template": TEMPLATE,
            "volumeClaimTemplates": [{"metadata": {"name": "home"}, "spec": CLAIM_SPEC}],
        },
    ),
    "Pod": make_object("v1", "Pod", spec=POD_SPEC),
    "Service": make_object(
        "v1",
        "Service",
        spec={"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "http"}]},
    ),
    "ConfigMap": make_object("v1", "ConfigMap", data={"a.py": "print()\n"}),
    "Secret": make_object("v1", "Secret", type="Opaque", stringData={"token": "t"}),
    "Namespace": make_object("v1", "Namespace"),
    "ResourceQuota": make_object("v1", "ResourceQuota", spec={"hard": {"requests.nvidia.com/gpu": 16}}),
    "LimitRange": make_object(
        "v1",
        "LimitRange",
        spec={"limits": [{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}]},
    ),
    "Node": make_object(
        "v1",
        "Node",
        spec={"taints": [{"key": "k", "effect": "NoSchedule"}]},
        status={"capacity": {"cpu": "8"}},
    ),
    "PersistentVolumeClaim": make_object("v1", "PersistentVolumeClaim", spec=CLAIM_SPEC),
    "PersistentVolume": make_object(
        "v1",
        "PersistentVolume",
        spec={
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Ti"},
            "nfs": {"server": "s", "path": "/p"},
        },
    ),
    "PriorityClass": make_object("scheduling.k8s.io/v1", "PriorityClass", value=-10, preemptionPolicy="Never"),
    "HorizontalPodAutoscaler": make_object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        spec={
            "maxReplicas": 4,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
        },
    ),
    "Ingress": make_object(
        "networking.k8s.io/v1",
        "Ingress",
        spec={
            "ingressClassName": "nginx",
            "rules": [
                {
                    "host": "a.example.com",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "x", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ],
        },
    ),
    "PodDisruptionBudget": make_object(
        "policy/v1",
        "PodDisruptionBudget",
        spec={"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "x"}}},
    ),
    "HTTPRoute": make_object(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        spec={
            "parentRefs": [{"name": "public", "namespace": "infra"}],
            "rules": [{"backendRefs": [{"name": "x", "port": 80}]}],
        },
    ),
    "ScaledObject": make_object(
        "keda.sh/v1alpha1",
        "ScaledObject",
        spec={
            "scaleTargetRef": {"name": "x"},
            "triggers": [{"type": "prometheus", "metadata": {"query": "up"}}],
        },
    ),
    "CronJob": make_object(
        "batch/v1",
        "CronJob",
        spec={
            "schedule": "0 2 * * *",
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}},
        },
    ),
    "WorkloadPriorityClass": make_object("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", value=100),
    "ResourceFlavor": make_object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", spec={"nodeLabels": {"a": "b"}}),
    "LocalQueue": make_object("kueue.x-k8s.io/v1beta2", "LocalQueue", spec={"clusterQueue": "a"}),
    "ClusterQueue": make_object(
        "kueue.x-k8s.io/v1beta2",
        "ClusterQueue",
        spec={
            "cohortName": "a",
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "a", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
                }
            ],
        },
    ),
    "LeaderWorkerSet": make_object(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        spec={
            "replicas": 2,
            "startupPolicy": "LeaderReady",
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": "50%"}},
            "leaderWorkerTemplate": {
                "size": 2,
                "leaderTemplate": JOB_SPEC["template"],
                "workerTemplate": {**JOB_SPEC["template"], "metadata": {"labels": {"a": "b"}}},
            },
        },
    ),
    "JobSet": make_object(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        spec={
            "network": {"enableDNSHostnames": True, "subdomain": "x"},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["driver"]},
            "failurePolicy": {
                "maxRestarts": 3,
                "restartStrategy": "Recreate",
                "rules": [
                    {"name": "oom", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
                ],
            },
            "ttlSecondsAfterFinished": 0,
            "replicatedJobs": [
                {"name": "driver", "replicas": 1, "template": {"spec": JOB_SPEC}},
                {
                    "name": "worker",
                    "replicas": 2,
                    "dependsOn": [{"name": "driver", "status": "Ready"}],
                    "template": {"metadata": {"annotations": {"a": "b"}}, "spec": JOB_SPEC},
                },
            ],
        },
    ),
}

REMOVED = object()
"""Used instead of a value: the field is removed."""


def changed(kind: str, path: ObjectPath, value: Any) -> dict[str, Any]:
    """Return the valid object of a kind with the value at ``path`` replaced, added or removed."""
    obj = copy.deepcopy(VALID[kind])
    place: Any = obj
    for step in path[:-1]:
        place = place[step]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return obj


POD: ObjectPath = ("spec", "template", "spec")
MAIN: ObjectPath = (*POD, "containers", 0)
LIMITS: ObjectPath = (*MAIN, "resources", "limits")
WORKER: ObjectPath = ("spec", "replicatedJobs", 1)
WORKER_POD: ObjectPath = (*WORKER, "template", *POD)
QUANTITY = "a quantity such as `500m` or `16Gi`"

INVALID: dict[str, list[tuple[ObjectPath, Any, str]]] = {
    "Job": [
        ((*MAIN, "imagee"), "a", "unknown field `imagee`, did you mean `image`?"),
        (
            (*MAIN, "image_pull_policy"),
            "Always",
            "unknown field `image_pull_policy`, did you mean `imagePullPolicy`?",
        ),
        ((*MAIN, "zzz"), 1, "unknown field `zzz`"),
        (
            (*MAIN, "env", 1, "valueFrom", "secretKeyRef", "keys"),
            "k",
            "unknown field `keys`, did you mean `key`?",
        ),
        (
            (*POD, "volumes", 0, "emptyDir", "sizeLimits"),
            "1Gi",
            "unknown field `sizeLimits`, did you mean `sizeLimit`?",
        ),
        (("spec", "backoffLimit"), "0", "expected an integer, got a string"),
        (("spec", "backoffLimit"), 0.5, "expected an integer, got a number"),
        (("spec", "backoffLimit"), True, "expected an integer, got a boolean"),
        (("spec", "backoffLimit"), 2**31, "must be at most 2147483647, got 2147483648"),
        (
            (*POD, "activeDeadlineSeconds"),
            2**63,
            "must be at most 9223372036854775807, got 9223372036854775808",
        ),
        ((*POD, "nodeSelector", "a"), True, "expected a string, got a boolean"),
        ((*MAIN, "env", 0, "value"), 1, "expected a string, got an integer"),
        ((*MAIN, "command"), "sh", "expected a list, got a string"),
        ((*POD, "containers"), {"a": 1}, "expected a list, got a mapping"),
        ((*POD, "securityContext"), [], "expected a mapping, got a list"),
        ((*POD, "hostNetwork"), "yes", "expected a boolean, got a string"),
        (
            (*MAIN, "livenessProbe", "tcpSocket", "port"),
            1.5,
            "expected an integer or a string, got a number",
        ),
        ((*LIMITS, "memory"), ["1Gi"], f"expected {QUANTITY}, got a list"),
        ((*LIMITS, "memory"), "16GB", f"`16GB` is not {QUANTITY}"),
        ((*LIMITS, "cpu"), float("inf"), f"expected {QUANTITY}, got a number that is not finite"),
        ((*LIMITS, "cpu"), None, f"expected {QUANTITY}, got null"),
        ((*POD, "nodeSelector"), None, "expected a mapping, got null"),
        ((*POD, "nodeSelector", "a"), None, "expected a string, got null"),
        ((*POD, "volumes", 0, "emptyDir"), None, "expected a mapping, got null"),
        ((*MAIN, "env"), None, "expected a list, got null"),
        (("metadata", "creationTimestamp"), None, "expected a string, got null"),
        (("kind",), None, "expected a string, got null"),
        (("apiVersion",), 1, "expected a string, got an integer"),
    ],
    "LeaderWorkerSet": [
        (("spec", "leaderWorkerTemplate", "sizes"), 2, "unknown field `sizes`, did you mean `size`?"),
        (
            ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec", "containers", 0, "imagee"),
            "a",
            "unknown field `imagee`, did you mean `image`?",
        ),
        (
            ("spec", "leaderWorkerTemplate", "workerTemplate", "metadata", "creationTimestamp"),
            "2024-01-01T00:00:00Z",
            "unknown field `creationTimestamp`",
        ),
    ],
    "JobSet": [
        (("spec", "suspended"), True, "unknown field `suspended`, did you mean `suspend`?"),
        (
            (*WORKER_POD, "containers", 0, "imagee"),
            "a",
            "unknown field `imagee`, did you mean `image`?",
        ),
        ((*WORKER_POD, "nodeSelector"), None, "expected a mapping, got null"),
        (
            (*WORKER, "template", "metadata", "creationTimestamp"),
            "2024-01-01T00:00:00Z",
            "unknown field `creationTimestamp`",
        ),
        (
            (*WORKER, "template", "spec", "template", "metadata", "label"),
            {},
            "unknown field `label`, did you mean `labels`?",
        ),
        (
            (*WORKER, "template", "spec", "template", "metadata", "labels"),
            [],
            "expected a mapping, got a list",
        ),
        (
            ("spec", "successPolicy", "operator"),
            "all",
            "expected `All` or `Any`, got `all`, did you mean `All`?",
        ),
        (("spec", "failurePolicy", "restartStrategy"), 7, "expected a string, got an integer"),
        (
            ("spec", "failurePolicy", "restartStrategy"),
            "x",
            "expected `Recreate`, `BlockingRecreate` or `InPlaceRestart`, got `x`",
        ),
        (("spec", "ttlSecondsAfterFinished"), -1, "must be at least 0, got -1"),
        (
            (*WORKER, "dependsOn"),
            [{"name": str(number), "status": "Ready"} for number in range(6)],
            "must have at most 5 entries, has 6",
        ),
    ],
}
"""Changes to a valid object (path and value), and the message expected at that path."""

REQUIRED: list[tuple[str, ObjectPath]] = [
    ("Job", ("apiVersion",)),
    ("Job", ("kind",)),
    ("Job", ("spec", "template")),
    ("Job", (*MAIN, "name")),
    ("Deployment", ("spec", "selector")),
    ("PersistentVolume", ("spec", "nfs", "path")),
    ("HorizontalPodAutoscaler", ("spec", "metrics", 0, "resource", "target", "type")),
    ("Ingress", ("spec", "rules", 0, "http", "paths", 0, "pathType")),
    ("HTTPRoute", ("spec", "rules", 0, "backendRefs", 0, "name")),
    ("ScaledObject", ("spec", "triggers")),
    ("WorkloadPriorityClass", ("value",)),
    ("JobSet", (*WORKER, "template")),
    ("JobSet", (*WORKER_POD, "containers")),
    ("JobSet", (*WORKER, "dependsOn", 0, "status")),
]


@pytest.mark.parametrize("kind", VALID)
def test_valid_objects_pass(kind: str) -> None:
    for version in VERSIONS:
        assert schema_validator(version).check(VALID[kind]) == [], version


def test_every_kind_has_a_valid_object() -> None:
    kinds = {(obj["apiVersion"], kind) for kind, obj in VALID.items()}
    custom = {("jobset.x-k8s.io/v1alpha2", "JobSet"), ("gateway.networking.k8s.io/v1", "HTTPRoute")}
    custom |= {("keda.sh/v1alpha1", "ScaledObject"), ("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass")}
    custom |= {("kueue.x-k8s.io/v1beta2", kind) for kind in ("ResourceFlavor", "LocalQueue", "ClusterQueue")}
    custom.add(("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"))
    assert kinds == {*kubernetes_schemas.KINDS, *custom}


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"), [(kind, *row) for kind, rows in INVALID.items() for row in rows]
)
def test_invalid_objects_fail(kind: str, path: ObjectPath, value: Any, message: str) -> None:
    obj = changed(kind, path, value)
    for version in VERSIONS:
        assert [found[:2] for found in schema_validator(version).check(obj)] == [(path, message)], version


@pytest.mark.parametrize(("kind", "path"), REQUIRED)
def test_missing_field_is_reported_at_its_mapping(kind: str, path: ObjectPath) -> None:
    obj = changed(kind, path, REMOVED)
    expected = Violation(path[:-1], f"missing required field `{path[-1]}`")
    for version in VERSIONS:
        assert schema_validator(version).check(obj) == [expected], version


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "message"),
    [
        ("batch/v1", "Jobb", ("kind",), "kind `Jobb` of `batch/v1` in Kubernetes {}, did you mean `Job`?"),
        (
            "batch/v2",
            "Job",
            ("apiVersion",),
            "kind `Job` of `batch/v2` in Kubernetes {}, did you mean `batch/v1`?",
        ),
        ("v1", "Job", ("apiVersion",), "kind `Job` of `v1` in Kubernetes {}, did you mean `batch/v1`?"),
        ("example.com/v1", "Queue", ("kind",), "kind `Queue` of `example.com/v1` in Kubernetes {}"),
        ("", "", ("kind",), "kind `` of `` in Kubernetes {}"),
    ],
)
def test_unknown_kind_is_one_violation(api_version: str, kind: str, path: ObjectPath, message: str) -> None:
    obj = {"apiVersion": api_version, "kind": kind, "spec": {"nonsense": 1}}
    for version in VERSIONS:
        expected = Violation(path, "there is no schema for " + message.format(version))
        assert schema_validator(version).check(obj) == [expected]


def test_violations_are_in_the_order_of_their_paths() -> None:
    obj = changed("Job", ("spec", "parallelism"), "2")
    main = obj["spec"]["template"]["spec"]["containers"][0]
    main.update(imagee=1, aaa=1, tty="no")
    del main["name"]
    assert schema_validator(DEFAULT_VERSION).check(obj) == [
        Violation(("spec", "parallelism"), "expected an integer, got a string", "write 2 without quotes"),
        Violation(MAIN, "missing required field `name`"),
        Violation((*MAIN, "aaa"), "unknown field `aaa`"),
        Violation((*MAIN, "imagee"), "unknown field `imagee`, did you mean `image`?"),
        Violation((*MAIN, "tty"), "expected a boolean, got a string", "write false without quotes"),
    ]


def test_field_is_unknown_before_its_kubernetes_version() -> None:
    resources = {"limits": {"cpu": "8"}}
    obj = changed("Job", (*POD, "resources"), resources)
    known = [version for version in VERSIONS if not schema_validator(version).check(obj)]
    assert known == [version for version in VERSIONS if version >= "1.32"]
    inside = changed("JobSet", (*WORKER_POD, "resources"), resources)
    assert [version for version in VERSIONS if not schema_validator(version).check(inside)] == known


@pytest.mark.parametrize(
    "patch",
    [
        {},
        POD_SPEC,
        {"containers": [{"name": "main", "tty": True}]},
        {"containers": [{"securityContext": {"privileged": True}}]},
        {"containers": [{"volumeMounts": [{"readOnly": True}], "env": [{"value": "x"}]}]},
        {"volumes": [{"hostPath": {"type": "Directory"}}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
        {"topologySpreadConstraints": [{"maxSkew": 1}], "schedulingGates": [{}]},
    ],
)
def test_pod_spec_may_be_partial(patch: dict[str, Any]) -> None:
    for version in VERSIONS:
        assert schema_validator(version).check_pod_spec(patch) == [], version


@pytest.mark.parametrize(
    ("patch", "path", "message"),
    [
        (
            {"hostnetwork": True},
            ("hostnetwork",),
            "unknown field `hostnetwork`, did you mean `hostNetwork`?",
        ),
        ({"hostNetwork": "yes"}, ("hostNetwork",), "expected a boolean, got a string"),
        (
            {"containers": [{"imagee": "x"}]},
            ("containers", 0, "imagee"),
            "unknown field `imagee`, did you mean `image`?",
        ),
        (
            {"containers": [{"env": [{"value": 1}]}]},
            ("containers", 0, "env", 0, "value"),
            "expected a string, got an integer",
        ),
        (
            {"containers": [{"resources": {"limits": {"memory": "16GB"}}}]},
            ("containers", 0, "resources", "limits", "memory"),
            f"`16GB` is not {QUANTITY}",
        ),
        ({"dnsPolicy": None}, ("dnsPolicy",), "expected a string, got null"),
        ([], (), "expected a mapping, got a list"),
        (None, (), "expected a mapping, got null"),
        ("hostNetwork: true", (), "expected a mapping, got a string"),
    ],
)
def test_invalid_pod_spec_fails(patch: Any, path: ObjectPath, message: str) -> None:
    for version in VERSIONS:
        assert [found[:2] for found in schema_validator(version).check_pod_spec(patch)] == [(path, message)], version


def test_partial_pod_spec_may_only_omit_fields() -> None:
    patch = {"containers": [{"tty": 1}, {"imagee": "x"}], "volumes": [{}]}
    assert schema_validator(DEFAULT_VERSION).check_pod_spec(patch) == [
        Violation(("containers", 0, "tty"), "expected a boolean, got an integer"),
        Violation(("containers", 1, "imagee"), "unknown field `imagee`, did you mean `image`?"),
    ]


def test_version_without_schemas_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"no schemas of Kubernetes 1\.28, only of 1\.29 to "):
        SchemaValidator("1.28")


def test_one_validator_is_cached_for_each_version() -> None:
    assert schema_validator(VERSIONS[0]) is schema_validator(VERSIONS[0])
    assert schema_validator(VERSIONS[0]) is not schema_validator(VERSIONS[-1])


def test_versions_match_the_schema_files() -> None:
    files = {file.name for file in kubernetes_schemas.SCHEMAS.iterdir()}
    assert files == {
        "jobset.json",
        "lws.json",
        "gateway-api.json",
        "keda.json",
        "kueue.json",
        *(f"kubernetes-{version}.json" for version in VERSIONS),
    }
    assert DEFAULT_VERSION in VERSIONS


def every_schema(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``schema`` and all schemas in it."""
    yield schema
    below = (schema.get("items"), schema.get("additionalProperties"))
    for inner in (*schema.get("properties", {}).values(), *below):
        if isinstance(inner, dict):
            yield from every_schema(inner)


@pytest.mark.parametrize("file", sorted(kubernetes_schemas.SCHEMAS.glob("*.json")), ids=lambda file: str(file.name))
def test_schema_files_are_strict_small_and_closed(file: Path) -> None:
    data = json.loads(file.read_text(encoding="utf-8"))
    kubernetes = json.loads((file.parent / f"kubernetes-{VERSIONS[0]}.json").read_text(encoding="utf-8"))
    assert file.stat().st_size < 120_000
    known = {**kubernetes["$defs"], **data["$defs"]} if not file.name.startswith("kubernetes-") else data["$defs"]
    assert set(data["kinds"].values()) <= set(data["$defs"])
    for name, definition in data["$defs"].items():
        for schema in every_schema(definition):
            assert set(schema) <= kubernetes_schemas.KEPT, name
            assert "null" not in schema.get("type", ()), name
            if schema.get("type") == "object" and name != kubernetes_schemas.FIELDS:
                assert "additionalProperties" in schema, name
                assert "properties" not in schema or schema["additionalProperties"] is False, name
            if "$ref" in schema:
                assert schema["$ref"].rpartition("/")[2] in known, name
    assert kubernetes_schemas.text(data) == file.read_text(encoding="utf-8")


def test_kubernetes_files_match_kubernetes_validate() -> None:
    assert kubernetes_schemas.kubernetes_drift() == []


def test_files_of_custom_resources_match_their_definitions() -> None:
    with required(kubernetes_schemas.GoMissing):
        files = kubernetes_schemas.definition_files()
    assert kubernetes_schemas.drift(files) == []


def test_unsupported_schema_keywords_are_rejected() -> None:
    with pytest.raises(kubernetes_schemas.SchemaError, match="unknown keyword `not`"):
        kubernetes_schemas.lean({"not": {}}, "here")
    with pytest.raises(kubernetes_schemas.SchemaError, match="`oneOf` of something else than types"):
        kubernetes_schemas.lean({"oneOf": [{"$ref": "#/x"}]}, "here")
    with pytest.raises(kubernetes_schemas.SchemaError, match="an object of which nothing is said"):
        kubernetes_schemas.closed({"type": "object"}, "here")


def test_thousand_deployments_take_less_than_half_a_second() -> None:
    objects = [copy.deepcopy(VALID["Deployment"]) for _ in range(1000)]
    validator = SchemaValidator(DEFAULT_VERSION)
    # CPU time of this process: other load on the machine does not count.
    started = time.process_time()
    assert not any(validator.check(obj) for obj in objects)
    assert time.process_time() - started < 0.5
