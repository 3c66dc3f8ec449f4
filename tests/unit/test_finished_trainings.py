"""Finished trainings: the effect of a changed document, without a cluster."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.decision_inputs import DecisionOptions, PendingDecision, Target
from gpuctl.apply.plan.disruption import note_finished
from gpuctl.apply.plan.object_decision import decide, decide_with_answer
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.rerun_plan import NotRerunnable, plan_rerun
from gpuctl.compilation import compile
from gpuctl.frontend.source import Source
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import records, stamp
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.prerequisites import ADMISSION_GATES, is_waiting
from gpuctl.objects.timestamps import parse_timestamp

KEYS = records(Settings())
DOCUMENT = """\
kind: training
version: v0.1
job: {name: sft, namespace: nlp, labels: {team: nlp}, annotations: {note: a}}
environment: {image: "registry/app:v1", command: [python, train.py]}
resources: {pool: default, gpu: 1}
"""
JOBSET = "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\n"
FORMS = ["Job", "JobSet"]
ENDS = [("Job", "Complete"), ("Job", "Failed"), ("JobSet", "Completed"), ("JobSet", "Failed")]
METADATA_CHANGES = {
    "a label more": ("team: nlp", "team: nlp, cost-center: '42'"),
    "a label less": ("labels: {team: nlp}, ", ""),
    "another value": ("team: nlp", "team: mm"),
    "an annotation": ("note: a", "note: b"),
    "no annotations": (", annotations: {note: a}", ""),
}


def lowered(kind: str, text: str = DOCUMENT) -> Object:
    """Return the training's object as apply sends it."""
    if kind == "JobSet":
        text = text.replace("gpu: 1}", "gpu: 1, nodes: 2}")
    platform = Source("platform.yaml", JOBSET) if kind == "JobSet" else None
    found = compile(Source("a.yaml", text), platform=platform, embed=True)
    return next(stamp(obj, KEYS, None) for obj in found.objects if obj["kind"] == kind)


def live(kind: str, condition: str | None, *, generation: int = 1) -> Object:
    """Return the live object. With a condition it has finished."""
    obj = copy.deepcopy(lowered(kind))
    fields = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in obj["metadata"]["labels"]}}}
    fields["f:metadata"]["f:annotations"] = {f"f:{key}": {} for key in obj["metadata"]["annotations"]}
    entry = {"manager": "gpuctl", "operation": "Update", "fieldsV1": fields}
    obj["metadata"] |= {"uid": "1", "generation": generation, "managedFields": [entry]}
    if condition is not None:
        at = "2020-01-01T00:00:00Z"
        obj["status"] = {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": at}]}
    return obj


def step_for(desired: Object, there: Object) -> Step:
    """Return the step that apply plans. A dry run is assumed to accept the object unchanged."""
    decision = decide(Target(desired, False, "training/sft", False), there, DecisionOptions(ApplyRequest()))
    step = (
        decide_with_answer(decision, decision.target.desired, DecisionOptions(ApplyRequest()))
        if isinstance(decision, PendingDecision)
        else decision
    )
    note_finished(Plan([step]), ApplyRequest(), parse_timestamp("2020-01-01T03:00:00Z").timestamp())
    return step


@pytest.mark.parametrize(("kind", "condition"), ENDS)
def test_changed_image_reruns_a_finished_training_after_confirmation(kind: str, condition: str) -> None:
    step = step_for(lowered(kind, DOCUMENT.replace(":v1", ":v2")), live(kind, condition))
    assert step.action == "replace"
    assert step.finished is not None
    assert step.finished == f"finished 3h ago ({condition}): runs again; its pods and logs are deleted"
    assert Plan([step]).questions == [f"replaces training/sft in nlp: {step.finished}"]


def test_rerun_lists_changed_labels_of_its_pods_too() -> None:
    changed = DOCUMENT.replace(":v1", ":v2").replace("team: nlp", "team: mm")
    paths = [change.path for change in step_for(lowered("Job", changed), live("Job", "Complete")).changes]
    assert any(path.endswith("image") for path in paths)
    assert any(path.startswith("spec.template.metadata.labels") for path in paths)


@pytest.mark.parametrize("change", METADATA_CHANGES)
@pytest.mark.parametrize(("kind", "condition"), ENDS)
def test_metadata_change_patches_a_finished_training(kind: str, condition: str, change: str) -> None:
    """The object is patched. The pod template is immutable, and no pod is created from it again."""
    desired, there = lowered(kind, DOCUMENT.replace(*METADATA_CHANGES[change])), live(kind, condition)
    step = step_for(desired, there)
    assert (step.action, step.method, step.finished) == ("update", "patch", None)
    assert step.desired is not None
    assert "spec" not in step.desired
    assert Plan([step]).questions == []
    for generation in (1, 2):
        patched = _patched({**there, "metadata": {**there["metadata"], "generation": generation}}, step.desired)
        assert step_for(desired, patched).action == "unchanged"


@pytest.mark.parametrize("change", METADATA_CHANGES)
@pytest.mark.parametrize("kind", FORMS)
def test_rerun_pods_have_the_labels_of_the_document(kind: str, change: str) -> None:
    desired, there = (
        lowered(kind, DOCUMENT.replace(*METADATA_CHANGES[change])),
        live(kind, ENDS[0][1] if kind == "Job" else "Completed"),
    )
    patch = step_for(desired, there).desired
    assert patch is not None
    again = plan_rerun(_patched(there, patch), "training/sft", KEYS).steps[0].desired
    assert again is not None
    assert [template["metadata"] for template, _ in pod_templates(again)] == [
        template["metadata"] for template, _ in pod_templates(desired)
    ]


@pytest.mark.parametrize("kind", FORMS)
def test_running_training_is_replaced_for_a_pod_label(kind: str) -> None:
    step = step_for(lowered(kind, DOCUMENT.replace(*METADATA_CHANGES["a label more"])), live(kind, None))
    assert (step.action, step.finished) == ("replace", None)


def test_paused_training_is_replaced_paused() -> None:
    there = live("Job", "Failed")
    there["metadata"]["annotations"][KEYS.paused] = "0"
    there["spec"]["suspend"] = True
    step = step_for(lowered("Job", DOCUMENT.replace(":v1", ":v2")), there)
    assert step.finished is not None
    assert step.finished.endswith("(Failed): comes back paused; its pods and logs are deleted")


def _patched(there: Object, patch: Object) -> Object:
    """Apply a merge patch to the labels and annotations of an object."""
    result = copy.deepcopy(there)
    for part in ("labels", "annotations"):
        values: dict[str, Any] = {**result["metadata"].get(part, {}), **patch["metadata"].get(part, {})}
        result["metadata"][part] = {key: value for key, value in values.items() if value is not None}
    return result


@pytest.mark.parametrize(("kind", "condition"), ENDS)
@pytest.mark.parametrize("gates", ["gpuctl/after", "gpuctl/after,example.com/budget"])
def test_rerun_of_a_training_that_was_never_released_does_not_wait(kind: str, condition: str, gates: str) -> None:
    """An older Kueue ignores the gate, and a GitOps controller does not check the version of Kueue."""
    there = live(kind, condition)
    there["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
    there["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    there["metadata"]["annotations"] |= {KEYS.after: '{"prepare": "ok"}', ADMISSION_GATES: gates}
    (step,) = plan_rerun(there, "training/sft", KEYS).steps
    assert step.desired is not None
    annotations = step.desired["metadata"]["annotations"]
    assert annotations.get(ADMISSION_GATES, "") == gates.removeprefix("gpuctl/after").removeprefix(",")
    assert annotations[KEYS.released] == "2026-01-01T00:00:00Z"
    assert not is_waiting({**step.desired, "status": {}}, KEYS)


@pytest.mark.parametrize("queue", ["", "team"])
def test_training_that_waits_cannot_run_again(queue: str) -> None:
    there = live("Job", None)
    there["spec"]["suspend"] = True
    there["metadata"]["labels"] |= {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    there["metadata"]["annotations"] |= {KEYS.after: '{"prepare": "ok"}', ADMISSION_GATES: "gpuctl/after"}
    with pytest.raises(NotRerunnable, match="training/sft in nlp has not run yet: it waits for prepare"):
        plan_rerun(there, "training/sft", KEYS)
