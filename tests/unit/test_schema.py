"""The JSON Schemas accept what the binder accepts, in any spelling, and reject the mistakes that a schema can detect."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs
import pytest
import schemas as tool
import yaml
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator
from pydantic_core import PydanticCustomError

from gpuctl.frontend.diagnostics import Severity
from gpuctl.frontend.loading import load_found
from gpuctl.frontend.source import Source, collect
from gpuctl.language import amount_fields, code_block, fields, path_fields, sweep_block
from gpuctl.language.json_schema import combined_schema, schema_of
from gpuctl.language.kinds import KINDS, model_of
from gpuctl.language.reference import kind_called
from gpuctl.language.schema_rules import TEXT_RULES
from gpuctl.language.spelling import fold
from gpuctl.language.translation_files import chinese_reference
from gpuctl.language.value_forms import ValueForm, checks_of, form_of, keys_of
from properties.scale import SCALE, examples

# Documents -----------------------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
JOB = "job: {name: a}\nenvironment: {image: registry.example.com/a:1}\n"

VALID = {
    # The seed documents, verbatim.
    **{path.stem: path.read_text(encoding="utf-8") for path in GOLDEN.glob("seed-readme-*/input/*.yaml")},
    # Spellings.
    "kebab case": """\
kind: training
version: v0.1
job: {name: a, batch-size: 8, max-runtime: 12h}
environment:
  image: registry.example.com/a:1
  image-pull-secret: [one, two]
resources: {gpu: 1, gpu-type: A100, gpu-vendor: nvidia}
storage:
  workdirs:
    - {path: /a, mount-path: /b, read-only: true}
    - {path: /c, empty-dir: {size: 1Gi, medium: Memory}}
pod-patch: {hostIPC: true}
""",
    "snake case": """\
kind: inference
version: v0.1
job: {name: a}
environment: {image: "registry.example.com/a:1", image_pull_secret: one}
service: {target_port: 8080, node_port: 30080, health_check: /, startup_timeout: 20m, request_limit: 10}
resources: {gpu: 1, gpu_type: A100}
autoscaling: {enabled: true, min_replicas: 1, max_replicas: 4, target_gpu_utilization: 70, scale_up_delay: 60s}
storage:
  workdirs: [{path: /a, pvc: {claim: c, sub_path: d/e}}]
""",
    "camel case": """\
kind: inference
version: v0.1
job: {name: a}
environment: {image: "registry.example.com/a:1", imagePullSecret: one}
service: {targetPort: 8080, healthCheck: /health, startupTimeout: 20m, requestLimit: 10}
resources: {gpu: 1, gpuType: A100, gpuShare: 0.5}
autoscaling: {enabled: true, maxReplicas: 4, metric: queue, targetQueueLength: 5, scaleDownDelay: 1m30s}
""",
    "other cases": """\
Kind: training
VERSION: v0.1
Job: {NAME: a, Batch_Size: 8, -ttl-: 7d, max__runtime: 1h}
EnvironMent: {Image: registry.example.com/a:1, imagepullsecret: one, ENV: [{Name: A, VALUE: b}]}
Re_Sources: {GPU: 1, Gpu-Type: A}
""",
    # Each kind's other fields and forms.
    "smallest training": f"kind: training\nversion: v0.1\n{JOB}",
    "no version": f"kind: compute\n{JOB}",
    "every field of a training": """\
kind: training
version: v0.1
job:
  name: a
  namespace: team-a
  priority: low
  description: text
  labels: {team: nlp, example.com/cost-center: 42}
  annotations: {example.com/owner: "a b c", note: 2024-01-01}
  epochs: 3
  batch_size: 0x10
  retries: 0o17
  max_runtime: 1d12h
  ttl: 0s
environment:
  image: registry.example.com:5000/team/a@sha256:0123456789012345678901234567890123456789012345678901234567890123
  command: [python, train.py]
  args: [--lr, 2e-5, --flag, yes, --epochs, 3, --none, "null", --on, true]
  env:
    A: 1
    B: true
    C: 2e-5
    D: ""
  workdir: /workspace
resources: {pool: a, gpu: 8, gpu-vendor: nvidia, cpu: 500m, memory: 64Gi, shm: 1e9, nodes: 2}
storage:
  workdirs:
    - {path: /a.json, type: File}
    - {path: /data, mountPath: /mnt/data/, readOnly: True}
    - {path: /n, nfs: {server: nfs.example.com, path: /exports}}
    - {path: /p, pvc: {claim: p}}
    - {path: /scratch, emptyDir: {}}
podPatch:
  tolerations: [{key: dedicated, operator: Exists}]
  containers: [{name: main, resources: {limits: {rdma/hca: 1}}}]
""",
    "text that looks like something else": """\
kind: compute
version: v0.1
job: {name: true, description: 12, labels: {a: 1e3, b: no, c: 0x1F, d: ""}}
environment:
  image: 12.5
  imagePullSecret: 007
  env: [{name: A, value: .inf}, {name: -1, value: 0o17}, {name: B, secret: 5, key: 6}, {name: C, value: "null"}]
resources: {pool: 1, gpu-type: 4090, cpu: .5, memory: 5e9}
""",
    "secrets": """\
kind: compute
version: v0.1
job: {name: a}
environment:
  image: registry.example.com/a:1
  env: [{name: A, secret: s, key: k}, {name: B, value: ""}]
""",
    "templates": """\
kind: inference
version: v0.1
job: {name: a, description: text}
model: {name: llama3-8b, version: 1.0, source: registry, format: safetensors, cache: true}
environment:
  image: "{{ model.source }}.example.com/{{model.name}}:{{model.version}}"
  imagePullSecret: "{{model.name}}"
  workdir: "/models/{{model.name}}"
  args: ["--port", "{{service.port}}", "{{ messages }}", "{{{{literal"]
  env: [{name: "{{job.name}}", value: "{{model.name}}"}]
service: {health_check: "/{{job.name}}/health", port: 8000}
""",
    "templates that are not what they expand to": """\
kind: inference
version: v0.1
job: {name: a}
model: {name: /data, version: 10m, source: metrics}
environment: {image: registry.example.com/a:1, workdir: "{{model.name}}"}
service: {startup_timeout: "{{model.version}}", ports: [{name: "{{model.source}}", port: 9090}]}
""",
    "ports": f"""\
kind: compute
version: v0.1
{JOB}service:
  type: LoadBalancer
  protocol: UDP
  ports: [{{name: m-1, port: 9090, targetPort: 1, nodePort: 30000, protocol: TCP}}, {{name: 1e3, port: 1}}]
  timeout: 30s
  replicas: 0
""",
    "notebook": f"kind: notebook\nversion: v0.1\n{JOB}service: {{replicas: 1, type: ClusterIP}}\n",
    "merge keys": """\
kind: training
version: v0.1
job: {name: a}
environment:
  <<: {image: registry.example.com/a:1}
  env: {<<: [{A: 1}, {B: 2}]}
""",
    "empty blocks": f"kind: training\nversion: v0.1\n{JOB}resources: {{}}\nstorage: {{workdirs: []}}\npodPatch: {{}}\n",
    "pool with counts": """\
kind: pool
version: v0.1
pool: {name: a}
nodes:
  gpu-node.example.com: {gpu-type: A100-80G, gpu-count: 8}
  1e30: {gpu_type: 4090}
  012: {gpuType: ""}
  cpu: {}
quota: {maxJobs: 100, max-gpu-per-job: 16}
""",
    "pool without nodes": "kind: pool\nversion: v0.1\npool: {name: a}\nnodes: {}\n",
    "older name of a pool": "kind: resource\nversion: v0.1\nmetadata: {name: a}\nnodes: {n: {gpu-type: A}}\n",
    "quota with vendors": """\
kind: quota
version: v0.1
quota: {name: a}
namespace:
  zhang-san: {cpu: 64, memory: 256Gi, gpu: {nvidia: 8, amd: 4}, maxJobs: 20}
  12: {}
default: {cpu: "-0", gpu: 0, memory: 0}
""",
    "empty platform": "kind: platform\nversion: v0.1\n",
    "platform": """\
kind: platform
version: v0.1
labels: {domain: gpu.example.com}
kubernetes: {version: 1.33}
gpu:
  vendors: {nvidia: {resource: nvidia.com/gpu, taint: nvidia.com/gpu, productLabel: nvidia.com/gpu.product}}
  types:
    A100-80G: {nvidia.com/gpu.product: [NVIDIA-A100-SXM4-80GB, NVIDIA-A100-PCIe-80GB]}
    4090: {gpu: 4090}
  sharing: hami
training: {backend: jobset, queue: {training-pool: research}}
pools: [{name: training-pool, gpu-types: [A100-80G, 4090], podPatch: {hostNetwork: true}}]
strategy: rolling
prometheus: http://prometheus.monitoring:9090
prices: {training-pool: 12.5, other: 1, third: .5}
quota: {defaultRequest: {cpu: 1, memory: 2Gi}}
service: {type: ClusterIP}
storage: {default: {nfs: {server: nfs.example.com, path: /exports}}}
image: {registries: [registry.example.com/], pullSecret: registry-login}
priorities: {high: {className: urgent, value: 2000000, preemption: false}, low: {value: -5}}
autoscaling: {metrics: {gpu: a, memory: b, queue: c:d}}
""",
    "platform with defaults": """\
kind: platform
version: v0.1
defaults:
  training:
    kind: training
    job: {ttl: 7d, priority: low, labels: {team: nlp}}
    environment: {image: "registry.example.com/a:{{job.name}}", env: [{name: A, value: 1}]}
    resources: {gpu_type: A100, cpu: 8}
    storage: {workdirs: [{path: /a}]}
  inference: {autoscaling: {enabled: true, max_replicas: 3}}
  notebook: {environment: {image: registry.example.com/jupyter:1}}
  compute: {}
""",
}

INVALID = {
    # Unknown keys.
    "unknown at the top": f"kind: training\nversion: v0.1\n{JOB}resource: {{gpu: 1}}\n",
    "unknown in a block": f"kind: training\nversion: v0.1\n{JOB}resources: {{gpu_typ: A}}\n",
    "unknown in a list": f"kind: training\nversion: v0.1\n{JOB}storage: {{workdirs: [{{path: /a, mount: /b}}]}}\n",
    "field of another kind": f"kind: compute\nversion: v0.1\n{JOB}model: {{name: a}}\n",
    "nodes of a notebook": f"kind: notebook\nversion: v0.1\n{JOB}resources: {{nodes: 2}}\n",
    "unknown in defaults": "kind: platform\nversion: v0.1\ndefaults: {training: {environment: {imag: a}}}\n",
    "name in defaults": "kind: platform\nversion: v0.1\ndefaults: {training: {job: {name: a}}}\n",
    "kind without defaults": "kind: platform\nversion: v0.1\ndefaults: {pool: {}}\n",
    # Values of the wrong kind.
    "text for a number": f"kind: training\nversion: v0.1\n{JOB}resources: {{gpu: four}}\n",
    "quoted number": f'kind: training\nversion: v0.1\n{JOB}resources: {{gpu: "4"}}\n',
    "fraction": f"kind: training\nversion: v0.1\n{JOB}resources: {{gpu: 0.5}}\n",
    "text for a boolean": f"kind: training\nversion: v0.1\n{JOB}storage: {{workdirs: [{{path: /a, readOnly: yes}}]}}\n",
    "text for a list": "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1, command: python a}\n",
    "mapping for a list": f"kind: training\nversion: v0.1\n{JOB}storage: {{workdirs: {{path: /a}}}}\n",
    "list for a block": "kind: training\nversion: v0.1\njob: [name, a]\nenvironment: {image: a:1}\n",
    "text for a block": "kind: training\nversion: v0.1\njob: a\nenvironment: {image: a:1}\n",
    "list for text": "kind: training\nversion: v0.1\njob: {name: [a]}\nenvironment: {image: a:1}\n",
    "mapping for text": f"kind: training\nversion: v0.1\n{JOB}resources: {{cpu: {{limit: 4}}}}\n",
    "text for env": "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1, env: A=1}\n",
    "list for quota's gpu": "kind: quota\nversion: v0.1\nquota: {name: a}\nusers: {a: {gpu: [1]}}\n",
    # Missing.
    "no kind": f"version: v0.1\n{JOB}",
    "no job": "kind: training\nversion: v0.1\nenvironment: {image: a:1}\n",
    "no name": "kind: training\nversion: v0.1\njob: {}\nenvironment: {image: a:1}\n",
    "no path": f"kind: training\nversion: v0.1\n{JOB}storage: {{workdirs: [{{readOnly: true}}]}}\n",
    "no claim": f"kind: training\nversion: v0.1\n{JOB}storage: {{workdirs: [{{path: /a, pvc: {{}}}}]}}\n",
    "no port": f"kind: compute\nversion: v0.1\n{JOB}service: {{ports: [{{name: a}}]}}\n",
    "variable without a value": "kind: training\nversion: v0.1\njob: {name: a}\n"
    "environment: {image: a:1, env: [{name: A}]}\n",
    "no header of a pool": "kind: pool\nversion: v0.1\nnodes: {}\n",
    "no users": "kind: quota\nversion: v0.1\nquota: {name: a}\n",
    "no resource of a vendor": "kind: platform\nversion: v0.1\ngpu: {vendors: {a: {}}}\n",
    "item in defaults": "kind: platform\nversion: v0.1\ndefaults: {training: {storage: {workdirs: [{type: File}]}}}\n",
    # Null.
    "null block": "kind: training\nversion: v0.1\njob:\nenvironment: {image: a:1}\n",
    "null text": "kind: training\nversion: v0.1\njob: {name: a, description: }\nenvironment: {image: a:1}\n",
    "null number": f"kind: training\nversion: v0.1\n{JOB}resources: {{gpu: ~}}\n",
    "null list": "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1, command: null}\n",
    "null item": "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1, command: [python, null]}\n",
    "null entry": "kind: pool\nversion: v0.1\npool: {name: a}\nnodes: {n: }\n",
    "null variable": "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1, env: {A: }}\n",
    # Values.
    "wrong version": f"kind: training\nversion: v1\n{JOB}",
    "wrong choice": "kind: training\nversion: v0.1\njob: {name: a, priority: urgent}\nenvironment: {image: a:1}\n",
    "wrong name": "kind: training\nversion: v0.1\njob: {name: My_Job}\nenvironment: {image: a:1}\n",
    "number as name": "kind: training\nversion: v0.1\njob: {name: 12}\nenvironment: {image: a:1}\n",
    "long name": f"kind: training\nversion: v0.1\njob: {{name: {'a' * 64}}}\nenvironment: {{image: a:1}}\n",
    "below the minimum": f"kind: training\nversion: v0.1\n{JOB}resources: {{gpu: -1}}\n",
    "above the maximum": f"kind: compute\nversion: v0.1\n{JOB}service: {{port: 65536}}\n",
    "two notebooks": f"kind: notebook\nversion: v0.1\n{JOB}service: {{replicas: 2}}\n",
    "128GB": f"kind: training\nversion: v0.1\n{JOB}resources: {{memory: 128GB}}\n",
    "memory in bytes": f"kind: training\nversion: v0.1\n{JOB}resources: {{memory: 64}}\n",
    "duration without a unit": "kind: training\nversion: v0.1\njob: {name: a, ttl: 30}\nenvironment: {image: a:1}\n",
    "relative path": f"kind: training\nversion: v0.1\n{JOB}storage: {{workdirs: [{{path: data}}]}}\n",
    "path with dots": f"kind: training\nversion: v0.1\n{JOB}storage: {{workdirs: [{{path: /a/../b}}]}}\n",
    "wrong label key": "kind: training\nversion: v0.1\njob: {name: a, labels: {a b: c}}\nenvironment: {image: a:1}\n",
    "wrong user": "kind: quota\nversion: v0.1\nquota: {name: a}\nusers: {zhang.san: {gpu: 1}}\n",
    # Rules between fields.
    "value and secret": "kind: training\nversion: v0.1\njob: {name: a}\n"
    "environment: {image: a:1, env: [{name: A, value: 1, secret: s, key: k}]}\n",
    "secret without a key": "kind: training\nversion: v0.1\njob: {name: a}\n"
    "environment: {image: a:1, env: [{name: A, secret: s}]}\n",
    "two sources": f"kind: training\nversion: v0.1\n{JOB}storage: "
    "{workdirs: [{path: /a, pvc: {claim: a}, empty_dir: {}}]}\n",
    "type of a claim": f"kind: training\nversion: v0.1\n{JOB}storage: "
    "{workdirs: [{path: /a, pvc: {claim: a}, type: File}]}\n",
    "two headers": "kind: pool\nversion: v0.1\npool: {name: a}\nmetadata: {name: a}\n",
    "users twice": "kind: quota\nversion: v0.1\nquota: {name: a}\nusers: {a: {}}\nnamespace: {b: {}}\n",
}

# Errors that only the compiler finds; the ids give the reason.
COMPILER_ONLY = {
    "a platform's defaults may name the image": "kind: training\nversion: v0.1\njob: {name: a}\n",
    "the same, inside the block": "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {}\n",
    "two spellings of one key": f"kind: training\nversion: v0.1\n{JOB}resources: {{gpu-type: A, gpu_type: A}}\n",
    "the value of a quantity": f'kind: training\nversion: v0.1\n{JOB}resources: {{memory: "64"}}\n',
    "a rule about values": f"kind: inference\nversion: v0.1\n{JOB}autoscaling: {{enabled: true}}\n",
    "null in a PodSpec": f"kind: training\nversion: v0.1\n{JOB}podPatch: {{hostIPC: }}\n",
    "reserved names": "kind: training\nversion: v0.1\njob: {name: a, labels: {app: a}}\nenvironment: {image: a:1}\n",
}

# Reading -------------------------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[-+]?[0-9]+\Z|0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}


def instance(node: yaml.Node) -> Any:
    """Return what an editor's JSON Schema validator reads: YAML 1.2's core schema, keys as text, ``<<`` merged."""
    if isinstance(node, yaml.MappingNode):
        value: dict[str, Any] = {}
        for key, item in node.value:
            if key.value == "<<" and not key.style:
                for base in item.value if isinstance(item, yaml.SequenceNode) else [item]:
                    value = {**instance(base), **value}
            else:
                value[key.value] = instance(item)
        return value
    if isinstance(node, yaml.SequenceNode):
        return [instance(item) for item in node.value]
    return node.value if node.style else scalar(node.value)


def scalar(text: str) -> Any:
    """Return the value of a plain scalar in YAML 1.2's core schema."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    if _INTEGER.match(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.match(text):
        return float(text)
    return float(_SPECIAL[text.lower()]) if text.lower() in _SPECIAL else text


def root_of(text: str) -> yaml.Node:
    return yaml.compose(text, Loader=yaml.CBaseLoader)


def problems(text: str) -> list[str]:
    """Return the frontend's errors."""
    loaded = load_found(collect([Source("a.yaml", text)]), versions=("1.33", "1.36"), directory=Path("/"))
    errors = [f"{item.code} {item.message}" for item in loaded.diagnostics if item.severity is Severity.ERROR]
    return errors if errors or loaded.documents else ["rejected without a diagnostic"]


@cache
def validator(kind: str | None) -> Draft7Validator:
    return Draft7Validator(schema_of(kind) if kind else combined_schema())


@cache
def modern_validator(kind: str | None) -> Draft202012Validator:
    return Draft202012Validator(schema_of(kind) if kind else combined_schema())


def kind_in(value: Any) -> str | None:
    found = [str(item) for key, item in value.items() if fold(key) == "kind"]
    return kind_called(found[0]) if found else None


def violations(value: Any) -> list[str]:
    """Return the errors of the kind's schema; the combined schema and the schema read as 2020-12 must agree."""
    kind = kind_in(value)
    found = [
        [f"{error.json_path}: {error.message[:200]}" for error in check.iter_errors(value)]
        for check in (validator(kind), validator(None), modern_validator(kind))
    ]
    assert len({bool(messages) for messages in found}) == 1, found
    return found[0]


# Files ---------------------------------------------------------------------------------------------------------------


def test_schema_files_match_the_models() -> None:
    assert tool.main(["--check"]) == 0


def test_text_without_a_translation_stays_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contributor who cannot write Chinese changes a description: the reference is written, and no check fails."""
    pairs = chinese_reference()
    changed = next(pair for pair in pairs if pair["en"].startswith("Maximum run time of one attempt"))
    english, changed["en"] = changed["en"], "Maximum run time of one attempt."
    pairs.append(pairs[0])
    monkeypatch.setattr(tool, "chinese_reference", lambda: pairs)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.main([]) == tool.main(["--check"]) == 0
    assert english in (tmp_path / "docs" / "reference.zh-CN.md").read_text(encoding="utf-8")
    _, chinese = tool.outputs()
    assert chinese.problems == [
        f"no translation of: {english}",
        "two translations of: Field reference",
        "a translation of a text that is no longer in the reference: Maximum run time of one attempt.",
    ]


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_schemas_are_valid_json_schemas(kind: str | None) -> None:
    schema = schema_of(kind) if kind else combined_schema()
    Draft7Validator.check_schema(schema)
    Draft202012Validator.check_schema(schema)
    # jsonschema_rs also checks formats: patterns must be regular expressions, references URIs.
    jsonschema_rs.meta.validate(schema)
    references = set(re.findall(r'"#/definitions/([^"]*)"', json.dumps(schema)))
    assert references <= set(schema["definitions"])
    assert set(schema["definitions"]) - references <= {"training"}, "unreferenced definition"


@pytest.mark.parametrize("kind", KINDS)
def test_every_definition_has_a_title_and_description(kind: str) -> None:
    for name, definition in schema_of(kind)["definitions"].items():
        assert definition["title"], name
        assert definition["description"].endswith("."), name
        assert "type" in definition or "enum" in definition or "if" in definition, name


def test_reference_has_every_field() -> None:
    text = tool.reference()
    for heading in ("## training", "### training.job", "### pool.nodes.NAME", "### platform.gpu.vendors.NAME"):
        assert f"{heading}\n" in text
    headings = {tool._anchor(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= headings
    assert "| `gpu-type` | label value or list of label values that are not empty |  | GPU model, as the pool" in text


# Documents -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VALID)
def test_valid_documents_pass_frontend_and_schemas(name: str) -> None:
    assert problems(VALID[name]) == []
    assert violations(instance(root_of(VALID[name]))) == []


@pytest.mark.parametrize("name", INVALID)
def test_invalid_documents_fail_frontend_and_schemas(name: str) -> None:
    assert problems(INVALID[name])
    assert violations(instance(root_of(INVALID[name])))


@pytest.mark.parametrize("name", COMPILER_ONLY)
def test_errors_that_only_the_compiler_finds(name: str) -> None:
    assert problems(COMPILER_ONLY[name])
    assert violations(instance(root_of(COMPILER_ONLY[name]))) == []


def test_defaults_make_incomplete_documents_valid() -> None:
    defaults = "{environment: {image: a:1}, code: {git: 'https://git.example.com/a.git', ref: main}}"
    platform = f"kind: platform\nversion: v0.1\ndefaults: {{notebook: {defaults}}}\n"
    notebook = "kind: notebook\nversion: v0.1\njob: {name: a}\ncode: {path: notebooks}\n"
    loaded = load_found(
        collect([Source("p.yaml", platform), Source("n.yaml", notebook)]), versions=("1.36",), directory=Path("/")
    )
    assert [item for item in loaded.diagnostics if item.severity is Severity.ERROR] == []
    assert violations(instance(root_of(notebook))) == []


def test_combined_schema_rejects_unknown_kinds() -> None:
    assert [error.json_path for error in validator(None).iter_errors({"kind": "trainin"})] == ["$.kind"]
    assert [error.json_path for error in validator(None).iter_errors({"KIND": "Deployment"})] == ["$.KIND"]


def test_each_error_is_reported_once() -> None:
    """The combined schema applies one kind only, and a key is checked once."""
    for value in ({"kind": "pool", "pool": {"name": "A"}}, {"KIND": "pool", "pool": {"Name": "A"}}):
        for check in (validator(None), validator("pool")):
            assert [error.json_path.lower() for error in check.iter_errors(value)] == ["$.pool.name"]


# Never stricter than the binder --------------------------------------------------------------------------------------

TYPES = {
    name: alias
    for module in (fields, amount_fields, path_fields, sweep_block, code_block)
    for name, alias in vars(module).items()
    if name[0].isupper() and getattr(alias, "__metadata__", None)
}
TEXT_ALIASES = {name: alias for name, alias in TYPES.items() if fields.Scalar.TEXT in alias.__metadata__}
ALPHABETS = {
    "name": ("aZ0-._/", 4),
    "path": ("/a.:\n\x00\t é", 4),
    "number": ("0159.+-eE", 4),
    "quantity": ("01.-+mkGiEe", 4),
    "duration": ("019dhmsx", 4),
    "blank": (" \t\n\x1c\x85\u3000\ufeffa", 4),
}


def test_every_text_type_has_a_schema_rule() -> None:
    assert len(TEXT_ALIASES) >= 20
    assert {checks_of(alias) for alias in TEXT_ALIASES.values()} == set(TEXT_RULES)


@pytest.mark.parametrize("name", TEXT_ALIASES)
def test_schema_rules_are_never_stricter_than_checks(name: str) -> None:
    """Try every short text over alphabets of significant characters, in a smaller run few of four characters."""
    checks = checks_of(TEXT_ALIASES[name])
    rule = TEXT_RULES[checks]
    # JavaScript's `$` matches only at the end; Python's also matches before a final newline.
    pattern = re.compile(rule.pattern.replace("$", r"\Z")) if rule.pattern else None
    accepted = 0
    for text in _texts():
        try:
            for check in checks:
                check(text)
        except PydanticCustomError:
            continue
        accepted += 1
        assert pattern is None or pattern.search(text), text
        assert rule.longest is None or len(text) <= rule.longest, text
        value = scalar(text)
        if isinstance(value, bool):
            assert "boolean" in rule.types, text
        elif isinstance(value, (int, float)):
            assert "number" in rule.types, text
            assert rule.minimum is None or value >= rule.minimum, text
    assert accepted > 3


def _texts() -> Iterator[str]:
    for name, (letters, longest) in ALPHABETS.items():
        # A file mode has four digits.
        for length in range(longest + 1 if SCALE >= 1 or name == "number" else longest):
            yield from map("".join, itertools.product(letters, repeat=length))
    for unit in ("a", "0", "1", "a.", "a/", "/a", "-a", "1h"):
        for length in (14, 15, 16, 31, 32, 33, 62, 63, 64, 252, 253, 254, 316, 317, 318, 4096):
            yield (unit * length)[:length]
            yield (unit * length)[: length - 1] + "a"
    yield from ("status.podIP", "metadata.name", "spec.nodeName", "metadata.labels['app']", "metadata.labels")
    prefix = ".".join(["a" * 63] * 4)[:253]
    yield from (
        f"{prefix}/{'a' * 63}",
        "true",
        "True",
        "FALSE",
        "no",
        "0x1F",
        "0o17",
        "1e-999",
        "1e999",
        ".inf",
        ".nan",
    )
    yield from ("5000000", "4194304", "4194303", "5e6", "4Mi", "0.5", "1048576", "2Gi", "{{job.name}}", "..a", "a..b/c")
    for host in ("a", "API.example.com", "10.0.0.1", "[::1]", "a@b", "", "a_b"):
        yield from (
            f"{head}{host}{end}" for head in ("https://", "HTTP://", "ftp://") for end in ("", ":1", ":65536", "/x")
        )
    for digits in ("0123456789ab", "ABCDEF000000", "0" * 11):
        yield from (
            f"{start}-0123-4567-89ab-{digits}" for start in ("00000000", "12345678", "deadbeef", "1e999999", "g0000000")
        )
    for month, day in itertools.product(
        ("00", "01", "02", "11", "12", "13", "1"), ("00", "01", "28", "29", "30", "31", "32")
    ):
        yield from (f"{year}-{month}-{day}" for year in ("0000", "0001", "2024", "2100", "9999", "12345"))
    yield from (
        "UTC",
        "Asia/Shanghai",
        "America/Argentina/Salta",
        "Etc/GMT+5",
        "GMT0",
        "Asia",
        "../etc/passwd",
        "Asia/",
    )
    yield from ("@daily", "@hourly", "*/5 * * * *", "0 2 * * 1-5", "0 2 1 JAN,feb MON", "0 2 * * * *", "60 * * * *")
    yield from ("1g.5gb", "1g.10gb", "7g.80gb", "1g.10gb+me", "1c.2g.20gb", "g.5gb", "1g.gb")


def test_choices_are_never_numbers_or_booleans() -> None:
    """The binder compares a choice as text; an editor compares the value that YAML parses."""
    found = re.findall(r'"enum": (\[[^\]]*\])', json.dumps(combined_schema()))
    assert found
    for choice in (choice for choices in found for choice in json.loads(choices)):
        assert scalar(choice) == choice or choice == ""


def written(node: yaml.Node) -> str:
    """Return a tree as YAML on one line."""
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{written(key)}: {written(value)}" for key, value in node.value) + "}"
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(written(item) for item in node.value) + "]"
    safe = not node.style and not re.search(r"[\[\]{},#:&*!|>'\"%@`?]|^-?$|^- ", node.value)
    return node.value if safe else json.dumps(node.value)


def leaves(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield scalar values, and keys, including user-defined ones."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    for item in node.value if isinstance(node, yaml.SequenceNode) else ():
        yield from leaves(item)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        yield key
        yield from leaves(value)


def respell(node: yaml.Node, form: ValueForm, random: Random) -> None:
    """Change the spelling of every key that is not user-defined."""
    if isinstance(node, yaml.SequenceNode) and form.item is not None:
        for item in node.value:
            respell(item, form.item, random)
    if not isinstance(node, yaml.MappingNode) or form.free:
        return
    block = model_of(form.partial) if form.partial else form.block
    known = {fold(key): form_of(block, key) for key, _ in keys_of(block)} if block else {}
    for key, item in node.value:
        if form.value is not None:
            respell(item, form.value, random)
            continue
        respell(item, known[fold(key.value)], random)
        joints = ("", "", "", "", "-", "_", "--")
        letters = (random.choice((letter, letter.upper())) for letter in fold(key.value))
        key.value = random.choice(joints) + "".join(letter + random.choice(joints) for letter in letters)
        key.style = '"'


@given(random=st.randoms(use_true_random=False), name=st.sampled_from(sorted(set(VALID) - {"merge keys"})))
@examples(200)
def test_any_key_spelling_validates(random: Random, name: str) -> None:
    root = root_of(VALID[name])
    kind = kind_in(instance(root))
    assert kind is not None
    respell(root, ValueForm(block=model_of(kind)), random)
    assert violations(instance(root)) == []
    assert problems(written(root)) == []


PLAIN = [
    *("1", "0", "-1", "+5", "-0", "012", "0o17", "0x1F", "1e3", "1e30", "1e-999", "1e400", ".5", "5.", "1.50", "-.5"),
    *(".inf", "-.INF", ".nan", "true", "True", "no", "yes", "null", "~", "2024-01-01", "a", "A", "a-b", "a_b", "a.b"),
    *("4194304", "4194303", "1048576", "2Gi", "500m", "64Mi", "30s", "1h30m", "0s", "7d", "/", "/a", "/a/", "/a//b"),
    *("//a", "/a/..", "a/b", "TCP", "high", "ClusterIP", "Directory", "v0.1", "-a", "a-", "65535", "65536", "100"),
]
QUOTED = ["", " ", "1", "true", "null", "{{job.name}}", "/{{job.name}}", "{{ messages }}", "a b", "é", "\ufeff", "\x85"]


@given(
    name=st.sampled_from(sorted(VALID)),
    where=st.integers(0, 10**6),
    text=st.one_of(
        st.tuples(st.sampled_from(PLAIN), st.none()),
        st.tuples(st.sampled_from(QUOTED) | st.text(max_size=8), st.just('"')),
    ),
)
@examples(400)
def test_schemas_accept_what_the_frontend_accepts(name: str, where: int, text: tuple[str, str | None]) -> None:
    """A value or key of a valid document is replaced: if the compiler accepts the document, so do the schemas."""
    root = root_of(VALID[name])
    nodes = list(leaves(root))
    changed = nodes[where % len(nodes)]
    changed.value, changed.style = text
    document = written(root)
    try:
        value = instance(root_of(document))
    except yaml.YAMLError:
        reject()
    assume(isinstance(value, dict) and kind_in(value) is not None)
    if problems(document) == []:
        assert violations(value) == [], document


def test_user_defined_keys_may_be_numbers() -> None:
    """yaml-language-server matches a key such as 1e30 with a pattern as JavaScript prints the number."""
    for kind in KINDS:
        for definition in schema_of(kind)["definitions"].values():
            if "properties" in definition or "patternProperties" not in definition:
                continue
            (pattern,) = definition["patternProperties"]
            for key in ("12", "1e+30", "1.5e-7", "0.5", "-1", "Infinity", "-Infinity"):
                assert re.search(pattern, key), (pattern, key)
