"""Checks of patched pods (``podPatch``), rule by rule: the rejected field, and valid values.

``tests/cluster/test_pod_validation.py`` compares the rules with the API server; here each has a case without a cluster.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.backend.object_order import RANKS
from gpuctl.backend.pod_validation import check_pod

Object = dict[str, Any]

IN_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


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
    "securityContext.seLinuxChangePolicy": (
        {"securityContext": {"seLinuxChangePolicy": "Now"}},
        "`Now` is not a value",
    ),
    "activeDeadlineSeconds": ({"activeDeadlineSeconds": 0}, "must be at least 1, got 0"),
    "securityContext.runAsUser": ({"securityContext": {"runAsUser": 2**31}}, "must be at most 2147483647"),
    "runtimeClassName": ({"runtimeClassName": "A_B"}, "`A_B` is not a legal object name"),
    "nodeSelector.a b": ({"nodeSelector": {"a b": "c"}}, "`a b: c` is not a legal label"),
    "schedulingGates.1.name": ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, "is listed twice"),
    "resourceClaims.0.name": ({"resourceClaims": [{"name": "A", "resourceClaimName": "x"}]}, "`A` is not a DNS label"),
    "resourceClaims.0": ({"resourceClaims": [{"name": "gpu"}]}, "needs one of resourceClaimName and"),
    "resourceClaims.0.resourceClaimName": (
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "A"}]},
        "`A` is not a legal object name",
    ),
    "tolerations.0": ({"tolerations": [{"operator": "Equal"}]}, "without a key needs `operator: Exists`"),
    "tolerations.0.key": ({"tolerations": [{"key": "a b"}]}, "`a b` is not a legal taint key"),
    "tolerations.0.value": ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "takes no value"),
    "tolerations.0.tolerationSeconds": (
        {"tolerations": [{"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"}]},
        "needs `effect: NoExecute`",
    ),
    f"affinity.nodeAffinity.{IN_TERMS}.nodeSelectorTerms": (
        {"affinity": {"nodeAffinity": {IN_TERMS: {"nodeSelectorTerms": []}}}},
        "needs at least one term",
    ),
    f"affinity.podAffinity.{IN_TERMS}.0": ({"affinity": {"podAffinity": {IN_TERMS: [{}]}}}, "needs a `topologyKey`"),
    "topologySpreadConstraints.0.topologyKey": (
        {"topologySpreadConstraints": [{**SPREAD, "topologyKey": "a b"}]},
        "`a b` is not a legal label key",
    ),
    "topologySpreadConstraints.0.minDomains": (
        {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]},
        "needs `whenUnsatisfiable: DoNotSchedule`",
    ),
    "dnsPolicy": ({"dnsPolicy": "None"}, "needs `dnsConfig.nameservers`"),
    "dnsConfig.nameservers.0": ({"dnsConfig": {"nameservers": ["dns"]}}, "`dns` is not an IP address"),
    "dnsConfig.nameservers": ({"dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, "has more than 3 entries"),
    "dnsConfig.options.0": ({"dnsConfig": {"options": [{"value": "1"}]}}, "an option of the resolver needs a name"),
    "hostAliases.0.ip": ({"hostAliases": [{"ip": "fe80::1%eth0", "hostnames": ["a"]}]}, "is not an IP address"),
    "hostAliases.0.hostnames.0": ({"hostAliases": [{"ip": "::1", "hostnames": ["a b"]}]}, "is not a host name"),
    "shareProcessNamespace": ({"hostPID": True, "shareProcessNamespace": True}, "cannot both be set"),
    "hostNetwork": ({"hostUsers": False, "hostNetwork": True}, "cannot be set with `hostUsers: false`"),
    "securityContext.sysctls.0.name": (
        {"securityContext": {"sysctls": [{"name": "kernel..sem"}]}},
        "`kernel..sem` is not the name of a sysctl",
    ),
    "securityContext.sysctls.1.name": (
        {"securityContext": {"sysctls": [{"name": "kernel.sem"}, {"name": "kernel/sem"}]}},
        "the sysctl `kernel/sem` is set twice",
    ),
    "os.name": ({"os": {"name": "windows"}}, "gpuctl makes pods for Linux nodes"),
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
        {"securityContext": {"runAsUser": 2**31 - 1, "seLinuxChangePolicy": "MountOption"}},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]},
        {"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]},
        {"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}]},
        {"topologySpreadConstraints": [{**SPREAD, "minDomains": 2}]},
        {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["::1"], "options": [{"name": "ndots", "value": "2"}]}},
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["registry"]}]},
        {"hostNetwork": True, "hostPID": True},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_valid_pod_fields(fields: Object) -> None:
    assert problems_of_pod(**fields) == []


@pytest.mark.parametrize(
    ("port", "expected"), [(0, "at least 1, got 0"), (1, ""), (65535, ""), (65536, "at most 65535")]
)
def test_container_port_range(port: int, expected: str) -> None:
    assert expected in " ".join(message for _, message in problems_of_container(ports=[{"containerPort": port}]))
    assert (problems_of_container(ports=[{"containerPort": port}]) == []) == (expected == "")


INVALID_VOLUMES: dict[str, tuple[Object, str]] = {
    "hostPath.path": ({"hostPath": {"path": "data"}}, "`data` is not an absolute path"),
    "nfs": ({"nfs": {"server": "nas"}}, "`nfs` needs `path`"),
    "emptyDir.medium": ({"emptyDir": {"medium": "Disk"}}, "`Disk` is not a medium"),
    "emptyDir.sizeLimit": ({"emptyDir": {"sizeLimit": "-1Gi"}}, "the size is negative"),
    "image.reference": ({"image": {"reference": "App:1"}}, "the image `App:1` "),
    "csi.driver": ({"csi": {"driver": "a_b"}}, "`a_b` is not the name of a CSI driver"),
    "ephemeral": ({"ephemeral": {}}, "needs `volumeClaimTemplate.spec`"),
    "projected.sources.0": ({"projected": {"sources": [{}]}}, "needs one of secret, configMap"),
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
    ],
    ids=str,
)
def test_valid_volumes(source: Object) -> None:
    assert problems_of_volume(**source) == []


def test_ranks_are_unique_and_ordered() -> None:
    """Each kind has its own rank, in the order of the table."""
    ranks = list(RANKS.values())
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("limits.cpu", ""),
        ("requests.hugepages-2Mi", ""),
        ("limits.gpus", "`limits.gpus` is not an amount"),
        ("cpu", "`cpu` is not an amount"),
    ],
)
def test_resource_field_refs(reference: str, expected: str) -> None:
    """A variable needs no container name, a volume does."""
    env = [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": reference}}}]
    assert expected in " ".join(message for _, message in problems_of_container(env=env))
    assert (problems_of_container(env=env) == []) == (expected == "")
    item = {"path": "a", "resourceFieldRef": {"resource": reference}}
    ((where, message),) = problems_of_volume(downwardAPI={"items": [item]})[-1:]
    assert (where, "needs `containerName`" in message) == ("volumes.0.downwardAPI.items.0.resourceFieldRef", True)
