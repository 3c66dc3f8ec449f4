"""Sweeps: the jobs of a document, their order and values, and diagnostics that are reported once."""

from __future__ import annotations

import json
from typing import Any

import pytest

import gpuctl
from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.plan import Action, Plan, Step
from gpuctl.apply.plan.sweep_notes import note_changed_sweeps
from gpuctl.frontend.source import Source
from gpuctl.objects.api_resources import key_of

HEAD = """kind: training
version: v0.1
job: {name: tune}
environment:
  image: registry.example.com/train:v1
  command: [python, train.py, "--lr={{sweep.lr}}"]
  env: {SEED: "{{sweep.seed}}"}
resources: {gpu: 1, cpu: 8, memory: 64Gi}
"""


def compiled(sweep: str, head: str = HEAD, **options: Any) -> gpuctl.Compilation:
    return gpuctl.compile(Source("tune.yaml", f"{head}sweep: {sweep}\n"), shared=False, **options)


def values(sweep: str, **options: Any) -> dict[str, str]:
    """Name of each job -> its values, `1e-5 1`."""
    found = compiled(sweep, **options)
    assert found.ok, found.diagnostics
    return {
        obj["metadata"]["name"]: " ".join(
            json.loads(obj["metadata"]["annotations"]["runwhere.ai/sweep-values"]).values()
        )
        for obj in found.objects
    }


def test_last_parameter_varies_fastest() -> None:
    named = values("{lr: [1e-5, 2e-5], seed: [1, 2]}")
    assert list(named.values()) == ["1e-5 1", "1e-5 2", "2e-5 1", "2e-5 2"]
    assert list(named) == ["tune-0", "tune-1", "tune-2", "tune-3"]


def test_exclude_removes_combinations_with_all_values_of_an_entry() -> None:
    named = values("{lr: [1e-5, 2e-5], seed: [1, 2, 3], exclude: [{lr: 1e-5}, {lr: 2e-5, seed: 2}]}")
    assert named == {"tune-0": "2e-5 1", "tune-1": "2e-5 3"}


def test_include_adds_combinations_at_the_end() -> None:
    named = values("{lr: [1e-5], seed: [1], include: [{seed: 9, lr: 1e-4}]}")
    assert named == {"tune-0": "1e-5 1", "tune-1": "1e-4 9"}


def test_include_alone_lists_all_jobs() -> None:
    assert values("{include: [{lr: 1e-5, seed: 1}, {lr: 2e-5, seed: 2}]}") == {"tune-0": "1e-5 1", "tune-1": "2e-5 2"}


def test_single_value_is_a_list_of_one() -> None:
    assert values("{lr: 1e-5, seed: [1]}") == {"tune-0": "1e-5 1"}


def test_values_keep_their_text() -> None:
    (job, *_) = compiled("{lr: [1e-5], seed: [007]}").objects
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][-1] == "--lr=1e-5"
    assert {"name": "SEED", "value": "007"} in container["env"]


def test_option_replaces_the_values_of_a_parameter() -> None:
    assert values("{lr: [1e-5, 2e-5], seed: [1]}", overrides=["sweep.lr=[3e-5]"]) == {"tune-0": "3e-5 1"}


def test_profile_replaces_the_values_of_a_parameter() -> None:
    head = HEAD + "profiles: {quick: {sweep: {seed: [7]}}}\n"
    found = compiled("{lr: [1e-5], seed: [1, 2]}", head, profile="quick")
    assert [obj["metadata"]["annotations"]["runwhere.ai/sweep-values"] for obj in found.objects] == [
        '{"lr": "1e-5", "seed": "7"}'
    ]


def test_lifted_job_has_literal_values_and_lowers_to_itself() -> None:
    found = compiled("{lr: [1e-5, 2e-5], seed: [1]}")
    for use_annotation in (True, False):
        second = gpuctl.lift(found.objects, use_annotation=use_annotation)[1]
        assert second["job"]["sweep"] == {"name": "tune", "values": {"lr": "2e-5", "seed": "1"}}
        assert second["environment"]["command"][-1] == "--lr=2e-5"
        again = gpuctl.compile(Source("job.yaml", json.dumps(second)), shared=False)
        assert again.objects == found.objects[1:]


def test_sweep_of_1000_jobs_reports_each_problem_once() -> None:
    found = compiled(f"{{lr: {list(range(100))}, seed: {list(range(10))}}}", HEAD.replace("train:v1", "train"))
    assert len(found.objects) == 1000
    assert [item.code for item in found.diagnostics] == ["GPU501"]


@pytest.mark.parametrize(
    ("seeds", "code"),
    [("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]", "GPU225"), ("[]", "GPU226"), ("1, max_parallel: 3", "GPU226")],
)
def test_too_many_jobs_or_none(seeds: str, code: str) -> None:
    found = compiled(f"{{lr: {list(range(100))}, seed: {seeds}}}")
    assert [item.code for item in found.diagnostics] == [code]


def test_name_of_a_sweep_leaves_room_for_the_numbers() -> None:
    head = HEAD.replace("name: tune", f"name: {'a' * 60}").replace("gpu: 1", "gpu: 8, nodes: 2")
    found = [item for item in compiled("{lr: [1, 2], seed: [1]}", head).diagnostics if item.code == "GPU217"]
    (problem,) = found
    assert problem.message.startswith(
        "the name has 60 characters; the limit for this training is 59, because its jobs are"
    )
    assert problem.hint == f"shorten it, for instance to `{'a' * 59}`"
    # The first jobs have room, the last one has not.
    schedule = HEAD.replace("name: tune", f"name: {'a' * 50}") + "schedule: '@daily'\n"
    seeds = ", ".join(map(str, range(101)))
    found = [item for item in compiled(f"{{lr: [1], seed: [{seeds}]}}", schedule).diagnostics if item.code == "GPU217"]
    (problem,) = found
    assert "is 48, because its jobs are called NAME-0 to NAME-100, and" in problem.message


def test_huge_sweep_is_refused_at_once() -> None:
    names = ", ".join(f"p{number}: {list(range(100))}" for number in range(20))
    (found,) = compiled(
        f"{{{names}}}", HEAD.replace("sweep.", "job.").replace("job.lr", "job.name").replace("job.seed", "job.name")
    ).diagnostics[-1:]
    assert (found.code, found.message[:40]) == ("GPU225", f"the sweep has {100**20:,}"[:40])


def test_job_cannot_be_in_two_sweeps() -> None:
    head = HEAD.replace("{name: tune}", "{name: tune, sweep: {name: other, values: {lr: 1}}}")
    assert [item.code for item in compiled("{lr: [1], seed: [1]}", head).diagnostics] == ["GPU213"]


def test_platform_has_no_default_sweep() -> None:
    platform = Source("platform.yaml", "kind: platform\nversion: v0.1\ndefaults: {training: {sweep: {lr: [1]}}}\n")
    found = compiled("{lr: [1], seed: [1]}", platform=platform)
    assert [(item.code, item.path) for item in found.diagnostics] == [("GPU213", ("defaults", "training", "sweep"))]


def test_shifted_numbers_are_noted_with_the_way_to_keep_them() -> None:
    live, wanted = (compiled(f"{{lr: [1, 2], seed: {seeds}}}").objects for seeds in ("[1, 2]", "[1, 2, 3]"))
    steps = []
    for number, obj in enumerate(wanted):
        old = live[number] if number < len(live) else None
        is_same = old is not None and old["spec"] == obj["spec"]
        action: Action = "create" if old is None else "unchanged" if is_same else "replace"
        steps.append(Step(action, key_of(obj), desired=obj, live=old))
    assert [step.action for step in steps] == ["unchanged"] * 2 + ["replace"] * 2 + ["create"] * 2
    plan = Plan(steps)
    note_changed_sweeps(None, plan, ApplyRequest(offline=True))  # type: ignore[arg-type]
    advice = (
        "keep their numbers if new combinations are appended to `include`, or, without `include`, new values to the"
    )
    assert plan.notes == [
        "tune-3 in default has the values of the former tune-2, and starts anew: lr=2, seed=1",
        "tune-4 in default has the values of the former tune-3, and starts anew: lr=2, seed=2",
        f"the jobs of the sweep tune {advice} first parameter",
    ]
    # As the note says.
    appended = compiled("{lr: [1, 2], seed: [1, 2], include: [{lr: 1, seed: 3}]}").objects
    specs = [obj["spec"] for obj in live]
    assert [obj["spec"] for obj in appended[: len(live)]] == specs
    assert [obj["spec"] for obj in compiled("{lr: [1, 2, 3], seed: [1, 2]}").objects[: len(live)]] == specs


def test_manifests_for_gitops_state_the_number_of_jobs_and_keep_names() -> None:
    """A longer sweep changes the metadata of its first job: with another name, it would run again."""
    shorter, longer = (
        compiled(f"{{lr: {found}, seed: [1]}}", gitops="argocd", job_names="hashed") for found in ("[1]", "[1, 2]")
    )
    sizes = [item["metadata"]["annotations"].get("runwhere.ai/sweep-size") for item in longer.objects]
    assert sizes == ["2", None]
    assert shorter.objects[0]["metadata"]["name"] == longer.objects[0]["metadata"]["name"]
    document, _ = gpuctl.lift(longer.objects, longer.settings)
    assert document["job"]["sweep"] == {"name": "tune", "values": {"lr": "1", "seed": "1"}}
