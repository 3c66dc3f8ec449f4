"""Fields that leave a document leave the cluster, also when another tool has written the object in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from gpuctl.objects.api_resources import RESOURCES
from gpuctl.objects.workload_state import recreatable
from support.cluster_tools import HASH, Document, Object, Place, image, inference, notebook, training

MARKS = ("trust-remote", "OLD_FLAG", "/data/models", "privileged", "Probe", "5678", "old-label", "old-note", "helper")
RECORD = "kubectl.kubernetes.io/last-applied-configuration"
HELPER = {"name": "helper", "image": "registry.example.com/helper:v1", "ports": [{"containerPort": 9100}]}


def plain(strategy: str = "rolling") -> list[Document]:
    """A service, a training and a notebook with nothing optional."""
    return [inference(service={"strategy": strategy}), training(), notebook(service={"strategy": strategy})]


def full(strategy: str = "rolling") -> list[Document]:
    """The same with many optional fields, each of which contains one of :data:`MARKS`."""
    main = {"name": "main", "securityContext": {"privileged": True}}
    more: dict[str, Any] = {
        "environment": {"args": ["--trust-remote-code"], "env": {"OLD_FLAG": "1"}},
        "job": {"labels": {"old-label": "x"}, "annotations": {"example.com/old-note": "x"}},
        "storage": {"workdirs": [{"path": "/data/models", "type": "DirectoryOrCreate"}]},
        "podPatch": {"containers": [main, HELPER]},
    }
    ports = {"health_check": "/health", "ports": [{"name": "debug", "port": 5678}]}
    served = {"strategy": strategy, **ports}
    return [inference(**more, service=served), training(**more), notebook(**more, service={"strategy": strategy})]


def quota(place: Place, **limits: int) -> Document:
    """A quota of the namespace."""
    users = {place.namespace: {"cpu": "512", "memory": "4Ti", **limits}}
    return {"kind": "quota", "version": "v0.1", "quota": {"name": "team"}, "users": users}


def kubectl(place: Place, *documents: Document, flags: tuple[str, ...] = ()) -> None:
    """Apply what `gpuctl render` prints with kubectl."""
    rendered = place.gpuctl("render", "-f", place.file(*documents)).out
    place.kubectl("apply", *flags, "-f", "-", input=rendered)


def server_side(place: Place, *documents: Document) -> None:
    """The same with another field manager's server-side apply."""
    kubectl(place, *documents, flags=("--server-side", "--force-conflicts", "--field-manager=argocd-controller"))


def created(place: Place, *documents: Document) -> None:
    """The same with `kubectl create`, which leaves no record."""
    rendered = yaml.safe_load_all(place.gpuctl("render", "-f", place.file(*documents)).out)
    items = [obj for obj in rendered if obj["kind"] not in ("PriorityClass", "Namespace")]
    place.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def restored(place: Place, *documents: Document) -> None:
    """Apply with gpuctl, delete, and restore as a backup does: with all annotations, by another manager."""
    place.apply(*documents)
    saved = [place.get(*name.split("/")) for name in place.objects()]
    for obj in saved:
        place.kubectl("delete", obj["kind"], obj["metadata"]["name"], "--cascade=foreground")
    for obj in saved:
        place.create(recreatable(obj), manager="velero-server")


def first_ours(tool: Callable[..., None]) -> Callable[..., None]:
    """Apply with gpuctl, then with a tool."""

    def both(place: Place, *documents: Document) -> None:
        place.apply(*documents)
        tool(place, *documents)

    return both


def left(place: Place) -> set[str]:
    """Return the marks that are still in an object."""
    found = set()
    for name, obj in place.objects().items():
        annotations = {key: value for key, value in (obj["metadata"].get("annotations") or {}).items() if key != RECORD}
        text = json.dumps([obj.get("spec"), obj.get("data"), obj["metadata"]["labels"], annotations])
        found |= {f"{name}: {mark}" for mark in MARKS if mark in text}
    return found


TOOLS = {
    "kubectl apply": kubectl,
    "server-side apply": server_side,
    "kubectl create": created,
    "a restore": restored,
    "gpuctl, then kubectl apply": first_ours(kubectl),
    "gpuctl, then server-side apply": first_ours(server_side),
}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["rolling", "replace"])
@pytest.mark.parametrize("tool", TOOLS)
def test_removed_fields_go_whoever_wrote_the_object(place: Place, tool: str, strategy: str) -> None:
    """Privileged, hostPath, args, env, probes, ports, labels, annotations, containers; Deployment, Service, Job."""
    TOOLS[tool](place, *full(strategy))
    assert len(left(place)) > 20
    uid = place.uid("Deployment", "serve")
    # The harmless first apply takes the fields over.
    place.apply(*full(strategy), flags=("--yes",))
    assert place.uid("Deployment", "serve") == uid
    place.apply(*plain(strategy), flags=("--yes",))
    assert left(place) == set()
    assert place.gpuctl("diff", "-f", place.file(*plain(strategy))).out.count("unchanged") == 5
    # Nor does a later change of a value need `--adopt`.
    changed = [inference(environment=image("v9"), service={"strategy": strategy, "port": 8001}), *plain(strategy)[1:]]
    place.apply(*changed, flags=("--yes",))
    (container,) = place.get("Deployment", "serve")["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(":v9")
    assert [port["port"] for port in place.get("Service", "svc-serve")["spec"]["ports"]] == [8001]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_the_first_apply_may_remove_them(place: Place, tool: str) -> None:
    TOOLS[tool](place, *full())
    told = place.gpuctl("diff", "-f", place.file(*plain()), code=1).out
    assert all(mark in told for mark in ("privileged", "OLD_FLAG", "5678"))
    place.apply(*plain(), flags=("--yes",))
    assert left(place) == set()


@pytest.mark.slow
@pytest.mark.parametrize("tool", [kubectl, server_side, created])
def test_a_limit_that_leaves_a_quota_is_no_longer_in_force(place: Place, tool: Callable[..., None]) -> None:
    """Also of an autoscaler: what a document no longer states does not stay beside it."""
    limits = {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "targetGPUUtilization": 50}
    before = [quota(place, gpu=64), inference(autoscaling={**limits, "targetMemoryUtilization": 60})]
    after = [quota(place), inference(autoscaling=limits)]
    tool(place, *before)
    place.apply(*before, flags=("--yes",))
    place.apply(*after, flags=("--yes",))
    (hard,) = [obj["spec"]["hard"] for name, obj in place.objects().items() if name.startswith("ResourceQuota/")]
    assert not any("gpu" in key for key in hard)
    assert len(place.get("HorizontalPodAutoscaler", "serve")["spec"]["metrics"]) == 1


def env(place: Place) -> dict[str, str]:
    (container,) = place.get("Deployment", "serve")["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item.get("value", "") for item in container["env"]}


def test_a_value_that_another_manager_has_changed_since_stays_and_is_named(place: Place) -> None:
    def document(**variables: str) -> Document:
        return inference(environment={"env": variables}, service={"strategy": "rolling"})

    kubectl(place, document(KEPT="1", GONE="1"))
    place.apply(document(KEPT="1", GONE="1"))
    place.kubectl("set", "env", "deployment/serve", "KEPT=2")
    told = place.gpuctl("diff", "-f", place.file(document()), code=1).out
    assert "keeps containers[main].env[KEPT] (kubectl-set), changed since the last apply" in told
    assert "env[GONE]" in told
    place.apply(document(), flags=("--yes",))
    assert "GONE" not in env(place)
    assert env(place)["KEPT"] == "2"
    # A value that the document states is a conflict, as ever.
    refused = place.apply(document(KEPT="3"), flags=("--yes",), code=1)
    assert "held by kubectl-set" in refused.err


def test_what_an_earlier_gpuctl_left_behind_goes(place: Place) -> None:
    """It had recorded the document without a field that stayed: kubectl's own record still has that field."""
    kubectl(place, *full())
    place.apply(*plain(), flags=("--yes",))
    deployment = place.get("Deployment", "serve")
    patch: Object = {
        "spec": {"template": {"spec": {"containers": [{"name": "main", "args": ["--trust-remote-code"]}]}}}
    }
    place.api.call(
        "PATCH",
        f"{place.path('Deployment', 'serve')}?fieldManager=kubectl-client-side-apply",
        patch,
        "application/strategic-merge-patch+json",
    )
    assert deployment["metadata"]["annotations"][HASH]
    assert "args" in place.gpuctl("diff", "-f", place.file(*plain()), code=1).out
    place.apply(*plain(), flags=("--yes",))
    assert left(place) == set()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "training"}', '{"version": "v9", "kind": "inference", "x": 1}'])
def test_a_document_that_cannot_be_read(place: Place, text: str) -> None:
    """Written by a newer gpuctl, or by hand: nothing fails, and what may stay is said."""
    kubectl(place, *full())
    place.apply(*full())
    place.patch("Deployment", "serve", {"metadata": {"annotations": {"runwhere.ai/document": text, RECORD: "x"}}})
    told = place.gpuctl("diff", "-f", place.file(*plain()), code=1)
    assert "cannot read the document last applied" in told.err


def test_a_forged_document_reaches_no_other_object(place: Place) -> None:
    """Whoever may edit the Deployment may not thereby take a port from the Service."""
    place.apply(*plain())
    port = {"name": "metrics", "port": 5678, "targetPort": 5678, "protocol": "TCP"}
    ports = place.get("Service", "svc-serve")["spec"]["ports"]
    place.patch("Service", "svc-serve", {"spec": {"ports": [*ports, port]}}, manager="admin")
    forged = place.gpuctl("render", "-f", place.file(full()[0]), "--embed").out
    place.kubectl("annotate", "deployment/serve", "--overwrite", f"runwhere.ai/document={document_of(forged)}")
    place.apply(inference(service={"strategy": "rolling", "port": 8001}), training(), flags=("--yes",))
    assert {5678, 8001} == {port["port"] for port in place.get("Service", "svc-serve")["spec"]["ports"]}


def document_of(rendered: str) -> str:
    """Return the document that is embedded in a rendered Deployment."""
    (main,) = [obj for obj in yaml.safe_load_all(rendered) if obj["kind"] == "Deployment"]
    return str(main["metadata"]["annotations"]["runwhere.ai/document"])


@contextmanager
def admission(place: Place, label: str, *more: str) -> Iterator[None]:
    """Let admission put a label, and more, into every Deployment of the namespace."""
    text = json.dumps(_policy(place.namespace, f'metadata: Object.metadata{{labels: {{"{label}": "x"}}}}', *more))
    place.plane.kubectl("apply", "-f", "-", input=text)
    try:
        place.until(lambda: _is_in_force(place, label), "the policy to be in force")
        yield
    finally:
        place.plane.kubectl("delete", "-f", "-", input=text)


def test_a_change_that_admission_undoes_is_no_success(place: Place) -> None:
    """`updated` is said only of the object that the server returned."""
    place.apply(*full())
    with admission(place, "old-label"):
        refused = place.apply(*plain(), flags=("--yes",), code=1)
        assert "returned it without the change of label old-label: admission sets the old value" in refused.out


@pytest.mark.slow
def test_what_admission_adds_is_neither_a_change_nor_drift(place: Place) -> None:
    """A label and a sidecar, in an object that gpuctl creates and in one that kubectl creates."""
    place.apply(inference("first"))
    helper = 'containers: [Object.spec.template.spec.containers{name: "mesh", image: "mesh:1"}]'
    pod = f"spec: Object.spec{{template: Object.spec.template{{spec: Object.spec.template.spec{{{helper}}}}}}}"
    with admission(place, "injected", pod):
        document, other = inference("ours"), inference("theirs", service={"strategy": "rolling"})
        place.apply(document)
        kubectl(place, other)
        for _ in range(2):
            report = place.gpuctl("drift", place.file(document, other), "--fail", "-o", "json").value
            assert report["objects"] == []
            assert {one["name"] for one in report["expected"]} == {"ours", "theirs"}
            place.apply(document, other)
        assert set(place.plan(document, other).actions.values()) == {"unchanged"}
        changed = [{**one, "environment": image("v2")} for one in (document, other)]
        place.apply(*changed, flags=("--yes",))
        names = [part["name"] for part in place.get("Deployment", "theirs")["spec"]["template"]["spec"]["containers"]]
        assert sorted(names) == ["main", "mesh"]


@pytest.mark.slow
@pytest.mark.parametrize("tool", [kubectl, server_side])
def test_a_jobset(place: Place, tool: Callable[..., None]) -> None:
    place.platform("training: {backend: jobset}")
    command = {"command": ["deepspeed", "--no_ssh", "x.py"]}
    few = training(resources={"nodes": 2}, environment=command)
    many = training(resources={"nodes": 2}, environment={**command, "env": {"OLD_FLAG": "1"}})
    tool(place, many)
    place.apply(many)
    assert "OLD_FLAG" in json.dumps(place.get("JobSet", "train")["spec"])
    place.apply(few, flags=("--yes",))
    assert "OLD_FLAG" not in json.dumps(place.get("JobSet", "train")["spec"])


def _policy(namespace: str, *parts: str) -> Object:
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    operations = ["CREATE", "UPDATE"]
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": operations, "resources": ["deployments"]}]
    group = "admissionregistration.k8s.io/v1"
    expression = f"Object{{{', '.join(parts)}}}"
    policy = {
        "matchConstraints": {"resourceRules": rules},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    items = [
        {"apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": {"name": namespace}, "spec": policy},
        {
            "apiVersion": group,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": namespace},
            "spec": {"policyName": namespace, "matchResources": where},
        },
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _is_in_force(place: Place, label: str) -> bool:
    items = place.api.call("GET", RESOURCES["Deployment"].path(place.namespace))["items"]
    path = f"{place.path('Deployment', items[0]['metadata']['name'])}?dryRun=All"
    found = place.api.call("PATCH", path, {"metadata": {"labels": {label: None}}}, "application/merge-patch+json")
    return label in found["metadata"]["labels"]
