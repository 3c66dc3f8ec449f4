"""``gpuctl explain``, ``gpuctl schema``, and the field reference that they print."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from wcwidth import wcswidth

from gpuctl.cli.main import run
from gpuctl.frontend.loading import load_found
from gpuctl.frontend.source import Source, collect
from gpuctl.language.json_schema import combined_schema, schema_of
from gpuctl.language.kinds import KINDS
from gpuctl.language.reference import ITEM, entries, fields_of, look_up, snippet
from gpuctl.language.resources_block import Resources
from gpuctl.language.value_forms import form_of
from gpuctl.language.yaml_notation import as_written, in_yaml
from gpuctl.reading.why.cause_translations import chinese_causes
from gpuctl.reading.why.finding import CAUSES

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def gpuctl(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line in this process, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# Topic lookup --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "kinds", "path"),
    [
        ("training.resources.gpu-type", "training", "resources.gpu-type"),
        ("Training.Resources.gpuType", "training", "resources.gpu-type"),
        (" training . resources . GPU_TYPE ", "training", "resources.gpu-type"),
        ("training.resources", "training", "resources"),
        ("job.name", "training inference notebook compute", "job.name"),
        ("gpu-share", "training inference notebook compute", "resources.gpu-share"),
        ("environment.env[0].name", "training inference notebook compute", "environment.env[].name"),
        ("inference.environment.env[0].name", "inference", "environment.env[].name"),
        ("training.storage.workdirs.path", "training", "storage.workdirs[].path"),
        ("training.storage.workdirs.0.path", "training", "storage.workdirs[].path"),
        ("training.storage.workdirs[].pvc.claim", "training", "storage.workdirs[].pvc.claim"),
        ("pool.nodes.gpu-type", "pool", "nodes.NAME.gpu-type"),
        ("pool.nodes.node-1.gpu-type", "pool", "nodes.NAME.gpu-type"),
        ("pool.nodes.NAME.gpu-type", "pool", "nodes.NAME.gpu-type"),
        ("resource.nodes.node-1", "pool", "nodes"),
        ("quota.users.zhang-san.gpu", "quota", "users.NAME.gpu"),
        ("users.zhang-san.gpu", "quota", "users.NAME.gpu"),
        ("training.job.labels.team", "training", "job.labels"),
        ("pool.name", "pool", "pool.name"),
        ("training.backend", "platform", "training.backend"),
        ("platform.defaults.training", "platform", "defaults.training"),
        ("platform.defaults.training.job", "training", "job"),
        ("defaults.training", "platform", "defaults.training"),
        ("defaults.training.job", "training", "job"),
        ("quota.users.zhang-san.gpu.nvidia", "quota", "users.NAME.gpu"),
        ("platform.defaults.training.job.ttl", "training", "job.ttl"),
        ("defaults.inference.autoscaling.metric", "inference", "autoscaling.metric"),
    ],
)
def test_topic_path_resolves_to_one_field(topic: str, kinds: str, path: str) -> None:
    (match,) = look_up(topic).matches
    assert (" ".join(match.kinds), match.entry.dotted) == (kinds, path)


@pytest.mark.parametrize(
    ("topic", "fields"),
    [
        ("gpu-type", ["training.resources.gpu-type", "training.roles.resources.gpu-type", "pool.nodes.NAME.gpu-type"]),
        (
            "resources",
            [
                "training.resources",
                "training.init.resources",
                "training.sidecars.resources",
                "training.roles.resources",
                "inference.resources",
                "notebook.resources",
            ],
        ),
        ("service.port", ["inference.service.port", "notebook.service.port"]),
        ("className", [f"platform.priorities.{level}.className" for level in ("high", "medium", "low")]),
    ],
)
def test_ambiguous_topic_lists_candidates(topic: str, fields: list[str]) -> None:
    assert [f"{match.kinds[0]}.{match.entry.topic}" for match in look_up(topic).matches] == fields


@pytest.mark.parametrize(
    ("topic", "suggestion"),
    [
        ("training.resources.gpu-typ", "training.resources.gpu-type"),
        ("trainin.resources", "training.resources"),
        ("resorces.gpu", "resources.gpu"),
        ("gputyp", "gpu-type"),
        ("trainng", "training"),
        ("xyzzy", None),
        ("", None),
        ("..", None),
        ("training.gpu.xyzzy.and.much.more", None),
    ],
)
def test_misspelled_topic_gets_suggestions(topic: str, suggestion: str | None) -> None:
    answer = look_up(topic)
    assert answer.kind is None
    assert answer.matches == ()
    assert answer.suggestions[:1] == ((suggestion,) if suggestion else ())


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_found_by_its_topic(kind: str) -> None:
    for entry in entries(kind):
        (match,) = look_up(f"{kind}.{entry.topic}").matches
        assert match.entry is entry
        assert any(found.entry.same_as(entry) for found in look_up(entry.topic).matches) or entry.topic in KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_a_block_are_its_direct_children(kind: str) -> None:
    below = {entry.path: entry for entry in fields_of(kind)}
    assert next(entry.key for entry in below.values()) == "kind"
    assert all(len(path) == 1 for path in below)
    for entry in entries(kind):
        if entry.inner is not None:
            assert [field.key for field in fields_of(kind, entry.path)] == [
                info.alias or name for name, info in entry.inner.model_fields.items()
            ]


# Types and values as text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("training.kind", "the text training"),
        ("pool.kind", "one of pool, resource"),
        ("training.job", "block"),
        ("training.job.name", "DNS-1035 label"),
        ("training.job.priority", "one of high, medium, low"),
        ("training.job.epochs", "whole number >= 1"),
        ("training.job.labels", "mapping of label keys to label values"),
        ("training.job.annotations", "mapping of label keys to text"),
        ("training.environment.command", "list of text"),
        ("training.environment.imagePullSecret", "Kubernetes object name or list of Kubernetes object names"),
        ("training.environment.env", "list of blocks or mapping of environment variable names to text or block"),
        ("training.resources.gpu", "whole number >= 0"),
        ("training.resources.cpu", "Kubernetes quantity > 0"),
        ("training.resources.memory", "Kubernetes quantity >= 4Mi"),
        ("training.storage.workdirs", "list of blocks"),
        ("training.storage.workdirs.readOnly", "true or false"),
        ("training.storage.workdirs.emptyDir.medium", 'one of "", Memory'),
        ("training.podPatch", "partial PodSpec"),
        ("compute.service.port", "whole number from 1 to 65535"),
        ("notebook.service.replicas", "the number 1"),
        ("pool.nodes", "mapping of Kubernetes object names to blocks"),
        ("quota.default.gpu", "whole number >= 0 or mapping of DNS labels to whole number >= 0"),
        ("platform.prices", "mapping of DNS labels to number >= 0"),
        ("platform.priorities.high.value", "whole number <= 1000000000"),
        ("platform.image.registries", "list of text that is not empty"),
        ("platform.defaults.training", "partial training document"),
    ],
)
def test_field_types_as_text(topic: str, words: str) -> None:
    (match,) = look_up(topic).matches
    assert match.entry.type_text == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("A100-80G", "A100-80G"),
        ("/data/models", "/data/models"),
        ("7d", "7d"),
        ("100Gi", "100Gi"),
        ("Nightly fine-tuning", "Nightly fine-tuning"),
        ("2e-5", '"2e-5"'),
        ("1", '"1"'),
        ("yes", '"yes"'),
        ("True", '"True"'),
        ("a: b", '"a: b"'),
        ("a #b", '"a #b"'),
        ("", '""'),
        ("--lr", '"--lr"'),
        ("你好", '"你好"'),
        (8, "8"),
        (True, "true"),
        ({"path": "/a", "list": [1, "2"]}, '{path: /a, list: [1, "2"]}'),
    ],
)
def test_values_are_quoted_as_yaml_needs(value: object, text: str) -> None:
    assert in_yaml(value) == text
    assert yaml.safe_load(text) == value


def test_quantities_are_not_quoted() -> None:
    assert in_yaml("8", form_of(Resources, "cpu")) == "8"
    assert as_written("8", form_of(Resources, "cpu")) == 8
    assert in_yaml("8", form_of(Resources, "gpu-type")) == '"8"'


# The required blocks of a document that a snippet is merged into.
REST = {
    "training": "job: {name: a}\nenvironment: {image: a:1}\n",
    "pool": "pool: {name: a}\n",
    "quota": "quota: {name: a}\nusers: {a: {gpu: 1}}\n",
    "platform": "",
}
# A platform with all settings that fields of jobs need.
SERVES_ALL = """
kind: platform
version: v0.1
training: {backend: jobset}
routes: {gateway: infra/public}
inference: {backend: lws}
prometheus: http://prometheus:9090
autoscaling: {keda: true, scaleToZero: true}
topology: {levels: [{name: rack, label: example.com/rack}]}
spot: {labels: {example.com/spot: "true"}}
network: {rdma: {resource: rdma/hca}}
quota: {backend: kueue}
notify: {channels: {nlp-team: {format: json}}, default: [nlp-team]}
"""
# Fields that a platform serves only if it claims devices.
OF_DEVICES = {"resources.gpu-memory"}
# Fields whose example is valid only together with another field.
COMPANIONS = {
    **{
        f"{block}[].env[].{field}": f"{block}: [{{name: a, env: [{rest}]}}]"
        for block in ("init", "sidecars")
        for field, rest in (
            ("name", "{value: a}"),
            ("value", "{name: A}"),
            ("secret", "{name: A, key: a}"),
            ("configMap", "{name: A, key: a}"),
            ("key", "{name: A, secret: a}"),
            ("fieldRef", "{name: A}"),
        )
    },
    "environment.envFrom[].prefix": "environment: {envFrom: [{secret: a}]}",
    **{
        f"storage.mounts[].{field}": "storage: {mounts: [{path: /a, configMap: a}]}"
        for field in ("path", "items", "items[].key", "items[].path", "items[].mode", "mode")
    },
    **dict.fromkeys(
        ("code.git", "code.ref", "code.path", "code.secret", "code.submodules"),
        "code: {git: 'https://git.example.com/a.git', ref: v1}",
    ),
    **dict.fromkeys(("code.local", "code.sha256"), f"code: {{local: ./src, sha256: '{'0123456789abcdef' * 4}'}}"),
    "primary": "roles: [{name: head}]",
    "roles[].resources.gpu-profile": "roles: [{name: a, resources: {gpu: 1}}]",
    "roles[].env[].name": "roles: [{name: a, env: [{value: a}]}]",
    "roles[].env[].value": "roles: [{name: a, env: [{name: A}]}]",
    "roles[].env[].secret": "roles: [{name: a, env: [{name: A, key: a}]}]",
    "roles[].env[].configMap": "roles: [{name: a, env: [{name: A, key: a}]}]",
    "roles[].env[].fieldRef": "roles: [{name: a, env: [{name: A}]}]",
    "roles[].env[].key": "roles: [{name: a, env: [{name: A, secret: a}]}]",
    "job.notify.channels": "job: {notify: {waiting: 2h}}",
    "notify.default": "notify: {channels: {nlp-team: {format: json}}}",
    "job.checkpoint.timeout": "job: {checkpoint: {signal: USR1}}",
    "environment.env[].name": "environment: {image: a:1, env: [{value: a}]}",
    "environment.env[].value": "environment: {image: a:1, env: [{name: A}]}",
    "environment.env[].secret": "environment: {image: a:1, env: [{name: A, key: a}]}",
    "environment.env[].configMap": "environment: {image: a:1, env: [{name: A, key: a}]}",
    "environment.env[].fieldRef": "environment: {image: a:1, env: [{name: A}]}",
    "environment.env[].key": "environment: {image: a:1, env: [{name: A, secret: a}]}",
    **dict.fromkeys(("routes.listener", "routes.tls", "routes.annotations"), "routes: {gateway: infra/public}"),
    "routes.secret": "routes: {ingress: nginx, tls: true}",
    **dict.fromkeys(("autoscaling.metric.external", "autoscaling.metric.target"), "autoscaling: {metric: {name: a}}"),
    "autoscaling.enabled": "autoscaling: {maxReplicas: 4}",
    "autoscaling.targetQueueLength": "autoscaling: {metric: queue}",
    "autoscaling.targetCPUUtilization": "autoscaling: {metric: cpu}",
    **dict.fromkeys(
        ("resources.topology", "resources.topology.required", "resources.topology.preferred"), "resources: {nodes: 2}"
    ),
    **dict.fromkeys(
        ("resources.gpu-profile", "resources.gpu-share", "resources.gpu-share.memory", *OF_DEVICES),
        "resources: {gpu: 1}",
    ),
    "resources.gpu-share.cores": "resources: {gpu: 1, gpu-share: {memory: 8Gi}}",
    **{
        f"{block}.NAME.{field}": f"{block}: {{a: {{gpu: 1}}, {name}: {{gpu: 1}}}}"
        for block, name in (("users", "zhang-san"), ("namespace", "team-nlp"))
        for field in ("borrow", "weight")
    },
    **dict.fromkeys(
        (f"priorities.{level}.{key}" for level in ("medium", "low") for key in ("className", "value")),
        "priorities: {high: {className: urgent, value: 2000000}}",
    ),
    "priorities.low.value": "priorities: {high: {value: 2000000}, medium: {value: 1000000}}",
}


def merge(base: object, over: object) -> object:
    """Merge two values recursively; ``over`` wins, lists of one item are merged item by item."""
    if isinstance(base, dict) and isinstance(over, dict):
        both = {key: merge(base[key], over[key]) for key in base if key in over}
        return {**base, **over, **both}
    if isinstance(base, list) and isinstance(over, list) and len(base) == len(over) == 1:
        return [merge(base[0], over[0])]
    return over


class _OnIsText(yaml.SafeLoader):
    """Reads the key `on` as text, as gpuctl and YAML 1.2 do."""


_OnIsText.yaml_implicit_resolvers = {
    first: resolvers for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items() if first not in "oO"
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_compiles(kind: str) -> None:
    """The compiler accepts every example when it is merged into a minimal document."""
    rest = yaml.safe_load(REST.get(kind, REST["training"])) or {}
    header = {"quota": "quota", "pool": "pool"}.get(kind)
    for entry in entries(kind):
        if not entry.examples or entry.key in ("kind", "version"):
            continue
        if entry.dotted == "roles[].dependsOn":
            continue  # It names a role before this one, and the snippet has one role.
        if kind != "training" and entry.dotted in ("job.notify.done", "job.notify.failed"):
            continue  # Services do not end: an error says so.
        shown = yaml.load("\n".join(snippet(entry)), _OnIsText)
        document = merge({"kind": kind, "version": "v0.1", **rest}, shown)
        assert isinstance(document, dict)
        if header and entry.path[0] == "metadata":
            del document[header]
        if header and entry.path[0] == "namespace":
            del document["users"]
        if entry.dotted in COMPANIONS:
            document = merge(yaml.safe_load(COMPANIONS[entry.dotted]), document)
        _add_required(kind, entry.path, document)
        sources = [Source("a.yaml", json.dumps(document))]
        if kind != "platform":
            allocation = "gpu: {allocation: dra}\n" if entry.dotted in OF_DEVICES else ""
            sources.append(Source("platform.yaml", SERVES_ALL + allocation))
        loaded = load_found(collect(sources), versions=("1.33", "1.36"))
        errors = [item.message for item in loaded.diagnostics if item.severity.value == "error"]
        assert errors == [], (entry.dotted, json.dumps(document))


def _add_required(kind: str, path: tuple[str, ...], document: object) -> None:
    """Set the required fields of every block on the way to ``path`` to their first example."""
    value = document
    for length in range(len(path)):
        if isinstance(value, dict):
            for field in fields_of(kind, path[:length]) if path[length] not in (ITEM, "NAME") else ():
                if field.required and field.examples:
                    value.setdefault(field.key, field.examples[0])
            value = list(value.values())[-1] if path[length] == "NAME" else value[path[length]]
        elif isinstance(value, list):
            value = value[0]


# Commands ------------------------------------------------------------------------------------------------------------


def test_explain_field(gpuctl: Cli) -> None:
    code, out, err = gpuctl("explain", "training.resources.gpuType")
    assert (code, err) == (0, "")
    assert out == (
        "training.resources.gpu-type\n"
        "  GPU model, as the pool's nodes declare it, or a list of them in order of\n"
        "  preference: the pod runs on the first one with room, as far as the scheduler's\n"
        "  other scores allow. Default: any of the pool.\n"
        "\n"
        "  Type  label value or list of label values that are not empty\n"
        "\n"
        "Example\n"
        "  resources:\n"
        "    gpu-type: A100-80G\n"
    )


def test_explain_block_lists_its_fields(gpuctl: Cli) -> None:
    code, out, _ = gpuctl("explain", "training.storage.workdirs")
    assert code == 0
    assert "Example\n  storage:\n    workdirs:\n      - path: /data/models\n" in out
    assert "Fields of an item\n  path       absolute path; required. Path on the node" in out
    assert "readOnly   true or false; default `false`. Mount read-only." in out
    assert "`gpuctl explain training.storage.workdirs.path`" in out


def test_explain_kind_by_its_alias(gpuctl: Cli) -> None:
    code, out, _ = gpuctl("explain", "resource")
    assert code == 0
    assert out.startswith("pool\n  A pool of nodes: becomes labels")
    assert "Also called resource." in out
    assert "training.resources.pool" in out


def test_explain_ambiguous_name_lists_fields(gpuctl: Cli) -> None:
    code, out, _ = gpuctl("explain", "gpu-type")
    assert code == 0
    assert out.startswith("3 fields are called gpu-type\n  training.resources.gpu-type")
    assert "inference, notebook, compute." in out
    assert "pool.nodes.NAME.gpu-type" in out


def test_explain_field_of_several_kinds(gpuctl: Cli) -> None:
    code, out, _ = gpuctl("explain", "job.name")
    assert code == 0
    assert "Default  none: the field is required" in out
    assert "Kinds    training, inference, notebook, compute" in out


def test_explain_without_topic_lists_the_kinds(gpuctl: Cli) -> None:
    code, out, _ = gpuctl("explain")
    assert code == 0
    assert all(f"\n  {kind} " in out for kind in KINDS)
    assert "gpuctl explain GPU203" in out


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("resorces.gpu", "Did you mean `resources.gpu` or"),
        ("xyzzy", "`gpuctl explain` lists the kinds"),
    ],
)
def test_explain_unknown_topic_fails_with_a_hint(gpuctl: Cli, topic: str, message: str) -> None:
    code, out, err = gpuctl("explain", topic)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: no field, kind or code is called `{topic}`. ")
    assert message in err


@pytest.mark.parametrize("width", ["20", "60", "80", "200"])
def test_explain_wraps_at_the_terminal_width(gpuctl: Cli, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    for topic in ("training", "training.job.name", "training.resources", "platform.autoscaling.metrics"):
        _, out, _ = gpuctl("explain", topic)
        wrapped = [line for line in out.splitlines() if "`gpuctl" not in line]
        assert max(map(len, wrapped)) <= max(60, min(100, int(width))), topic


class Rule(NamedTuple):
    """An entry of ``gpuctl.frontend.codes.CODES``."""

    code: str
    severity: str
    title: str
    explanation: str
    fix: str
    example: str | None = None
    companion: str | None = None


@pytest.fixture
def only_code_gpu203(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(
        "GPU203",
        "error",
        "unknown field",
        "A key is not a field\nof its block.\n\nIt is never dropped.",
        "Correct the spelling.",
        "resources:\n  gpu_typ: A100  #!\n",
        "kind: platform\n",
    )
    monkeypatch.setattr("gpuctl.cli.commands.explain.CODES", {"GPU203": rule})


@pytest.mark.usefixtures("only_code_gpu203")
@pytest.mark.parametrize("topic", ["GPU203", "gpu203", " Gpu203 "])
def test_explain_diagnostic_code(gpuctl: Cli, topic: str) -> None:
    code, out, err = gpuctl("explain", topic)
    assert (code, err) == (0, "")
    assert out == (
        "error[GPU203]: unknown field\n"
        "  A key is not a field of its block.\n"
        "\n"
        "  It is never dropped.\n"
        "\n"
        "Example\n"
        "  resources:\n"
        "    gpu_typ: A100  # <- here\n"
        "\n"
        "With this platform\n"
        "  kind: platform\n"
        "\n"
        "What to do\n"
        "  Correct the spelling.\n"
    )


def test_explain_diagnostic_code_in_chinese(gpuctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The language is that of the option, whatever the environment."""
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    code, out, err = gpuctl("explain", "gpu411", "--lang", "zh")
    assert (code, err) == (0, "")
    assert out == (
        "warning[GPU411]: 嵌套的 workdir 选项不同\n"
        "  挂载会遮住它下面的内容。可写目录中的只读目录起不到保护作用，节点目录中的 PVC\n"
        "  则把两处存储混在一起。\n"
        "\n"
        "示例\n"
        "  kind: compute\n"
        "  version: v0.1\n"
        "  job: {name: demo}\n"
        "  environment: {image: app:1}\n"
        "  storage:\n"
        "    workdirs:\n"
        "      - path: /data\n"
        "      - path: /data/in  # <- 此处\n"
        "        readOnly: true\n"
        "\n"
        "处理办法\n"
        "  给两者写相同的选项，或者分开挂载。\n"
    )


def test_explain_describes_fields_in_chinese(gpuctl: Cli) -> None:
    assert gpuctl("explain", "training.resources.gpu", "--lang", "zh")[1] == (
        "training.resources.gpu\n"
        "  每个节点上的 Pod 使用的 GPU 数量（多节点时按单个节点计）。\n"
        "\n"
        "  类型    整数，>= 0\n"
        "  默认值  0\n"
        "\n"
        "示例\n"
        "  resources:\n"
        "    gpu: 4\n"
    )


@pytest.mark.parametrize("topic", [(), *((kind,) for kind in KINDS), ("gpu-type",), ("training.storage.workdirs",)])
def test_chinese_lists_of_fields_fit_the_terminal(
    gpuctl: Cli, monkeypatch: pytest.MonkeyPatch, topic: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = gpuctl("explain", *topic, "--lang", "zh")[1].splitlines()
    chinese = [line for line in lines if re.search("[\u4e00-\u9fff]", line) and not line.startswith("`")]
    assert len(chinese) > 3
    assert max(wcswidth(line) for line in chinese) <= 80
    headings = [line for line in lines if line and line[0] not in " `"]
    assert [line for line in headings[1:] if line.isascii()] == []


def test_explain_is_english_without_the_option(gpuctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    code, out, _ = gpuctl("explain", "GPU203")
    assert code == 0
    assert out.startswith("error[GPU203]: unknown field\n")
    assert out.isascii()


def test_explain_without_a_translation_is_english(gpuctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"GPU203": {"title": "未知字段"}}
    monkeypatch.setattr("gpuctl.cli.commands.explain.chinese_texts", lambda: texts)
    code, out, err = gpuctl("explain", "GPU203", "--lang", "zh")
    assert (code, err) == (0, "")
    assert out.startswith("error[GPU203]: 未知字段\n  No field has this name")
    code, out, err = gpuctl("explain", "GPU204", "--lang", "zh")
    assert (code, err) == (0, "")
    assert out.startswith("error[GPU204]: one key in two spellings\n")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_chinese_lines_fit_the_terminal(gpuctl: Cli, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Words stay whole, and no line begins with a punctuation mark."""
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, _ = gpuctl("explain", "GPU220", "--lang", "zh")
    lines = [line for line in out.splitlines() if re.match("  .*[\u4e00-\u9fff]", line) and "# <-" not in line]
    assert len(lines) > 3
    assert max(wcswidth(line) for line in lines) <= width
    assert not [line for line in lines if line.strip()[0] in "，。；：、）"]
    assert "NVIDIA_VISIBLE_DEVICES" in "".join(lines)


def test_explain_in_another_language_is_a_usage_error(gpuctl: Cli) -> None:
    code, out, err = gpuctl("explain", "GPU203", "--lang", "fr")
    assert (code, out) == (2, "")
    assert "'en', 'zh'" in err


@pytest.mark.usefixtures("only_code_gpu203")
def test_explain_unknown_code_suggests_another(gpuctl: Cli) -> None:
    code, out, err = gpuctl("explain", "gpu230")
    assert (code, out, err) == (1, "", "error: there is no diagnostic `GPU230`. Did you mean `GPU203`?\n")


def test_every_diagnostic_code_is_explained(gpuctl: Cli) -> None:
    from gpuctl.frontend.codes import CODES

    assert CODES
    for code in CODES:
        status, out, err = gpuctl("explain", code.lower())
        assert (status, err) == (0, "")
        assert out.startswith(f"{CODES[code].severity}[{code}]: ")


@pytest.mark.parametrize("kind", KINDS)
def test_schema_of_one_kind(gpuctl: Cli, kind: str) -> None:
    code, out, err = gpuctl("schema", kind)
    assert (code, err) == (0, "")
    assert json.loads(out) == schema_of(kind)


def test_schema_without_kind_is_the_combined_schema(gpuctl: Cli) -> None:
    code, out, _ = gpuctl("schema")
    assert code == 0
    assert json.loads(out) == combined_schema()
    assert gpuctl("schema", "resource") == gpuctl("schema", "Pool")


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("trainng", "Did you mean `gpuctl schema training`?"), ("xyzzy", "The kinds are training, inference")],
)
def test_schema_of_unknown_kind_fails_with_a_hint(gpuctl: Cli, kind: str, hint: str) -> None:
    code, out, err = gpuctl("schema", kind)
    assert (code, out) == (2, "")
    assert f"There is no kind `{kind}`. {hint}" in err


@pytest.mark.parametrize(
    ("command", "example"),
    [("explain", "  $ gpuctl explain training.resources.gpu-type"), ("schema", "  $ gpuctl schema")],
)
def test_help_has_an_example(gpuctl: Cli, command: str, example: str) -> None:
    code, out, _ = gpuctl(command, "--help")
    assert code == 0
    assert any(line.lstrip().startswith(example.lstrip()) and line.startswith("  ") for line in out.splitlines())


@pytest.mark.parametrize("topic", ["out-of-memory", " Out-Of-Memory "])
def test_explain_cause_printed_by_why(gpuctl: Cli, topic: str) -> None:
    code, out, err = gpuctl("explain", topic)
    assert (code, err) == (0, "")
    assert "it used more memory than its limit" in out
    assert "`gpuctl why JOB`" in out


def test_explain_cause_in_chinese(gpuctl: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuctl.cli.commands.explain.CAUSES", CAUSES | {"new-cause": "its translation is missing"})
    assert gpuctl("explain", "gpu-shortage", "--lang", "zh") == (
        0,
        "gpu-shortage\n  `gpuctl why` 给出的一种原因：没有节点有足够的空闲 GPU。`gpuctl why JOB` 会给出\n  具体数字和解决办法。\n",
        "",
    )
    code, out, err = gpuctl("explain", "new-cause", "--lang", "zh")
    assert (code, err) == (0, "")
    assert "`gpuctl why` 给出的一种原因：its translation is missing。" in out


def test_chinese_causes_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "daily.zh-CN.md").read_text(encoding="utf-8")
    assert set(chinese_causes()) == set(CAUSES)
    for cause, meaning in chinese_causes().items():
        assert re.search(rf"`{cause}`：{re.escape(meaning)}( \||<br>)", page), cause
