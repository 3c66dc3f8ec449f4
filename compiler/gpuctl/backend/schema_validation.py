"""Validates objects against the API of a Kubernetes version, without a cluster.

The compiler checks everything it emits, and every ``podPatch`` it reads, against the schemas in ``schemas/``:
Kubernetes' own OpenAPI definitions and the CustomResourceDefinitions of JobSet, LeaderWorkerSet, HTTPRoute (Gateway
API), ScaledObject (KEDA) and the kinds of quotas and priorities (Kueue), reduced by ``tools/kubernetes_schemas.py``.
They reject unknown fields, as ``kubectl`` does by default, and explicit nulls.

The messages are gpuctl's own: the wording of the JSON Schema library changes between versions and describes the schema,
not the user's document.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

from jsonschema_rs import Draft202012Validator, Registry, ValidationError

from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.spelling import nearest

VERSIONS: tuple[str, ...] = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
"""Kubernetes versions with schemas, oldest first."""

_MOST = 200
"""Maximum number of violations reported per object, and of unknown fields per mapping."""

ObjectPath = tuple[str | int, ...]
"""Path from an object to a value in it: field names and list indexes."""

_DIRECTORY = Path(__file__).parent / "schemas"
_CUSTOM = ("jobset.json", "lws.json", "gateway-api.json", "keda.json", "kueue.json")
_BASE = "urn:gpuctl:kubernetes"
_POD_SPEC = "io.k8s.api.core.v1.PodSpec"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_LIST, _MAPPING, _STRING = Template("a list"), Template("a mapping"), Template("a string")
_BOOLEAN, _INTEGER, _NUMBER = Template("a boolean"), Template("an integer"), Template("a number")
_TYPES = {
    "array": _LIST,
    "boolean": _BOOLEAN,
    "integer": _INTEGER,
    "number": _NUMBER,
    "object": _MAPPING,
    "string": _STRING,
}


_BOOLEANS = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
"""Words that YAML 1.1 reads as booleans, and YAML 1.2 as text."""


class Violation(NamedTuple):
    """A violation of Kubernetes' schema.

    ``path`` is the path of the invalid value or the unknown field. If a field is missing, it is the path of the mapping
    without it. ``hint`` is the correction; None if the message says enough.
    """

    path: ObjectPath
    message: Sentence
    hint: Sentence | None = None


class SchemaValidator:
    """Checks objects against one Kubernetes version. Use ``schema_validator``, which caches one per version.

    The validator of a kind is compiled for its first object and cached.
    """

    def __init__(self, version: str) -> None:
        if version not in VERSIONS:
            raise ValueError(f"no schemas of Kubernetes {version}, only of {VERSIONS[0]} to {VERSIONS[-1]}")
        self.version = version
        self._definitions: dict[str, dict[str, Any]] = {}
        self._kinds: dict[str, str] = {}
        for name in (f"kubernetes-{version}.json", *_CUSTOM):
            data = json.loads((_DIRECTORY / name).read_text(encoding="utf-8"))
            self._definitions.update(data["$defs"])
            self._kinds.update(data["kinds"])
        self._registry = Registry([(_BASE, {"$defs": self._definitions})])
        self._validators: dict[str, Draft202012Validator] = {}

    def check(self, obj: Mapping[str, Any]) -> list[Violation]:
        """Return all violations of ``obj``, sorted by path; empty if Kubernetes accepts its form.

        A kind without a schema is a violation, not unchecked.
        """
        for field in ("apiVersion", "kind"):
            if field not in obj:
                return [Violation((), say("missing required field `{name}`", name=field))]
            if not isinstance(obj[field], str):
                return [Violation((field,), _expected(say(_STRING), obj[field]))]
        api_version, kind = obj["apiVersion"], obj["kind"]
        definition = self._kinds.get(f"{api_version}/{kind}")
        if definition is None:
            return [self._unknown_kind(api_version, kind)]
        return self._violations(definition, obj, partial=False)

    def check_pod_spec(self, spec: Any, *, partial: bool = True) -> list[Violation]:
        """Return all violations of a pod's ``spec``, or of a ``partial`` one.

        A patch omits what it does not change, so required fields may be missing at any level of it: a container with a
        ``name`` and one field, or a volume mount that another patch completes.
        """
        return self._violations(_POD_SPEC, spec, partial=partial)

    def _violations(self, definition: str, value: Any, *, partial: bool) -> list[Violation]:
        validator = self._validator(definition)
        if validator.is_valid(value):
            return []
        errors = list(validator.iter_errors(value))
        mistyped = {tuple(error.instance_path) for error in errors if error.kind.name == "type"}
        found: set[Violation] = set()
        for error in sorted(errors, key=lambda error: _order(Violation(tuple(error.instance_path), Sentence("")))):
            keyword, path = error.kind.name, tuple(error.instance_path)
            if (keyword == "required" and partial) or (keyword == "enum" and path in mistyped):
                # A value of the wrong type is reported once, not also as none of the choices.
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
        message = say(
            "there is no schema for kind `{kind}` of `{api_version}` in Kubernetes {version}",
            kind=kind,
            api_version=api_version,
            version=self.version,
        )
        known = [name.rpartition("/") for name in self._kinds]
        versions = [version for version, _, name in known if name == kind]
        if versions:
            return Violation(("apiVersion",), _with_nearest(message, versions[0]))
        better = nearest(kind, (name for version, _, name in known if version == api_version))
        return Violation(("kind",), _with_nearest(message, better))

    def _explained(self, definition: str, value: Any, error: ValidationError) -> Iterator[Violation]:
        """Yield the violations for an ``error``, which can name several unknown fields."""
        path: ObjectPath = tuple(error.instance_path)
        keyword, limit = error.kind.name, error.kind.value
        if keyword == "additionalProperties":
            for field in limit[:_MOST]:
                better = nearest(field, self._fields(definition, path))
                yield Violation((*path, field), _with_nearest(say("unknown field `{field}`", field=field), better))
        elif keyword == "required":
            yield Violation(path, say("missing required field `{name}`", name=limit))
        else:
            got = reduce(getitem, path, value)
            hint = _type_hint(list(limit), got) if keyword == "type" else None
            yield Violation(path, self._sentence(definition, path, keyword, limit, got), hint)

    def _sentence(self, definition: str, path: ObjectPath, keyword: str, limit: Any, got: Any) -> Sentence:
        quantity = self._definitions[_QUANTITY]["pattern"]
        if keyword == "type":
            if any(place.get("pattern") == quantity for place in self._places(definition, path)):
                return _expected(say("a quantity such as `500m` or `16Gi`"), got)
            return _expected(_choice([say(_TYPES[name]) for name in sorted(limit)]), got)
        if keyword == "pattern":
            if limit == quantity:
                return say("`{value}` is not a quantity such as `500m` or `16Gi`", value=got)
            return say("`{value}` does not have the form `{pattern}`", value=got, pattern=limit)
        if keyword == "enum":
            better = nearest(got, limit) if isinstance(got, str) else None
            choices = _choice([f"`{choice}`" for choice in limit])
            message = say("expected {choices}, got `{value}`", choices=choices, value=got)
            return _with_nearest(message, better)
        if keyword == "minimum":
            return say("must be at least {bound}, got {value}", bound=limit, value=got)
        if keyword == "maximum":
            return say("must be at most {bound}, got {value}", bound=limit, value=got)
        bound = _BOUNDS.get(keyword)
        if bound:
            return say(bound, bound=limit, number=len(got))
        return say("Kubernetes {version} does not accept this value", version=self.version)

    def _fields(self, definition: str, path: ObjectPath) -> list[str]:
        """Return the fields allowed at ``path``, in alphabetical order."""
        allowed = [
            set(place.get("properties", ()))
            for place in self._places(definition, path)
            if place.get("additionalProperties") is False
        ]
        return sorted(set.intersection(*allowed)) if allowed else []

    def _places(self, definition: str, path: ObjectPath) -> list[dict[str, Any]]:
        """Return the schemas that apply to the value at ``path``: several if a reference has siblings.

        The path is walked, because the library's error names only the schema that failed, without those siblings.
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
    """Return the cached validator of a Kubernetes version.

    :raises ValueError: the version is not in ``VERSIONS``.
    """
    return SchemaValidator(version)


_BOUNDS = {
    "maxItems": Template("must have at most {bound} entries, has {number}"),
    "maxProperties": Template("must have at most {bound} entries, has {number}"),
    "minItems": Template("must have at least {bound} entries, has {number}"),
    "maxLength": Template("must have at most {bound} characters, has {number}"),
    "minLength": Template("must have at least {bound} characters, has {number}"),
}


def _inner(places: list[dict[str, Any]], step: str | int) -> Iterator[dict[str, Any]]:
    """Yield the schemas of one field or one entry."""
    for place in places:
        if isinstance(step, int):
            inner = place.get("items")
        else:
            inner = place.get("properties", {}).get(step) or place.get("additionalProperties")
        if isinstance(inner, dict):
            yield inner


def _expected(expected: str, value: Any) -> Sentence:
    """Return the message about a value of a wrong type."""
    return say("expected {expected}, got {found}", expected=expected, found=_described(value))


def _type_hint(types: list[str], value: Any) -> Sentence | None:
    """Return the hint for a value that has only the wrong form of YAML; None for any other."""
    if types == ["string"] and isinstance(value, int | float):
        return say("quote it, if it is text")
    if types == ["array"] and isinstance(value, dict):
        return say("start each entry with `- `")
    better = None
    if types == ["boolean"] and isinstance(value, str):
        better = _BOOLEANS.get(value.lower())
    elif types == ["integer"] and isinstance(value, str) and re.fullmatch(r"-?[0-9]+", value):
        better = value
    return say("write {value} without quotes", value=better) if better is not None else None


def _with_nearest(message: Sentence, near: str | None) -> Sentence:
    """Return a message with the name that was probably meant, if any."""
    return say("{message}, did you mean `{name}`?", message=message, name=near) if near else message


def _described(value: Any) -> Sentence:
    """Return the type of a user's value, with its article."""
    if value is None:
        return Sentence("null")
    if isinstance(value, bool):
        return say(_BOOLEAN)
    if isinstance(value, int):
        return say(_INTEGER)
    if isinstance(value, float):
        return say(_NUMBER) if math.isfinite(value) else say("a number that is not finite")
    if isinstance(value, str):
        return say(_STRING)
    return say(_MAPPING) if isinstance(value, dict) else say(_LIST)


def _choice(words: Sequence[str]) -> Sentence:
    """Return ``a``, ``a or b`` or ``a, b or c``."""
    if len(words) == 1:
        return Sentence(words[0])
    return say("{others} or {last}", others=list(words[:-1]), last=words[-1])


def _order(violation: Violation) -> tuple[list[tuple[bool, str | int]], str]:
    """Return the sort key: path, then message. Indexes and names do not compare, so each step has its type first."""
    return [(isinstance(step, str), step) for step in violation.path], violation.message
