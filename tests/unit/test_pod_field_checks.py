"""Checks of patched pods (``podPatch``), rule by rule: the rejected field, and valid values.

``tests/cluster/test_pod_validation.py`` compares the rules with the API server; here each has a case without a cluster.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.backend.object_order import RANKS
from gpuctl.backend.pod_validation import check_pod

Object = dict[str, Any]


def problems_of_pod(**fields: Any) -> list[tuple[str, str]]:
    """Return the path and message of every problem of a pod with one container."""
    pod = {"containers": [{"name": "main", "image": "app:1"}], **fields}
    return [(".".join(map(str, problem.path)), problem.message) for problem in check_pod(pod)]


def problems_of_container(**fields: Any) -> list[tuple[str, str]]:
    return problems_of_pod(containers=[{"name": "main", "image": "app:1", **fields}])


def problems_of_volume(**source: Any) -> list[tuple[str, str]]:
    return problems_of_pod(volumes=[{"name": "data", **source}])


def test_ordinary_pod_is_valid() -> None:
    assert problems_of_pod() == []


INVALID_FIELDS: dict[str, tuple[Object, str]] = {
    "restartPolicy": ({"restartPolicy": "Sometimes"}, "`Sometimes` is not a value of `restartPolicy`"),
    "activeDeadlineSeconds": ({"activeDeadlineSeconds": 0}, "must be at least 1, got 0"),
    "terminationGracePeriodSeconds": ({"terminationGracePeriodSeconds": 2**63}, f"must be at most {2**63 - 1}"),
    "tolerations.0": ({"tolerations": [{"operator": "Equal"}]}, "without a key needs `operator: Exists`"),
    "tolerations.0.value": ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "takes no value"),
    "tolerations.0.tolerationSeconds": (
        {"tolerations": [{"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"}]},
        "needs `effect: NoExecute`",
    ),
    "initContainers.0.name": (
        {"initContainers": [{"name": "main", "image": "app:1"}]},
        "two containers are called `main`",
    ),
}


@pytest.mark.parametrize("place", INVALID_FIELDS)
def test_invalid_pod_field_is_named(place: str) -> None:
    fields, words = INVALID_FIELDS[place]
    ((where, message),) = problems_of_pod(**fields)
    assert where == place
    assert words in message


@pytest.mark.parametrize(
    "fields",
    [
        {"restartPolicy": ""},
        {"activeDeadlineSeconds": 2**31 - 1, "terminationGracePeriodSeconds": 0},
        {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]},
        {"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_valid_pod_fields(fields: Object) -> None:
    assert problems_of_pod(**fields) == []


INVALID_CONTAINER_FIELDS: dict[str, tuple[Object, str]] = {
    "image": ({"image": "App:1"}, "the image `App:1` "),
    "": ({"image": ""}, "the image `` is missing"),
    "ports.0.name": ({"ports": [{"containerPort": 1, "name": "a--b"}]}, "is not a legal port name"),
    "ports.1.name": (
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        "two ports of the container are called `a`",
    ),
    "ports.0.protocol": ({"ports": [{"containerPort": 1, "protocol": "tcp"}]}, "`tcp` is not a value of `protocol`"),
    "env.0.name": ({"env": [{"name": "A=B"}]}, "is not a legal name of a variable"),
    "env.0.valueFrom": (
        {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        "has a value and `valueFrom`",
    ),
    "readinessProbe": ({"readinessProbe": {}}, "needs one of exec, httpGet"),
    "livenessProbe.httpGet.port": ({"livenessProbe": {"httpGet": {"port": "web"}}}, "has no port of that name"),
    "lifecycle.preStop": ({"lifecycle": {"preStop": {}}}, "needs one of exec, httpGet"),
    "volumeMounts.0.name": ({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}, "no volume called `x`"),
    "volumeDevices.0.name": ({"volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]}, "no volume called `x`"),
    "volumeMounts.0.mountPath": ({"volumeMounts": [{"name": "data", "mountPath": "x"}]}, "is not an absolute path"),
    "volumeMounts.1.mountPath": (
        {"volumeMounts": [{"name": "data", "mountPath": "/x"}] * 2},
        "two volumes are mounted at `/x`",
    ),
    "resources.claims.0": ({"resources": {"claims": [{"name": "gpu"}]}}, "no resource claim called `gpu`"),
    "resources.limits.memory": ({"resources": {"limits": {"memory": "-1Gi"}}}, "is negative"),
    "resources.requests.cpu": (
        {"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}},
        "the request of `cpu` is greater than its limit",
    ),
    "resources.limits.rdma/hca": (
        {"resources": {"limits": {"rdma/hca": "1500m"}}},
        "`rdma/hca` must be a whole number",
    ),
}


@pytest.mark.parametrize("place", INVALID_CONTAINER_FIELDS)
def test_invalid_container_field_is_named(place: str) -> None:
    fields, words = INVALID_CONTAINER_FIELDS[place]
    container = {"name": "main", "image": "app:1", **fields}
    ((where, message),) = problems_of_pod(containers=[container], volumes=[{"name": "data", "emptyDir": {}}])
    assert where == ".".join(filter(None, ("containers.0", place)))
    assert words in message


@pytest.mark.parametrize(
    ("port", "expected"), [(0, "at least 1, got 0"), (1, ""), (65535, ""), (65536, "at most 65535")]
)
def test_container_port_range(port: int, expected: str) -> None:
    assert expected in " ".join(message for _, message in problems_of_container(ports=[{"containerPort": port}]))
    assert (problems_of_container(ports=[{"containerPort": port}]) == []) == (expected == "")


INVALID_VOLUMES: dict[str, tuple[Object, str]] = {
    "hostPath.path": ({"hostPath": {"path": "data"}}, "`data` is not an absolute path"),
    "hostPath.type": ({"hostPath": {"path": "/data", "type": "Dir"}}, "`Dir` is not a value of `type`"),
    "nfs": ({"nfs": {"server": "nas"}}, "`nfs` needs `path`"),
    "nfs.path": ({"nfs": {"server": "nas", "path": "/a/../b"}}, "`/a/../b` contains `..`"),
    "emptyDir.medium": ({"emptyDir": {"medium": "Disk"}}, "`Disk` is not a medium"),
    "image.reference": ({"image": {"reference": "App:1"}}, "the image `App:1` "),
    "secret.defaultMode": ({"secret": {"secretName": "a", "defaultMode": 0o1000}}, "0o1000 is not a file mode"),
    "emptyDir": ({"configMap": {"name": "c"}, "emptyDir": {}}, "it can have one source"),
}


@pytest.mark.parametrize("place", INVALID_VOLUMES)
def test_invalid_volume_field_is_named(place: str) -> None:
    source, words = INVALID_VOLUMES[place]
    ((where, message),) = problems_of_volume(**source)
    assert where == f"volumes.0.{place}"
    assert words in message


@pytest.mark.parametrize(
    "source",
    [
        {"hostPath": {"path": "/data"}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "0"}},
        {"emptyDir": {"medium": "HugePages-2Mi"}},
        {"image": {"reference": "registry.example.com/app:1"}},
        {"nfs": {"server": "nas", "path": "/export"}},
        {"secret": {"secretName": "a", "defaultMode": 0o777}},
    ],
    ids=str,
)
def test_valid_volumes(source: Object) -> None:
    assert problems_of_volume(**source) == []


def test_ranks_are_unique_and_ordered() -> None:
    """Each kind has its own rank, in the order of the table."""
    ranks = list(RANKS.values())
    assert ranks == sorted(set(ranks))
