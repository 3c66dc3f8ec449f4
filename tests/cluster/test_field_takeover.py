"""Fields removed from a document are removed in the cluster, even if another tool wrote the object in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from gpuctl.objects.api_resources import RESOURCES
from gpuctl.objects.recreated_objects import recreatable
from support.cluster_tools import HASH, Document, Object, Place, image, inference, notebook, training

MARKS = ("trust-remote", "OLD_FLAG", "/data/models", "privileged", "Probe", "5678", "old-label", "old-note", "helper")
RECORD = "kubectl.kubernetes.io/last-applied-configuration"
HELPER = {"name": "helper", "image": "registry.example.com/helper:v1", "ports": [{"containerPort": 9100}]}


def plain(strategy: str = "rolling") -> list[Document]:
    """Return a service, a training and a notebook without optional fields."""
    return [inference(service={"strategy": strategy}), training(), notebook(service={"strategy": strategy})]


def full(strategy: str = "rolling") -> list[Document]:
    """Return the same documents with many optional fields, each of which contains one of :data:`MARKS`."""
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
    """Return a quota for the namespace."""
    users = {place.namespace: {"cpu": "512", "memory": "4Ti", **limits}}
    return {"kind": "quota", "version": "v0.1", "quota": {"name": "team"}, "users": users}


def kubectl(place: Place, *documents: Document, flags: tuple[str, ...] = ()) -> None:
    """Apply the output of `gpuctl render` with kubectl."""
    rendered = place.gpuctl("render", "-f", place.file(*documents)).out
    place.kubectl("apply", *flags, "-f", "-", input=rendered)


def server_side_apply(place: Place, *documents: Document) -> None:
    """Apply it with another field manager's server-side apply."""
    kubectl(place, *documents, flags=("--server-side", "--force-conflicts", "--field-manager=argocd-controller"))


def kubectl_create(place: Place, *documents: Document) -> None:
    """Create it with `kubectl create`, which records no last-applied configuration."""
    rendered = yaml.safe_load_all(place.gpuctl("render", "-f", place.file(*documents)).out)
    items = [obj for obj in rendered if obj["kind"] not in ("PriorityClass", "Namespace")]
    place.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def restore_backup(place: Place, *documents: Document) -> None:
    """Apply with gpuctl, delete, and restore like a backup tool: all annotations, another field manager."""
    place.apply(*documents)
    saved = [place.get(*name.split("/")) for name in place.objects()]
    for obj in saved:
        place.kubectl("delete", obj["kind"], obj["metadata"]["name"], "--cascade=foreground")
    for obj in saved:
        place.create(recreatable(obj), manager="velero-server")


def after_gpuctl(tool: Callable[..., None]) -> Callable[..., None]:
    """Return a function that applies with gpuctl, then with the tool."""

    def both(place: Place, *documents: Document) -> None:
        place.apply(*documents)
        tool(place, *documents)

    return both


def remaining_marks(place: Place) -> set[str]:
    """Return the marks that are still in an object."""
    found = set()
    for name, obj in place.objects().items():
        annotations = {key: value for key, value in (obj["metadata"].get("annotations") or {}).items() if key != RECORD}
        text = json.dumps([obj.get("spec"), obj.get("data"), obj["metadata"]["labels"], annotations])
        found |= {f"{name}: {mark}" for mark in MARKS if mark in text}
    return found


TOOLS = {
    "kubectl apply": kubectl,
    "server-side apply": server_side_apply,
    "kubectl create": kubectl_create,
    "a restore": restore_backup,
    "gpuctl, then kubectl apply": after_gpuctl(kubectl),
    "gpuctl, then server-side apply": after_gpuctl(server_side_apply),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "strategy"),
    [
        *((tool, "rolling") for tool in TOOLS),
        ("kubectl apply", "replace"),
        ("gpuctl, then server-side apply", "replace"),
    ],
)
def test_removed_fields_are_deleted_for_every_writer(place: Place, tool: str, strategy: str) -> None:
    """Covers privileged mode, hostPath, args, variables, probes, ports, labels, annotations and containers.

    A replaced object keeps no fields, whoever wrote it, so that few writers show that strategy.
    """
    TOOLS[tool](place, *full(strategy))
    assert len(remaining_marks(place)) > 20
    uid = place.uid("Deployment", "serve")
    # This apply changes no values, but takes over the fields.
    place.apply(*full(strategy), flags=("--yes",))
    assert place.uid("Deployment", "serve") == uid
    place.apply(*plain(strategy), flags=("--yes",))
    assert remaining_marks(place) == set()
    assert place.gpuctl("diff", "-f", place.file(*plain(strategy))).out.count("unchanged") == 5
    # A later change of a value does not need `--adopt` either.
    changed = [inference(environment=image("v9"), service={"strategy": strategy, "port": 8001}), *plain(strategy)[1:]]
    place.apply(*changed, flags=("--yes",))
    (container,) = place.get("Deployment", "serve")["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(":v9")
    assert [port["port"] for port in place.get("Service", "svc-serve")["spec"]["ports"]] == [8001]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_first_apply_can_remove_fields(place: Place, tool: str) -> None:
    TOOLS[tool](place, *full())
    told = place.gpuctl("diff", "-f", place.file(*plain()), code=1).out
    assert all(mark in told for mark in ("privileged", "OLD_FLAG", "5678"))
    place.apply(*plain(), flags=("--yes",))
    assert remaining_marks(place) == set()


@pytest.mark.slow
@pytest.mark.parametrize("tool", [kubectl, server_side_apply, kubectl_create])
def test_removed_quota_limit_is_deleted(place: Place, tool: Callable[..., None]) -> None:
    """The same holds for metrics of an autoscaler."""
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


def test_removed_field_changed_by_another_manager_is_kept(place: Place) -> None:
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
    # A value that the document sets is still a conflict.
    refused = place.apply(document(KEPT="3"), flags=("--yes",), code=1)
    assert "held by kubectl-set" in refused.err


def test_field_left_by_an_earlier_gpuctl_is_deleted(place: Place) -> None:
    """The earlier version recorded the document without the field, but kubectl's last-applied annotation still contains
    it.
    """
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
    assert remaining_marks(place) == set()


@pytest.mark.slow
def test_unreadable_document_annotation_is_reported(place: Place) -> None:
    """The document is from a newer gpuctl or was edited: diff succeeds and reports that fields may remain."""
    kubectl(place, *full())
    place.apply(*full())
    for text in ("{", "[]", '{"kind": "training"}', '{"version": "v9", "kind": "inference", "x": 1}'):
        place.patch("Deployment", "serve", {"metadata": {"annotations": {"runwhere.ai/document": text, RECORD: "x"}}})
        told = place.gpuctl("diff", "-f", place.file(*plain()), code=1)
        assert "cannot read the document last applied" in told.err, text


def test_forged_document_changes_no_other_object(place: Place) -> None:
    """A user who may edit the Deployment must not be able to remove a port of the Service this way."""
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
    """Run the body while an admission policy adds a label, and more parts, to every Deployment of the namespace."""
    text = json.dumps(_policy(place.namespace, f'metadata: Object.metadata{{labels: {{"{label}": "x"}}}}', *more))
    place.plane.kubectl("apply", "-f", "-", input=text)
    try:
        place.until(lambda: _is_in_force(place, label), "the policy to be in force")
        yield
    finally:
        place.plane.kubectl("delete", "-f", "-", input=text)


def test_change_undone_by_admission_fails(place: Place) -> None:
    """`updated` is printed only if the server returned the change."""
    place.apply(*full())
    with admission(place, "old-label"):
        refused = place.apply(*plain(), flags=("--yes",), code=1)
        assert "returned it without the change of label old-label: admission sets the old value" in refused.out


@pytest.mark.slow
def test_fields_added_by_admission_are_neither_change_nor_drift(place: Place) -> None:
    """The policy adds a label and a sidecar to objects created by gpuctl and by kubectl."""
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
@pytest.mark.parametrize("tool", [kubectl, server_side_apply])
def test_removed_variable_of_a_jobset_is_deleted(place: Place, tool: Callable[..., None]) -> None:
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
