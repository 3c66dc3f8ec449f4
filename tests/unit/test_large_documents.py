"""Documents too large for an annotation, a ConfigMap, or a program argument."""

from __future__ import annotations

import base64
import bz2
import json
import random
import string
from typing import Any

import pytest

import gpuctl
from gpuctl.apply.plan.last_applied import document_objects
from gpuctl.apply.run.history_writer import _document
from gpuctl.language.settings import Settings
from gpuctl.objects.embedded_document import MAX_ANNOTATION_BYTES, document_of, document_text, is_same_document
from gpuctl.objects.ownership_metadata import records

KEY = "runwhere.ai/document"
DOCUMENT_TEMPLATE = "kind: {kind}\nversion: v0.1\njob: {{name: big}}\nenvironment: {{image: a:1{more}}}\nresources: {{cpu: 1, memory: 1Gi}}\n"


def letters(number: int) -> str:
    return "".join(random.Random(number).choices(string.ascii_letters, k=number))


def job(more: str = "", kind: str = "compute", rest: str = "") -> gpuctl.Source:
    return gpuctl.Source("j.yaml", DOCUMENT_TEMPLATE.format(kind=kind, more=more) + rest)


def variables(number: int, value: str = "x" * 1000) -> str:
    return ", env: {" + ", ".join(f"V{index}: {value}" for index in range(number)) + "}"


def compile_embedded(source: gpuctl.Source, **options: Any) -> gpuctl.Compilation:
    return gpuctl.compile(source, embed=True, **options)


def annotated_object(result: gpuctl.Compilation) -> dict[str, Any]:
    (found,) = (obj for obj in result.objects if KEY in obj["metadata"].get("annotations", {}))
    return found


def pool(nodes: int) -> gpuctl.Source:
    entries = "".join(
        f"  gpu-node-{index:05}.example.com: {{gpu-type: A100-80G, gpu-count: 8}}\n" for index in range(nodes)
    )
    return gpuctl.Source("p.yaml", f"kind: pool\nversion: v0.1\npool: {{name: big}}\nnodes:\n{entries}")


def test_document_is_embedded_only_on_request() -> None:
    assert document_of(annotated_object(compile_embedded(job())), KEY) is not None
    assert KEY not in str(gpuctl.compile(job()).objects)


@pytest.mark.parametrize("kind", ["training", "inference", "notebook", "compute"])
def test_large_document_is_embedded_compressed(kind: str) -> None:
    """Every reader of the annotation decodes it: lift, the three-way base, the history, the comparison of documents."""
    large = annotated_object(compile_embedded(job(variables(300), kind)))
    assert large["metadata"]["annotations"][KEY].startswith("bz2:")
    assert sum(len(key) + len(value) for key, value in large["metadata"]["annotations"].items()) < 2**18
    document = document_of(large, KEY)
    assert document is not None
    assert len(document["environment"]["env"]) == 300
    plain = {**large, "metadata": {**large["metadata"], "annotations": {KEY: json.dumps(document, indent=1)}}}
    assert is_same_document(large, plain, KEY)
    assert gpuctl.lift([large]) == gpuctl.lift([plain])
    others = document_of(plain, KEY)
    assert others is not None
    settings = Settings()
    assert document_objects(document, "default", settings) == document_objects(others, "default", settings) is not None
    assert _document(large, records(Settings())) == document


def test_large_pool_is_embedded_compressed() -> None:
    found = document_of(annotated_object(compile_embedded(pool(2800))), KEY)
    assert found is not None
    assert len(found["nodes"]) == 2800


def test_too_large_document_is_not_embedded_with_a_note() -> None:
    values = ", ".join(f"V{index}: {letters(1000 + index)}" for index in range(400))
    for source in (job(f", env: {{{values}}}"), job(variables(3000))):
        result = compile_embedded(source)
        assert result.ok
        assert not any(KEY in obj["metadata"].get("annotations", {}) for obj in result.objects)
        (note,) = (item for item in result.diagnostics if item.code == "GPU609")
        assert note.severity.value == "note"


def test_other_annotations_count_toward_the_size_limit() -> None:
    document = {"text": "x" * 100_000}
    assert (document_text(document, {}) or "").startswith("{")
    assert (document_text(document, {"a": "y" * 150_000}) or "").startswith("bz2:")
    assert document_text(document, {"a": "y" * MAX_ANNOTATION_BYTES}) is None


@pytest.mark.parametrize(
    "text",
    [
        "bz2:" + base64.b64encode(bz2.compress(b'{"a": "' + b"x" * 50_000_000 + b'"}')).decode(),
        "bz2:" + base64.b64encode(bz2.compress(b'{"a": 1}')[:-4]).decode(),
        "bz2:" + base64.b64encode(bz2.compress(b"[" * 100_000)).decode(),
        "bz2:" + base64.b64encode(bz2.compress(b"[]")).decode(),
        "bz2:" + base64.b64encode(b"nothing of the kind").decode(),
        "bz2:!",
        "",
        "[" * 100_000,
        "[]",
        "null",
        7,
    ],
    ids=["bomb", "cut", "deep", "list", "no bzip2", "no base64", "empty", "deep text", "list text", "null", "number"],
)
def test_malformed_annotation_is_no_document(text: Any) -> None:
    obj = {"metadata": {"annotations": {KEY: text}}}
    assert document_of(obj, KEY) is None
    other = {"metadata": {"annotations": {KEY: "{}"}}}
    assert not is_same_document(obj, other, KEY)


@pytest.mark.parametrize("metadata", [{}, {"annotations": None}, {"annotations": {}}])
def test_missing_annotation_is_no_document(metadata: dict[str, Any]) -> None:
    assert document_of({"metadata": metadata}, KEY) is None
    assert not is_same_document({"metadata": metadata}, {"metadata": metadata}, KEY)


HOSTFILE = (
    f"kind: training\nversion: v0.1\njob: {{name: a{'b' * 50}}}\n"
    "environment: {image: 'a:1', command: [deepspeed, --hostfile, /etc/gpuctl/hostfile, t.py]}\n"
    "resources: {nodes: 10000, gpu: 8, cpu: 1, memory: 1Gi}\n"
)


@pytest.mark.parametrize(
    ("source", "path"),
    [(pool(20_000), ("nodes",)), (gpuctl.Source("h.yaml", HOSTFILE), ("resources", "nodes"))],
    ids=["pool", "hostfile"],
)
def test_content_too_large_for_a_config_map_is_an_error(source: gpuctl.Source, path: tuple[str, ...]) -> None:
    (error,) = (item for item in gpuctl.compile(source).diagnostics if item.severity.value == "error")
    assert (error.code, error.path) == ("GPU206", path)
    assert "a ConfigMap holds 1,048,576" in error.message


TOO_LONG = "x" * 131_072


@pytest.mark.parametrize(
    ("source", "path"),
    [
        (job(f", command: [bash, -c, {TOO_LONG}]"), "environment.command.2"),
        (job(f", args: [{TOO_LONG}]"), "environment.args.0"),
        (job(f", env: {{A: {TOO_LONG[2:]}b}}"), "environment.env.A"),
        (job(f", env: [{{name: A, value: {TOO_LONG[2:]}b}}]"), "environment.env.0"),
        (job(f", env: {{A: {'中' * 43_691}}}"), "environment.env.A"),
        (job(rest=f"podPatch: {{containers: [{{name: main, args: [{TOO_LONG}]}}]}}\n"), "podPatch.containers.0.args.0"),
        (
            job(rest=f"podPatch: {{initContainers: [{{name: i, image: 'a:1', command: [{TOO_LONG}]}}]}}\n"),
            "podPatch.initContainers.0.command.0",
        ),
        (
            job(rest=f"podPatch: {{containers: [{{name: s, image: 'a:1', env: [{{name: A, value: {TOO_LONG}}}]}}]}}\n"),
            "podPatch.containers.0.env.0",
        ),
        (
            job(
                rest=f"podPatch: {{containers: [{{name: main, lifecycle: {{preStop: {{exec: {{command: [{TOO_LONG}]}}}}}}}}]}}\n"
            ),
            "podPatch.containers.0.lifecycle.preStop.exec.command.0",
        ),
    ],
    ids=["command", "args", "mapping", "list", "bytes", "patched args", "init container", "sidecar", "hook"],
)
def test_argument_or_variable_above_128_kib_is_an_error(source: gpuctl.Source, path: str) -> None:
    (error,) = (item for item in gpuctl.compile(source).diagnostics if item.severity.value == "error")
    assert (error.code, ".".join(map(str, error.path))) == ("GPU222", path)


def test_longest_argument_and_variable_are_valid() -> None:
    """Also if a podPatch causes a second check of the whole pod."""
    text = f", command: [bash, -c, {TOO_LONG[1:]}], env: {{A: {TOO_LONG[3:]}}}"
    patch = f"podPatch: {{containers: [{{name: main, args: [{TOO_LONG[1:]}]}}]}}\n"
    assert not [item for item in gpuctl.compile(job(text, rest=patch)).diagnostics if item.code == "GPU222"]


@pytest.mark.parametrize(
    ("ports", "code"),
    [
        ("port: 80, nodePort: 30400, ports: [{name: a, port: 53, protocol: UDP, nodePort: 30400}]", "GPU218"),
        ("port: 80, ports: [{name: a, port: 53, nodePort: 30400}, {name: b, port: 54, nodePort: 30400}]", "GPU218"),
        ("port: 53, nodePort: 30400, ports: [{name: a, port: 53, protocol: UDP, nodePort: 30400}]", None),
        ("port: 53, nodePort: 30400, ports: [{name: a, port: 53, protocol: UDP, nodePort: 30401}]", None),
        ("port: 80, ports: [{name: a, port: 81}, {name: b, port: 82}]", None),
    ],
)
def test_node_port_shared_by_two_ports_is_an_error(ports: str, code: str | None) -> None:
    result = gpuctl.compile(job(rest=f"service: {{{ports}}}\n"))
    assert [item.code for item in result.diagnostics if item.severity.value == "error"] == ([code] if code else [])


def test_node_port_shared_by_two_jobs_is_an_error() -> None:
    """The API server allocates a nodePort once, whatever the protocol."""
    one = job(rest="service: {nodePort: 30400}\n").text
    other = one.replace("name: big", "name: other").replace("nodePort: 30400", "nodePort: 30400, protocol: UDP")
    result = gpuctl.compile(gpuctl.Source("j.yaml", f"{one}---\n{other}"))
    assert [item.code for item in result.diagnostics if item.severity.value == "error"] == ["GPU418"]
