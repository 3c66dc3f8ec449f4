"""A plan read from a service's response is printed and confirmed like the original plan."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gpuctl.api.plan_answers import PlanAnswer, answer_value, plan_value
from gpuctl.apply.plan.plan import EvictedJob, Plan, Step, Wait
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.cli.output.plan_lines import planned_line, summary_line
from gpuctl.objects.api_resources import Key
from gpuctl.usecases.changes.service_plans import plan_of

PLAN = Plan(
    steps=[
        Step(
            "replace",
            Key("Job", "team-a", "sft"),
            "spec.template cannot be changed",
            changes=[FieldOutcome("spec.template.spec.containers[main].image", "app:v1", "app:v2")],
            title="training/sft",
            running="running for 3h",
            applied_by="anna",
            checkpoint="python save.py (at most 2m)",
            verdict="fits-when-empty",
            victims=[
                EvictedJob("team-b", "llama", 100, ("llama-1",), "3h", "bob"),
                EvictedJob("", "", 1000, (), "2d", None, seen=False),
            ],
            waits=[Wait("quota", "asks 8 nvidia.com/gpu, 3 free", None)],
            lost=[FieldOutcome("metadata.labels[x]", "y", None, ("kubectl-edit",))],
            dependents=[Key("Pod", "team-a", "sft-1")],
            unseen=["Service"],
        ),
        Step("unchanged", Key("Namespace", "", "team-a"), shared=True),
        Step("delete", Key("Job", "team-a", "old"), title="training/old", running="running for 1m"),
    ],
    errors=["the quota is full"],
    tracked=["Argo CD tracks it"],
    lacking=["jobs may not be deleted"],
    notes=["no node is in the pool"],
    recovery=[Step("create", Key("Job", "team-a", "left"), "an apply had deleted it")],
)


def test_plan_read_from_a_response_is_the_same() -> None:
    answer = PlanAnswer(**answer_value(PLAN), messages=["said"], finished=[1], carried_out=True).as_json()
    found = plan_of(answer)
    assert plan_value(found) == plan_value(PLAN)
    assert list(map(planned_line, found.steps)) == list(map(planned_line, PLAN.steps))
    assert summary_line(found) == summary_line(PLAN)
    assert (found.questions, found.courtesies) == (PLAN.questions, PLAN.courtesies)
    assert (found.obstacles, found.errors) == (PLAN.obstacles, PLAN.errors)
    assert (found.messages, found.finished, found.carried_out) == (["said"], [1], True)


def test_plan_of_an_older_service_has_fewer_fields() -> None:
    older = {"steps": [], "summary": {}, "notes": [], "questions": ["replaces training/sft"], "errors": []}
    assert plan_of(older).questions == ["replaces training/sft"]


@pytest.mark.parametrize("changes", [{"action": "annul"}, {"kind": "Wormhole"}, {"result": "perhaps"}])
def test_unknown_value_of_another_version_is_rejected(changes: dict[str, str]) -> None:
    answer = PlanAnswer(**answer_value(PLAN)).as_json()
    answer["steps"][0] |= changes
    with pytest.raises(ValueError, match=next(iter(changes.values()))):
        plan_of(answer)


def test_missing_field_of_another_version_is_rejected() -> None:
    with pytest.raises(ValidationError, match="questions"):
        plan_of({"steps": [], "summary": {}, "notes": [], "errors": []})
