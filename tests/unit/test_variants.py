"""Profiles and overrides that golden cases do not show: positions, merged keys and variables, names of documents."""

from __future__ import annotations

from typing import Any

import pytest

import gpuctl

JOB = """\
kind: compute
version: v0.1
job: {name: cache}
environment:
  image: redis:7
  env: {MODE: a, SIZE: "1"}
resources: {cpu: 1, memory: 1Gi}
"""


def env_of(result: gpuctl.Compilation) -> dict[str, str]:
    """Return the variables of the only Deployment."""
    (workload,) = [obj for obj in result.objects if obj["kind"] == "Deployment"]
    env: list[dict[str, Any]] = workload["spec"]["template"]["spec"]["containers"][0]["env"]
    return {item["name"]: item["value"] for item in env if item["name"] in ("MODE", "SIZE", "NEW")}


def test_variables_are_merged_by_name_from_a_list_into_a_mapping() -> None:
    text = JOB + "profiles: {p: {environment: {env: [{name: MODE, value: b}, {name: NEW, value: c}]}}}\n"
    assert env_of(gpuctl.compile(gpuctl.Source("a.yaml", text), profile="p")) == {"MODE": "b", "SIZE": "1", "NEW": "c"}


def test_overrides_apply_after_the_profile_and_in_order() -> None:
    text = JOB + "profiles: {p: {environment: {env: {MODE: b}}}}\n"
    overrides = ["environment.env.MODE=c", "environment.env.MODE=d"]
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), profile="p", overrides=overrides)
    assert env_of(result)["MODE"] == "d"
    notes = [item.message for item in result.diagnostics if item.code == "GPU114"]
    assert notes == [
        "`environment.env.MODE` is `c` for this run, not `b`",
        "`environment.env.MODE` is `d` for this run, not `c`",
    ]


def test_two_spellings_of_a_key_in_a_profile_are_reported() -> None:
    text = JOB + "profiles:\n  p:\n    resources: {gpuType: A100, gpu-type: H100, gpu: 1}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), profile="p")
    assert [(item.code, item.span.line if item.span else 0) for item in result.diagnostics] == [("GPU204", 10)]


def test_error_of_a_check_after_binding_is_at_the_option() -> None:
    text = JOB.replace("kind: compute", "kind: inference")
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), overrides=["environment.image=Redis:7"])
    assert [str(item.span) for item in result.diagnostics if item.code == "GPU216"] == ["--with:1:19"]


def test_profile_of_a_platform_default_is_refused() -> None:
    platform = "kind: platform\nversion: v0.1\ndefaults: {compute: {profiles: {p: {}}}}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", JOB), platform=gpuctl.Source("platform.yaml", platform))
    assert [item.code for item in result.diagnostics if item.severity.value == "error"] == ["GPU213"]


def test_error_of_the_document_is_not_repeated_for_each_profile() -> None:
    text = JOB.replace("{cpu: 1,", "{cpus: 1,") + "profiles: {p: {environment: {image: redis:8}}}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", text))
    assert [item.code for item in result.diagnostics if item.severity.value == "error"] == ["GPU203"]


@pytest.mark.parametrize(
    ("own", "other", "wanted"),
    [
        (
            "{secret: a, key: token}",
            "{configMap: b, key: mode}",
            {"configMapKeyRef": {"name": "b", "key": "mode"}},
        ),
        ("{secret: a, key: token}", "{fieldRef: status.podIP}", {"fieldRef": {"fieldPath": "status.podIP"}}),
        ("{fieldRef: status.podIP}", "{secret: a, key: token}", {"secretKeyRef": {"name": "a", "key": "token"}}),
        ("{secret: a, key: token}", "{key: other}", {"secretKeyRef": {"name": "a", "key": "other"}}),
        ("{secret: a, key: token}", "{secret: b}", {"secretKeyRef": {"name": "b", "key": "token"}}),
    ],
)
def test_profile_changes_the_source_of_a_variable(own: str, other: str, wanted: dict[str, Any]) -> None:
    text = JOB.replace("MODE: a", f"MODE: {own}") + f"profiles: {{p: {{environment: {{env: {{MODE: {other}}}}}}}}}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), profile="p")
    assert result.ok, result.diagnostics
    (workload,) = [obj for obj in result.objects if obj["kind"] == "Deployment"]
    env = workload["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [item["valueFrom"] for item in env if item["name"] == "MODE"] == [wanted]


TRAINING = """\
kind: training
version: v0.1
job: {name: sft, checkpoint: {command: [save]}}
environment: {image: 'reg.io/a:1', command: [x]}
resources: {gpu: 1, gpu-type: A100, cpu: 1, memory: 1Gi}
"""


@pytest.mark.parametrize("way", ["profile", "option"])
def test_a_variant_replaces_the_alternative_of_a_field(way: str) -> None:
    text = TRAINING + "profiles: {p: {job: {checkpoint: {signal: USR1}}}}\n"
    options: dict[str, Any] = {"profile": "p"} if way == "profile" else {"overrides": ["job.checkpoint.signal=USR1"]}
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), **options)
    assert result.ok, result.diagnostics
    (job,) = [obj for obj in result.objects if obj["kind"] == "Job"]
    assert job["metadata"]["annotations"]["runwhere.ai/checkpoint"] == '{"signal": "USR1", "timeout": "2m"}'
    notes = [item.message for item in result.diagnostics if item.code == "GPU114"]
    replaced = "`job.checkpoint.signal` is `USR1` for this run; it replaces `job.checkpoint.command`"
    assert notes == ([] if way == "profile" else [replaced])


def test_an_option_replaces_the_alternative_of_a_profile() -> None:
    text = TRAINING + "profiles: {p: {job: {checkpoint: {signal: USR1}}}}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), profile="p", overrides=["job.checkpoint.command=[sync]"])
    (job,) = [obj for obj in result.objects if obj["kind"] == "Job"]
    assert job["metadata"]["annotations"]["runwhere.ai/checkpoint"] == '{"command": ["sync"], "timeout": "2m"}'


@pytest.mark.parametrize(
    "profile",
    [
        "job: {checkpoint: {signal: USR1, command: [save]}}",
        "job: {checkpoint: {signal: [USR1]}}",
    ],
)
def test_a_mistake_of_a_profile_is_an_error(profile: str) -> None:
    text = TRAINING + f"profiles: {{p: {{{profile}}}}}\n"
    errors = [item for item in gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics if item.severity == "error"]
    assert [item.span.line if item.span else 0 for item in errors] == [6]


def test_values_that_contradict_each_other_are_no_alternatives() -> None:
    text = TRAINING.replace("kind: training", "kind: inference").replace(", checkpoint: {command: [save]}", "")
    text += "autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 4}\n"
    text += "profiles: {p: {autoscaling: {maxReplicas: 1}}}\n"
    errors = [item for item in gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics if item.severity == "error"]
    assert [item.code for item in errors] == ["GPU213"]


def test_a_profile_that_is_no_mapping_is_one_error() -> None:
    text = TRAINING + "profiles: {p: , q: [1]}\n"
    errors = [item for item in gpuctl.compile(gpuctl.Source("a.yaml", text), profile="p").diagnostics if item.span]
    assert [(item.code, str(item.span)) for item in errors] == [("GPU205", "a.yaml:6:12"), ("GPU202", "a.yaml:6:20")]


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("roles[0].nodes=2", "write the list: `roles=[a, b]`"),
        ("job.labels.example.com/owner=me", 'quote a key with dots: `job.labels."example.com/owner"`'),
    ],
)
def test_the_hint_of_an_override_removes_the_error(override: str, hint: str) -> None:
    result = gpuctl.compile(gpuctl.Source("a.yaml", TRAINING), overrides=[override])
    assert [item.hint for item in result.diagnostics if item.severity == "error"] == [hint]


def test_the_gpu_type_stays_where_an_option_gives_the_profile_gpus_again() -> None:
    text = TRAINING + "profiles: {p: {resources: {gpu: 0}}}\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", text), profile="p", overrides=["resources.gpu=2"])
    assert "A100" in str(result.objects)
