"""ApplySets of gpuctl and kubectl: each reads parents of the other, writes the same form, and refuses to manage them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.apply.state import applyset
from gpuctl.apply.state.applyset import ApplySet, NotOurSet
from gpuctl.objects.api_resources import RESOURCES
from gpuctl.objects.ownership_metadata import PART_OF

HOME, AWAY = "applyset-home", "applyset-away"

SPECS: dict[str, dict[str, Any]] = {
    "ConfigMap": {"data": {"k": "v"}},
    "Service": {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
    "Job": {
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        }
    },
    "PriorityClass": {"value": 7},
}


@pytest.fixture(autouse=True)
def namespaces(plane: ControlPlane) -> Iterator[None]:
    """Two namespaces without sets and members at the start of each test."""
    for name in (HOME, AWAY):
        if plane.kubectl("get", "namespace", name, "--ignore-not-found") == "":
            plane.kubectl("create", "namespace", name)
    yield
    for name in (HOME, AWAY):
        plane.kubectl("delete", "secrets,services,jobs", "--all", "-n", name)
        plane.kubectl("delete", "configmaps", "-l", "test=applyset", "-n", name)
    plane.kubectl("delete", "priorityclasses", "-l", "test=applyset")


def _object(kind: str, name: str, namespace: str | None = HOME, member_of: str | None = None) -> dict[str, Any]:
    labels = {"test": "applyset"} | ({PART_OF: member_of} if member_of else {})
    metadata = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": RESOURCES[kind].api_version, "kind": kind, "metadata": metadata, **SPECS[kind]}


def _kubectl_prune(plane: ControlPlane, *objects: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run ``kubectl apply --prune`` with these objects as the set ``demo``."""
    command = [str(plane.binaries / "kubectl"), f"--kubeconfig={plane.kubeconfig()}", "apply", "-n", HOME]
    return subprocess.run(
        [*command, "--prune", "--applyset=demo", "-f", "-"],
        input="\n---\n".join(json.dumps(obj) for obj in objects),
        env={**os.environ, "KUBECTL_APPLYSET": "true"},
        capture_output=True,
        text=True,
    )


def _create(plane: ControlPlane, *objects: dict[str, Any]) -> None:
    plane.kubectl("create", "-f", "-", input="\n---\n".join(json.dumps(obj) for obj in objects))


def _parent(plane: ControlPlane) -> dict[str, Any]:
    secret = plane.get("secret", "demo", "-n", HOME)
    assert isinstance(secret, dict)
    return secret


def _read(secret: dict[str, Any]) -> ApplySet:
    """Return a set that kubectl has written, as if gpuctl had."""
    annotations = {**secret["metadata"]["annotations"], applyset.TOOLING: applyset.OUR_TOOLING}
    read = applyset.parse_parent({**secret, "metadata": {**secret["metadata"], "annotations": annotations}})
    return read._replace(tooling=secret["metadata"]["annotations"][applyset.TOOLING])


def _write(written: ApplySet, existing: dict[str, Any] | None = None) -> dict[str, Any]:
    return applyset.parent_object(written, existing=existing)


def _present(plane: ControlPlane) -> set[str]:
    """Return the test objects that exist, as ``Kind/name``."""
    listed = plane.get("configmaps,services,jobs,priorityclasses", "-A", "-l", "test=applyset")["items"]
    return {f"{item['kind']}/{item['metadata']['name']}" for item in listed}


def _kubectl_tooling(plane: ControlPlane) -> str:
    version = json.loads(plane.kubectl("version", "--client", "-o", "json"))["clientVersion"]["gitVersion"]
    return f"kubectl/{version}"


@pytest.mark.slow
def test_kubectl_refuses_to_manage_a_gpuctl_set(plane: ControlPlane) -> None:
    """kubectl recognizes the Secret as a set, names gpuctl as its tooling, and changes nothing."""
    member = _object("ConfigMap", "member", member_of=applyset.set_id("demo", HOME))
    _create(plane, _write(applyset.exact_set("demo", HOME, [member])), member)
    before = _parent(plane)
    result = _kubectl_prune(plane, _object("ConfigMap", "other"))
    assert result.returncode == 1
    assert result.stderr == (
        'error: ApplySet parent object "secrets./demo" already exists and is managed by tooling "gpuctl" '
        'instead of "kubectl"\n'
    )
    assert _parent(plane) == before
    assert _present(plane) == {"ConfigMap/member"}


@pytest.mark.slow
def test_gpuctl_reads_and_refuses_to_manage_a_kubectl_set(plane: ControlPlane) -> None:
    objects = [_object("Service", "svc"), _object("Job", "job"), _object("PriorityClass", "pc", namespace=None)]
    result = _kubectl_prune(plane, *objects)
    assert result.returncode == 0, result.stderr
    parent = _parent(plane)
    tooling = _kubectl_tooling(plane)
    read = _read(parent)
    assert read == applyset.exact_set("demo", HOME, objects)._replace(tooling=tooling)
    assert read.group_kinds == {"Service", "Job.batch", "PriorityClass.scheduling.k8s.io"}
    assert parent["metadata"]["labels"] == {applyset.ID: read.id}
    assert plane.get("job", "job", "-n", HOME)["metadata"]["labels"][PART_OF] == read.id
    with pytest.raises(NotOurSet) as caught:
        applyset.parse_parent(parent)
    assert str(caught.value) == f"the set demo is managed by {tooling}; gpuctl manages only its own sets"


@pytest.mark.slow
def test_kubectl_and_gpuctl_write_equal_annotations(plane: ControlPlane) -> None:
    """The texts are equal except for the additional namespaces, which kubectl writes even when they are empty."""
    objects = [_object("Service", "svc"), _object("Job", "job"), _object("ConfigMap", "map")]
    result = _kubectl_prune(plane, *objects)
    assert result.returncode == 0, result.stderr
    theirs = _parent(plane)["metadata"]
    ours = _write(applyset.exact_set("demo", HOME, objects)._replace(tooling=_kubectl_tooling(plane)))["metadata"]
    assert theirs["annotations"] == {**ours["annotations"], applyset.NAMESPACES: ""}
    assert theirs["labels"] == ours["labels"]


def test_kubectl_prunes_with_a_parent_written_by_gpuctl(plane: ControlPlane) -> None:
    """With kubectl's name as tooling, kubectl accepts every annotation in gpuctl's form, including other namespaces."""
    part_of = applyset.set_id("demo", HOME)
    members = [
        _object("ConfigMap", "kept", member_of=part_of),
        _object("ConfigMap", "dropped", member_of=part_of),
        _object("Job", "dropped", namespace=AWAY, member_of=part_of),
        _object("Service", "dropped", namespace=AWAY, member_of=part_of),
        _object("PriorityClass", "dropped", namespace=None, member_of=part_of),
    ]
    strangers = [
        _object("ConfigMap", "stranger"),
        _object("Job", "stranger", namespace=AWAY, member_of=applyset.set_id("demo", AWAY)),
    ]
    written = applyset.exact_set("demo", HOME, members, ("git:jobs",))._replace(tooling=_kubectl_tooling(plane))
    _create(plane, _write(written), *members, *strangers)
    result = _kubectl_prune(plane, _object("ConfigMap", "kept"))
    assert result.returncode == 0, result.stderr
    assert sorted(line for line in result.stdout.splitlines() if line.endswith(" pruned")) == [
        "configmap/dropped pruned",
        "job.batch/dropped pruned",
        "priorityclass.scheduling.k8s.io/dropped pruned",
        "service/dropped pruned",
    ]
    assert _present(plane) == {"ConfigMap/kept", "ConfigMap/stranger", "Job/stranger"}
    assert _read(_parent(plane)) == written._replace(group_kinds=frozenset({"ConfigMap"}), namespaces=frozenset())


@pytest.mark.slow
def test_kubectl_and_gpuctl_reject_a_set_with_an_unknown_kind(plane: ControlPlane) -> None:
    unknown = ApplySet("demo", HOME, frozenset({"Service", "Widget.example.com"}), tooling=_kubectl_tooling(plane))
    _create(plane, _write(unknown))
    result = _kubectl_prune(plane, _object("ConfigMap", "new"))
    assert result.returncode == 1
    assert 'could not find mapping for kind in "applyset.kubernetes.io/contains-group-kinds"' in result.stderr
    with pytest.raises(NotOurSet, match=r"does not support: Widget\.example\.com"):
        applyset.resources_of(_read(_parent(plane)))


@pytest.mark.slow
def test_parent_update_from_a_stale_copy_conflicts(plane: ControlPlane) -> None:
    """Write the superset, then the exact set, on the live Secret. A write in between by another client is a conflict."""
    _create(plane, _write(applyset.exact_set("demo", HOME, [_object("Job", "a", AWAY)], ("git:a",))))
    stale = _parent(plane)
    desired = applyset.exact_set("demo", HOME, [_object("Service", "b")], ("git:b",))
    superset = applyset.superset(_read(stale), desired)
    plane.kubectl("replace", "-f", "-", input=json.dumps(_write(superset, stale)))
    assert _read(_parent(plane)) == superset
    plane.kubectl("replace", "-f", "-", input=json.dumps(_write(desired, _parent(plane))))
    assert _read(_parent(plane)) == desired
    with pytest.raises(RuntimeError, match="the object has been modified"):
        plane.kubectl("replace", "-f", "-", input=json.dumps(_write(superset, stale)))
    assert _read(_parent(plane)) == desired
