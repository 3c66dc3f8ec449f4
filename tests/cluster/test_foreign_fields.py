"""Fields that other clients wrote into gpuctl's objects: a plan shows what a replacement drops, rolling keeps them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from fault_tools.proxy import Proxy, matching, meanwhile, nth, on
from gpuctl.objects.recreated_objects import recreatable
from properties.scale import part_of
from support.cluster_tools import Place, image, inference, notebook, outcome, training

Object = dict[str, Any]
SIDECAR = {"name": "proxy", "image": "registry.example.com/proxy:1"}
POD: Object = {
    "metadata": {"labels": {"example.com/tier": "gold"}, "annotations": {"example.com/note": "pod"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "env": [{"name": "EXTRA", "value": "1"}, {"name": "OTHER", "value": "2"}],
                "volumeMounts": [{"name": "more", "mountPath": "/more"}],
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            },
            SIDECAR,
        ],
        "initContainers": [{"name": "first", "image": "registry.example.com/first:1"}],
        "volumes": [{"name": "more", "emptyDir": {}}],
        "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["store"]}],
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 77,
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    },
}
METADATA: Object = {
    "labels": {"example.com/team": "a"},
    "annotations": {"example.com/owner": "somebody"},
    "finalizers": ["example.com/watched"],
}
SPECS: dict[str, Object] = {
    "Deployment": {"template": POD, "revisionHistoryLimit": 3, "minReadySeconds": 2},
    "StatefulSet": {"template": POD, "minReadySeconds": 1},
    "Job": {"activeDeadlineSeconds": 90000},
}
WORKLOADS = [("Job", "train", training), ("Deployment", "serve", inference), ("StatefulSet", "note", notebook)]
STRATEGIC = "application/strategic-merge-patch+json"
VOLATILE = frozenset({"controller-uid", "job-name", "deployment.kubernetes.io/revision"})


def write_foreign_fields(place: Place, kind: str, name: str, metadata: Object = METADATA) -> None:
    """Write many fields into an object under other field managers."""
    patch = {"metadata": metadata, "spec": SPECS[kind]}
    place.api.call("PATCH", f"{place.path(kind, name)}?fieldManager=meddler", patch, STRATEGIC)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": place.uid("ConfigMap", "owner")}
    place.patch(kind, name, {"metadata": {"ownerReferences": [owner]}}, manager="operator")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Return all fields of an object by path; list items are identified by name."""
    if isinstance(value, dict) and value:
        return {key: leaf for name, below in value.items() for key, leaf in leaves(below, (*path, name)).items()}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        found = {}
        for item in value:
            name = f"{item['kind']}/{item['name']}" if "uid" in item else item.get("mountPath") or item.get("ip")
            found.update(leaves(item, (*path, str(name or item.get("name") or item.get("key")))))
        return found
    if path[-1:] == ("finalizers",):
        return {(*path, item): item for item in value}
    return {path: value}


def stated_fields(obj: Object) -> dict[tuple[Any, ...], Any]:
    """Return an object's fields without those that only the server writes."""
    metadata = {
        key: obj["metadata"].get(key) or {} for key in ("labels", "annotations", "finalizers", "ownerReferences")
    }
    metadata["annotations"] = {
        key: value for key, value in metadata["annotations"].items() if not key.startswith("runwhere.ai/")
    }
    found = leaves({"metadata": metadata, "spec": {key: obj["spec"][key] for key in obj["spec"] if key != "selector"}})
    return {key: value for key, value in found.items() if not VOLATILE & {str(key[-1]).rpartition("/")[2], key[-1]}}


@pytest.fixture
def owner(place: Place) -> None:
    """Create a ConfigMap for foreign owner references to name."""
    place.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})


def is_covered(path: tuple[Any, ...], listed: list[str]) -> bool:
    """Return True if a field or one of its parents is in a list of paths."""
    text = ""
    for part in path:
        text += f"|{part}"
        if text in listed:
            return True
    return False


def split(path: str) -> str:
    """``spec.template.metadata.labels[a.b/c]`` -> ``|spec|template|metadata|labels|a.b/c``."""
    result, rest = "", path
    while rest:
        if rest.startswith("["):
            part, _, rest = rest[1:].partition("]")
        else:
            cut = min((place for place in (rest.find("."), rest.find("[")) if place >= 0), default=len(rest))
            part, rest = rest[:cut], rest[cut:]
        rest = rest.removeprefix(".")
        result += f"|{part}"
    return result


@pytest.mark.parametrize(("kind", "name", "make"), part_of(WORKLOADS, 3))
def test_plan_shows_every_field_that_a_replacement_drops(
    place: Place, owner: None, kind: str, name: str, make: Any
) -> None:
    place.apply(make())
    plain_object = place.get(kind, name)
    write_foreign_fields(place, kind, name)
    before = place.get(kind, name)
    changed = make(environment=image("v2"))
    plan = place.plan(changed)
    (step,) = [step for step in plan.value["steps"] if step["kind"] == kind]
    assert step["action"] == "replace"
    assert {one["manager"] for one in step["lost"]} == {"meddler", "operator"}
    text = place.gpuctl("diff", "-f", place.file(changed), code=1).out
    assert '! lost annotation example.com/owner: "somebody" (from meddler)' in text
    place.patch(kind, name, {"metadata": {"finalizers": None}})
    place.apply(changed, flags=("--yes",))
    after = place.get(kind, name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    one, two = stated_fields(before), stated_fields(after)
    differing = {path for path in one if one[path] != two.get(path)}
    shown = [split(item["path"]) for item in (*step["lost"], *step["changes"])]
    normal = stated_fields(plain_object)
    assert [path for path in sorted(differing, key=str) if not is_covered(path, shown)] == []
    # No field is listed as lost that still exists afterwards.
    for item in step["lost"]:
        assert any(is_covered(path, [split(item["path"])]) for path in differing), item
    assert [path for path in differing if normal.get(path) == one[path] and "image" not in path] == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "make"), WORKLOADS[1:], ids=[item[0] for item in WORKLOADS[1:]])
def test_rolling_keeps_foreign_fields(place: Place, owner: None, kind: str, name: str, make: Any) -> None:
    mine = [{"name": "OLD", "value": "1"}, {"name": "MINE", "value": "1"}]
    place.apply(make(environment={"env": mine}, job={"labels": {"team": "x"}}))
    metadata = {key: value for key, value in METADATA.items() if key != "finalizers"}
    write_foreign_fields(place, kind, name, metadata)
    place.kubectl("rollout", "restart", f"{kind.lower()}/{name}")
    before = place.get(kind, name)
    changed = make(environment={**image("v2"), "env": [{"name": "NEW", "value": "3"}, {"name": "MINE", "value": "2"}]})
    plan = place.plan(changed, flags=("--strategy=rolling",))
    (step,) = [step for step in plan.value["steps"] if step["kind"] == kind]
    assert (step["action"], step["lost"]) == ("update", [])
    place.apply(changed, flags=("--strategy=rolling",))
    after = place.get(kind, name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    one, two = stated_fields(before), stated_fields(after)
    differing = {path for path in one.keys() | two.keys() if one.get(path) != two.get(path)}
    shown = [split(item["path"]) for item in step["changes"]]
    assert [path for path in sorted(differing, key=str) if not is_covered(path, shown)] == []
    for path in shown:
        assert any(is_covered(other, [path]) for other in differing), path
    (main,) = [item for item in after["spec"]["template"]["spec"]["containers"] if item["name"] == "main"]
    env = {item["name"]: item.get("value") for item in main["env"]}
    assert (env["EXTRA"], env["MINE"], env["NEW"]) == ("1", "2", "3")
    assert "OLD" not in env
    assert "team" not in after["metadata"]["labels"]
    assert "kubectl.kubernetes.io/restartedAt" in after["spec"]["template"]["metadata"]["annotations"]
    assert set(place.plan(changed).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_rolling_refuses_a_field_held_by_another_manager(place: Place) -> None:
    place.apply(inference())
    place.kubectl("set", "image", "deployment/serve", "main=registry.example.com/hotfix:1")
    before = place.records()
    changed = inference(environment=image("v2"))
    refused = place.apply(changed, flags=("--strategy=rolling",), code=1)
    assert "containers[main].image is held by kubectl-set; take it over with --adopt" in refused.err
    assert place.records() == before
    done = place.apply(changed, flags=("--strategy=rolling", "--adopt"))
    assert "takes over fields of other managers" in done.out
    (container,) = place.get("Deployment", "serve")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image("v2")["image"]


@pytest.mark.slow
def test_rolling_changes_the_source_of_a_volume(place: Place) -> None:
    """Volume sources are a union: the new member is valid only without the old one."""

    def with_data(**source: Any) -> Object:
        return inference(storage={"workdirs": [{"path": "/data", **source}]})

    place.apply(with_data(emptyDir={"size": "1Gi"}))
    place.kubectl("set", "env", "deployment/serve", "EXTRA=1")
    changed = with_data(nfs={"server": "nfs.example.com", "path": "/exports"})
    place.apply(changed, flags=("--strategy=rolling",))
    spec = place.get("Deployment", "serve")["spec"]["template"]["spec"]
    (volume,) = [item for item in spec["volumes"] if "nfs" in item]
    assert "emptyDir" not in volume
    assert {"name": "EXTRA", "value": "1"} in spec["containers"][0]["env"]


@pytest.mark.slow
def test_lost_fields_list_foreign_changes_only(place: Place) -> None:
    place.apply(inference(), notebook(), training())
    place.kubectl("set", "env", "deployment/serve", "statefulset/note", "EXTRA=1")
    changed = [make(environment=image("v2")) for make in (inference, notebook, training)]
    lost = {step["kind"]: step["lost"] for step in place.plan(*changed).value["steps"]}
    assert lost["Job"] == lost["Service"] == []
    for kind in ("Deployment", "StatefulSet"):
        (one,) = lost[kind]
        assert one["path"] == "spec.template.spec.containers[main].env[EXTRA]"
        assert one["from"] == {"name": "EXTRA", "value": "1"}
        assert one["manager"] == "kubectl-set"


@pytest.mark.slow
def test_replacement_names_dependents_and_asks(place: Place, owner: None) -> None:
    place.apply(inference(service={"replicas": 0}))
    uid = place.uid("Deployment", "serve")
    serve = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve", "uid": uid}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": place.uid("ConfigMap", "owner")}
    for name, owners in (
        ("gone", [serve]),
        ("controlled", [{**serve, "controller": True}]),
        ("shared", [serve, other]),
    ):
        place.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
    changed = inference(service={"replicas": 0}, environment=image("v2"))
    refused = place.apply(changed, code=2)
    assert f"replaces inference/serve in {place.namespace}: garbage collection deletes configmap/gone" in refused.err
    (step,) = [step for step in place.plan(changed).value["steps"] if step["kind"] == "Deployment"]
    assert step["dependents"] == [{"kind": "ConfigMap", "name": "gone"}]
    place.apply(changed, flags=("--yes",))
    place.until(lambda: not place.exists("ConfigMap", "gone"), "the dependent to go")


def hpa(name: str, target: Object) -> Object:
    """Return an autoscaler that gpuctl does not manage."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10},
    }


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["replace", "rolling"])
@pytest.mark.parametrize("replicas", [0, 2])
def test_replicas_of_a_foreign_autoscaler_are_kept(place: Place, strategy: str, replicas: int) -> None:
    document = inference(service={"replicas": replicas})
    place.apply(document)
    # Their targets have another group or another name, so they do not scale this Deployment.
    place.create(hpa("a-group", {"apiVersion": "example.com/v1", "kind": "Deployment", "name": "serve"}))
    place.create(hpa("a-name", {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}))
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    assert place.plan(document).actions["Deployment/serve"] == "update"
    place.create(hpa("keda-hpa-serve", {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}))
    plan = place.plan(document)
    assert plan.actions["Deployment/serve"] == "unchanged"
    (note,) = plan.value["notes"]
    assert f"keeps its replicas (3, the document states {replicas})" in note
    assert "keda-hpa-serve" in note
    changed = copy.deepcopy(document)
    changed["environment"] |= image("v2")
    place.apply(changed, flags=("--yes", f"--strategy={strategy}"))
    deployment = place.get("Deployment", "serve")
    assert deployment["spec"]["replicas"] == 3
    assert json.dumps(deployment["spec"]["template"]).count("app:v2") == 1


def test_scaling_down_ready_pods_asks(place: Place) -> None:
    place.apply(inference())
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    place.running("serve", pods=3)
    refused = place.apply(inference(), code=2)
    assert f"scales inference/serve in {place.namespace} from 3 to 1: ends 2 ready pods" in refused.err
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 3
    # Scaling up ends no pods, so it does not ask.
    place.apply(inference(service={"replicas": 4}))
    place.apply(inference(), flags=("--yes",))
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 1


@pytest.mark.slow
def test_lower_autoscaler_maximum_asks(place: Place) -> None:
    def scaled(most: int) -> Object:
        return inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": most})

    place.apply(scaled(5))
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    place.running("serve", pods=3)
    refused = place.apply(scaled(2), code=2)
    assert f"scales inference/serve in {place.namespace} to 2 at most: ends 1 ready pod" in refused.err
    place.apply(scaled(4))


POLICY = "admissionregistration.k8s.io/v1"


@pytest.fixture
def admission(place: Place) -> Any:
    """Add a variable and an annotation to every new Deployment of the namespace, as a mutating webhook would."""
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]
    name = f"adds-{place.namespace}"
    expression = (
        "[JSONPatch{op: 'add', path: '/metadata/annotations/example.com~1injected', value: 'yes'}, "
        "JSONPatch{op: 'add', path: '/spec/template/spec/containers/0/env/-', "
        "value: {'name': 'INJECTED', 'value': 'yes'}}]"
    )
    selector = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    place.api.call(
        "POST",
        f"/apis/{POLICY}/mutatingadmissionpolicies",
        {
            "apiVersion": POLICY,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": rules, "namespaceSelector": selector},
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
            },
        },
    )
    place.api.call(
        "POST",
        f"/apis/{POLICY}/mutatingadmissionpolicybindings",
        {
            "apiVersion": POLICY,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name},
        },
    )
    yield
    for resource in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        place.api.call("DELETE", f"/apis/{POLICY}/{resource}/{name}")


@pytest.mark.slow
def test_fields_added_by_admission_are_not_listed_as_lost(place: Place, admission: None) -> None:
    document = inference(environment={"env": [{"name": "A", "value": "1"}]})

    def injected() -> bool:
        place.apply(document)
        if "example.com/injected" in place.get("Deployment", "serve")["metadata"]["annotations"]:
            return True
        place.gpuctl("delete", "job", "serve")
        return False

    place.until(injected, "the policy to be known")
    place.kubectl("set", "env", "deployment/serve", "THEIRS=1")
    changed = inference(environment={"env": [{"name": "A", "value": "2"}]})
    (step,) = [step for step in place.plan(changed).value["steps"] if step["kind"] == "Deployment"]
    assert [one["path"] for one in step["lost"]] == ["spec.template.spec.containers[main].env[THEIRS]"]
    for strategy, names in (("rolling", {"A", "INJECTED", "THEIRS"}), ("replace", {"A", "INJECTED"})):
        changed["environment"]["env"][0]["value"] += "1"
        place.apply(changed, flags=("--yes", f"--strategy={strategy}"))
        (container,) = place.get("Deployment", "serve")["spec"]["template"]["spec"]["containers"]
        assert names == {"A", "INJECTED", "THEIRS"} & {item["name"] for item in container["env"]}


@pytest.mark.slow
def test_apply_refuses_to_replace_a_job_restarted_after_the_plan(place: Place, proxy: Proxy) -> None:
    """The job had ended at planning time and runs again when apply gets the lease: the user has not agreed to end it."""
    place.apply(training(job=outcome("complete")))
    place.ended("train")

    def begin_again() -> None:
        again = recreatable(place.get("Job", "train"))
        again["spec"]["suspend"] = False
        again["spec"]["template"]["metadata"]["annotations"] = {}
        place.kubectl("delete", "job", "train")
        place.create(again, manager="gpuctl")
        place.running("train")

    proxy.policy = on(nth(1, matching("POST", "/leases")), meanwhile(begin_again))
    changed = training(environment=image("v2"))
    refused = place.apply(changed, flags=("--yes",), code=3)
    assert f"job.batch/train in {place.namespace} was changed by another client" in refused.err
    assert place.get("Job", "train")["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v1")
    assert len(place.pods("train")) == 1
    assert f"replaces training/train in {place.namespace}: running for" in place.apply(changed, flags=(), code=2).err
