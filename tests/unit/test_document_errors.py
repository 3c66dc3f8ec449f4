"""One run reports all errors of a document, none that only follows from another, and takes linear time."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from wcwidth import wcswidth

import gpuctl
from gpuctl.api.document_answers import DiagnosticsAnswer
from gpuctl.cli.output.text import render
from gpuctl.frontend.diagnostics import MAX_DIAGNOSTICS, Diagnostic, Severity, SourceSpan

HEAD = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: 'app:1', command: [x]}\n"

IMAGE = HEAD.replace("app:1", "%s")
ZONE = HEAD + "schedule: {cron: '@daily', timezone: %s}\n"


def diagnostics_of(text: str, *, severity: Severity | None = Severity.ERROR) -> list[Diagnostic]:
    diagnostics = gpuctl.compile(gpuctl.Source("x.yaml", text)).diagnostics
    return [item for item in diagnostics if severity is None or item.severity is severity]


def codes_and_paths(text: str) -> list[tuple[str, str]]:
    return [(item.code, ".".join(str(part) for part in item.path)) for item in diagnostics_of(text)]


def test_cross_field_rules_run_despite_invalid_fields() -> None:
    text = """
kind: training
version: v0.1
job: {name: abc, priority: hihg}
environment:
  image: x/y:1
  command: [x]
  env:
  - {name: MASTER_ADDR, value: x}
resources: {gpu: four, memory: 1Gi, shm: 2Gi}
storage:
  workdirs:
  - /data
  - {path: relative}
  - {path: /a/../b}
podPatch:
  hostname: mine
  tolerations: {key: x}
"""
    assert codes_and_paths(text) == [
        ("GPU211", "job.priority"),
        ("GPU214", "environment.env.0.name"),
        ("GPU202", "resources.gpu"),
        ("GPU202", "storage.workdirs.0"),
        ("GPU210", "storage.workdirs.1.path"),
        ("GPU210", "storage.workdirs.2.path"),
        ("GPU219", "podPatch.hostname"),
        ("GPU219", "podPatch.tolerations"),
    ]
    forbidden = HEAD + "resources: {gpu: four}\npodPatch: {hostname: mine}\n"
    assert [code for code, _ in codes_and_paths(forbidden)] == ["GPU202", "GPU219"]
    beside = f"{HEAD}b: 1\n---\n{HEAD.replace('name: a', 'name: b')}podPatch: {{hostname: mine}}\n"
    assert [code for code, _ in codes_and_paths(beside)] == ["GPU203", "GPU219"], (
        "also in a document without other errors"
    )
    warnings = [item.code for item in diagnostics_of(text, severity=Severity.WARNING)]
    assert warnings == ["GPU409"], "memory and shm are valid and compared; the GPU count is invalid"
    equal = text.replace("shm: 2Gi", "shm: 1024Mi")
    assert diagnostics_of(equal, severity=Severity.WARNING) == [], "all of the memory may be shared"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # A field whose value is invalid is not reported as missing.
        (HEAD.replace("'app:1'", "[app]"), [("GPU202", "environment.image")]),
        (HEAD + "resources: {gpu: four, gpu-share: 0.5}\n", [("GPU202", "resources.gpu")]),
        (HEAD.replace("x]}", "x], env: [{name: A, value: [b]}]}"), [("GPU202", "environment.env.0.value")]),
        ("kind: training\nversion: v0.1\nresources: {gpu: four}\n",
         [("GPU201", "job"), ("GPU201", "environment"), ("GPU202", "resources.gpu")]),
        (HEAD.replace("name: a", "name: [a]"), [("GPU202", "job.name")]),
        (HEAD + "storage: 3\n", [("GPU202", "storage")]),
        (HEAD + "resources: {nodes: 0, gpu: 1, cpu: 1, memory: 4}\n",
         [("GPU206", "resources.nodes"), ("GPU208", "resources.memory")]),
    ],
)  # fmt: skip
def test_consequential_errors_are_not_reported(text: str, wanted: list[tuple[str, str]]) -> None:
    assert sorted(codes_and_paths(text)) == sorted(wanted)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("kind: quota\nversion: v0.1\nmetadata: {name: q}\nusers:\n  zhang.san: {cpu: 4}\n", (5, 3, 5, 12)),
        ("kind: pool\nversion: v0.1\nmetadata: {name: p}\nnodes:\n  Node_1: {gpu-type: A100}\n", (5, 3, 5, 9)),
        (HEAD.replace("name: a", "name: a, labels: {'bad key': x}"), (3, 25, 3, 34)),
    ],
)
def test_invalid_key_is_the_marked_span(text: str, place: tuple[int, int, int, int]) -> None:
    (error,) = diagnostics_of(text)
    assert error.span == SourceSpan("x.yaml", *place)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("resources: {gpu: .5}", "write `gpu: 1` and `gpu-share: 0.5` for a part of a card"),
        ("resources: {gpu: 50%}", "write `gpu: 1` and `gpu-share: 0.5` for a part of a card"),
        ("resources: {gpu: 1.5}", "write 1"),
        ("resources: {gpu: $N}", "write a whole number such as 8; gpuctl reads no variables of the shell"),
        ("resources: {gpu: 1, gpu-share: 50 %}", "did you mean `0.5`?"),
    ],
)
def test_hints_for_invalid_gpu_amounts(line: str, hint: str) -> None:
    assert [item.hint for item in diagnostics_of(f"{HEAD}{line}\n")] == [hint]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1w", "did you mean `7d`?"),
        ("2 days", "did you mean `2d`?"),
        ("1.5h", "did you mean `1h30m`?"),
        ("90min", "did you mean `1h30m`?"),
        ("3600", "write `3600s`, `3600m` or `3600h`"),
        ("99999d", "write at most `24855d`, or remove the line"),
        ("soon", None),
    ],
)
def test_hints_for_invalid_durations_are_valid(value: str, hint: str | None) -> None:
    text = HEAD.replace("name: a", f"name: a, max_runtime: {value}")
    (error,) = diagnostics_of(text)
    assert (error.code, error.hint) == ("GPU209", hint)
    if hint is not None:
        suggested = hint.split("`")[1]
        assert diagnostics_of(text.replace(value, suggested)) == [], "the suggested value is valid"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("cpu: 4 cores", "did you mean `4`?"),
        ("cpu: 1.5 vCPU", "did you mean `1.5`?"),
        ("memory: 128GB", "did you mean `128Gi`?"),
        ("memory: 4 cores", None),
    ],
)
def test_hints_for_invalid_quantities_are_valid(line: str, hint: str | None) -> None:
    """An amount of cores is none of memory: `4` would be 4 bytes."""
    text = f"{HEAD}resources: {{gpu: 1, {line}}}\n"
    (error,) = diagnostics_of(text)
    assert error.hint == hint
    if hint is not None:
        suggested = hint.split("`")[1]
        assert diagnostics_of(text.replace(line.split(": ")[1], suggested)) == [], "the suggested value is valid"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (">=-1Gi", [("GPU227", None)]),
        ("0", [("GPU227", None)]),
        (">=0Gi", [("GPU227", None)]),
        (">=1", [("GPU208", "did you mean `1Gi`?")]),
        (">=4Mi", []),
    ],
)
def test_minimum_of_gpu_memory_is_more_than_nothing(value: str, wanted: list[tuple[str, str | None]]) -> None:
    platform = gpuctl.Source("platform.yaml", "kind: platform\nversion: v0.1\ngpu: {allocation: dra}\n")
    job = gpuctl.Source("x.yaml", f"{HEAD}resources: {{gpu: 1, gpu-memory: '{value}'}}\n")
    errors = [item for item in gpuctl.compile([platform, job]).diagnostics if item.severity is Severity.ERROR]
    assert [(item.code, item.hint) for item in errors] == wanted


@pytest.mark.parametrize("image", ["$IMAGE", "${IMAGE}", "${IMAGE:-a/b}", "registry.example.com/$NAME:1"])
def test_shell_variable_in_image_is_rejected_with_hint(image: str) -> None:
    (error,) = diagnostics_of(HEAD.replace("'app:1'", f"'{image}'"))
    assert error.code == "GPU216"
    assert error.hint is not None
    assert error.hint.startswith("gpuctl reads no variables of the shell: write the value, or `envsubst")


@pytest.mark.parametrize(("version", "codes"), [("1.33", ["GPU443"]), ("1.34", [])])
def test_claims_for_devices_need_the_kubernetes_version_that_serves_them(version: str, codes: list[str]) -> None:
    text = f'kind: platform\nversion: v0.1\nkubernetes: {{version: "{version}"}}\ngpu: {{allocation: dra}}\n'
    found = gpuctl.compile([], platform=gpuctl.Source("p.yaml", text)).diagnostics
    assert [item.code for item in found if item.code != "GPU009"] == codes


def test_routes_on_different_clusters_are_compiled_for_one_at_a_time() -> None:
    """The hint names the cluster of the document that it stands at."""
    one, other = (
        f"kind: inference\nversion: v0.1\njob: {{name: chat-{cluster}}}\n"
        "environment: {image: 'app:1', command: [serve]}\nresources: {cpu: 1, memory: 1Gi}\n"
        f"placement: {{clusters: [{cluster}]}}\nservice: {{port: 80, route: {{host: chat.example.com}}}}\n"
        for cluster in ("east", "west")
    )
    platform = gpuctl.Source("p.yaml", "kind: platform\nversion: v0.1\nroutes: {ingress: nginx}\n")
    found = gpuctl.compile(gpuctl.Source("job.yaml", f"{one}---\n{other}"), platform=platform).diagnostics
    (error,) = (item for item in found if item.code == "GPU442")
    assert error.hint == "they belong on different clusters: compile for one at a time, with --cluster west"


@pytest.mark.parametrize(("version", "codes"), [("1.29", ["GPU443"]), ("1.30", [])])
def test_drain_needs_the_kubernetes_version_whose_hooks_sleep(version: str, codes: list[str]) -> None:
    platform = gpuctl.Source("platform.yaml", f'kind: platform\nversion: v0.1\nkubernetes: {{version: "{version}"}}\n')
    text = (
        "kind: inference\nversion: v0.1\njob: {name: a}\nenvironment: {image: 'app:1', command: [serve]}\n"
        "resources: {cpu: 1, memory: 1Gi}\nservice: {port: 8000, drain: 30s}\n"
    )
    found = gpuctl.compile(gpuctl.Source("job.yaml", text), platform=platform).diagnostics
    assert [item.code for item in found if item.severity is Severity.ERROR] == codes


def test_full_width_character_after_a_line_separator_has_its_own_line() -> None:
    """U+2028 ends no line of YAML 1.2, nor of an editor."""
    text = 'kind: training\nversion: v0.1\njob: {name: "a\u2028b"}\nresources: {cpu: ３２\n'
    (error,) = gpuctl.compile(gpuctl.Source("job.yaml", text)).diagnostics
    assert error.span is not None
    assert (error.code, error.span.line, error.span.column) == ("GPU014", 4, 18)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("#a，b\njob: {name: a b: c}\n", "GPU004"),
        ("job: {name: a b: c} #a，b\n", "GPU004"),
        ("job: {name: a#a，b b: c}\n", "GPU014"),
    ],
    ids=["line", "end of a line", "text"],
)
def test_full_width_character_of_a_comment_explains_no_syntax_error(text: str, code: str) -> None:
    """A `#` begins a comment at the start of a line and after a blank, not within a text."""
    assert [item.code for item in diagnostics_of(text)] == [code]


@pytest.mark.parametrize(("algorithm", "length"), [("sha256", 64), ("sha384", 96), ("sha512", 128)])
def test_digest_of_an_image_has_the_length_of_its_algorithm(algorithm: str, length: int) -> None:
    for digits, wanted in ((length - 1, ["GPU216"]), (length, []), (length + 1, ["GPU216"])):
        text = HEAD.replace("app:1", f"app@{algorithm}:{'a' * digits}")
        assert [item.code for item in diagnostics_of(text)] == wanted


def test_unquoted_comma_in_flow_mapping_gets_quoting_hint() -> None:
    text = HEAD.replace("x]}", "x], env: [{name: A, value: a,b}]}")
    (error,) = diagnostics_of(text)
    assert error.hint == 'quote the text if the comma belongs to it: "a,b"'
    assert diagnostics_of(text.replace("a,b", '"a,b"')) == []


@pytest.mark.parametrize(
    ("resources", "command", "hint"),
    [
        ("gpu: 0", "-tp, '1'", "set `resources.gpu: 1`"),
        ("gpu: 4", "-tp, '4', -pp, '2'", "set `resources.gpu: 8`, or the tensor parallel size to 2"),
        ("gpu: 3", "-tp, '4', -pp, '2'", "set `resources.gpu: 8`"),
    ],
)
def test_advised_gpu_count_matches_parallel_sizes(resources: str, command: str, hint: str) -> None:
    text = (
        "kind: inference\nversion: v0.1\njob: {name: a}\n"
        f"environment: {{image: 'vllm:1', args: [{command}]}}\nresources: {{{resources}, cpu: 1, memory: 1Gi}}\n"
    )
    (warning,) = [item for item in diagnostics_of(text, severity=None) if item.code == "GPU503"]
    assert warning.hint == hint


def _chained_templates(first: str, references: int) -> str:
    lines = [f"    E0: '{first}'"]
    for number in range(1, 8):
        text = " ".join(["{{environment.env.E" + str(number - 1) + "}}"] * references)
        lines.append(f"    E{number}: '{text}'")
    return "kind: compute\nversion: v0.1\njob: {name: a}\nenvironment:\n  image: app:1\n  env:\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_chained_templates("x", 9), "the templates expand to more than 65536 characters"),
        (_chained_templates("{{job.nothing}}", 9), "`{{job.nothing}}`: there is no field `nothing` in job"),
        (
            "kind: compute\nversion: v0.1\njob: {name: a}\nenvironment:\n  image: app:1\n  env:\n"
            f"    B: {'x' * 60_000}\n  args:\n" + "  - '{{environment.env.B}}'\n" * 3000,
            "the document's templates together expand to more than 1048576 characters",
        ),
    ],
    ids=["chain", "chain-of-errors", "many"],
)
def test_template_expansion_is_limited(text: str, message: str) -> None:
    started = time.process_time()
    assert [item.message for item in diagnostics_of(text)] == [message]
    assert time.process_time() - started < 20, "expansion without a limit took more than a minute"


def test_nested_workdirs_are_checked_in_linear_time() -> None:
    lines = "".join(f"  - {{path: {'/a' * n}, readOnly: {'true' if n % 2 else 'false'}}}\n" for n in range(1, 1500))
    started = time.process_time()
    warnings = diagnostics_of(f"{HEAD}storage:\n  workdirs:\n{lines}", severity=Severity.WARNING)
    assert time.process_time() - started < 20, "the time is quadratic again"
    assert len(warnings) == MAX_DIAGNOSTICS + 1


def test_nested_workdir_is_compared_with_its_nearest_parent() -> None:
    paths = [("/a", "true"), ("/a-b", "false"), ("/a/b", "true"), ("/a/b/c", "false"), ("/b", "false")]
    lines = "".join(f"  - {{path: {path}, readOnly: {option}}}\n" for path, option in paths)
    warnings = diagnostics_of(f"{HEAD}storage:\n  workdirs:\n{lines}", severity=Severity.WARNING)
    assert [item.message for item in warnings] == [
        "`/a/b/c` lies below the workdir `/a/b` and has another readOnly",
    ]


def test_diagnostics_of_a_file_are_limited() -> None:
    unknown = "".join(f"a{number}: 1\n" for number in range(250))
    result = gpuctl.compile([gpuctl.Source("x.yaml", HEAD + unknown), gpuctl.Source("y.yaml", HEAD + "b: 1\n")])
    of_x = [item for item in result.diagnostics if item.span and item.span.file == "x.yaml"]
    assert len(of_x) == MAX_DIAGNOSTICS + 1
    (rest,) = [item for item in of_x if item.code == "GPU030"]
    assert (rest.severity, rest.message) == (Severity.ERROR, "150 errors more in this file are not shown")
    assert "unknown field `b`" in result.diagnostics[-1].message, "the limit is per file"


def test_more_warnings_about_a_command_than_are_shown_are_mentioned() -> None:
    command = ", ".join(f"$X{number}" for number in range(150))
    warnings = diagnostics_of(HEAD.replace("[x]", f"[x, {command}]"), severity=Severity.WARNING)
    assert [item.code for item in warnings] == ["GPU510"] * MAX_DIAGNOSTICS + ["GPU030"]


def test_limit_of_diagnostics_keeps_errors_before_warnings() -> None:
    warned = "---\n".join(HEAD.replace("name: a", f"name: a{n}").replace("app:1", "app") for n in range(150))
    result = gpuctl.compile(gpuctl.Source("x.yaml", f"{warned}---\n{HEAD}b: 1\n"))
    assert [item.code for item in result.diagnostics if item.severity is Severity.ERROR] == ["GPU203"]
    (rest,) = [item for item in result.diagnostics if item.code == "GPU030"]
    assert (rest.severity, rest.message) == (Severity.WARNING, "51 warnings more in this file are not shown")


def test_diagnostics_that_are_not_shown_are_counted() -> None:
    warned = "---\n".join(HEAD.replace("name: a", f"name: a{n}").replace("app:1", "app") for n in range(149))
    result = gpuctl.compile(gpuctl.Source("x.yaml", f"{warned}---\n{HEAD}b: 1\n"))
    assert render(result.diagnostics, result.sources).endswith("\n1 error, 149 warnings\n")
    answer = DiagnosticsAnswer.of(result.diagnostics)
    assert (len(answer.diagnostics), answer.errors, answer.warnings) == (MAX_DIAGNOSTICS + 1, 1, 149)


def test_kubernetes_secret_key_ref_gets_hint_with_gpuctl_syntax() -> None:
    env = "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"
    [said] = [
        item for item in diagnostics_of(HEAD.replace("command: [x]", f"command: [x], {env}")) if item.code == "GPU203"
    ]
    assert said.hint is not None
    assert "`secret: NAME` and `key: KEY`" in said.hint


@pytest.mark.parametrize(
    ("patch", "hint"),
    [
        ("hostIPC: yes", "write true without quotes"),
        ("terminationGracePeriodSeconds: '30'", "write 30 without quotes"),
        ("tolerations: {key: a}", "start each entry with `- `"),
        ("spec: {hostIPC: true}", "write the fields of the pod's `spec` directly below `podPatch`"),
    ],
)
def test_a_pod_patch_in_another_form_gets_the_form_to_write(patch: str, hint: str) -> None:
    text = f"kind: compute\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: 'a:1'}}\npodPatch: {{{patch}}}\n"
    found = gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics
    assert [(item.code, item.hint) for item in found if item.severity == "error"] == [("GPU219", hint)]


@pytest.mark.parametrize(
    ("text", "value", "better"),
    [
        (IMAGE, "nvcr.io#nvidia/pytorch:24.05", "nvcr.io/nvidia/pytorch:24.05"),
        (IMAGE, "docker://nvcr.io#nvidia/pytorch", "nvcr.io/nvidia/pytorch"),
        (IMAGE, "nginx: 1.27", "nginx:1.27"),
        (IMAGE, "my image", None),
        (IMAGE, "模型:v1", None),
        (ZONE, "Asia/Shangai", "Asia/Shanghai"),
        (ZONE, "America/New York", "America/New_York"),
        (ZONE, "GMT+8", None),
    ],
)
def test_hint_for_a_near_miss(text: str, value: str, better: str | None) -> None:
    (error,) = diagnostics_of(text % value)
    assert error.hint == (f"write `{better}`" if better is not None else None)
    assert better is None or diagnostics_of(text % better) == []


@pytest.mark.parametrize(
    ("field", "hint", "corrected"),
    [
        (
            "storage: {mounts: [{path: /a, configMap: c, items: {key: k}}]}",
            "write a list: [{key: k}]",
            "storage: {mounts: [{path: /a, configMap: c, items: [{key: k}]}]}",
        ),
        (
            "storage: {mounts: [{path: /a, configMap: c, items: k}]}",
            "write a list: [{key: k}]",
            "storage: {mounts: [{path: /a, configMap: c, items: [{key: k}]}]}",
        ),
        (
            "storage: {mounts: [{path: /a, configMap: c, items: [k]}]}",
            "write `{key: k}`",
            "storage: {mounts: [{path: /a, configMap: c, items: [{key: k}]}]}",
        ),
        (
            "storage: {mounts: [{path: /a, configMap: c, items: {k: p}}]}",
            "write a list: [{key: k, ...}, ...]",
            "storage: {mounts: [{path: /a, configMap: c, items: [{key: k, path: p}]}]}",
        ),
        (
            "init:\n  fetch:\n    image: app:1",
            "start each entry with `- name: fetch`, and its other fields below",
            "init:\n- name: fetch\n  image: app:1",
        ),
        ("init:\n  name: fetch\n  image: app:1", "start each entry with `- `", "init:\n- name: fetch\n  image: app:1"),
        ("storage: {workdirs: /data}", "write a list: [{path: /data}]", "storage: {workdirs: [{path: /data}]}"),
        ("storage: {workdirs: {}}", "write `[]`, or remove the line", "storage: {workdirs: []}"),
    ],
)
def test_hint_for_a_list_of_blocks(field: str, hint: str, corrected: str) -> None:
    (error,) = diagnostics_of(f"{HEAD}{field}\n")
    assert error.hint == hint
    assert diagnostics_of(f"{HEAD}{corrected}\n") == []


@pytest.mark.parametrize(
    ("field", "hint", "corrected"),
    [
        ("resources: {gpu: 1, cpu:4}", "write `cpu: 4`", "resources: {gpu: 1, cpu: 4}"),
        ("resources: {gpu: 1, cpu=4}", "write `cpu: 4`", "resources: {gpu: 1, cpu: 4}"),
        ("resources: {gpu: 1, cpu：4}", "write `cpu: 4`: `：` is a full-width character", "resources: {cpu: 4}"),
        ("resources: {gpu: [1]}", "write `gpu: 1`", "resources: {gpu: 1}"),
        ("array: [3]", "write `array: 3`", "array: 3"),
        ("environment: {image: 'app:1', command: [[x]]}", "write `x`", "environment: {image: 'app:1', command: [x]}"),
        ("resources:{gpu: 1}", "write `resources:` and a blank", "resources: {gpu: 1}"),
        ("resources: {gpu: “1”}", "write `1`: `“` is a full-width character", "resources: {gpu: 1}"),
        ("resources: {nodes: .5}", "write a whole number such as 8", "resources: {nodes: 8}"),
        ("resources: {memory: 512m}", "did you mean `512Mi`?", "resources: {memory: 512Mi}"),
        ("resources: {memory: 1.5}", "did you mean `1.5Gi`?", "resources: {memory: 1.5Gi}"),
        ("job: {name: a, max_runtime: '010'}", "write `10s`, `10m` or `10h`", "job: {name: a, max_runtime: 10h}"),
        ("storage: {workdirs: [{path: .cache}]}", "write `/.cache`", "storage: {workdirs: [{path: /.cache}]}"),
        ("storage: {workdirs: [{path: 'http://a/b'}]}", None, None),
        ("storage: {workdirs: [{path: ''}]}", None, None),
    ],
)
def test_printed_hint_gives_a_valid_document(field: str, hint: str | None, corrected: str | None) -> None:
    lines = [line for line in HEAD.splitlines() if line.split(":")[0] != field.split(":")[0]]
    found = diagnostics_of("\n".join([*lines, field, ""]))
    assert [item.hint for item in found] == [hint]
    assert corrected is None or diagnostics_of("\n".join([*lines, corrected, ""])) == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("kind: platform\nversion: v0.1\nroutes: {tls: true}\n", "add one of them"),
        ("kind: platform\nversion: v0.1\nroutes: {gateway: a/b, ingress: c}\n", "keep one"),
    ],
)
def test_hint_for_alternatives_of_which_none_or_both_are_given(text: str, hint: str) -> None:
    (error,) = diagnostics_of(text)
    assert error.hint == hint


def test_caret_stands_below_its_text_in_any_script() -> None:
    """A Thai vowel above its consonant and a skin tone take no column of their own."""
    result = gpuctl.compile(
        gpuctl.Source("job.yaml", 'job: {description: "กิ 👍🏽", nme: x}\nkind: training\nversion: v0.1\n')
    )
    text = render(result.diagnostics, result.sources).splitlines()
    row, mark = next((row, mark) for row, mark in pairwise(text) if "nme" in row and "^" in mark)
    assert wcswidth(mark[: mark.index("^")]) == wcswidth(row[: row.index("nme")])
