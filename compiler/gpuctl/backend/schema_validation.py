"""Whether an object is what the API of a Kubernetes version accepts, decided in this process.

The compiler checks everything it emits, and every ``podPatch`` it reads, against the schemas in
``schemas/``: Kubernetes' own OpenAPI definitions and JobSet's CustomResourceDefinition, made small by
``tools/kubernetes_schemas.py``. They refuse unknown fields, as ``kubectl`` does by default, and explicit
nulls.

What comes out is sentences of ours: the wording of the library below changes with its versions and speaks
of JSON Schema, which is not what a user wrote.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

from jsonschema_rs import Draft202012Validator, Registry, ValidationError

from gpuctl.language.spelling import nearest

VERSIONS: tuple[str, ...] = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
"""The Kubernetes versions that there are schemas for, oldest first."""

DEFAULT_VERSION = "1.36"
"""The version to compile for when the user names none."""

_MOST = 200
"""Violations of an object that are put into words, and unknown fields of one mapping."""

ObjectPath = tuple[str | int, ...]
"""The way from an object to a value in it: field names and list indexes."""

_DIRECTORY = Path(__file__).parent / "schemas"
_BASE = "urn:gpuctl:kubernetes"
_POD_SPEC = "io.k8s.api.core.v1.PodSpec"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TYPES = {
    "array": "a list",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}


class Violation(NamedTuple):
    """One way in which an object is not what Kubernetes accepts.

    ``path`` leads to the value at fault. For an unknown field that is the field itself, its name being the
    last part; for a missing field it is the mapping that lacks it.
    """

    path: ObjectPath
    message: str


class SchemaValidator:
    """Checks objects against one Kubernetes version. Use ``schema_validator``, which keeps one a version.

    A validator of a kind is compiled when the first object of that kind comes along, and kept.
    """

    def __init__(self, version: str) -> None:
        if version not in VERSIONS:
            raise ValueError(f"no schemas of Kubernetes {version}, only of {VERSIONS[0]} to {VERSIONS[-1]}")
        self.version = version
        self._definitions: dict[str, dict[str, Any]] = {}
        self._kinds: dict[str, str] = {}
        for name in (f"kubernetes-{version}.json", "jobset.json"):
            data = json.loads((_DIRECTORY / name).read_text(encoding="utf-8"))
            self._definitions.update(data["$defs"])
            self._kinds.update(data["kinds"])
        self._registry = Registry([(_BASE, {"$defs": self._definitions})])
        self._validators: dict[str, Draft202012Validator] = {}

    def check(self, obj: Mapping[str, Any]) -> list[Violation]:
        """All that is wrong with ``obj``, in the order of the paths; nothing if Kubernetes accepts its form.

        An object of a kind that gpuctl has no schema of is wrong, not unchecked.
        """
        for field in ("apiVersion", "kind"):
            if field not in obj:
                return [Violation((), f"missing required field `{field}`")]
            if not isinstance(obj[field], str):
                return [Violation((field,), f"expected a string, got {_described(obj[field])}")]
        api_version, kind = obj["apiVersion"], obj["kind"]
        definition = self._kinds.get(f"{api_version}/{kind}")
        if definition is None:
            return [self._unknown_kind(api_version, kind)]
        return self._violations(definition, obj, partial=False)

    def check_pod_spec(self, spec: Any, *, partial: bool = True) -> list[Violation]:
        """All that is wrong with a pod's ``spec``, or with a ``partial`` one.

        A patch leaves out what it does not change, so a required field may be missing at any level of it: a
        container with a ``name`` and the one field to set, or a volume mount that another layer completes.
        """
        return self._violations(_POD_SPEC, spec, partial=partial)

    def _violations(self, definition: str, value: Any, *, partial: bool) -> list[Violation]:
        validator = self._validator(definition)
        try:
            if validator.is_valid(value):
                return []
        except ValueError:
            # The library takes plain JSON data only: other mappings and subclasses are made plain first.
            strangers: list[Violation] = []
            value = _plain(value, (), strangers)
            if strangers:
                return sorted(strangers, key=_order)
        errors = list(validator.iter_errors(value))
        mistyped = {tuple(error.instance_path) for error in errors if error.kind.name == "type"}
        found: set[Violation] = set()
        for error in sorted(errors, key=lambda error: _order(Violation(tuple(error.instance_path), ""))):
            keyword, path = error.kind.name, tuple(error.instance_path)
            if (keyword == "required" and partial) or (keyword == "enum" and path in mistyped):
                # Of a value of the wrong type it goes without saying that it is none of the choices.
                continue
            found.update(self._explained(definition, value, error))
            if len(found) >= _MOST:
                break
        return sorted(found, key=_order)

    def _validator(self, definition: str) -> Draft202012Validator:
        found = self._validators.get(definition)
        if found is None:
            found = Draft202012Validator({"$ref": f"{_BASE}#/$defs/{definition}"}, registry=self._registry)
            self._validators[definition] = found
        return found

    def _unknown_kind(self, api_version: str, kind: str) -> Violation:
        message = f"there is no schema for kind `{kind}` of `{api_version}` in Kubernetes {self.version}"
        known = [name.rpartition("/") for name in self._kinds]
        versions = [version for version, _, name in known if name == kind]
        if versions:
            return Violation(("apiVersion",), f"{message}, did you mean `{versions[0]}`?")
        better = nearest(kind, (name for version, _, name in known if version == api_version))
        return Violation(("kind",), message + (f", did you mean `{better}`?" if better else ""))

    def _explained(self, definition: str, value: Any, error: ValidationError) -> Iterator[Violation]:
        """``error`` in words. One error can name several unknown fields."""
        path: ObjectPath = tuple(error.instance_path)
        keyword, limit = error.kind.name, error.kind.value
        if keyword == "additionalProperties":
            for field in limit[:_MOST]:
                better = nearest(field, self._fields(definition, path))
                hint = f", did you mean `{better}`?" if better else ""
                yield Violation((*path, field), f"unknown field `{field}`{hint}")
        elif keyword == "required":
            yield Violation(path, f"missing required field `{limit}`")
        else:
            got = reduce(getitem, path, value)
            yield Violation(path, self._sentence(definition, path, keyword, limit, got))

    def _sentence(self, definition: str, path: ObjectPath, keyword: str, limit: Any, got: Any) -> str:
        quantity = self._definitions[_QUANTITY]["pattern"]
        if keyword == "type":
            if any(place.get("pattern") == quantity for place in self._places(definition, path)):
                return f"expected a quantity such as `500m` or `16Gi`, got {_described(got)}"
            return f"expected {_choice([_TYPES[name] for name in sorted(limit)])}, got {_described(got)}"
        if keyword == "pattern":
            if limit == quantity:
                return f"`{got}` is not a quantity such as `500m` or `16Gi`"
            return f"`{got}` does not have the form `{limit}`"
        if keyword == "enum":
            better = nearest(got, limit) if isinstance(got, str) else None
            hint = f", did you mean `{better}`?" if better else ""
            return f"expected {_choice([f'`{choice}`' for choice in limit])}, got `{got}`{hint}"
        if keyword in ("minimum", "maximum"):
            return f"must be at {'least' if keyword == 'minimum' else 'most'} {limit}, got {got}"
        bound = _BOUNDS.get(keyword)
        if bound:
            return f"must have at {bound[0]} {limit} {bound[1]}, has {len(got)}"
        return f"Kubernetes {self.version} does not accept this value"

    def _fields(self, definition: str, path: ObjectPath) -> list[str]:
        """The fields that may stand at ``path``, in alphabetical order."""
        allowed = [
            set(place.get("properties", ()))
            for place in self._places(definition, path)
            if place.get("additionalProperties") is False
        ]
        return sorted(set.intersection(*allowed)) if allowed else []

    def _places(self, definition: str, path: ObjectPath) -> list[dict[str, Any]]:
        """The schemas that describe the value at ``path``: more than one where a reference has siblings.

        Found by walking the path: an error of the library names the one schema that failed, without those
        siblings.
        """
        places = list(self._resolved(self._definitions[definition]))
        for step in path:
            places = [place for inner in _inner(places, step) for place in self._resolved(inner)]
        return places

    def _resolved(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield schema
        if "$ref" in schema:
            yield from self._resolved(self._definitions[schema["$ref"].rpartition("/")[2]])


@lru_cache(maxsize=len(VERSIONS))
def schema_validator(version: str) -> SchemaValidator:
    """The validator of one Kubernetes version, made once. ValueError if it is not in ``VERSIONS``."""
    return SchemaValidator(version)


_BOUNDS = {
    "maxItems": ("most", "entries"),
    "minItems": ("least", "entries"),
    "maxLength": ("most", "characters"),
    "minLength": ("least", "characters"),
}


def _inner(places: list[dict[str, Any]], step: str | int) -> Iterator[dict[str, Any]]:
    """The schemas that ``places`` have for one field or one entry."""
    for place in places:
        if isinstance(step, int):
            inner = place.get("items")
        else:
            inner = place.get("properties", {}).get(step) or place.get("additionalProperties")
        if isinstance(inner, dict):
            yield inner


def _plain(value: Any, path: ObjectPath, strangers: list[Violation]) -> Any:
    """``value`` as plain dicts, lists and scalars; what has no such form is added to ``strangers``."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(inner, (*path, index), strangers) for index, inner in enumerate(value)]
    if isinstance(value, Mapping):
        plain = {}
        for key, inner in value.items():
            if isinstance(key, str):
                plain[str.__str__(key)] = _plain(inner, (*path, key), strangers)
            else:
                strangers.append(Violation(path, f"expected strings as keys, got {_described(key)}: `{key}`"))
        return plain
    expected = "expected a string, a number, a boolean, a list or a mapping"
    strangers.append(Violation(path, f"{expected}, got {_described(value)}"))
    return None


def _described(value: Any) -> str:
    """What kind of value a user wrote, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "an integer"
    if isinstance(value, float):
        return "a number" if math.isfinite(value) else "a number that is not finite"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"a value of type `{type(value).__name__}`"


def _choice(words: list[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _order(violation: Violation) -> tuple[list[tuple[bool, str | int]], str]:
    """By path, then by message. Indexes and names do not compare, so each step says which it is."""
    return [(isinstance(step, str), step) for step in violation.path], violation.message
