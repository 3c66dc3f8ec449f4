"""Hints for slips in values and layout: the document with the change that the hint names is valid."""

from __future__ import annotations

import json

import pytest

import gpuctl

HEAD = "kind: training\nversion: v0.1\n"
JOB = "job: {name: demo}\n"
ENVIRONMENT = "environment: {image: 'app:1', command: [python, train.py]}\n"
CARDS = "resources:\n  gpu: 8\n  cpu: 8\n  memory: 64Gi\n"


def errors(text: str) -> list[gpuctl.Diagnostic]:
    found = gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics
    return [item for item in found if item.severity == "error"]


@pytest.mark.parametrize(
    ("text", "hint", "wrong", "right"),
    [
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS}  gpu-type: V100,A100\n",
            'write a list: ["V100", "A100"]',
            "V100,A100",
            '["V100", "A100"]',
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS}  gpu-type: V100、A100\n",
            'write a list: ["V100", "A100"]',
            "V100、A100",
            '["V100", "A100"]',
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS}  gpu-type: “V100”，“A100”\n",
            'write a list: ["V100", "A100"]',
            "“V100”，“A100”",
            '["V100", "A100"]',
        ),
        (
            f"{HEAD}job: {{name: my，job}}\n{ENVIRONMENT}",
            "write `my-job`",
            "my，job",
            "my-job",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS.replace('64Gi', '64Gi；')}",
            "did you mean `64Gi`?",
            "64Gi；",
            "64Gi",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS.replace('64Gi', '64G B,')}",
            "did you mean `64Gi`?",
            "64G B,",
            "64Gi",
        ),
        (
            "kind: pool\nversion: v0.1\npool: {name: p}\nnodes:\n  - name: n-1\n    gpu-count: 8\n",
            "write `n-1:` with its fields below it, one for each entry",
            "  - name: n-1\n",
            "  n-1:\n",
        ),
        (
            "kind: pool\nversion: v0.1\npool: {name: p}\nnodes: [n-1]\n",
            "write `n-1:` with its fields below it, one for each entry",
            "[n-1]",
            "\n  n-1:\n    gpu-type: A100",
        ),
        (
            "kind: quota\nversion: v0.1\nquota: {name: q}\nusers:\n  - zhang: {gpu: 4}\n",
            "remove the `- ` before its fields",
            "- zhang",
            "zhang",
        ),
        (
            "kind: pool\nversion: v0.1\npool: {name: p}\nnodes: {n-1: {gpu: 8}}\n",
            "did you mean `gpu-count`?",
            "gpu: 8",
            "gpu-count: 8",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS.replace('gpu: 8', 'gpu: 8 x A100')}",
            "write `gpu: 8` and `gpu-type: A100`",
            "gpu: 8 x A100",
            "gpu: 8\n  gpu-type: A100",
        ),
        (
            f"kind: inference\nversion: v0.1\n{JOB}{ENVIRONMENT}service: {{ports: ['9000:80']}}\n",
            "write `{name: port-9000, port: 9000, targetPort: 80}`, with a name of your choice",
            "'9000:80'",
            "{name: port-9000, port: 9000, targetPort: 80}",
        ),
        (
            f"{HEAD}job: {{name: demo, after: 'afternotok:prep'}}\n{ENVIRONMENT}",
            "write `{prep: failed}`",
            "'afternotok:prep'",
            "{prep: failed}",
        ),
        (
            f"{HEAD}{JOB}environment: {{image: 'app:1', imagePullSecret: 'a, b'}}\n",
            'write a list: ["a", "b"]',
            "'a, b'",
            '["a", "b"]',
        ),
        (
            f"{HEAD}{JOB}environment: {{image: 'app:1', env: [{{name: T, secret: hf/token}}]}}\n",
            "write `secret: hf` and `key: token`",
            "secret: hf/token",
            "secret: hf, key: token",
        ),
        (
            f"{HEAD}{JOB}environment: {{image: 'app:1', env: {{T: {{configMap: 'hf:token'}}}}}}\n",
            "write `configMap: hf` and `key: token`",
            "configMap: 'hf:token'",
            "configMap: hf, key: token",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS.replace('gpu: 8', 'gpu: gpu:a100:4')}",
            "write `gpu: 4` and `gpu-type: a100`",
            "gpu: gpu:a100:4",
            "gpu: 4\n  gpu-type: a100",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS.replace('gpu: 8', 'gres: gpu:4')}",
            "write `gpu: 4`",
            "gres: gpu:4",
            "gpu: 4",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}{CARDS.replace('  gpu: 8', '')}gres: gpu:a100:4\n",
            "write `gpu: 4` and `gpu-type: a100` in `resources`",
            "gres: gpu:a100:4",
            "  gpu: 4\n  gpu-type: a100",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}".replace("kind: ", "kind:"),
            "write `kind: training`",
            "kind:training",
            "kind: training",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}".replace("version: ", "version:"),
            "write `version: v0.1`",
            "version:",
            "version: ",
        ),
        (f"{HEAD}job:\n  name:demo\n  priority: high\n{ENVIRONMENT}", "write `name: demo`", "name:demo", "name: demo"),
        (f"{HEAD}job:\n  priority: high\n  name:demo\n{ENVIRONMENT}", "write `name: demo`", "name:demo", "name: demo"),
        (
            f"{HEAD}{JOB}environment:\n  image:reg.io/app:1\n  command: [a]\n",
            "write `image: reg.io/app:1`",
            "image:reg",
            "image: reg",
        ),
        (
            f"{HEAD}{JOB}{ENVIRONMENT}resources:\n  cpu:8\n  memory:64Gi\n",
            "write `cpu: 8`, `memory: 64Gi`",
            "cpu:8\n  memory:64Gi",
            "cpu: 8\n  memory: 64Gi",
        ),
        (
            f"{HEAD}job:\nname: demo\npriority: high\n{ENVIRONMENT}",
            "indent the lines below it that belong to it",
            "name: demo\npriority: high",
            "  name: demo\n  priority: high",
        ),
    ],
)
def test_document_with_the_change_of_the_hint_is_valid(text: str, hint: str, wrong: str, right: str) -> None:
    assert errors(text)[0].hint == hint
    assert text.count(wrong) == 1
    assert errors(text.replace(wrong, right)) == []


def test_fields_that_lack_their_indentation_name_their_block() -> None:
    hints = [item.hint for item in errors(f"{HEAD}job:\nname: demo\npriority: high\n{ENVIRONMENT}")]
    assert hints[1:] == ["indent it: it belongs below `job:`"] * 2


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_joined_pair_on_the_last_line(end: str) -> None:
    (error,) = errors(f"{HEAD}{ENVIRONMENT}job:\n  priority: high\n  name:demo{end}")
    assert (error.hint, error.span and error.span.line) == ("write `name: demo`", 6)


def test_document_of_joined_pairs_alone() -> None:
    assert [item.hint for item in errors("kind:training\nversion:v0.1\n")] == [
        "write `kind: training`, `version: v0.1`"
    ]


@pytest.mark.parametrize("line", ["note: a: b", "url: see\n    http://a: b"])
def test_other_colons_are_not_joined_pairs(line: str) -> None:
    text = f"{HEAD}{JOB}{ENVIRONMENT}podPatch:\n  {line}\n"
    assert errors(text)[0].hint == "quote the value, or check the indentation of the line"


def test_sweep_in_job_lacks_no_fields_of_its_own() -> None:
    (error,) = errors(f"{HEAD}job: {{name: demo, sweep: {{lr: [1, 2]}}}}\n{ENVIRONMENT}")
    assert error.hint == "the parameters of a sweep belong in `sweep` at the top of the document"


def test_mapping_with_an_invalid_entry_does_not_lack_entries() -> None:
    (error,) = errors("kind: quota\nversion: v0.1\nquota: {name: q}\nusers: {zhang: 4}\n")
    assert "`zhang` must be a mapping" in error.message


def test_number_of_a_slurm_job_is_no_dependency() -> None:
    (error,) = errors(f"{HEAD}job: {{name: demo, after: 'afterok:12345'}}\n{ENVIRONMENT}")
    assert error.hint == 'write a list: ["afterok:12345"]'


@pytest.mark.parametrize("text", ['"1e-5,2e-5"', "1e-5, 2e-5", "1e-5、2e-5"])
def test_sweep_with_values_in_one_text(text: str) -> None:
    head = f"{HEAD}{JOB}{ENVIRONMENT}sweep:\n  "
    (error,) = errors(f"{head}lr: {text}\n")
    assert error.message == "`lr` has one value, a text with commas"
    one = json.dumps([text.strip('"')], ensure_ascii=False)
    assert error.hint == f'write `lr: ["1e-5", "2e-5"]`, or `lr: {one}` for one value'
    assert errors(f'{head}lr: ["1e-5", "2e-5"]\n') == []
