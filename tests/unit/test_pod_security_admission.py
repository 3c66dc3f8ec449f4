"""Pod Security admission, rule by rule: accepted pods, rejected pods, and the field that is named.

``tests/cluster/test_fit_admission.py`` compares the rules with real admission; here each has a case without a cluster.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.capacity.admission.pod_security_admission import ENFORCE, forbidden

SAFE: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {"name": "main", "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    ],
}


def violations(level: str, spec: dict[str, Any], version: str | None = None) -> str:
    labels = {ENFORCE: level, **({f"{ENFORCE}-version": version} if version else {})}
    return " ".join(forbidden({"spec": spec}, labels))


def with_context(**fields: Any) -> dict[str, Any]:
    """Return the safe pod with changed fields of its container's security context; None removes a field."""
    spec = copy.deepcopy(SAFE)
    context = {**spec["containers"][0]["securityContext"], **fields}
    spec["containers"][0]["securityContext"] = {key: value for key, value in context.items() if value is not None}
    return spec


@pytest.mark.parametrize("level", ["privileged", "baseline", "restricted"])
def test_safe_pod_passes_every_level(level: str) -> None:
    assert violations(level, SAFE) == ""


BASELINE = {
    "hostNetwork: true": {**SAFE, "hostNetwork": True},
    "hostPID: true": {**SAFE, "hostPID": True},
    "hostIPC: true": {**SAFE, "hostIPC": True},
    "hostPath": {**SAFE, "volumes": [{"name": "data", "hostPath": {"path": "/data"}}]},
    "hostPort 80": {**SAFE, "containers": [{**SAFE["containers"][0], "ports": [{"hostPort": 80}]}]},
    "httpGet.host": {**SAFE, "containers": [{**SAFE["containers"][0], "livenessProbe": {"httpGet": {"host": "a"}}}]},
    "privileged: true": with_context(privileged=True),
    "hostProcess: true": with_context(windowsOptions={"hostProcess": True}),
    "appArmorProfile.type: Unconfined": with_context(appArmorProfile={"type": "Unconfined"}),
    "seLinuxOptions.type: spc_t": with_context(seLinuxOptions={"type": "spc_t"}),
    "procMount": with_context(procMount="Unmasked"),
    "SYS_ADMIN": with_context(capabilities={"add": ["SYS_ADMIN"], "drop": ["ALL"]}),
    "seccompProfile.type: Unconfined": with_context(seccompProfile={"type": "Unconfined"}),
    "kernel.sem": {**SAFE, "securityContext": {**SAFE["securityContext"], "sysctls": [{"name": "kernel.sem"}]}},
}
RESTRICTED = {
    "nfs": {**SAFE, "volumes": [{"name": "share", "nfs": {"server": "nfs", "path": "/"}}]},
    "allowPrivilegeEscalation": with_context(allowPrivilegeEscalation=None),
    "runAsNonRoot": {**SAFE, "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
    "runAsUser: 0": with_context(runAsUser=0),
    "no securityContext.seccompProfile.type": {**SAFE, "securityContext": {"runAsNonRoot": True}},
    "no securityContext.capabilities.drop": with_context(capabilities=None),
    "CHOWN": with_context(capabilities={"add": ["CHOWN"], "drop": ["ALL"]}),
}


@pytest.mark.parametrize("field", BASELINE)
def test_baseline_rejects(field: str) -> None:
    assert field in violations("baseline", BASELINE[field])
    assert field in violations("restricted", BASELINE[field])
    assert violations("privileged", BASELINE[field]) == ""


@pytest.mark.parametrize("field", RESTRICTED)
def test_only_restricted_rejects(field: str) -> None:
    assert field in violations("restricted", RESTRICTED[field])
    assert violations("baseline", RESTRICTED[field]) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"appArmorProfile": {"type": "RuntimeDefault"}},
        {"appArmorProfile": {"type": "Localhost"}},
        {"seccompProfile": {"type": "Localhost"}},
        {"seLinuxOptions": {"type": "container_t"}},
        {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
        {"procMount": "Default"},
        {"runAsUser": 1000},
    ],
    ids=str,
)
def test_restricted_accepts(fields: dict[str, Any]) -> None:
    assert violations("restricted", with_context(**fields)) == ""


def test_rules_apply_from_the_version_that_introduced_them() -> None:
    engine = with_context(seLinuxOptions={"type": "container_engine_t"})
    assert "container_engine_t" in violations("baseline", engine, "v1.30")
    assert violations("baseline", engine, "v1.31") == ""
    probe = BASELINE["httpGet.host"]
    assert violations("baseline", probe, "v1.33") == ""
    assert "httpGet.host" in violations("baseline", probe, "v1.34")
    windows = {**with_context(capabilities=None), "os": {"name": "windows"}}
    assert "capabilities" in violations("restricted", windows, "v1.24")
    assert violations("restricted", windows, "v1.25") == ""
