"""The report of `gpuctl drift`: differences from documents, their time and author. The command only reads."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, matching, on, refuse
from support.cluster_tools import Place, inference, notebook, training
from support.webhook_receiver import receiving

AUTOSCALED = inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 4})
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def drift_report(
    place: Place, *documents: dict[str, Any], code: int = 0, flags: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the report as JSON."""
    answer = place.gpuctl("drift", "-f", place.file(*documents), "-o", "json", *flags, code=code).value
    return dict(answer)


def objects(report: dict[str, Any], part: str = "objects") -> dict[str, dict[str, Any]]:
    """Return the objects by ``kind/name``."""
    return {f"{one['kind']}/{one['name']}": one for one in report[part]}


def fields(one: dict[str, Any], part: str = "fields") -> dict[str, dict[str, Any]]:
    """Return the fields by path."""
    return {field["path"]: field for field in one[part]}


def forbid(resource: str) -> Any:
    """Return the API server's response to a user without the right to list a resource."""
    return refuse(403, "Forbidden", f'User "reader" cannot list resource "{resource}" in API group "x"')


def quota(place: Place) -> dict[str, Any]:
    """Return a quota document for the namespace, large enough for all tests."""
    return {
        "kind": "quota",
        "version": "v0.1",
        "quota": {"name": "team"},
        "users": {place.namespace: {"gpu": 64, "cpu": "512", "memory": "4Ti"}},
    }


def test_applied_documents_have_no_drift(place: Place) -> None:
    documents = (training(), AUTOSCALED, notebook(), quota(place))
    place.apply(*documents, flags=("--set", "all"))
    place.running("train", "serve", "note")
    place.gpuctl("pause", "note")
    report = drift_report(place, *documents, flags=("--fail",))
    assert report["objects"] == []
    assert report["problems"] == []
    assert report["drifted"] is False
    assert report["summary"]["same"] >= 7
    assert place.gpuctl("drift", place.file(*documents), "--fail").err.startswith("no drift: ")


def test_changed_added_and_deleted_objects_are_reported(place: Place) -> None:
    documents = (training(), AUTOSCALED, notebook())
    place.apply(*documents, training("extra"), flags=("--set", "all"))
    place.kubectl("set", "image", "deployment/serve", "main=registry.example.com/other:9")
    place.kubectl("set", "env", "statefulset/note", "EXTRA=1")
    place.kubectl("annotate", "job/train", "example.com/owner=me")
    place.kubectl("delete", "hpa", "serve")
    report = drift_report(place, *documents, code=1, flags=("--fail",))
    found = objects(report)
    assert {name: one["what"] for name, one in found.items()} == {
        "Deployment/serve": "differs",
        "StatefulSet/note": "differs",
        "Job/train": "differs",
        "HorizontalPodAutoscaler/serve": "gone",
        "Job/extra": "unnamed",
    }
    image = fields(found["Deployment/serve"])["spec.template.spec.containers[main].image"]
    assert image["live"] == "registry.example.com/other:9"
    assert image["wanted"] != image["live"]
    assert image["added"] is False
    assert [by["manager"] for by in image["by"]] == ["kubectl-set"]
    assert TIME.fullmatch(image["by"][0]["time"])
    assert found["Deployment/serve"]["since"] == image["by"][0]["time"]
    env = fields(found["StatefulSet/note"])["spec.template.spec.containers[main].env[EXTRA]"]
    assert (env["live"], env["wanted"], env["added"]) == ({"name": "EXTRA", "value": "1"}, None, True)
    owner = fields(found["Job/train"])["metadata.annotations[example.com/owner]"]
    assert [by["manager"] for by in owner["by"]] == ["kubectl-annotate"]
    # Without --fail drift is reported with exit code 0.
    said = place.gpuctl("drift", place.file(*documents))
    assert "differs   deployment.apps/serve" in said.out
    assert "(kubectl-set at 20" in said.out
    assert "gone      horizontalpodautoscaler.autoscaling/serve" in said.out
    assert "3 differ, 1 gone, 1 in no document" in said.err
    shown = place.gpuctl("drift", place.file(*documents), "-o", "markdown").out
    assert shown.startswith("## Drift on `https://")
    assert "| object | what | in the cluster | in the document | who, and when |" in shown
    assert re.search(r"\| deployment\.apps/serve -n \S+ \| `containers\[main\]\.image` \|", shown)


@pytest.mark.slow
def test_changes_by_controllers_are_expected(place: Place) -> None:
    """Replicas set by a foreign autoscaler, the revision of a rollout, the Job controller's labels."""
    document = inference()
    place.apply(document, training())
    place.kubectl("autoscale", "deployment/serve", "--min=2", "--max=4", "--cpu-percent=80")
    place.patch("Deployment", "serve", {"spec": {"replicas": 3}}, manager="kube-controller-manager")
    report = drift_report(place, document, training(), flags=("--fail",))
    assert report["objects"] == []
    expected = fields(objects(report, "expected")["Deployment/serve"], "expectedFields")
    assert expected["spec.replicas"]["live"] == 3
    assert expected["spec.replicas"]["by"][-1]["manager"] == "kube-controller-manager"


@pytest.mark.slow
def test_partial_comparison_of_kept_objects_is_noted(place: Place) -> None:
    place.apply(training(), inference())
    assert "kept" not in place.gpuctl("drift", place.file(training(), inference())).err
    place.platform("priorities: {medium: {className: gpuctl-mid, value: 500}}")
    said = place.gpuctl("drift", place.file(training(), inference())).err
    assert "kept as an earlier gpuctl or platform made it, so that fields which others removed are not reported" in said
    assert f"deployment.apps/serve in {place.namespace}" in said


@pytest.mark.slow
def test_fields_injected_by_a_webhook_at_creation_are_expected(place: Place) -> None:
    """managedFields attributes the injected sidecar and label to gpuctl, although the documents do not contain them."""
    document = inference()
    place.apply(document)
    made = place.get("Deployment", "serve")
    place.api.call("DELETE", place.path("Deployment", "serve"))
    place.until(lambda: not place.exists("Deployment", "serve"), "the deployment to be gone")
    for key in ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"):
        made["metadata"].pop(key, None)
    made.pop("status", None)
    # The Deployment controller may have set its annotation already.
    made["metadata"]["annotations"].pop("deployment.kubernetes.io/revision", None)
    made["metadata"]["labels"]["injected.example.com/by"] = "mesh"
    made["spec"]["template"]["spec"]["containers"].append({"name": "mesh", "image": "mesh:1"})
    place.create(made, manager="gpuctl")
    report = drift_report(place, document, flags=("--fail",))
    assert report["objects"] == []
    found = fields(objects(report, "expected")["Deployment/serve"], "expectedFields")
    assert found.keys() == {
        "metadata.labels[injected.example.com/by]",
        "spec.template.spec.containers[mesh]",
    }
    (by,) = found["spec.template.spec.containers[mesh]"]["by"]
    assert by["manager"] == "an admission webhook"
    assert TIME.fullmatch(by["time"])


@pytest.mark.slow
@pytest.mark.parametrize("manager", ["", "argocd-controller"])
def test_defaults_held_by_other_managers_are_no_drift(place: Place, manager: str) -> None:
    """Objects that kubectl created from gpuctl's output, before and after gpuctl adopts them."""
    documents = (training(), AUTOSCALED, notebook(), quota(place))
    flags = ("--server-side", f"--field-manager={manager}") if manager else ()
    place.kubectl("apply", *flags, "-f", "-", input=place.gpuctl("render", "-f", place.file(*documents)).out)
    for _ in range(2):
        report = drift_report(place, *documents, flags=("--fail",))
        assert report["objects"] == []
        assert report["summary"]["same"] >= 7
        place.apply(*documents)
    place.kubectl("set", "env", "deployment/serve", "EXTRA=1")
    place.kubectl("rollout", "restart", "deployment/serve", "statefulset/note")
    report = drift_report(place, *documents, code=1, flags=("--fail",))
    assert [*objects(report)] == ["Deployment/serve"]
    assert [*fields(objects(report)["Deployment/serve"])] == ["spec.template.spec.containers[main].env[EXTRA]"]


@pytest.mark.slow
def test_changed_rolling_service_is_drift(place: Place) -> None:
    """An apply rejects the change as a conflict; the report lists it as a difference."""
    document = inference(service={"strategy": "rolling"})
    place.apply(document)
    place.kubectl("set", "image", "deployment/serve", "main=registry.example.com/other:9")
    report = drift_report(place, document, code=1, flags=("--fail",))
    assert report["problems"] == []
    found = fields(objects(report)["Deployment/serve"])["spec.template.spec.containers[main].image"]
    assert found["live"] == "registry.example.com/other:9"
    assert [by["manager"] for by in found["by"]] == ["kubectl-set"]


@pytest.mark.slow
def test_ignore_rules_of_the_platform_exclude_drift(place: Place) -> None:
    place.apply(inference(), training())
    place.patch("Deployment", "serve", {"metadata": {"labels": {"mesh": "on"}}}, manager="istio-webhook")
    place.patch("Job", "train", {"metadata": {"annotations": {"example.com/seen": "1"}}}, manager="an-operator")
    documents = (inference(), training())
    drift_report(place, *documents, code=1, flags=("--fail",))
    place.platform("drift: {ignore: [{kind: Deployment, path: metadata.labels.mesh, manager: istio-*}]}")
    report = drift_report(place, *documents, code=1, flags=("--fail",))
    assert [*objects(report)] == ["Job/train"]
    rules = "{path: metadata.labels.mesh}, {path: 'metadata.annotations[example.com/*]', manager: an-operator}"
    place.platform(f"drift: {{ignore: [{rules}]}}")
    report = drift_report(place, *documents, flags=("--fail",))
    assert sorted(objects(report, "expected")) == ["Deployment/serve", "Job/train"]
    assert "expected  job.batch/train" in place.gpuctl("drift", place.file(*documents)).out


@pytest.mark.slow
def test_a_part_of_a_set_is_compared_with_that_part(place: Place, proxy: Proxy) -> None:
    jobs = place.directory / "jobs"
    (jobs / "nlp").mkdir(parents=True)
    (jobs / "nlp" / "a.yaml").write_text(json.dumps(training("a")))
    (jobs / "b.yaml").write_text(json.dumps(training("b")))
    place.gpuctl("apply", str(jobs), "--set", "prod")
    part = place.gpuctl("drift", str(jobs / "nlp"), "--fail", "-o", "json").value
    assert part["objects"] == []
    assert "the set prod came from" in part["notes"][0]
    (jobs / "b.yaml").write_text("# nothing\n")
    for whole in (jobs, place.directory):
        (unnamed,) = place.gpuctl("drift", str(whole), "--fail", "-o", "json", code=1).value["objects"]
        assert (unnamed["what"], unnamed["name"]) == ("unnamed", "b")
    # A user who may not read Secrets gets a note that other documents may explain the difference.
    proxy.reset(on(matching("GET", "/secrets"), forbid("secrets")))
    report = place.gpuctl("drift", str(jobs / "nlp"), "--fail", "-o", "json", code=1).value
    assert "not known: its Secret does not exist, or you may not read it" in report["notes"][0]


@pytest.mark.slow
def test_missing_right_to_list_jobsets_is_no_problem(place: Place, proxy: Proxy) -> None:
    place.apply(training(), flags=("--set", "all"))
    proxy.reset(on(matching("GET", "/jobsets"), forbid("jobsets.jobset.x-k8s.io")))
    assert drift_report(place, training(), flags=("--fail",))["problems"] == []


@pytest.mark.slow
def test_drift_compares_documents_of_a_git_revision(place: Place) -> None:
    directory = place.directory / "repository"
    directory.mkdir()

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch=main")
    (directory / "job.yaml").write_text(json.dumps(training()))
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    place.apply(training())
    (directory / "job.yaml").write_text(json.dumps(training(environment={"image": "registry.example.com/new:1"})))
    report = place.gpuctl("drift", "git:HEAD", str(directory), "--fail", "-o", "json").value
    assert report["objects"] == []
    assert re.fullmatch("[0-9a-f]{40}", report["revision"])
    place.gpuctl("drift", str(directory), "--fail", code=1)
    assert "there is no revision `nope` here" in place.gpuctl("drift", "git:nope", str(directory), code=2).err
    assert "does not exist at HEAD" in place.gpuctl("drift", "git:HEAD", str(directory / "nope.yaml"), code=2).err


def test_drift_sends_only_get_requests(place: Place, proxy: Proxy) -> None:
    documents = (training(), AUTOSCALED, quota(place))
    place.apply(*documents, flags=("--set", "all"))
    place.kubectl("set", "env", "deployment/serve", "EXTRA=1")
    proxy.reset()
    drift_report(place, *documents)
    assert {record.request.method for record in proxy.records} == {"GET"}
    assert not any("secrets" in record.request.path for record in proxy.records)


@pytest.mark.slow
def test_foreign_object_of_the_same_name_is_reported(place: Place) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc-serve"}}
    place.create({**service, "spec": {"ports": [{"port": 1}]}})
    found = objects(drift_report(place, inference(), code=1, flags=("--fail",)))
    assert found["Service/svc-serve"]["reason"] == "exists, and is not gpuctl's"
    assert found["Service/svc-serve"]["what"] == "differs"
    assert found["Deployment/serve"]["what"] == "gone"


@pytest.mark.slow
def test_objects_that_cannot_be_compared_are_problems(place: Place, proxy: Proxy) -> None:
    """A job of another kind has the name, or the user may not list Deployments."""
    place.apply(training("serve"))
    report = drift_report(place, inference(), code=2, flags=("--fail",))
    assert ["a job of another kind cannot have its name" in problem for problem in report["problems"]] == [True]
    shown = place.gpuctl("drift", place.file(inference()), "-o", "markdown").out
    assert "Could not be compared: " in shown
    assert "1 could not be compared" in shown
    assert "no drift" not in place.gpuctl("drift", place.file(inference())).err
    proxy.reset(on(matching("GET", "/deployments"), refuse(403, "Forbidden", "no")))
    assert "no" in place.gpuctl("drift", place.file(inference()), code=3).err


@pytest.mark.slow
def test_invalid_documents_are_an_error_and_no_drift(place: Place) -> None:
    path = place.directory / "bad.yaml"
    path.write_text("kind: training\nversion: v0.1\njob: {name: a}\n")
    place.gpuctl("drift", str(path), "--fail", code=2)


@pytest.mark.slow
def test_drift_is_posted_to_the_webhook(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.apply(training())
    with receiving() as webhook:
        address = f"{webhook.url}/hook"
        webhook.answers["/hook"] = [(204, "", {})]
        drift_report(place, training(), flags=("--webhook", address))
        assert webhook.posts == []
        report = drift_report(place, training(), training("more"), flags=("--webhook", address))
        assert [post.body for post in webhook.at("/hook")] == [report]
        monkeypatch.setenv("GPUCTL_DRIFT_WEBHOOK", address)
        drift_report(place, training("more"))
        assert len(webhook.at("/hook")) == 2
    said = place.gpuctl("drift", place.file(training("more")), "--webhook", "http://127.0.0.1:1/secret", code=3)
    assert "the webhook at http://127.0.0.1:1 does not answer" in said.err
    assert "secret" not in said.err


@pytest.mark.slow
def test_removed_node_label_of_a_pool_is_drift(place: Place, plane: ControlPlane) -> None:
    plane.add_node("drifted-0", gpus=1)
    pool = {
        "kind": "pool",
        "version": "v0.1",
        "pool": {"name": "drifted"},
        "nodes": {"drifted-0": {"gpu-type": "A100-80G"}},
    }
    place.apply(pool)
    assert drift_report(place, pool, flags=("--fail",))["objects"] == []
    plane.kubectl("label", "node", "drifted-0", "runwhere.ai/gpu-type-")
    assert objects(drift_report(place, pool)).keys() == {"Node/drifted-0"}
    place.gpuctl("delete", "pool", "drifted", "--yes")
    plane.kubectl("delete", "node", "drifted-0")


def test_changes_that_were_not_applied_are_in_the_terms_of_the_document(place: Place) -> None:
    place.apply(inference())
    changed = inference(service={"replicas": 3})
    assert "    not applied: service.replicas: 1 -> 3\n" in place.gpuctl("drift", place.file(changed)).out
    (one,) = drift_report(place, changed)["objects"]
    assert one["documentChanges"] == [{"path": "service.replicas", "from": 1, "to": 3}]
