"""The models and operations of the service's OpenAPI document, from which the SDKs are generated in each language."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NULLABLE = "OrNull"
ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "schemas" / "rest" / "openapi.json"
ERRORS = "Problem"
"""The schema of errors, which the SDKs implement by hand as exceptions."""
TEXTS = ("yamlContent", "yamlContents")
"""Fields of bodies that are documents, which the SDKs accept in several forms."""


@dataclass(frozen=True)
class Shape:
    """The type of a value: ``string``, ``integer``, ``number``, ``boolean``, ``any``; ``array`` and ``map`` of ``of``;
    a ``model`` of a name; ``union`` of ``options``.
    """

    form: str
    of: Shape | None = None
    name: str = ""
    options: tuple[Shape, ...] = ()
    nullable: bool = False


@dataclass(frozen=True)
class Field:
    """A field of a model, or a parameter: its name in JSON, its type, and whether it is required. ``default`` is that
    of a parameter.
    """

    name: str
    shape: Shape
    required: bool
    text: str
    default: Any = None


@dataclass(frozen=True)
class Model:
    """An object with fixed fields."""

    name: str
    text: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Operation:
    """A request and its response. ``path`` is below the API's base; ``pages``: type of the items of a paged list."""

    name: str
    family: str
    method: str
    path: str
    text: str
    in_path: tuple[Field, ...]
    in_query: tuple[Field, ...]
    body: Model | None
    answer: Shape
    idempotent: bool
    has_key: bool
    pages: Shape | None

    @property
    def waits(self) -> bool:
        """Return True if it may take minutes: it saves checkpoints, or waits for pods that end."""
        return bool({field.name for field in self.in_query} & {"checkpoint", "timeout"})


@dataclass(frozen=True)
class Api:
    """The content of the document: ``models`` are responses, ``parts`` are parts of request bodies."""

    version: str
    models: tuple[Model, ...]
    parts: tuple[Model, ...]
    operations: tuple[Operation, ...]


def read_api(path: Path = DOCUMENT) -> Api:
    """Return the API of a document."""
    document = json.loads(path.read_text(encoding="utf-8"))
    document = _resolved(document, document["components"]["schemas"])
    models = {name: _model(name, schema) for name, schema in document["components"]["schemas"].items()}
    operations = tuple(_operations(document["paths"], models))
    bodies = {operation.body.name: operation.body for operation in operations if operation.body is not None}
    sent = {name for body in bodies.values() for field in body.fields for name in _names(field.shape, models)}
    used = {name for operation in operations for name in _names(operation.answer, models)}
    kept = sorted(name for name in used if name != ERRORS)
    assert not (bodies.keys() | sent) & used, "a model is used both in requests and in responses"
    parts = tuple(models[name] for name in sorted(sent))
    return Api(document["info"]["version"], tuple(models[name] for name in kept), parts, operations)


def _resolved(value: Any, schemas: Mapping[str, Any]) -> Any:
    """Return a part of the document with each reference replaced by the union or nullable type of its schema."""
    if isinstance(value, list):
        return [_resolved(item, schemas) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        schema = schemas.get(name, {})
        # A schema and its nullable twin are one type.
        value = {"$ref": f"#/components/schemas/{name.removesuffix(NULLABLE)}"}
        if "anyOf" in schema:
            return {"anyOf": schema["anyOf"]}
        return {"allOf": [value], "nullable": True} if schema.get("nullable") else value
    found = {key: _resolved(item, schemas) for key, item in value.items()}
    only = found.get("allOf", [])
    return {**found, **only[0]} if len(only) == 1 and "allOf" in only[0] else found


def _operations(paths: Mapping[str, Any], models: Mapping[str, Model]) -> Iterator[Operation]:
    for path, item in paths.items():
        for method, operation in item.items():
            parameters = operation.get("parameters", [])
            answer = _answer(operation)
            query = tuple(_parameter(entry) for entry in parameters if entry["in"] == "query")
            yield Operation(
                name=operation["operationId"],
                family=operation["tags"][0],
                method=method.upper(),
                path="/" + path.split("/", 3)[3],
                text=_flowed(operation.get("description") or operation["summary"]),
                in_path=tuple(_parameter(entry) for entry in parameters if entry["in"] == "path"),
                # The SDKs always request JSON, and follow logs by themselves.
                in_query=tuple(field for field in query if field.name not in ("accept", "follow")),
                body=_body(operation, models),
                answer=answer,
                idempotent=operation["x-idempotent"],
                has_key=any(entry["name"] == "Idempotency-Key" for entry in parameters),
                pages=_pages(query, answer, models),
            )


def _answer(operation: Mapping[str, Any]) -> Shape:
    found = [value["content"]["application/json"]["schema"] for status, value in operation["responses"].items()
             if status.startswith("2") and "application/json" in value.get("content", {})]  # fmt: skip
    return _shape(found[0]) if found else Shape("any")


def _body(operation: Mapping[str, Any], models: Mapping[str, Model]) -> Model | None:
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return None
    shape = _shape(content["application/json"]["schema"])
    assert shape.form == "model", f"the body of {operation['operationId']} has no named schema"
    return models[shape.name]


def _pages(query: tuple[Field, ...], answer: Shape, models: Mapping[str, Model]) -> Shape | None:
    if not {"page", "pageSize"} <= {field.name for field in query} or answer.form != "model":
        return None
    return next((field.shape.of for field in models[answer.name].fields if field.name == "items"), None)


def _parameter(entry: Mapping[str, Any]) -> Field:
    schema, text = entry["schema"], _flowed(entry.get("description", ""))
    return Field(entry["name"], _shape(schema), entry.get("required", False), text, schema.get("default"))


def _model(name: str, schema: Mapping[str, Any]) -> Model:
    required = schema.get("required", [])
    fields = tuple(
        Field(key, _shape(item), key in required, _flowed(item.get("description", "")))
        for key, item in schema.get("properties", {}).items()
    )
    return Model(name, _flowed(schema.get("description", "")), fields)


def _shape(schema: Mapping[str, Any]) -> Shape:
    nullable = bool(schema.get("nullable"))
    if "$ref" in schema:
        return Shape("model", name=schema["$ref"].rpartition("/")[2])
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or []
    shapes = [_shape(option) for option in options]
    if len(shapes) == 1:
        return Shape(shapes[0].form, shapes[0].of, shapes[0].name, shapes[0].options, nullable)
    if shapes and {shape.form for shape in shapes} <= {"integer", "number"}:
        return Shape("number", nullable=nullable)
    if shapes:
        return Shape("union", options=tuple(shapes), nullable=nullable)
    form = schema.get("type")
    if form == "array":
        return Shape("array", _shape(schema["items"]), nullable=nullable)
    if form == "object":
        rest = schema.get("additionalProperties", True)
        return Shape("map", _shape(rest) if isinstance(rest, Mapping) else Shape("any"), nullable=nullable)
    return Shape(form or "any", nullable=nullable)


def _names(shape: Shape, models: Mapping[str, Model]) -> set[str]:
    """Return the names of the models that a shape contains."""
    found: set[str] = set()
    left = [shape]
    while left:
        current = left.pop()
        left += [*current.options, *([current.of] if current.of else [])]
        if current.form == "model" and current.name not in found:
            found.add(current.name)
            left += [field.shape for field in models[current.name].fields]
    return found


def _flowed(text: str) -> str:
    return " ".join(text.split())
