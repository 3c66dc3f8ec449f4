"""Changes by other clients since the last apply: which are undone, which are kept, and which are rejected."""

from __future__ import annotations

from typing import Any

import pytest

from support.cluster_tools import (
    DOMAIN,
    HASH,
    JOB_TYPE,
    LOWERED_BY,
    PAUSED,
    POOL,
    Place,
    image,
    inference,
    notebook,
    training,
)

AUTOSCALED = inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 4})
UNCHANGED = {"unchanged"}


def actions(place: Place, *documents: dict[str, Any], flags: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the actions of a plan."""
    return place.plan(*documents, flags=flags).actions


def step_of(outcome: Any, kind: str) -> dict[str, Any]:
    """Return the step of the only object of a kind in a plan."""
    (step,) = [step for step in outcome.value["steps"] if step["kind"] == kind]
    return dict(step)


FOREIGN_CHANGES = (
    "annotate job/train deployment/serve statefulset/note service/svc-serve hpa/serve example.com/note=x",
    "label job/train deployment/serve statefulset/note service/svc-serve hpa/serve example.com/team=x",
    "set env deployment/serve statefulset/note EXTRA=1",
    "rollout restart deployment/serve",
    "scale deployment/serve --replicas=3",
    """patch service svc-serve -p {"spec":{"sessionAffinity":"ClientIP"}}""",
    """patch deployment serve -p {"spec":{"revisionHistoryLimit":3}}""",
)


def test_fields_added_by_other_clients_are_kept_and_no_difference(place: Place) -> None:
    documents = (training(), AUTOSCALED, notebook())
    place.apply(*documents)
    for command in FOREIGN_CHANGES:
        place.kubectl(*command.split())
        assert set(actions(place, *documents).values()) == UNCHANGED, command
    before = place.records()
    place.apply(*documents)
    assert place.records() == before


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"job": {"description": "x"}}, {"service": {"port": 8000, "type": "ClusterIP"}}])
def test_fields_added_by_other_clients_survive_an_in_place_change(place: Place, change: dict[str, Any]) -> None:
    place.apply(inference())
    place.kubectl("annotate", "deployment/serve", "svc/svc-serve", "example.com/note=kept")
    place.kubectl("set", "env", "deployment/serve", "EXTRA=1")
    before = place.uids()
    place.apply(inference(**change))
    assert place.uids() == before
    for kind, name in (("Deployment", "serve"), ("Service", "svc-serve")):
        assert place.get(kind, name)["metadata"]["annotations"]["example.com/note"] == "kept"
    (container,) = place.get("Deployment", "serve")["spec"]["template"]["spec"]["containers"]
    assert {"name": "EXTRA", "value": "1"} in container["env"]


def test_changed_pod_template_fields_are_restored_by_replacement(place: Place) -> None:
    document = inference(environment={"env": [{"name": "MINE", "value": "1"}]})
    place.apply(document)
    uid = place.uid("Deployment", "serve")
    for command, path in (
        ("set image deployment/serve main=registry.example.com/hacked:v1", "containers[main].image"),
        ("set resources deployment/serve --limits=cpu=3 --requests=cpu=3", "containers[main].resources.limits.cpu"),
        ("set env deployment/serve MINE=2", "containers[main].env[MINE].value"),
        ("set env deployment/serve MINE-", "containers[main].env"),
    ):
        place.kubectl(*command.split())
        step = step_of(place.plan(document), "Deployment")
        assert step["action"] == "replace"
        assert f"spec.template.spec.{path}" in [change["path"] for change in step["changes"]]
    place.apply(document, flags=("--yes",))
    assert place.uid("Deployment", "serve") != uid
    assert set(actions(place, document).values()) == UNCHANGED


@pytest.mark.slow
def test_manual_scaling_is_undone_in_place(place: Place) -> None:
    place.apply(inference())
    uid = place.uid("Deployment", "serve")
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    step = step_of(place.plan(inference()), "Deployment")
    assert step["action"] == "update"
    assert step["changes"] == [{"path": "spec.replicas", "from": 3, "to": 1}]
    place.apply(inference(), flags=("--yes",))
    assert place.uid("Deployment", "serve") == uid
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 1


def test_deleted_companions_are_recreated(place: Place) -> None:
    place.apply(AUTOSCALED)
    before = place.uids()
    place.kubectl("delete", "service/svc-serve", "hpa/serve")
    outcome = place.apply(AUTOSCALED, flags=("-o", "json"))
    assert outcome.actions == {
        "Service/svc-serve": "create",
        "Deployment/serve": "unchanged",
        "HorizontalPodAutoscaler/serve": "create",
    }
    assert place.uids().keys() == before.keys()


def test_service_field_of_another_manager_is_a_conflict(place: Place) -> None:
    place.apply(inference(), training())
    place.patch("Service", "svc-serve", {"spec": {"type": "ClusterIP"}}, manager="kubectl-edit")
    before = place.records()
    changed = (inference(), training(environment=image("v2")))
    refused = place.apply(*changed, flags=("--yes",), code=1)
    assert "service/svc-serve" in refused.err
    assert "spec.type is held by kubectl-edit" in refused.err
    assert "--adopt" in refused.err
    assert "nothing was changed" in refused.err
    assert place.records() == before

    preview = place.apply(*changed, flags=("--dry-run=server", "--adopt"))
    (line,) = [line for line in preview.out.splitlines() if "service/svc-serve" in line]
    assert line.startswith("update")
    assert "kubectl-edit" in line
    place.apply(*changed, flags=("--yes", "--adopt"))
    assert place.get("Service", "svc-serve")["spec"]["type"] == "NodePort"
    assert set(actions(place, *changed).values()) == UNCHANGED


def test_foreign_object_of_the_same_name_is_rejected_before_any_change(place: Place) -> None:
    pod = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example.com/x"}]},
    }
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": pod},
    }
    place.create(theirs)
    before = place.records()
    refused = place.apply(training(), inference(), code=1)
    assert "deployment.apps/serve" in refused.err
    assert "is not gpuctl's" in refused.err
    assert "--adopt" in refused.err
    assert place.records() == before

    preview = place.apply(inference(), flags=("--dry-run=server", "--adopt"))
    (line,) = [line for line in preview.out.splitlines() if "deployment.apps/serve" in line]
    assert line.startswith("replace")
    assert place.records() == before
    place.apply(inference(), flags=("--adopt", "--yes"))
    assert place.get("Deployment", "serve")["metadata"]["labels"]["app"] == "serve"
    assert set(actions(place, inference()).values()) == UNCHANGED


@pytest.mark.slow
def test_equal_object_applied_by_kubectl_is_adopted_without_restart(place: Place) -> None:
    text = place.gpuctl("render", "-f", place.file(inference(), training())).out
    place.kubectl("apply", "-f", "-", input=text)
    pods, before = place.running("serve", "train"), place.uids()
    plan = place.plan(inference(), training())
    assert set(plan.actions.values()) == {"update"}
    assert {step["reason"] for step in plan.value["steps"] if step["action"] == "update"} == {
        "adopted: nothing else changes"
    }
    place.apply(inference(), training())
    assert place.uids() == before
    assert place.running("serve", "train") == pods
    assert set(actions(place, inference(), training()).values()) == UNCHANGED


@pytest.mark.slow
def test_different_object_applied_by_kubectl_is_replaced_after_asking(place: Place) -> None:
    document = training(environment={"env": [{"name": "OLD", "value": "1"}]})
    place.kubectl("apply", "-f", "-", input=place.gpuctl("render", "-f", place.file(document)).out)
    place.running("train")
    uid = place.uid("Job", "train")
    step = step_of(place.plan(training()), "Job")
    assert step["action"] == "replace"
    assert "env[OLD]" in step["reason"]
    assert "replaces training/train" in place.apply(training(), code=2).err
    assert place.uid("Job", "train") == uid
    place.apply(training(), flags=("--yes",))
    assert place.uid("Job", "train") != uid


def test_replicas_of_an_autoscaled_service_are_kept(place: Place) -> None:
    place.apply(AUTOSCALED)
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    assert set(actions(place, AUTOSCALED).values()) == UNCHANGED
    changed = {**AUTOSCALED, "environment": {**AUTOSCALED["environment"], **image("v2")}}
    uid = place.uid("Deployment", "serve")
    place.apply(changed, flags=("--yes",))
    assert place.uid("Deployment", "serve") != uid
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 3


@pytest.mark.slow
def test_autoscaler_removed_from_the_document_is_deleted(place: Place) -> None:
    place.apply(AUTOSCALED)
    uid = place.uid("Deployment", "serve")
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    place.running("serve", pods=3)
    outcome = place.apply(inference(service={"replicas": 2}), flags=("-o", "json", "--yes"))
    assert outcome.actions == {
        "Service/svc-serve": "unchanged",
        "Deployment/serve": "update",
        "HorizontalPodAutoscaler/serve": "delete",
    }
    assert not place.exists("HorizontalPodAutoscaler", "serve")
    assert place.uid("Deployment", "serve") == uid
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 2
    assert set(actions(place, inference(service={"replicas": 2})).values()) == UNCHANGED


@pytest.mark.slow
def test_autoscaler_added_to_the_document_keeps_the_live_replicas(place: Place) -> None:
    place.apply(inference(service={"replicas": 3}))
    uid = place.uid("Deployment", "serve")
    place.apply(AUTOSCALED)
    deployment = place.get("Deployment", "serve")
    assert deployment["metadata"]["uid"] == uid
    assert deployment["spec"]["replicas"] == 3
    assert set(actions(place, AUTOSCALED).values()) == UNCHANGED


@pytest.mark.slow
def test_unneeded_companions_are_deleted_and_foreign_objects_kept(place: Place) -> None:
    multi = training("multi", resources={"nodes": 2}, environment={"command": ["deepspeed", "--no_ssh", "x.py"]})
    place.apply(multi)
    labels = {"app": "multi"}
    for name, more in (
        ("multi-other", {}),
        ("svc-multi", {"app.kubernetes.io/managed-by": "gpuctl", JOB_TYPE: "inference"}),
        ("svc-other", {"app.kubernetes.io/managed-by": "gpuctl", JOB_TYPE: "training"}),
    ):
        place.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "labels": {**labels, **more}},
                "spec": {"ports": [{"port": 80}]},
            }
        )
    before = place.uids()
    single = training("multi")
    outcome = place.apply(single, flags=("--yes", "-o", "json"))
    assert outcome.actions == {"ConfigMap/multi-hostfile": "delete", "Service/multi": "delete", "Job/multi": "replace"}
    after = place.uids()
    assert before.keys() - after.keys() == {"ConfigMap/multi-hostfile", "Service/multi"}
    assert {key for key in after if after[key] != before[key]} == {"Job/multi"}


@pytest.mark.slow
def test_a_paused_service_stays_paused(place: Place) -> None:
    place.apply(inference(service={"replicas": 2}))
    place.patch("Deployment", "serve", {"metadata": {"annotations": {PAUSED: "2"}}, "spec": {"replicas": 0}})
    uid = place.uid("Deployment", "serve")
    assert set(actions(place, inference(service={"replicas": 2})).values()) == UNCHANGED
    place.apply(inference(service={"replicas": 2}, environment=image("v2")), flags=("--yes",))
    deployment = place.get("Deployment", "serve")
    assert deployment["metadata"]["uid"] != uid
    assert deployment["spec"]["replicas"] == 0
    assert deployment["metadata"]["annotations"][PAUSED] == "2"


@pytest.mark.slow
def test_new_replica_count_of_a_paused_service_is_kept_for_resume(place: Place) -> None:
    place.apply(inference(service={"replicas": 2}))
    place.patch("Deployment", "serve", {"metadata": {"annotations": {PAUSED: "2"}}, "spec": {"replicas": 0}})
    place.apply(inference(service={"replicas": 3}))
    deployment = place.get("Deployment", "serve")
    assert deployment["spec"]["replicas"] == 0
    assert deployment["metadata"]["annotations"][PAUSED] == "3"
    assert set(actions(place, inference(service={"replicas": 3})).values()) == UNCHANGED


def test_a_paused_training_stays_paused(place: Place) -> None:
    place.apply(training())
    place.patch("Job", "train", {"metadata": {"annotations": {PAUSED: "true"}}, "spec": {"suspend": True}})
    assert set(actions(place, training()).values()) == UNCHANGED
    place.apply(training(job={"description": "x"}))
    assert place.get("Job", "train")["spec"]["suspend"] is True
    uid = place.uid("Job", "train")
    place.apply(training(environment=image("v2")), flags=("--yes",))
    job = place.get("Job", "train")
    assert job["metadata"]["uid"] != uid
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["annotations"][PAUSED] == "true"


@pytest.mark.slow
def test_kueue_changes_to_a_job_are_no_difference(place: Place) -> None:
    """Kueue suspends the Job at creation, injects a flavor's node selector and tolerations, then unsuspends it."""
    document = training()
    place.apply(document)
    place.patch("Job", "train", {"spec": {"suspend": True}}, manager="kueue")
    # The pod template is mutable only after the Job controller has noticed the suspension.
    place.until(
        lambda: not place.pods("train") and "startTime" not in place.get("Job", "train")["status"], "the pods to go"
    )
    assert set(actions(place, document).values()) == UNCHANGED
    template = {"nodeSelector": {f"{DOMAIN}/pool": POOL, "flavour": "spot"}}
    template["tolerations"] = [*place.get("Job", "train")["spec"]["template"]["spec"]["tolerations"]]
    template["tolerations"].append({"key": "spot", "operator": "Exists"})
    place.patch("Job", "train", {"spec": {"template": {"spec": template}}}, manager="kueue")
    assert set(actions(place, document).values()) == UNCHANGED
    place.patch("Job", "train", {"spec": {"suspend": False}}, manager="kueue")
    assert set(actions(place, document).values()) == UNCHANGED
    before = place.records()
    place.apply(document)
    assert place.records() == before
    described = {**document, "job": {**document["job"], "description": "x"}}
    assert actions(place, described)["Job/train"] == "update"


def mark_as_lowered_by_another_gpuctl(place: Place, kind: str, name: str, spec: dict[str, Any]) -> None:
    """Patch an object as if another gpuctl version had lowered the same document differently."""
    records = {"metadata": {"annotations": {HASH: "0" * 32, LOWERED_BY: "1.2"}}}
    place.patch(kind, name, {**records, "spec": spec}, manager="gpuctl")


def test_object_lowered_by_an_older_gpuctl_is_kept(place: Place) -> None:
    place.apply(inference())
    mark_as_lowered_by_another_gpuctl(place, "Deployment", "serve", {"progressDeadlineSeconds": 77})
    before = place.records()
    kept = place.apply(inference())
    assert "kept, lowered by gpuctl 1.2; --relower replaces it" in kept.out
    assert place.records() == before
    uid = place.uid("Deployment", "serve")
    outcome = place.apply(inference(), flags=("--relower", "--yes", "-o", "json"))
    assert outcome.actions["Deployment/serve"] == "replace"
    assert place.uid("Deployment", "serve") != uid
    assert place.get("Deployment", "serve")["spec"]["progressDeadlineSeconds"] != 77
    assert set(actions(place, inference()).values()) == UNCHANGED


@pytest.mark.slow
def test_a_kept_object_is_replaced_when_its_document_changes(place: Place) -> None:
    place.apply(inference())
    mark_as_lowered_by_another_gpuctl(place, "Deployment", "serve", {"progressDeadlineSeconds": 77})
    step = step_of(place.plan(inference(environment=image("v2"))), "Deployment")
    assert step["action"] == "replace"


@pytest.mark.slow
def test_a_change_of_the_platform_alone_replaces_nothing(place: Place) -> None:
    place.apply(training(), inference())
    before = place.records()
    place.platform("priorities: {medium: {className: drill-medium, value: 700}}")
    kept = place.apply(training(), inference())
    assert kept.out.count("kept") == 2
    after = place.records()
    assert after == before
    plan = place.plan(training(), inference(), flags=("--relower",))
    assert plan.actions["Job/train"] == plan.actions["Deployment/serve"] == "replace"


@pytest.mark.slow
@pytest.mark.parametrize(("outcome", "word"), [("complete", "finished"), ("fail", "failed")])
def test_finished_training_is_kept_with_a_hint_to_rerun(place: Place, outcome: str, word: str) -> None:
    document = training(job={"annotations": {"gpuctl.test/outcome": outcome}})
    place.apply(document)
    place.until(
        lambda: any(
            item["type"] in ("Complete", "Failed") for item in place.get("Job", "train")["status"].get("conditions", [])
        ),
        "the end of the job",
    )
    before = place.records()
    again = place.apply(document)
    assert f"({word}; `gpuctl rerun train -n {place.namespace}` runs it again)" in again.out
    assert place.records() == before
    changed = {**document, "environment": image("v2")}
    assert "runs again; its pods and logs are deleted" in place.apply(changed, code=2).err
    place.apply(changed, flags=("--yes",))
    assert place.get("Job", "train")["spec"]["template"]["spec"]["containers"][0]["image"] == image("v2")["image"]


@pytest.mark.slow
@pytest.mark.parametrize("make", [training, notebook])
def test_job_of_another_kind_with_the_same_name_is_an_error(place: Place, make: Any) -> None:
    place.apply(inference("twin"))
    before = place.records()
    refused = place.apply(make("twin"), training("beside"), code=1)
    assert f"{make('twin')['kind']}/twin: inference/twin exists in {place.namespace}" in refused.err
    assert "nothing was changed" in refused.err
    assert place.records() == before
