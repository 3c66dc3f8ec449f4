"""Derive the JSON Schemas that gpuctl carries from the published ones: ``make schemas``.

The compiler checks its own output against the API of the Kubernetes version that the user names, without a network and
without a large dependency. This tool writes the schemas into ``compiler/gpuctl/backend/schemas``:

``kubernetes-1.NN.json``
    from the strict definitions in the PyPI package ``kubernetes-validate``, which are Kubernetes' own OpenAPI
    document as JSON Schema. Only what the kinds in ``KINDS`` can reach is kept. ``jobset.json``
    from the CustomResourceDefinition in the Go module ``sigs.k8s.io/jobset``, at the version pinned in
    ``tests/binaries/jobset/go.mod``. Its embedded Job template is a reference into the file of the chosen Kubernetes
    version. ``gateway-api.json``, ``keda.json`` and ``kueue.json``
    from the CustomResourceDefinitions of HTTPRoute, ScaledObject and the kinds of Kueue's quotas in the Go modules of
    ``DEFINITIONS``. ``lws.json``
    from that of LeaderWorkerSet in ``sigs.k8s.io/lws``, with references for its pod templates.

All have the same form: ``$defs`` holds the definitions, and ``kinds`` maps each ``apiVersion/kind`` to its definition.
With ``--check`` nothing is written, and the exit code is 1 if a file differs from what this tool would write.
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
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "compiler" / "gpuctl" / "backend" / "schemas"
PINS = ROOT / "tests" / "binaries"

OLDEST = (1, 29)
"""The oldest Kubernetes minor version that gpuctl compiles for."""

KINDS = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("networking.k8s.io/v1", "Ingress"),
    ("policy/v1", "PodDisruptionBudget"),
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
"""The kinds that gpuctl emits, reads in a cluster or accepts in a snapshot."""

LATER_KINDS = {("resource.k8s.io/v1", "ResourceClaimTemplate"): (1, 34)}
"""Further kinds, with the first version that serves them."""


class Definition(NamedTuple):
    """A CustomResourceDefinition in a Go module that a directory of ``tests/binaries`` pins.

    ``pin`` also names the file of its schema. ``file`` is a pattern below the module. ``version`` is the version of the
    kind that gpuctl emits.
    """

    pin: str
    module: str
    file: str
    version: str


JOBSET_DEFINITION = Definition("jobset", "sigs.k8s.io/jobset", "config/components/crd/bases/*_jobsets.yaml", "v1alpha2")
LWS_DEFINITION = Definition("lws", "sigs.k8s.io/lws", "config/crd/bases/*_leaderworkersets.yaml", "v1")
DEFINITIONS = (
    Definition("gateway-api", "sigs.k8s.io/gateway-api", "config/crd/standard/*_httproutes.yaml", "v1"),
    *(
        Definition("kueue", "sigs.k8s.io/kueue", f"config/components/crd/bases/*_{plural}.yaml", "v1beta2")
        for plural in ("clusterqueues", "localqueues", "resourceflavors", "workloadpriorityclasses")
    ),
    Definition("keda", "github.com/kedacore/keda/v2", "config/crd/bases/keda.sh_scaledobjects.yaml", "v1alpha1"),
)
"""The definitions whose schema needs no reference but that of the metadata."""

JOB_TEMPLATE = "io.k8s.api.batch.v1.JobTemplateSpec"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
FIELDS = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
JOBSET = "io.x-k8s.jobset.v1alpha2.JobSet"
LWS = "io.x-k8s.leaderworkerset.v1.LeaderWorkerSet"
POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
CLAIM = "io.k8s.api.core.v1.PersistentVolumeClaim"

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern of a resource quantity in controller-gen, and so in every CustomResourceDefinition.

Kubernetes' own OpenAPI document accepts any string or number as a quantity, but its server refuses to decode ``16GB``.
"""

INTEGERS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
"""``format`` to range. JSON Schema ignores these formats; the server rejects a number out of range."""

KEPT = {
    "$ref", "additionalProperties", "enum", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
    "minLength", "minimum", "pattern", "properties", "required", "type",
}  # fmt: skip
"""Keywords that decide whether a value is valid."""

DROPPED = {"default", "description", "format", "title"}
"""Keywords that do not decide it, besides those that start with ``x-``. Integer formats become ranges first."""


class SchemaError(Exception):
    """The published data cannot be read, or has a shape that this tool does not support."""


class GoMissing(SchemaError):
    """The command ``go`` does not exist, so CustomResourceDefinitions cannot be read."""


def lean(schema: dict[str, Any], where: str) -> dict[str, Any]:
    """Return ``schema`` with only what decides validity, and stricter where the server is stricter.

    - ``null`` is not a type. Kubernetes decodes an explicit null as a missing field; gpuctl never writes one, so a null
      is always a mistake: a lost value, or ``emptyDir:`` for ``emptyDir: {}``.
    - A choice between plain types is one list of types. This removes ``oneOf`` and ``anyOf``, whose errors cannot be
      explained to users.
    - Integers get the range of their format.

    A keyword that is in neither list is an error, so that no constraint is lost unnoticed.
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
    """Return the names of all definitions that ``schema`` refers to."""
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
    """Return the names in ``definitions`` that are reachable from ``roots``."""
    reached: set[str] = set()
    left = list(roots)
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += references(definitions[name])
    return reached


def published() -> dict[str, Path]:
    """Return the strict definitions in the installed ``kubernetes-validate``, by minor version, oldest first."""
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


def kubernetes_schema(definitions: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the definitions of the kinds of a version, and of all they refer to, from its published definitions."""
    minor = tuple(map(int, version.split(".")))
    wanted = [*KINDS, *(kind for kind, first in LATER_KINDS.items() if minor >= first)]
    by_kind: dict[tuple[str, str], str] = {}
    for name, definition in definitions.items():
        for known in definition.get("x-kubernetes-group-version-kind", ()):
            api_version = f"{known['group']}/{known['version']}" if known["group"] else known["version"]
            by_kind[api_version, known["kind"]] = name
    missing = [f"{api_version} {kind}" for api_version, kind in wanted if (api_version, kind) not in by_kind]
    if missing:
        raise SchemaError(f"no definition of {', '.join(missing)}")
    kinds = {f"{api_version}/{kind}": by_kind[api_version, kind] for api_version, kind in wanted}
    reached = closure(definitions, [*kinds.values(), JOB_TEMPLATE])
    kept = {name: lean(definitions[name], name) for name in reached}
    kept[QUANTITY]["pattern"] = QUANTITY_PATTERN
    for name, definition in kept.items():
        if definition == {"type": "object"} and name != FIELDS:
            # The strict definitions forget to close an empty struct. FieldsV1 is really free-form.
            definition["additionalProperties"] = False
    return {"$defs": kept, "kinds": kinds}


def definition_of(source: Definition) -> dict[str, Any]:
    """Return a CustomResourceDefinition of a pinned module; download the module if needed."""
    go = shutil.which("go")
    if go is None:
        raise GoMissing("`go` is not on PATH: CustomResourceDefinitions come from Go modules")
    environment = {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    output = ""
    for arguments in (["mod", "download", source.module], ["list", "-m", "-f", "{{.Dir}}", source.module]):
        done = subprocess.run(
            [go, *arguments], cwd=PINS / source.pin, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SchemaError(f"`go {' '.join(arguments)}` failed: {done.stderr.strip()}")
        output = done.stdout.strip()
    found = sorted(Path(output).glob(source.file))
    if len(found) != 1:
        raise SchemaError(f"{source.module} has {len(found)} files {source.file}, not one")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with found[0].open(encoding="utf-8") as stream:
        loaded: dict[str, Any] = yaml.load(stream, Loader=loader)  # noqa: S506 - both are safe loaders
    return loaded


def closed(schema: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the structural schema of a CustomResourceDefinition, lean and without unknown fields.

    The server rejects unknown fields too under strict field validation, and drops them silently otherwise.
    """
    result = dict(schema)
    if result.get("x-kubernetes-int-or-string"):
        result.pop("anyOf", None)
        result["type"] = ["integer", "string"]
    if result.get("x-kubernetes-preserve-unknown-fields") or result.get("x-kubernetes-embedded-resource"):
        raise SchemaError(f"{where}: a place for foreign objects, which this tool does not expect")
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


def _root(definition: dict[str, Any], version: str) -> tuple[str, str, dict[str, Any]]:
    """Return apiVersion, kind and schema of a CustomResourceDefinition's version, with Kubernetes' own metadata."""
    definition = copy.deepcopy(definition)
    kind = definition["spec"]["names"]["kind"]
    (served,) = [one for one in definition["spec"]["versions"] if one["name"] == version]
    root = served["schema"]["openAPIV3Schema"]
    api_version = f"{definition['spec']['group']}/{version}"
    root["properties"]["apiVersion"] = {"type": "string", "enum": [api_version]}
    root["properties"]["kind"] = {"type": "string", "enum": [kind]}
    root["properties"]["metadata"] = {"$ref": f"#/$defs/{OBJECT_META}"}
    return api_version, kind, root


def plain_schema(source: Definition) -> dict[str, Any]:
    """Return the schema of a kind that contains no other kinds."""
    api_version, kind, root = _root(definition_of(source), source.version)
    # The controller writes the status.
    root["properties"].pop("status", None)
    group, _, version = api_version.partition("/")
    name = f"{'.'.join(reversed(group.split('.')))}.{version}.{kind}"
    return {"$defs": {name: closed(root, api_version)}, "kinds": {f"{api_version}/{kind}": name}}


def jobset_schema(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a JobSet from its CustomResourceDefinition, with references to Kubernetes' own schemas.

    The definition contains a whole Job template, of the Kubernetes version that JobSet was built with. Here it is a
    reference, so that a JobSet is checked against the user's version. Only the metadata of the two templates is kept: a
    CustomResourceDefinition has fewer fields there than Kubernetes' ObjectMeta, and the server rejects the others.
    """
    api_version, kind, root = _root(definition, JOBSET_DEFINITION.version)
    properties = root["properties"]
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


def leader_worker_set_schema(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a LeaderWorkerSet, with references in place of pod templates and claims, as for a JobSet."""
    api_version, kind, root = _root(definition, LWS_DEFINITION.version)
    # The controller writes the status.
    root["properties"].pop("status", None)
    group = root["properties"]["spec"]["properties"]["leaderWorkerTemplate"]["properties"]
    places = [(group, "leaderTemplate", POD_TEMPLATE), (group, "workerTemplate", POD_TEMPLATE)]
    places.append((group["volumeClaimTemplates"], "items", CLAIM))
    own = {field: closed(around[field]["properties"]["metadata"], f"{field}.metadata") for around, field, _ in places}
    for around, field, reference in places:
        around[field] = {"$ref": f"#/$defs/{reference}"}
    schema = closed(root, api_version)
    group = schema["properties"]["spec"]["properties"]["leaderWorkerTemplate"]["properties"]
    for around, field in (
        (group, "leaderTemplate"),
        (group, "workerTemplate"),
        (group["volumeClaimTemplates"], "items"),
    ):
        around[field]["properties"] = {"metadata": own[field]}
    return {"$defs": {LWS: schema}, "kinds": {f"{api_version}/{kind}": LWS}}


def text(schema: dict[str, Any]) -> str:
    """Return ``schema`` as file content: one line, sorted, so that equal schemas are equal files."""
    return json.dumps(schema, sort_keys=True, separators=(",", ":")) + "\n"


def kubernetes_files(versions: Iterable[str]) -> dict[str, str]:
    """Return the content of each file, for ``versions`` that the installed ``kubernetes-validate`` carries."""
    carried = published()
    files = {}
    for version in versions:
        definitions = json.loads(carried[version].read_text(encoding="utf-8"))["$defs"]
        try:
            files[f"kubernetes-{version}.json"] = text(kubernetes_schema(definitions, version))
        except SchemaError as error:
            raise SchemaError(f"Kubernetes {version}: {error}") from error
    return files


def definition_files() -> dict[str, str]:
    """Return the content of each file that comes from a CustomResourceDefinition."""
    plain: dict[str, dict[str, Any]] = {}
    for source in DEFINITIONS:
        joined = plain.setdefault(source.pin, {"$defs": {}, "kinds": {}})
        for part, found in plain_schema(source).items():
            joined[part].update(found)
    files = {f"{pin}.json": text(schema) for pin, schema in plain.items()}
    files["lws.json"] = text(leader_worker_set_schema(definition_of(LWS_DEFINITION)))
    return {**files, "jobset.json": text(jobset_schema(definition_of(JOBSET_DEFINITION)))}


def drift(files: dict[str, str], directory: Path = SCHEMAS) -> list[str]:
    """Return the differences between ``directory`` and ``files``, one sentence per file."""
    found = []
    for name, content in files.items():
        file = directory / name
        if not file.exists():
            found.append(f"{name} is missing: run `make schemas`")
        elif file.read_text(encoding="utf-8") != content:
            found.append(f"{name} is not what its source says: run `make schemas`")
    return found


def kubernetes_drift(directory: Path = SCHEMAS) -> list[str]:
    """Return the differences between the Kubernetes files and the installed ``kubernetes-validate``.

    A version that it has beyond the newest one here is not a difference: a new release of a development dependency must
    not make an unchanged tree fail. A version here that it does not have is one, because the file cannot be verified.
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
    """Write the files, or compare them with ``--check``; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the schemas that gpuctl validates with.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    check = parser.parse_args(arguments).check
    try:
        if check:
            found = kubernetes_drift() + drift(definition_files())
            for sentence in found:
                print(sentence, file=sys.stderr)
            return 1 if found else 0
        files = kubernetes_files(published()) | definition_files()
    except SchemaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    SCHEMAS.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (SCHEMAS / name).write_text(content, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
