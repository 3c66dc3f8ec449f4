"""The OpenAPI document, as 3.0.3: many generators and gateways know no later version, and FastAPI writes 3.1 only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION = "3.0.3"
SECURITY = "bearer"
_METHODS = frozenset({"get", "put", "post", "delete", "patch", "head", "options"})
_SCHEMA_MAPS = ("properties", "schemas")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_UNKNOWN = frozenset(
    {"$schema", "$id", "$comment", "propertyNames", "patternProperties", "contentEncoding", "contentSchema"}
)
"""Keywords that 3.0 has not, and that narrow what is valid: without them more is."""

PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["error", "message", "details"],
    "properties": {
        "error": {"type": "string", "description": "What programs compare.", "example": "NotFound"},
        "message": {
            "type": "string",
            "description": "What went wrong, for people.",
            "example": "there is no job train",
        },
        "details": {
            "type": "array",
            "items": {},
            "description": "More, one by one; of documents their diagnostics.",
            "example": [],
        },
        "hint": {"type": "string", "description": "What to do.", "example": "name one by its jobId"},
    },
}
PROBLEMS: dict[int, str] = {
    400: "Something in the request is invalid.",
    401: "The token is missing, wrong, or no longer valid.",
    403: "The token does not give the right.",
    404: "There is no such thing, or it may not be seen.",
    405: "The path has no such method.",
    408: "The body did not come in time.",
    409: "It contradicts what is there, or has to be confirmed.",
    413: "The body is too large.",
    429: "Too many requests at once; try again.",
    500: "The service, or the cluster, failed.",
    503: "The cluster cannot be reached, or something is not set up.",
}
"""Status -> what it means, of every operation."""


def as_3_0(document: Mapping[str, Any]) -> dict[str, Any]:
    """An OpenAPI 3.1 document as one of 3.0.3 that says the same, as far as 3.0 can; it is not changed.

    ``null`` in a union becomes ``nullable``, ``const`` an ``enum`` of one, ``prefixItems`` ``items``, ``examples`` of a
    schema its first one, exclusive bounds flags. Every operation gets the answers that problems have.
    """
    paths = {path: _path(item) for path, item in document.get("paths", {}).items()}
    components = {
        name: {key: schema_3_0(item) if name == "schemas" else item for key, item in group.items()}
        for name, group in document.get("components", {}).items()
    }
    schemas = components.setdefault("schemas", {})
    for path_item in paths.values():
        for method in _METHODS & path_item.keys():
            _name_body(path_item[method], schemas)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    components["securitySchemes"] = {SECURITY: {"type": "http", "scheme": "bearer"}}
    info = {key: value for key, value in document["info"].items() if key != "summary"}
    rest = {key: document[key] for key in ("servers", "tags") if key in document}
    return {
        "openapi": VERSION,
        "info": info,
        **rest,
        "security": [{SECURITY: []}],
        "paths": paths,
        "components": components,
    }


def schema_3_0(schema: Any) -> Any:
    """A schema of JSON Schema 2020-12 as one of OpenAPI 3.0."""
    if not isinstance(schema, Mapping):
        # `true` and `false`, which stand for schemas.
        return {} if schema is True else {"not": {}} if schema is False else schema
    if "$ref" in schema:
        # Beside a reference nothing else counts.
        return {"$ref": schema["$ref"]}
    found = {key: value for key, value in schema.items() if key not in _UNKNOWN}
    _null(found)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "prefixItems" in found:
        parts = [schema_3_0(item) for item in found.pop("prefixItems")]
        found["items"] = parts[0] if all(part == parts[0] for part in parts) else {"anyOf": parts}
    if found.get("type") == "array":
        found.setdefault("items", {})
    examples = found.pop("examples", None)
    if examples:
        found.setdefault("example", examples[0])
    for bound, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(found.get(flag), (int, float)) and not isinstance(found.get(flag), bool):
            found[bound], found[flag] = found[flag], True
    if "contentMediaType" in found:
        del found["contentMediaType"]
        found["format"] = "binary"
    return _with_parts(found)


def _null(found: dict[str, Any]) -> None:
    """``null`` among what is allowed becomes ``nullable``."""
    kind = found.get("type")
    if isinstance(kind, list):
        others = [item for item in kind if item != "null"]
        if len(others) < len(kind):
            found["nullable"] = True
        if len(others) == 1:
            found["type"] = others[0]
        else:
            del found["type"]
            found["anyOf"] = [{"type": item} for item in others]
    for key in ("anyOf", "oneOf"):
        options = found.get(key)
        if not isinstance(options, list) or {"type": "null"} not in options:
            continue
        others = [item for item in options if item != {"type": "null"}]
        del found[key]
        found["nullable"] = True
        if len(others) > 1:
            found[key] = others
        elif "$ref" in others[0]:
            found["allOf"] = others
        else:
            found.update({name: value for name, value in others[0].items() if name not in found})
    if found.get("type") == "null":
        del found["type"]
        found["nullable"] = True


def _with_parts(found: dict[str, Any]) -> dict[str, Any]:
    for key in _SCHEMA_MAPS:
        if isinstance(found.get(key), Mapping):
            found[key] = {name: schema_3_0(item) for name, item in found[key].items()}
    for key in _SCHEMA_LISTS:
        if isinstance(found.get(key), list):
            found[key] = [schema_3_0(item) for item in found[key]]
    for key in ("items", "not"):
        if key in found:
            found[key] = schema_3_0(found[key])
    if isinstance(found.get("additionalProperties"), Mapping):
        found["additionalProperties"] = schema_3_0(found["additionalProperties"])
    return found


def _path(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _operation(value) if key in _METHODS else value for key, value in item.items()}


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(operation)
    if "parameters" in found:
        found["parameters"] = [_parameter(item) for item in found["parameters"]]
    if "requestBody" in found:
        body = dict(found["requestBody"])
        content = _content(body["content"])
        if "application/json" in content:
            content.setdefault("application/yaml", content["application/json"])
        found["requestBody"] = {**body, "content": content}
    answers = {status: _answer(item) for status, item in found["responses"].items() if status != "422"}
    for status, text in PROBLEMS.items():
        problem = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        answers.setdefault(str(status), {"description": text, **_answer(problem)})
    found["responses"] = dict(sorted(answers.items()))
    return found


def _name_body(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Put a body of JSON that has a title among the schemas under it, as bodies that FastAPI knows of stand there."""
    for value in operation.get("requestBody", {}).get("content", {}).values():
        schema = value.get("schema", {})
        if "properties" in schema and "title" in schema:
            known = schemas.setdefault(schema["title"], schema)
            assert known == schema, f"two schemas are called {schema['title']}"
            value["schema"] = {"$ref": f"#/components/schemas/{schema['title']}"}


def _parameter(item: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(item)
    schema = schema_3_0(found.get("schema", {}))
    if "example" in schema:
        found.setdefault("example", schema.pop("example"))
    if "description" in schema:
        found.setdefault("description", schema.pop("description"))
    return {**found, "schema": schema}


def _answer(item: Mapping[str, Any]) -> dict[str, Any]:
    if "content" not in item:
        return dict(item)
    content = _content(item["content"])
    if "application/json" in content:
        content.setdefault("application/yaml", content["application/json"])
    return {**item, "content": content}


def _content(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        kind: {**value, "schema": schema_3_0(value["schema"])} if "schema" in value else dict(value)
        for kind, value in content.items()
    }
