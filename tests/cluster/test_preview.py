"""Dry runs and diff change nothing and show exactly the steps that apply then executes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from fault_tools.proxy import Proxy, matching, meanwhile, nth, on
from support.cluster_tools import Outcome, Place, compute, image, inference, notebook, training

AUTOSCALED = inference(autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 4})
MULTI = training("multi", resources={"nodes": 2}, environment={"command": ["deepspeed", "--no_ssh", "x.py"]})
FIRST = (training(), AUTOSCALED, notebook(), MULTI, compute())
SECOND = (
    training(environment={**image("v2"), "env": [{"name": "SEED", "value": "7"}]}),
    inference(service={"replicas": 2, "port": 8001}),
    notebook(job={"description": "mine"}),
    training("multi"),
    training("fresh"),
)


def outline(outcome: Outcome) -> list[tuple[Any, ...]]:
    """Return the steps of a plan without their results."""
    return [
        (step["action"], step["kind"], step["name"], step["reason"], str(step["changes"]))
        for step in outcome.value["steps"]
    ]


def test_preview_equals_the_applied_steps(place: Place) -> None:
    place.apply(*FIRST)
    place.running("train", "serve", "note", "comp")
    place.running("multi", pods=2)
    before = place.records()
    file = place.file(*SECOND)
    plans = [
        place.gpuctl("apply", "-f", file, "--dry-run=server", "-o", "json"),
        place.gpuctl("apply", "-f", file, "--dry-run=client", "-o", "json"),
        place.gpuctl("diff", "-f", file, "-o", "json", code=1),
        place.gpuctl("apply", "-f", file, "-o", "json", code=2),
    ]
    assert place.records() == before
    done = place.gpuctl("apply", "-f", file, "--yes", "-o", "json")
    for number, plan in enumerate(plans):
        assert {step["result"] for step in plan.value["steps"]} == {"planned"}
        assert plan.value["summary"] == done.value["summary"]
        # A client dry run does not see the server's defaults, so its lists of changed fields are less exact.
        fields = 3 if number == 1 else 5
        assert [step[:fields] for step in outline(plan)] == [step[:fields] for step in outline(done)]
    assert {step["result"] for step in done.value["steps"]} == {"done"}
    assert done.actions == {
        "ConfigMap/multi-hostfile": "delete",
        "Service/multi": "delete",
        "Service/svc-note": "unchanged",
        "Service/svc-serve": "update",
        "Job/fresh": "create",
        "Job/multi": "replace",
        "Deployment/serve": "replace",
        "StatefulSet/note": "update",
        "Job/train": "replace",
        "HorizontalPodAutoscaler/serve": "delete",
    }
    assert place.gpuctl("diff", "-f", file).out.count("unchanged") == len(place.names()) - 2


def test_fields_of_a_json_step(place: Place) -> None:
    place.apply(training())
    place.running("train")
    value = place.gpuctl("diff", "-f", place.file(training(environment=image("v2"))), "-o", "json", code=1).value
    assert {"set", "steps", "summary"} <= value.keys()
    assert value["set"] is None
    (step,) = [step for step in value["steps"] if step["kind"] == "Job"]
    assert step.pop("running").startswith("running for ")
    assert step == {
        "action": "replace",
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": place.namespace,
        "name": "train",
        "reason": "containers[main].image",
        "changes": [
            {
                "path": "spec.template.spec.containers[main].image",
                "from": "registry.example.com/training:v1",
                "to": "registry.example.com/app:v2",
            }
        ],
        "documentChanges": [
            {
                "path": "environment.image",
                "from": "registry.example.com/training:v1",
                "to": "registry.example.com/app:v2",
            },
        ],
        "verdict": "fits",
        "victims": [],
        "waits": [],
        "lost": [],
        "dependents": [],
        "unseen": [],
        "finished": None,
        "appliedBy": None,
        "checkpoint": None,
        "result": "planned",
        "error": None,
    }


def test_exit_codes_of_diff(place: Place) -> None:
    file = place.file(training())
    assert place.gpuctl("diff", "-f", file, code=1).out.startswith(f"create    job.batch/train -n {place.namespace}\n")
    place.apply(training())
    assert place.gpuctl("diff", "-f", file).out == f"unchanged job.batch/train -n {place.namespace}\n"
    (place.directory / "wrong.yaml").write_text("kind: training\nversion: v0.1\njob: {name: x}\n")
    wrong = place.gpuctl("diff", "-f", str(place.directory / "wrong.yaml"), code=2)
    assert wrong.out == ""
    assert "error[" in wrong.err
    place.gpuctl("diff", "-f", str(place.directory / "absent.yaml"), code=2)
    refused = place.gpuctl("diff", "-f", place.file(compute("train")), code=2)
    assert "training/train exists in" in refused.err
    unreachable = place.gpuctl("diff", "-f", file, "--context", "no-such-context", code=3)
    assert "no context no-such-context" in unreachable.err


@pytest.mark.slow
def test_a_diff_is_a_readable_unified_diff(place: Place) -> None:
    env = [{"name": "SEED", "value": "1"}, {"name": "OLD", "value": "x"}]
    place.apply(training(environment={"env": env}), inference())
    env = [{"name": "SEED", "value": "2"}, {"name": "NEW", "value": "y"}]
    changed = training(environment={"env": env, **image("v2")}, job={"description": "new"})
    said = place.gpuctl("diff", "-f", place.file(changed, inference(service={"replicas": 2})), code=1).out
    lines = said.splitlines()
    assert [line for line in lines if line.startswith(("---", "+++"))] == [
        f"--- live/job.batch/train in {place.namespace}",
        f"+++ wanted/job.batch/train in {place.namespace}",
        f"--- live/deployment.apps/serve in {place.namespace}",
        f"+++ wanted/deployment.apps/serve in {place.namespace}",
    ]
    changes = [line for line in lines if line[:1] in "+-" and not line.startswith(("---", "+++"))]
    assert "-        image: registry.example.com/training:v1" in changes
    assert "+        image: registry.example.com/app:v2" in changes
    assert not [line for line in changes if "{}" in line]
    assert "+    runwhere.ai/description: new" in changes
    assert "-  replicas: 1" in changes
    assert "+  replicas: 2" in changes
    assert len(changes) < 16
    assert "runwhere.ai/hash" not in said
    assert "runwhere.ai/document" not in said


@pytest.mark.slow
def test_diff_shows_order_and_server_defaults(place: Place) -> None:
    """The diff shows changes in the order of variables and changes that come only from server defaults."""
    env = [{"name": name, "value": name} for name in "ABC"]
    place.apply(training(environment={"env": env}), MULTI)
    changed = (training(environment={"env": [env[2], *env[:2]]}), training("multi"))
    lines = place.gpuctl("diff", "-f", place.file(*changed), code=1).out.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("-") and "name: C" in line] == ["C"]
    assert [line.split()[-1] for line in lines if line.startswith("+") and "name: C" in line] == ["C"]
    for line in ("-  completions: 2", "+  completions: 1", "-  completionMode: Indexed", "-kind: ConfigMap"):
        assert line in lines
    assert not [line for line in lines if "(order)" in line and not line.startswith("replace")]


def test_secrets_are_masked_everywhere(place: Place) -> None:
    def with_token(value: str) -> dict[str, Any]:
        command = ["serve", f"--api-key={value}", "--password", value]
        return training(environment={"env": [{"name": "HF_TOKEN", "value": value}], "command": command})

    place.apply(with_token("hunter2-old"))
    file = place.file(with_token("hunter2-new"))
    outputs = [
        place.gpuctl("diff", "-f", file, code=1),
        place.gpuctl("diff", "-f", file, "-o", "json", code=1),
        place.gpuctl("apply", "-f", file, "--dry-run=server"),
        place.gpuctl("apply", "-f", file, "-o", "json", "--yes"),
        place.gpuctl("diff", "-f", place.file(with_token("hunter2-new"), training("next")), "-o", "json", code=1),
    ]
    for outcome in outputs:
        assert "hunter2" not in outcome.out + outcome.err
    assert "***" in outputs[0].out
    assert "<masked, changed>" in outputs[0].out
    refused = place.gpuctl("diff", "-f", file, "--show-secrets", code=2)
    assert "--show-secrets works on a terminal only" in refused.err
    place.kubectl("annotate", "job/train", "example.com/db=postgres://u:hunter2-theirs@db")
    more = place.file(with_token("hunter2-more"))
    for arguments in (("diff", "-f", more), ("diff", "-f", more, "-o", "json"), ("diff", "-f", more, "-o", "markdown")):
        said = place.gpuctl(*arguments, code=1)
        assert "hunter2" not in said.out + said.err
    for arguments in (("describe", "job", "train"), ("describe", "job", "train", "-o", "json"), ("why", "train")):
        said = place.gpuctl(*arguments)
        assert "hunter2" not in said.out + said.err
        assert ("***" in said.out) == ("describe" in arguments)


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--dry-run=client", "--dry-run=server"])
def test_dry_run_of_new_objects(place: Place, flag: str) -> None:
    outcome = place.apply(training(), compute(), flags=(flag,))
    assert sorted(outcome.out.splitlines()) == [
        f"create    deployment.apps/comp -n {place.namespace}",
        f"create    job.batch/train -n {place.namespace}",
        f"create    service/svc-comp -n {place.namespace}",
    ]
    kind = flag.partition("=")[2]
    assert outcome.err == f"3 to create ({kind} dry run, nothing was changed)\n"
    assert place.names() == set()


@pytest.mark.slow
def test_every_command_prints_one_json_value(place: Place) -> None:
    place.apply(training())
    place.running("train")
    (place.directory / "wrong.yaml").write_text("kind: training\nversion: v0.1\njob: {name: x}\n")
    v2 = place.file(training(environment=image("v2")), name="v2.yaml")
    wrong = str(place.directory / "wrong.yaml")
    cases = [
        (("apply", "-f", v2), 2),
        (("apply", "-f", wrong), 1),
        (("diff", "-f", wrong), 2),
        (("apply", "-f", v2, "--context", "nowhere"), 3),
        (("create", "-f", v2), 1),
        (("delete", "job", "absent"), 1),
        (("recover",), 0),
        (("apply", "-f", v2, "--yes", "--wait"), 0),
        (("delete", "-f", v2), 0),
    ]
    for arguments, code in cases:
        value = place.gpuctl(*arguments, "-o", "json", code=code).value
        assert isinstance(value, dict)
        if code in (1, 2, 3) and wrong not in arguments:
            assert value["error"], arguments
    process = subprocess.run(
        [sys.executable, "-m", "gpuctl", "apply", "-f", v2, "-n", place.namespace, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert Outcome(0, process.stdout, process.stderr).actions == {"Job/train": "create"}


@pytest.mark.slow
def test_rolling_changes_in_place(place: Place) -> None:
    place.apply(AUTOSCALED, notebook())
    place.kubectl("scale", "deployment/serve", "--replicas=3")
    place.running("serve", pods=3)
    before, pods = place.uids(), place.pods("serve")
    changed = ({**AUTOSCALED, "environment": {**AUTOSCALED["environment"], **image("v2")}}, notebook())
    preview = place.apply(*changed, flags=("--dry-run=server", "--strategy=rolling"))
    assert f"update    deployment.apps/serve -n {place.namespace}  (rolling: containers[main].image)" in preview.out
    assert "asks first" not in preview.err
    place.apply(*changed, flags=("--strategy=rolling", "--wait"))
    assert place.uids() == before
    assert place.get("Deployment", "serve")["spec"]["replicas"] == 3
    place.until(lambda: not place.pods("serve").items() & pods.items(), "the old pods to go")
    assert set(place.plan(*changed).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_rolling_retries_after_a_status_update(place: Place, proxy: Proxy) -> None:
    """A new resourceVersion between read and write does not make it another object."""
    place.apply(inference())
    moved = meanwhile(
        lambda: place.patch("Deployment", "serve", {"status": {"collisionCount": 7}}, subresource="status")
    )
    proxy.reset(on(nth(1, matching("PUT", "/deployments/serve", writes=True)), moved))
    place.apply(inference(environment=image("v2")), flags=("--strategy=rolling",))
    answers = [record.status for record in proxy.records if record.request.method == "PUT" and record.request.is_write]
    assert (answers[0], answers[-1]) == (409, 200)


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["same", "other"])
def test_concurrent_rolling_accepts_only_the_same_change(place: Place, proxy: Proxy, same: bool) -> None:
    """Another run changes the Deployment first: the same change is accepted, a different one is not overwritten."""
    place.apply(inference())
    changed = inference(environment=image("v2"))
    other = place.file(changed if same else inference(environment=image("v3")), name="other.yaml")

    def second() -> None:
        command = [sys.executable, "-m", "gpuctl", "apply", "-f", other, "-n", place.namespace, "--strategy=rolling"]
        subprocess.run(command, check=True, env={**os.environ, "KUBECONFIG": str(place.plane.kubeconfig())})

    proxy.reset(on(nth(1, matching("PUT", "/deployments/serve", writes=True)), meanwhile(second)))
    done = place.apply(changed, flags=("--strategy=rolling",), code=0 if same else 1)
    assert ("another run made the same change" if same else "was changed by another client") in done.out
    containers = place.get("Deployment", "serve")["spec"]["template"]["spec"]["containers"]
    assert containers[0]["image"].endswith(":v2" if same else ":v3")


@pytest.mark.slow
def test_rolling_removes_what_the_document_no_longer_has(place: Place) -> None:
    place.apply(inference(environment={"env": [{"name": "OLD", "value": "1"}]}, job={"labels": {"team": "a"}}))
    place.kubectl("annotate", "deployment/serve", "example.com/note=kept")
    uid = place.uid("Deployment", "serve")
    place.apply(inference(), flags=("--strategy=rolling",))
    deployment = place.get("Deployment", "serve")
    assert deployment["metadata"]["uid"] == uid
    assert "OLD" not in str(deployment["spec"])
    assert "team" not in deployment["metadata"]["labels"]
    assert deployment["metadata"]["annotations"]["example.com/note"] == "kept"
    assert set(place.plan(inference()).actions.values()) == {"unchanged"}


@pytest.mark.slow
def test_training_is_replaced_with_any_strategy(place: Place) -> None:
    place.apply(training())
    assert place.plan(training(environment=image("v2")), flags=("--strategy=rolling",)).actions == {
        "Job/train": "replace"
    }


def test_preview_shows_the_changes_of_documents(place: Place) -> None:
    place.apply(training(), inference())
    changed = training(environment={**image("v2"), "env": [{"name": "API_TOKEN", "value": "s3cret"}]})
    file = place.file(changed, inference())
    plan = place.gpuctl("apply", "-f", file, "--dry-run=server").out.splitlines()
    (line,) = [place for place, text in enumerate(plan) if text.startswith("replace   job.batch/train")]
    assert plan[line + 1].strip().startswith("environment.image: ")
    shown = place.gpuctl("diff", "-f", file, code=1).out
    assert plan[line + 1] in shown.splitlines()
    (step,) = [
        step
        for step in place.gpuctl("diff", "-f", file, "-o", "json", code=1).value["steps"]
        if step["documentChanges"]
    ]
    assert (step["kind"], step["name"]) == ("Job", "train")
    assert step["documentChanges"][0]["path"] == "environment.image"
    assert "s3cret" not in shown + str(step["documentChanges"])
