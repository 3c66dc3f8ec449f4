"""Derives the JSON Schemas that gpuctl carries from the published ones: ``make schemas``.

The compiler checks its own output against the API of the Kubernetes version that the user names, without a
network and without a large dependency. So this tool writes, into ``compiler/gpuctl/backend/schemas``:

``kubernetes-1.NN.json``
    from the strict definitions in the PyPI package ``kubernetes-validate``, which are Kubernetes' own OpenAPI
    document made into JSON Schema. Only what the kinds in ``KINDS`` can reach is kept.
``jobset.json``
    from the CustomResourceDefinition in the Go module ``sigs.k8s.io/jobset``, at the version pinned in
    ``tests/binaries/jobset/go.mod``. Its embedded Job template is a reference into the file of the chosen Kubernetes
    version.

Both have one form: ``$defs`` holds the definitions and ``kinds`` says which of them describes an
``apiVersion/kind``. With ``--check`` nothing is written, and the exit code is 1 when a file is not what
this tool would write.
"""

from __future__ import annotations

import argparse
import copy
import importlib.resources
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "compiler" / "gpuctl" / "backend" / "schemas"
JOBSET_PIN = ROOT / "tests" / "binaries" / "jobset"

OLDEST = (1, 29)
"""The first Kubernetes minor version that gpuctl compiles for."""

KINDS = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("batch/v1", "Job"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("v1", "ConfigMap"),
    ("v1", "LimitRange"),
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "PersistentVolume"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Pod"),
    ("v1", "ResourceQuota"),
    ("v1", "Secret"),
    ("v1", "Service"),
)
"""What gpuctl emits, reads in a cluster or accepts in a snapshot."""

JOBSET_MODULE = "sigs.k8s.io/jobset"
JOB_TEMPLATE = "io.k8s.api.batch.v1.JobTemplateSpec"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
FIELDS = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
JOBSET = "io.x-k8s.jobset.v1alpha2.JobSet"

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""What controller-gen, and so every CustomResourceDefinition, says a resource quantity looks like.

Kubernetes' own OpenAPI document calls a quantity any string or number, but its server refuses to decode
``16GB``.
"""

INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
"""``format`` to range. JSON Schema ignores these formats; the server refuses a number that does not fit."""

KEPT = {
    "$ref", "additionalProperties", "enum", "items", "maxItems", "maxLength", "maximum", "minItems",
    "minLength", "minimum", "pattern", "properties", "required", "type",
}  # fmt: skip
"""Keywords that decide whether a value is valid."""

DROPPED = {"default", "description", "format", "title"}
"""Keywords that do not, beside everything that starts with ``x-``. Integer formats become ranges first."""


class SchemaError(Exception):
    """The published data has a shape this tool does not understand, or cannot be had."""


class GoMissing(SchemaError):
    """There is no ``go`` command, so JobSet's CustomResourceDefinition cannot be read."""


def lean(schema: dict[str, Any], where: str) -> dict[str, Any]:
    """``schema`` with only what decides validity, stricter than published where the server is stricter.

    - ``null`` is no longer a type of anything. Kubernetes decodes an explicit null as if the field were not
      there; gpuctl never writes one, so a null is always a mistake: a value that was lost, or ``emptyDir:``
      for ``emptyDir: {}``.
    - A choice between plain types is one list of types. That leaves no ``oneOf`` and no ``anyOf``, whose
      errors cannot be told to a person.
    - Integers get the range of their format.

    A keyword that is neither known to matter nor known not to is an error: a schema that says more than
    gpuctl checks must not go unnoticed.
    """
    schema = dict(schema)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            types: list[str] = []
            for branch in schema.pop(keyword):
                if set(branch) != {"type"}:
                    raise SchemaError(f"{where}: `{keyword}` of something else than types")
                types += _types(branch["type"])
            schema["type"] = types
    low, high = INTEGERS.get(schema.get("format", ""), (None, None))
    if low is not None:
        schema.setdefault("minimum", low)
        schema.setdefault("maximum", high)

    result: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in DROPPED or keyword.startswith("x-"):
            continue
        if keyword not in KEPT:
            raise SchemaError(f"{where}: unknown keyword `{keyword}`")
        if keyword == "properties":
            value = {name: lean(inner, f"{where}.{name}") for name, inner in value.items()}
        elif keyword == "items" or (keyword == "additionalProperties" and isinstance(value, dict)):
            value = lean(value, f"{where}[]")
        elif keyword == "type":
            types = sorted(set(_types(value)) - {"null"})
            value = types[0] if len(types) == 1 else types
        elif keyword == "enum":
            value = [choice for choice in value if choice is not None]
        elif keyword == "$ref":
            value = "#/$defs/" + value.rpartition("/")[2]
        result[keyword] = value
    return result


def _types(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def references(schema: Any) -> Iterator[str]:
    """The names of all definitions that ``schema`` refers to."""
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def closure(definitions: dict[str, Any], roots: Iterable[str]) -> set[str]:
    """The names in ``definitions`` that can be reached from ``roots``."""
    reached: set[str] = set()
    left = list(roots)
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += references(definitions[name])
    return reached


def published() -> dict[str, Path]:
    """The strict definitions in the installed ``kubernetes-validate``, by minor version, oldest first."""
    try:
        package = Path(str(importlib.resources.files("kubernetes_validate")))
    except ModuleNotFoundError as missing:
        raise SchemaError("kubernetes-validate is not installed (it is in gpuctl's `dev` extra)") from missing
    found: dict[tuple[int, int], Path] = {}
    for directory in (package / "kubernetes-json-schema").iterdir():
        name = re.fullmatch(r"v(\d+)\.(\d+)\.0-local-strict", directory.name)
        if name:
            found[int(name[1]), int(name[2])] = directory / "_definitions.json"
    return {f"{key[0]}.{key[1]}": found[key] for key in sorted(found) if key >= OLDEST}


def kubernetes_schema(definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions of ``KINDS``, and of all they refer to, from one version's published definitions."""
    by_kind: dict[tuple[str, str], str] = {}
    for name, definition in definitions.items():
        for known in definition.get("x-kubernetes-group-version-kind", ()):
            api_version = f"{known['group']}/{known['version']}" if known["group"] else known["version"]
            by_kind[api_version, known["kind"]] = name
    missing = [f"{api_version} {kind}" for api_version, kind in KINDS if (api_version, kind) not in by_kind]
    if missing:
        raise SchemaError(f"no definition of {', '.join(missing)}")
    kinds = {f"{api_version}/{kind}": by_kind[api_version, kind] for api_version, kind in KINDS}
    reached = closure(definitions, [*kinds.values(), JOB_TEMPLATE])
    kept = {name: lean(definitions[name], name) for name in reached}
    kept[QUANTITY]["pattern"] = QUANTITY_PATTERN
    for name, definition in kept.items():
        if definition == {"type": "object"} and name != FIELDS:
            # An empty struct, which the strict definitions forget to close. FieldsV1 is free-form indeed.
            definition["additionalProperties"] = False
    return {"$defs": kept, "kinds": kinds}


def jobset_definition() -> Path:
    """Where the pinned JobSet module has its CustomResourceDefinition, after a download if need be."""
    go = shutil.which("go")
    if go is None:
        raise GoMissing("`go` is not on PATH: JobSet's CustomResourceDefinition comes from a Go module")
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    output = ""
    for arguments in (["mod", "download", JOBSET_MODULE], ["list", "-m", "-f", "{{.Dir}}", JOBSET_MODULE]):
        done = subprocess.run(
            [go, *arguments], cwd=JOBSET_PIN, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SchemaError(f"`go {' '.join(arguments)}` failed: {done.stderr.strip()}")
        output = done.stdout.strip()
    found = sorted(Path(output).glob("config/components/crd/bases/*_jobsets.yaml"))
    if len(found) != 1:
        raise SchemaError(f"the JobSet module has {len(found)} CustomResourceDefinitions of JobSet, not one")
    return found[0]


def closed(schema: dict[str, Any], where: str) -> dict[str, Any]:
    """A structural schema of a CustomResourceDefinition, lean and refusing unknown fields everywhere.

    The server refuses them too under strict field validation, and drops them silently otherwise.
    """
    result = dict(schema)
    if result.get("x-kubernetes-int-or-string"):
        result.pop("anyOf", None)
        result["type"] = ["integer", "string"]
    if result.get("x-kubernetes-preserve-unknown-fields") or result.get("x-kubernetes-embedded-resource"):
        raise SchemaError(f"{where}: a place for foreign objects, which this tool does not expect in JobSet")
    if "properties" in result:
        result["properties"] = {name: closed(inner, f"{where}.{name}") for name, inner in result["properties"].items()}
        result["additionalProperties"] = False
    elif isinstance(result.get("additionalProperties"), dict):
        result["additionalProperties"] = closed(result["additionalProperties"], f"{where}.*")
    elif "items" in result:
        result["items"] = closed(result["items"], f"{where}[]")
    elif result.get("type") == "object" and "$ref" not in result:
        raise SchemaError(f"{where}: an object of which nothing is said")
    return lean(result, where)


def jobset_schema(definition: dict[str, Any]) -> dict[str, Any]:
    """The schema of a JobSet from its CustomResourceDefinition, small because it refers to Kubernetes' own.

    The definition spells out a whole Job template, of the Kubernetes version that JobSet was built with.
    Here it is a reference, so that a JobSet is checked against the version the user has. What stays of it
    is the metadata of the two templates: a CustomResourceDefinition has fewer fields there than Kubernetes'
    ObjectMeta, and the server refuses the others.
    """
    definition = copy.deepcopy(definition)
    group = definition["spec"]["group"]
    kind = definition["spec"]["names"]["kind"]
    (version,) = [version for version in definition["spec"]["versions"] if version["name"] == "v1alpha2"]
    root = version["schema"]["openAPIV3Schema"]
    properties = root["properties"]
    api_version = f"{group}/{version['name']}"
    properties["apiVersion"] = {"type": "string", "enum": [api_version]}
    properties["kind"] = {"type": "string", "enum": [kind]}
    properties["metadata"] = {"$ref": f"#/$defs/{OBJECT_META}"}

    replicated = properties["spec"]["properties"]["replicatedJobs"]["items"]["properties"]
    job = replicated["template"]["properties"]
    pod = job["spec"]["properties"]["template"]["properties"]
    replicated["template"] = {"$ref": f"#/$defs/{JOB_TEMPLATE}"}
    schema = closed(root, api_version)
    template = schema["properties"]["spec"]["properties"]["replicatedJobs"]["items"]["properties"]["template"]
    template["properties"] = {
        "metadata": closed(job["metadata"], "template.metadata"),
        "spec": {"properties": {"template": {"properties": {"metadata": closed(pod["metadata"], "pod.metadata")}}}},
    }
    return {"$defs": {JOBSET: schema}, "kinds": {f"{api_version}/{kind}": JOBSET}}


def text(schema: dict[str, Any]) -> str:
    """``schema`` as its file has it: one line, sorted, so that equal schemas are equal files."""
    return json.dumps(schema, sort_keys=True, separators=(",", ":")) + "\n"


def kubernetes_files(versions: Iterable[str]) -> dict[str, str]:
    """File name to content, for ``versions`` that the installed ``kubernetes-validate`` carries."""
    carried = published()
    files = {}
    for version in versions:
        definitions = json.loads(carried[version].read_text(encoding="utf-8"))["$defs"]
        try:
            files[f"kubernetes-{version}.json"] = text(kubernetes_schema(definitions))
        except SchemaError as error:
            raise SchemaError(f"Kubernetes {version}: {error}") from error
    return files


def jobset_files() -> dict[str, str]:
    """File name to content, for JobSet."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with jobset_definition().open(encoding="utf-8") as stream:
        definition = yaml.load(stream, Loader=loader)  # noqa: S506 - both are safe loaders
    return {"jobset.json": text(jobset_schema(definition))}


def drift(files: dict[str, str], directory: Path = SCHEMAS) -> list[str]:
    """How ``directory`` differs from ``files``, one sentence a file."""
    found = []
    for name, content in files.items():
        file = directory / name
        if not file.exists():
            found.append(f"{name} is missing: run `make schemas`")
        elif file.read_text(encoding="utf-8") != content:
            found.append(f"{name} is not what its source says: run `make schemas`")
    return found


def kubernetes_drift(directory: Path = SCHEMAS) -> list[str]:
    """How the Kubernetes files differ from the installed ``kubernetes-validate``.

    A version that it carries beyond the newest one here is no drift: a new release of a development
    dependency must not turn an untouched tree red. A version here that it does not carry is, because
    nothing vouches for that file.
    """
    here = {file.name for file in directory.glob("kubernetes-*.json")}
    carried = list(published())
    wanted = list(carried)
    while wanted and f"kubernetes-{wanted[-1]}.json" not in here:
        wanted.pop()
    found = drift(kubernetes_files(wanted or carried), directory)
    strangers = sorted(here - {f"kubernetes-{version}.json" for version in carried})
    return found + [f"{name} has no source in the installed kubernetes-validate" for name in strangers]


def main(arguments: list[str] | None = None) -> int:
    """The command: write the files, or with ``--check`` compare them."""
    parser = argparse.ArgumentParser(description="Write the schemas that gpuctl validates with.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    check = parser.parse_args(arguments).check
    try:
        if check:
            found = kubernetes_drift() + drift(jobset_files())
            for sentence in found:
                print(sentence, file=sys.stderr)
            return 1 if found else 0
        files = kubernetes_files(published()) | jobset_files()
    except SchemaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    SCHEMAS.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (SCHEMAS / name).write_text(content, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
