"""Admission policies on names, owners and labels: gpuctl's trial pods must not be denied just for being trials."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster_tools import Place, compute, image, inference, notebook, training
from support.generations import OTHER, TWO, half_replaced

V2 = {"environment": image("v2")}
VERSION = "admissionregistration.k8s.io/v1"
PATHS = {
    "ValidatingAdmissionPolicy": f"/apis/{VERSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"/apis/{VERSION}/validatingadmissionpolicybindings",
}
WORKLOADS = (("batch", "jobs"), ("apps", "deployments"), ("apps", "statefulsets"))
POD = (("", "pods"),)
Deny = Callable[..., str]


@pytest.fixture
def deny(place: Place) -> Iterator[Deny]:
    """Return a function that creates a policy for the test's namespace, waits until it is in force, and returns its
    name.
    """
    numbers = itertools.count(1)
    made: list[str] = []

    def make(expression: str, message: str, resources: tuple[tuple[str, str], ...], refused: dict[str, Any]) -> str:
        name = f"{place.namespace}-{next(numbers)}"
        made.append(name)
        rules = [
            {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [plural]}
            for group, plural in resources
        ]
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression, "message": message}],
        }
        here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}}
        binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
        for kind, body in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
            obj = {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": body}
            place.api.call("POST", PATHS[kind], obj)
        group = {"Pod": "/api/v1", "Job": "/apis/batch/v1"}[refused["kind"]]
        path = f"{group}/namespaces/{place.namespace}/{refused['kind'].lower()}s?dryRun=All"
        place.until(lambda: message in place.api.request("POST", path, refused)[1].get("message", ""), "the policy")
        return name

    yield make
    for name, kind in itertools.product(made, PATHS):
        place.api.call("DELETE", f"{PATHS[kind]}/{name}")


def naked(**metadata: Any) -> dict[str, Any]:
    """Return a pod without an owner, as a user creates it directly."""
    spec = {"containers": [{"name": "main", "image": "registry.example.com/x:v1"}], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", **metadata}, "spec": spec}


def job(name: str) -> dict[str, Any]:
    """Return a Job as a user creates it directly."""
    spec = {"template": {"spec": naked()["spec"]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


ALL = (training("team-train"), inference("team-serve"), notebook("team-note"), compute("team-comp"))
CHANGED = tuple({**document, "environment": {**document["environment"], **image("v2")}} for document in ALL)
KINDS = {"Job/team-train", "Deployment/team-serve", "StatefulSet/team-note", "Deployment/team-comp"}
OWNERS = "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller"
SHAPES = {
    "names begin with the team": ("object.metadata.name.startsWith('team-')", WORKLOADS, job("other")),
    "names match a pattern": (
        "object.metadata.name.matches('^team-(train|serve|note|comp)$')",
        WORKLOADS,
        job("other"),
    ),
    "names end in a word": ("object.metadata.name.matches('(train|serve|note|comp)$')", WORKLOADS, job("other")),
    "names of pods begin with the team": ("object.metadata.name.startsWith('team-')", POD, naked()),
    "no trials": (
        "!object.metadata.name.contains('check') && !object.metadata.name.contains('dry')",
        POD,
        naked(name="check"),
    ),
    "no naked pods": ("has(object.metadata.ownerReferences)", POD, naked()),
    "only controllers of workloads": (
        f"{OWNERS} && o.kind in ['Job', 'ReplicaSet', 'StatefulSet'] && object.metadata.name.startsWith(o.name + '-'))",
        POD,
        naked(),
    ),
    "labels on pods": (
        "has(object.metadata.labels) && 'app.kubernetes.io/name' in object.metadata.labels",
        POD,
        naked(),
    ),
    "labels are the names": (
        "has(object.metadata.labels) && object.metadata.name.startsWith(object.metadata.labels['app'])",
        POD,
        naked(),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_policies_that_jobs_obey_do_not_block_replacement(place: Place, deny: Deny, shape: str) -> None:
    expression, resources, refused = SHAPES[shape]
    place.apply(*ALL)
    place.running("team-train", "team-serve", "team-note", "team-comp")
    deny(expression, "the house has rules", resources, refused)
    before = place.uids()
    described = [{**document, "job": {**document["job"], "description": "new"}} for document in ALL]
    assert set(place.plan(*described).actions.values()) == {"update", "unchanged"}
    plan = place.plan(*CHANGED)
    assert {name for name, action in plan.actions.items() if action == "replace"} == KINDS
    assert plan.value["notes"] == []
    changes = [change for step in plan.value["steps"] for change in step["changes"] if step["action"] == "replace"]
    assert {change["path"] for change in changes} == {"spec.template.spec.containers[main].image"}
    place.apply(*CHANGED, flags=("--yes",))
    after = place.uids()
    assert {name for name in KINDS if before[name] != after[name]} == KINDS
    place.running("team-train", "team-serve", "team-note", "team-comp")


@pytest.mark.slow
def test_trial_pods_of_a_jobset_have_real_names_and_owners(place: Place, deny: Deny) -> None:
    """Jobs and pods of a JobSet are named NAME-PART-NUMBER-...; each part has its own trial pod."""
    place.platform("training: {backend: jobset}")
    place.apply(training("team-many", resources={"nodes": 2}))
    owned, name = SHAPES["only controllers of workloads"][0], "^team-many-[a-z]+-0-0-[a-z0-9]{5}$"
    deny(f"{owned} && object.metadata.name.matches('{name}')", "no naked pods", POD, naked())
    changed = training("team-many", resources={"nodes": 2}, **V2)
    plan = place.plan(changed)
    assert plan.actions["JobSet/team-many"] == "replace"
    assert plan.value["notes"] == []
    place.apply(changed, flags=("--yes",))


DENIED_CHANGES = {
    "privileged": (
        "!object.spec.containers.exists(c, has(c.securityContext) && c.securityContext.?privileged.orValue(false))",
        naked() | {"spec": {"containers": [{"name": "m", "image": "x", "securityContext": {"privileged": True}}]}},
        {"podPatch": {"containers": [{"name": "main", "securityContext": {"privileged": True}}]}},
    ),
    "annotation": (
        "has(object.metadata.annotations) && 'example.com/owner' in object.metadata.annotations",
        naked(),
        V2,
    ),
    "label": ("has(object.metadata.labels) && 'cost-centre' in object.metadata.labels", naked(), V2),
}


@pytest.mark.parametrize("reason", DENIED_CHANGES)
def test_denied_pods_are_reported_before_deletion(place: Place, deny: Deny, reason: str) -> None:
    expression, refused, change = DENIED_CHANGES[reason]
    place.apply(training("team-train"))
    place.running("team-train")
    before = place.records()
    name = deny(expression, "the house has rules", POD, refused)
    for flags in (("--yes",), ("--dry-run=server",)):
        outcome = place.apply(training("team-train", **change), flags=flags, code=1)
        assert f"error: job.batch/team-train in {place.namespace}: its pods would be refused: " in outcome.err
        assert f"ValidatingAdmissionPolicy '{name}'" in outcome.err
        assert "denied request: the house has rules" in outcome.err
    assert place.records() == before


@pytest.mark.slow
def test_policy_is_checked_with_the_labels_of_each_job(place: Place, deny: Deny) -> None:
    """Two similar jobs; only one has the required label."""
    deny("has(object.metadata.labels) && 'cost-centre' in object.metadata.labels", "no label", POD, naked())
    good, bad = training("team-b", job={"labels": {"cost-centre": "7"}}), training("team-a")
    refused = place.apply(good, bad, code=1)
    assert "job.batch/team-a" in refused.err
    assert "job.batch/team-b" not in refused.err
    assert place.names() == set()


@pytest.mark.slow
def test_denied_workload_name_blocks_replacement(place: Place, deny: Deny) -> None:
    """A job older than the policy cannot be replaced. gpuctl finds this out without deleting anything."""
    place.apply(training("train"), training("team-train"))
    place.running("train", "team-train")
    before = place.records()
    deny("object.metadata.name.startsWith('team-')", "names begin with the team", WORKLOADS, job("other"))
    refused = place.apply(training("train", **V2), training("team-train", **V2), flags=("--yes",), code=1)
    assert f"error: job.batch/train in {place.namespace}: " in refused.err
    assert "denied request: names begin with the team" in refused.err
    assert "team-train in" not in refused.err
    assert place.records() == before


@pytest.mark.slow
def test_no_probe_turns_a_denied_trial_into_a_note(place: Place, deny: Deny) -> None:
    """gpuctl cannot send a pod as a controller; with --no-probe the denied trial is only a note."""
    place.apply(training("team-train"))
    place.running("team-train")
    uid = place.uid("Job", "team-train")
    by = "request.userInfo.username == 'controller'"
    deny(by, "people create no pods", POD, naked())
    refused = place.apply(training("team-train", **V2), flags=("--yes",), code=1)
    assert "denied request: people create no pods" in refused.err
    assert "if this only concerns pods that users create directly, --no-probe makes it a note" in refused.err
    assert place.uid("Job", "team-train") == uid
    noted = place.apply(training("team-train", **V2), flags=("--yes", "--no-probe"))
    assert "note: job.batch/team-train" in noted.err
    assert "denied request: people create no pods" in noted.err
    assert place.uid("Job", "team-train") != uid
    place.running("team-train")
    assert place.gpuctl("diff", "-f", place.file(training("team-train")), "--no-probe", code=1).code == 1
    place.gpuctl("create", "-f", place.file(training("team-more")), code=1)
    place.gpuctl("create", "-f", place.file(training("team-more")), "--no-probe")
    place.running("team-more")


@pytest.mark.slow
def test_new_namespace_is_not_subject_to_policies_of_default(place: Place, deny: Deny) -> None:
    """If the job's namespace does not exist yet, the trial in `default` checks only the form of the object."""
    name = f"{place.namespace[-50:].strip('-')}-new"
    home, place.namespace = place.namespace, "default"
    try:
        deny("object.metadata.name.startsWith('default-')", "names begin with the namespace", WORKLOADS, job("other"))
        place.apply(training("train", job={"namespace": name}))
        assert place.api.request("GET", f"/apis/batch/v1/namespaces/{name}/jobs/train")[0] == 200
    finally:
        place.namespace = home
        place.plane.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


def test_denied_successor_restores_the_old_job_and_its_service(place: Place, deny: Deny) -> None:
    """Ranks of a built training find each other by a Service named with a hash, which is deleted with the job."""
    name = half_replaced(place, training(**TWO, **OTHER))
    deny("object.metadata.name != 'train'", "not by this name", (("batch", "jobs"),), job("train"))
    said = place.gpuctl("recover", "--yes").out
    assert "the old object was created again" in said
    assert f"service/{name} in {place.namespace}: was created again with its workload" in said
    assert {f"Job/{name}", f"Service/{name}"} <= place.names()
    assert not place.exists("Job", "train")
