"""A second opinion on manifests: kubeconform, a Go program with another JSON Schema library than gpuctl's.

It reads the definitions as ``kubernetes-validate`` publishes them, not the smaller and stricter ones that
gpuctl carries, so that a mistake made on the way there cannot hide itself. JobSet alone comes from gpuctl's
own file: there is no other source of its form than the one that file is made from.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from support.go_programs import built_program, cache_directory, is_program, named_program

RELEASE = "v0.7.0"
"""The kubeconform that is built if none is installed."""

SCHEMAS = Path(__file__).parents[2] / "compiler" / "gpuctl" / "backend" / "schemas"
CUSTOM = tuple(SCHEMAS / f"{name}.json" for name in ("jobset", "lws", "gateway-api", "keda", "kueue"))
"""Schemas of kinds that are not Kubernetes' own."""
LAYOUT = "{{ .NormalizedKubernetesVersion }}{{ .StrictSuffix }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def run_kubeconform(yaml_text: str, version: str) -> list[str]:
    """Return kubeconform's complaints about the objects in ``yaml_text``, one sentence for each invalid one.

    All documents go to one process. ``version`` is a minor version such as ``1.36``. An object without a schema is
    reported, and so is a text without any object.
    """
    command = [
        str(find_kubeconform()),
        *("-strict", "-summary", "-output", "json", "-kubernetes-version", f"{version}.0"),
        *("-schema-location", f"{schema_directory(version)}/{LAYOUT}"),
    ]
    done = subprocess.run(command, input=yaml_text, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"kubeconform failed with exit code {done.returncode}: {done.stderr.strip()}")
    report = json.loads(done.stdout)
    found = sorted(_sentence(result) for result in report["resources"])
    if not any(report["summary"].values()):
        found.append("kubeconform saw no object")
    if (done.returncode == 0) != (not report["resources"]):
        raise RuntimeError(f"kubeconform contradicts itself: exit code {done.returncode}, {done.stdout}")
    return found


def _sentence(result: dict[str, Any]) -> str:
    message: str = result["msg"]
    # kubeconform puts a hint about formatting and the file of the schema before what it found.
    message = message.rpartition(".json#' - ")[2]
    return f"{result['kind'] or 'object'}/{result['name']}: {message}"


@cache
def find_kubeconform() -> Path:
    """The kubeconform to use: ``$KUBECONFORM``, one on PATH, the control plane's, or one of its own."""
    built = sorted(cache_directory().glob("control-plane/*/kubeconform"), reverse=True)
    beside = next(filter(is_program, built), None)
    return (
        named_program("kubeconform") or beside or built_program("github.com/yannh/kubeconform/cmd/kubeconform", RELEASE)
    )


@cache
def schema_directory(version: str) -> Path:
    """Return a directory with one self-contained file for each kind of Kubernetes ``version``, in ``LAYOUT``.

    Made once for each state of its sources and kept in the cache; its name identifies the state.
    """
    package = Path(str(importlib.resources.files("kubernetes_validate")))
    source = package / "kubernetes-json-schema" / f"v{version}.0-local-strict" / "_definitions.json"
    state = hashlib.sha256()
    for part in (Path(__file__), *CUSTOM):
        state.update(part.read_bytes())
    state.update(installed_version("kubernetes-validate").encode())
    root = cache_directory() / "kubeconform" / f"schemas-{state.hexdigest()[:16]}"
    target = root / f"v{version}.0-strict"
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as directory:
            made = Path(directory) / "made"
            made.mkdir()
            _write_schemas(json.loads(source.read_text(encoding="utf-8"))["$defs"], made)
            try:
                made.rename(target)
            except OSError:
                # Another test process was first; what it made is the same.
                if not target.is_dir():
                    raise
    return root


def _write_schemas(published: dict[str, Any], directory: Path) -> None:
    definitions = {name: _silent(definition) for name, definition in published.items()}
    kinds = {
        (known["group"], known["version"], known["kind"]): name
        for name, definition in published.items()
        for known in definition.get("x-kubernetes-group-version-kind", ())
    }
    for file in CUSTOM:
        custom = json.loads(file.read_text(encoding="utf-8"))
        definitions.update(custom["$defs"])
        for kind, name in custom["kinds"].items():
            group, version, kind_name = kind.split("/")
            kinds[group, version, kind_name] = name
    for (group, version, kind), name in kinds.items():
        reached: dict[str, Any] = {}
        left = [name]
        while left:
            reference = left.pop()
            if reference not in reached:
                reached[reference] = definitions[reference]
                left += _references(definitions[reference])
        schema = {"$schema": DIALECT, "$ref": f"#/$defs/{name}", "$defs": reached}
        suffix = "-".join(filter(None, (group.partition(".")[0], version)))
        (directory / f"{kind}-{suffix}.json".lower()).write_text(json.dumps(schema), encoding="utf-8")


def _silent(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` without its descriptions, which are most of it. A property may be named `description`."""
    silent = {}
    for keyword, value in schema.items():
        if keyword == "properties":
            silent[keyword] = {name: _silent(inner) for name, inner in value.items()}
        elif isinstance(value, dict):
            silent[keyword] = _silent(value)
        elif keyword != "description":
            silent[keyword] = value
    return silent


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
