"""The compile time grows linearly with the size of a document, whatever the document contains.

The service compiles documents of any caller, up to `body_limit`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

import gpuctl
from gpuctl.api.document_answers import DiagnosticsAnswer
from gpuctl.frontend import document
from gpuctl.frontend.source import Source
from properties.scale import part_of

SIZE = 1500
FACTOR = 4
LARGEST_RATIO = 10
"""Largest ratio of the times for a document ``FACTOR`` times as large: 4 is linear, 16 quadratic."""
NOISE_SECONDS = 0.03
"""CPU seconds below which a difference is noise."""

HEAD = (
    "kind: training\nversion: v0.1\njob: {name: a}\nenvironment:\n  image: a/b:1\n  command: [a]\nresources: {gpu: 1}\n"
)
JOB = (
    "kind: training\nversion: v0.1\njob: {name: a%d}\nenvironment: {image: a/b:1, command: [a]}\nresources: {gpu: 1}\n"
)
POOL = "kind: pool\nversion: v0.1\nmetadata: {name: p}\nnodes:\n"
Shape = Callable[[int], str]


def lines(form: str, before: str = HEAD) -> Shape:
    """Repeat a line, once per number."""
    return lambda size: before + "".join(form % {"n": number} for number in range(size))


def flow(form: str, before: str, after: str) -> Shape:
    """Repeat an item within one long line."""
    return lambda size: before + ", ".join(form % {"n": number} for number in range(size)) + after


def documents(form: str, separator: str = "---\n", each: int = 15) -> Shape:
    return lambda size: separator.join(form % {"n": number} for number in range(size // each))


ENV = "kind: training\nversion: v0.1\njob: {name: a}\nresources: {gpu: 1}\nenvironment:\n  image: a/b:1\n  command: [a]\n  env:"
COMMAND, COMMAND_END = HEAD.split("[a]")
PATCH = HEAD + "podPatch:\n"
MAIN = PATCH + "  containers:\n  - name: main\n"
VOLUME = "  - {name: v%(n)d, emptyDir: {}}\n"
JOB_N = JOB.replace("%d", "%(n)d")


def volumes_and(form: str, before: str) -> Shape:
    """Combine as many volumes as lines that refer to volumes."""
    return lambda size: lines(VOLUME, PATCH + "  volumes:\n")(size // 3) + lines(form, before)(size // 3)


SHAPES: dict[str, Shape] = {
    "mapping in one line": flow("A%(n)d: b", ENV + " {", "}\n"),
    "mapping in JSON": flow('"A%(n)d":"b"', ENV + " {", "}\n"),
    "mapping in lines": lines("    A%(n)d: b\n", ENV + "\n"),
    "list of mappings": lines("    - {name: A%(n)d, value: b}\n", ENV + "\n"),
    "wide characters": lines("    A%(n)d: 你\u2028好\n", ENV + "\n"),
    "list of text": flow("a", COMMAND + "[", "]" + COMMAND_END),
    "deep brackets": lambda size: HEAD + "podPatch: " + "[" * size + "]" * size + "\n",
    "open brackets": lambda size: HEAD + "x: " + "[a, " * size + "\n",
    "question marks": flow("?a", COMMAND + "[", "]" + COMMAND_END),
    "question marks before keys": flow("?A%(n)d: b", ENV + " {", "}\n"),
    "explicit keys": lines("    ? A%(n)d\n    : b\n", ENV + "\n"),
    "anchors": lines("    A%(n)d: &a%(n)d b\n", ENV + "\n"),
    "aliases": lines("    A%(n)d: *a\n", ENV + "\n    X: &a b\n"),
    "merges": flow("*a", HEAD + "x: &a {b: c}\ny: {<<: [", "]}\n"),
    "merge chain": lines("x%(n)d: &a {<<: *a, a%(n)d: b}\n", HEAD + "x: &a {a: b}\n"),
    "documents": documents(JOB_N),
    "documents of one name": documents(JOB % 1),
    "documents behind a directive": lambda size: "%YAML 1.2\n---\n" + documents(JOB_N, "...\n---\n")(size),
    "empty documents": lambda size: "---\n" * size,
    "documents of other kinds": documents("kind: x%(n)d\n", each=5),
    "pools and jobs of others": lambda size: (
        documents("kind: pool\nmetadata: {name: p%(n)d}\nnodes: {n%(n)d: {gpu-type: a}}\n")(size)
        + "---\n"
        + documents(JOB_N.replace("{gpu: 1}", "{gpu: 1, pool: q%(n)d}"))(size)
    ),
    "types of a pool and jobs of others": lambda size: (
        lines("  n%(n)d: {gpu-type: a%(n)d}\n", POOL)(size)
        + "---\n"
        + documents(JOB_N.replace("{gpu: 1}", "{gpu: 1, pool: p, gpu-type: b%(n)d}"))(size)
    ),
    "nodes of a pool": lines("  n%(n)d: {gpu-type: a}\n", POOL),
    "users of a quota": lines("  n%(n)d: {gpu: 1}\n", "kind: quota\nversion: v0.1\nmetadata: {name: p}\nusers:\n"),
    "pull secrets": flow("s%(n)d", HEAD.replace("  image:", "  imagePullSecret: ["), "]\n"),
    "labels": flow("l%(n)d: a", HEAD.replace("job: {name: a}", "job: {name: a, labels: {"), "}}\n"),
    "workdirs": lines("    - {path: /a/%(n)d, pvc: {claim: c%(n)d}}\n", HEAD + "storage:\n  workdirs:\n"),
    "long scalar": lambda size: ENV + "\n    A: " + "b " * 10 * size + "c\n",
    "long quoted scalar": lambda size: ENV + '\n    A: "' + "b\\n" * 10 * size + '"\n',
    "block scalar": lines("      bbb\n", ENV + "\n    A: |\n"),
    "lines of blanks and tabs": lines("  \t\n"),
    "shell script": lambda size: (
        COMMAND + '[bash, -c, "' + "cd /x && A=$B python train.py; " * size + '"]' + COMMAND_END
    ),
    "nested groups": lambda size: COMMAND + '[bash, -c, "' + "( a; " * size + '"]' + COMMAND_END,
    "nested substitutions": lambda size: COMMAND + "[bash, -c, '" + '"$(' * size + "']" + COMMAND_END,
    "here-documents": lambda size: COMMAND + '[bash, -c, "' + "a << E\\n" * size + '"]' + COMMAND_END,
    "launchers in a script": lambda size: (
        COMMAND + '[bash, -c, "' + "torchrun --nproc_per_node 3 t; " * size + '"]' + COMMAND_END
    ),
    "tokens in a script": lambda size: COMMAND + '[bash, -c, "' + "A_TOKEN=hunter b; " * size + '"]' + COMMAND_END,
    "script as a text": lambda size: COMMAND + '"' + "cd /x && a | b; " * size + '"' + COMMAND_END,
    "script as an item": lambda size: COMMAND + '["' + "cd /x && a | b; " * size + '"]' + COMMAND_END,
    "braces": lambda size: COMMAND + '["a {' + "," * 10 * size + '"]' + COMMAND_END,
    "pipes": lambda size: COMMAND + '["a ' + "| " * 10 * size + 'b"]\n  args: [a]' + COMMAND_END,
    "slashes and stars": lambda size: COMMAND + '[a, "' + "/*" * 10 * size + ' "]' + COMMAND_END,
    "home directories": lambda size: COMMAND + '[a, "' + "=~/" * 10 * size + ' "]' + COMMAND_END,
    "variables of a shell": flow("$A%(n)d", COMMAND + "[a, ", "]" + COMMAND_END),
    "dollars": lambda size: COMMAND + '[a, "' + "$(" * 10 * size + '"]' + COMMAND_END,
    "options and values": flow("'--x%(n)d y'", COMMAND + "[a, ", "]" + COMMAND_END),
    "variables in values": lines("    A%(n)d: $A:/x\n", ENV + "\n"),
    "disks of nodes": lines("    - {path: /a/%(n)d}\n", HEAD + "storage:\n  workdirs:\n"),
    "system paths": lines("    - {path: /proc/%(n)d}\n", HEAD + "storage:\n  workdirs:\n"),
    "system paths of a patch": lines("  - {name: v%(n)d, hostPath: {path: /proc/%(n)d}}\n", PATCH + "  volumes:\n"),
    "commands of containers": lines(
        "  - {name: c%(n)d, image: a/b:1, command: [a, $B]}\n", PATCH + "  initContainers:\n"
    ),
    "options": flow("--x%(n)d=$A", COMMAND + "[torchrun, ", "]" + COMMAND_END),
    "credentials": lines("    API_KEY%(n)d: sk-abcdefghijklmnopqrstuvwxyz%(n)d\n", ENV + "\n"),
    "templates": lines("    A%(n)d: ${{ job.name }}\n", ENV + "\n"),
    "wrong templates": lines("    A%(n)d: ${{ job.nam%(n)d }}\n", ENV + "\n"),
    "unknown fields": lines("unknown%(n)d: b\n"),
    "unknown fields in one line": flow("x%(n)d", HEAD.replace("{gpu: 1}\n", "{gpu: 1, "), "}\n"),
    "repeated fields": lines("    A: b\n", ENV + "\n"),
    "wrong values": lines("    A%(n)d: [1]\n", ENV + "\n"),
    "wrong names": lines("    9-%(n)d: b\n", ENV + "\n"),
    "unknown fields of a pod": lines("  c%(n)d: a\n", PATCH),
    "containers": lines("  - {name: c%(n)d, image: a/b:1}\n", PATCH + "  initContainers:\n"),
    "wrong containers": lines("  - {name: c%(n)d, image: 'a b'}\n", PATCH + "  containers:\n"),
    "wrong tolerations": lines("  - {key: 'c %(n)d', operator: Exists}\n", PATCH + "  tolerations:\n"),
    "wrong variables": lines(
        "    - {name: A%(n)d, valueFrom: {secretKeyRef: {name: s, key: ''}}}\n", MAIN + "    env:\n"
    ),
    "mounts of no volume": volumes_and(
        "    - {name: w%(n)d, mountPath: /x%(n)d}\n", "  containers:\n  - name: main\n    volumeMounts:\n"
    ),
    "mounts of volumes": volumes_and(
        "  - {name: c%(n)d, image: a/b:1, volumeMounts: [{name: v%(n)d, mountPath: /x}]}\n", "  initContainers:\n"
    ),
}


def cpu_seconds(text: str) -> float:
    """Return the CPU seconds of compiling a text and of building the answer with its diagnostics."""
    # Garbage collections take longer the more objects earlier tests of the process have left.
    gc.disable()
    try:
        begun = time.process_time()
        DiagnosticsAnswer.of(gpuctl.compile([Source("yamlContent", text)]).diagnostics).as_json()
        return time.process_time() - begun
    finally:
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Import modules and compile validators before the first measurement."""
    cpu_seconds(MAIN)


@pytest.mark.parametrize("shape", part_of(SHAPES, 4))
def test_compile_time_is_linear(shape: str) -> None:
    made = SHAPES[shape]
    small = min(map(cpu_seconds, [made(SIZE)] * 2))
    large = cpu_seconds(made(FACTOR * SIZE))
    if large > LARGEST_RATIO * max(small, NOISE_SECONDS):
        # Measure again: other processes may have disturbed the first measurement.
        small, large = max(small, cpu_seconds(made(SIZE))), min(large, cpu_seconds(made(FACTOR * SIZE)))
    assert large <= LARGEST_RATIO * max(small, NOISE_SECONDS), (
        f"{FACTOR} times the size takes {large / small:.1f} times the work"
    )


@pytest.mark.parametrize("shape", ["mapping in one line", "mapping in JSON", "mapping in lines", "list of mappings"])
def test_measured_documents_are_valid(shape: str) -> None:
    """With an invalid document the checks would not be measured."""
    assert gpuctl.compile([Source("yamlContent", SHAPES[shape](SIZE))]).objects


def test_every_reported_unknown_field_has_a_hint() -> None:
    """No other hints are computed: they take longer than all other work."""
    found = gpuctl.compile([Source("yamlContent", SHAPES["unknown fields"](SIZE))]).diagnostics
    assert [diagnostic.code for diagnostic in found].count("GPU203") == 100
    assert all(diagnostic.hint for diagnostic in found)


def test_documents_with_diagnostics_are_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree takes more memory than a model: checks use that of the binder, and it is freed after them."""
    composed: list[int] = []
    monkeypatch.setattr(document, "recompose", lambda chunk, index: composed.append(index))
    jobs = "---\n".join(JOB.replace("a/b:1", "a/b:latest") % number for number in range(9))
    result = gpuctl.compile(Source("jobs.yaml", jobs), namespaces=True)
    assert sum(item.code == "GPU501" for item in result.diagnostics) == 9
    assert composed == []
    assert {item._root for item in result.documents} == {None}
