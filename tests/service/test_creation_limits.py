"""Pods that the service creates for limited tokens comply with the Pod Security Standards; compared with Kubernetes's
own admission.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import POOL, fresh_namespaces, training
from support.documents_sent import sent, text_of
from support.served import Served, serving

PLACE = "pods-kept"
HELD = "pods-held-by-kubernetes"
USERS = {
    "admin": ("admin", None, None),
    "local": ("admin", (PLACE,), None),
    "user": ("user", (PLACE,), None),
    "free": ("user", None, None),
}


def main(**context: Any) -> dict[str, Any]:
    return {"podPatch": {"containers": [{"name": "main", "securityContext": context}]}}


def volume(**source: Any) -> dict[str, Any]:
    return {"podPatch": {"volumes": [{"name": "more", **source}]}}


REFUSED: dict[str, dict[str, Any]] = {
    "privileged": main(privileged=True),
    "capabilities": main(capabilities={"add": ["SYS_ADMIN"]}),
    "unconfined": main(seccompProfile={"type": "Unconfined"}),
    "a probe of another host": {
        "podPatch": {"containers": [{"name": "main", "livenessProbe": {"httpGet": {"port": 80, "host": "10.0.0.1"}}}]}
    },
    "network of the host": {"podPatch": {"hostNetwork": True}},
    "processes of the host": {"podPatch": {"hostPID": True}},
    "memory of the host": {"podPatch": {"hostIPC": True}},
    "a port of the host": {
        "podPatch": {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    },
    "a path of the host": volume(hostPath={"path": "/srv/data"}),
    "a directory of the host": {"storage": {"workdirs": [{"path": "/datasets/a"}]}},
    "an init container": {
        "podPatch": {"initContainers": [{"name": "i", "image": "x", "securityContext": {"privileged": True}}]}
    },
    "sysctls": {"podPatch": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}},
    "an annotation": {"job": {"annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}}},
}
ALLOWED: dict[str, dict[str, Any]] = {
    "plain": {},
    "a claim": {"storage": {"workdirs": [{"path": "/data", "pvc": {"claim": "data"}}]}},
    "a share": {"storage": {"workdirs": [{"path": "/data", "nfs": {"server": "nfs", "path": "/data"}}]}},
    "a secret": {"environment": {"env": [{"name": "T", "secret": "s", "key": "t"}]}},
    "less": main(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]}),
}
_NUMBERS = count()
ACCOUNT = {"podPatch": {"serviceAccountName": "builder"}}


def job(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    return training(name, resources={"pool": POOL, "gpu": 0}, **changes)


@pytest.fixture(scope="module")
def default_service(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service with default settings, and a namespace in which Kubernetes enforces the baseline standard."""
    fresh_namespaces(plane, PLACE, HELD)
    plane.kubectl("create", "serviceaccount", "builder", "-n", PLACE)
    plane.kubectl("label", "namespace", HELD, "pod-security.kubernetes.io/enforce=baseline")
    with serving(tmp_path_factory.mktemp("kept"), plane.kubeconfig(), USERS) as served:  # type: ignore[arg-type]
        yield served
    plane.kubectl("delete", "namespace", PLACE, HELD, "--wait=false")


def rejection_details(served: Served, name: str, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the details of the rejection; assert that every path that takes the document rejects it."""
    body = sent(document, namespace=PLACE)
    answers = [
        served.call("POST", "/jobs", name, status=403, json=body),
        served.call("POST", "/jobs", name, status=403, json={**body, "dryRun": True}),
        served.call("POST", "/plan", name, status=403, json=body),
    ]
    batch = {"yamlContents": [text_of(document, namespace=PLACE)]}
    answers.append(served.call("POST", "/jobs/batch", name, status=201, json=batch)["failed"][0])
    assert {answer["error"] for answer in answers} == {"PodSecurity"}
    found: list[dict[str, Any]] = answers[0]["details"]
    return found


@pytest.mark.parametrize("case", REFUSED)
def test_pods_that_violate_baseline_are_rejected(default_service: Served, api: Api, case: str) -> None:
    """Rejected for users and limited admins, with every violation; nothing reaches the cluster."""
    document = job("pods-refused", REFUSED[case])
    for name in ("user", "local", "free"):
        for detail in rejection_details(default_service, name, document):
            assert detail["document"] == f"training/pods-refused in {PLACE}"
            assert detail["message"]
    assert api.get("Job", PLACE, "pods-refused") is None
    # An unlimited admin may create such pods.
    default_service.call("POST", "/jobs", json=sent(document, namespace=PLACE, dryRun=True))
    assert not _is_admitted_by_kubernetes(default_service, document)


@pytest.mark.parametrize("case", ALLOWED)
def test_pods_that_comply_with_baseline_are_accepted(default_service: Served, case: str) -> None:
    document = job("pods-allowed", ALLOWED[case])
    default_service.call("POST", "/jobs", "user", json=sent(document, namespace=PLACE, dryRun=True))
    assert _is_admitted_by_kubernetes(default_service, document)


def _is_admitted_by_kubernetes(served: Served, document: dict[str, Any]) -> bool:
    """Return True if Kubernetes's own admission accepts the pods in a namespace that enforces the baseline standard."""
    response = served.client().post("/jobs", json=sent(document, namespace=HELD, dryRun=True))
    assert response.status_code == 200 or "violates PodSecurity" in response.json()["message"], response.text
    return response.status_code == 200


def test_other_service_accounts_are_rejected(default_service: Served) -> None:
    """A pod has all rights of its ServiceAccount."""
    (detail,) = rejection_details(default_service, "user", job("pods-account", ACCOUNT))
    assert detail["message"] == "serviceAccountName: builder"


def test_updates_and_plans_are_checked_too(default_service: Served, api: Api) -> None:
    """An update is checked as a creation is, by REST and on the paths that `gpuctl --server` uses."""
    # If the test is repeated, the job of the first run still exists.
    name = f"pods-there-{next(_NUMBERS)}"
    default_service.call("POST", "/jobs", "user", status=201, json=sent(job(name, {}), namespace=PLACE))
    default_service.until(f"/jobs/{name}", lambda value: True, "user")
    before = api.get("Job", PLACE, name)
    worse = text_of(job(name, REFUSED["privileged"]), namespace=PLACE)
    for query in ({}, {"confirm": "true"}, {"dryRun": "true"}):
        answer = default_service.call(
            "PUT", f"/jobs/{name}", "user", status=403, json={"yamlContent": worse}, params=query
        )
        assert answer["error"] == "PodSecurity"
    for road in ("plan", "apply"):
        files = [{"name": "a.yaml", "text": worse}]
        assert (
            default_service.call("POST", f"/{road}", "user", status=403, json={"files": files})["error"]
            == "PodSecurity"
        )
    after = api.get("Job", PLACE, name)
    assert before is not None
    assert after is not None
    assert after["spec"]["template"] == before["spec"]["template"]


def test_settings_change_what_pods_may_do(plane: ControlPlane, tmp_path: Path) -> None:
    """Settings allow another level, host directories and ServiceAccounts; everything else stays forbidden."""
    settings = {"host_paths": '["/datasets", "/scratch/"]', "service_accounts": '["builder"]'}
    with serving(tmp_path, plane.kubeconfig(), USERS, **settings) as own:  # type: ignore[arg-type]

        def status(changes: dict[str, Any]) -> int:
            body = sent(job("pods-set", changes), namespace="default", dryRun=True)
            return own.client("free").post("/jobs", json=body).status_code

        assert status(ACCOUNT) == 200
        for path, wanted in {
            "/datasets": 200,
            "/datasets/a/b": 200,
            "/scratch/x": 200,
            "/datasets-of-others": 403,
            # No setting of the service allows these: the compiler rejects them.
            "/": 400,
            "/etc": 400,
        }.items():
            assert status(volume(hostPath={"path": path})) == wanted, path
        assert status(main(privileged=True)) == 403
    for level, case, wanted in (("privileged", "privileged", 200), ("restricted", "plain", 403)):
        directory = tmp_path / level
        directory.mkdir()
        with serving(directory, plane.kubeconfig(), USERS, pod_security=level) as own:  # type: ignore[arg-type]
            body = sent(job("pods-set", {**ALLOWED, **REFUSED}[case]), namespace="default", dryRun=True)
            assert own.client("free").post("/jobs", json=body).status_code == wanted
