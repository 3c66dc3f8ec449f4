"""What others put into our objects: what a replacement drops is shown before it goes, and rolling keeps it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from fault_tools.proxy import Proxy, matching, meanwhile, nth, on
from gpuctl.objects.workload_state import recreatable
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


def meddle(place: Place, kind: str, name: str, metadata: Object = METADATA) -> None:
    """Put many things into an object, as other tools do."""
    patch = {"metadata": metadata, "spec": SPECS[kind]}
    place.api.call("PATCH", f"{place.path(kind, name)}?fieldManager=meddler", patch, STRATEGIC)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": place.uid("ConfigMap", "owner")}
    place.patch(kind, name, {"metadata": {"ownerReferences": [owner]}}, manager="operator")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """All fields of an object, items of lists by their name."""
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


def stated(obj: Object) -> dict[tuple[Any, ...], Any]:
    """What an object says, without what the server alone writes."""
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
    """Something that others' owner references name."""
    place.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})


def covered(path: tuple[Any, ...], listed: list[str]) -> bool:
    """Whether a list of paths has a field, or something that it is in."""
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


@pytest.mark.parametrize(("kind", "name", "make"), WORKLOADS, ids=[item[0] for item in WORKLOADS])
def test_what_a_replacement_drops_is_what_was_shown(place: Place, owner: None, kind: str, name: str, make: Any) -> None:
    place.apply(make())
    plain_object = place.get(kind, name)
    meddle(place, kind, name)
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
    one, two = stated(before), stated(after)
    differing = {path for path in one if one[path] != two.get(path)}
    shown = [split(item["path"]) for item in (*step["lost"], *step["changes"])]
    normal = stated(plain_object)
    assert [path for path in sorted(differing, key=str) if not covered(path, shown)] == []
    # Nothing is called lost that is there afterwards.
    for item in step["lost"]:
        assert any(covered(path, [split(item["path"])]) for path in differing), item
    assert [path for path in differing if normal.get(path) == one[path] and "image" not in path] == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "make"), WORKLOADS[1:], ids=[item[0] for item in WORKLOADS[1:]])
def test_rolling_keeps_what_others_put_there(place: Place, owner: None, kind: str, name: str, make: Any) -> None:
    mine = [{"name": "OLD", "value": "1"}, {"name": "MINE", "value": "1"}]
    place.apply(make(environment={"env": mine}, job={"labels": {"team": "x"}}))
    metadata = {key: value for key, value in METADATA.items() if key != "finalizers"}
    meddle(place, kind, name, metadata)
    place.kubectl("rollout", "restart", f"{kind.lower()}/{name}")
    before = place.get(kind, name)
    changed = make(environment={**image("v2"), "env": [{"name": "NEW", "value": "3"}, {"name": "MINE", "value": "2"}]})
    plan = place.plan(changed, flags=("--strategy=rolling",))
    (step,) = [step for step in plan.value["steps"] if step["kind"] == kind]
    assert (step["action"], step["lost"]) == ("update", [])
    place.apply(changed, flags=("--strategy=rolling",))
    after = place.get(kind, name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    one, two = stated(before), stated(after)
    differing = {path for path in one.keys() | two.keys() if one.get(path) != two.get(path)}
    shown = [split(item["path"]) for item in step["changes"]]
    assert [path for path in sorted(differing, key=str) if not covered(path, shown)] == []
    for path in shown:
        assert any(covered(other, [path]) for other in differing), path
    (main,) = [item for item in after["spec"]["template"]["spec"]["containers"] if item["name"] == "main"]
    env = {item["name"]: item.get("value") for item in main["env"]}
    assert (env["EXTRA"], env["MINE"], env["NEW"]) == ("1", "2", "3")
    assert "OLD" not in env
    assert "team" not in after["metadata"]["labels"]
    assert "kubectl.kubernetes.io/restartedAt" in after["spec"]["template"]["metadata"]["annotations"]
    assert set(place.plan(changed).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_rolling_is_stopped_by_what_another_manager_holds(place: Place) -> None:
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
    """A union: the old member has to go for the new one to be valid."""

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
def test_a_drift_alone_shows_no_loss_of_what_nobody_put_there(place: Place) -> None:
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
def test_dependents_are_named_and_asked_about(place: Place, owner: None) -> None:
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
    """An autoscaler that is not gpuctl's."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10},
    }


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["replace", "rolling"])
@pytest.mark.parametrize("replicas", [0, 2])
def test_replicas_of_somebody_elses_autoscaler_are_not_ours(place: Place, strategy: str, replicas: int) -> None:
    document = inference(service={"replicas": replicas})
    place.apply(document)
    # Of another group, and of another name: these scale something else.
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


def test_ending_ready_pods_is_asked(place: Place) -> None:
    place.apply(inference())
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    place.running("serve", pods=3)
    refused = place.apply(inference(), code=2)
    assert f"scales inference/serve in {place.namespace} from 3 to 1: ends 2 ready pods" in refused.err
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 3
    # More pods end nothing.
    place.apply(inference(service={"replicas": 4}))
    place.apply(inference(), flags=("--yes",))
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 1


@pytest.mark.slow
def test_a_lower_maximum_of_the_jobs_own_autoscaler_is_asked(place: Place) -> None:
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
    """Puts a variable and an annotation into every new Deployment of the namespace, as webhooks do."""
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
def test_what_admission_adds_to_every_new_object_is_not_lost(place: Place, admission: None) -> None:
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
def test_work_that_began_after_the_plan_is_asked_about(place: Place, proxy: Proxy) -> None:
    """What had ended runs again by the time that the lease is had: nobody has agreed that it ends."""
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
