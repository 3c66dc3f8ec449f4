"""Conversion of the OpenAPI document to version 3.0.3. FastAPI writes 3.1, which many generators and gateways do not
support.
"""

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
"""Keywords that 3.0 does not have. They only restrict values, so leaving them out accepts more."""

PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["error", "message", "details"],
    "properties": {
        "error": {"type": "string", "description": "Name of the error, for programs.", "example": "NotFound"},
        "message": {
            "type": "string",
            "description": "What went wrong, for users.",
            "example": "there is no job train",
        },
        "details": {
            "type": "array",
            "items": {},
            "description": "Details of the error, one object each; for invalid documents, the diagnostics.",
            "example": [],
        },
        "hint": {"type": "string", "description": "What the user can do.", "example": "name one by its jobId"},
        "plan": {"$ref": "#/components/schemas/PlanAnswer"},
        "items": {
            "type": "array",
            "items": {},
            "description": "Jobs that were changed before the error.",
            "example": [],
        },
    },
}
PROBLEMS: dict[int, str] = {
    400: "The request is invalid.",
    401: "The token is missing, invalid or expired.",
    403: "The caller does not have the right.",
    404: "The object does not exist, or the caller may not see it.",
    405: "The path does not have this method.",
    408: "The body did not arrive in time.",
    409: "The request conflicts with the current state, or must be confirmed.",
    413: "The body is too large, or its documents take too long to compile.",
    429: "Too many concurrent requests; try again.",
    431: "The request line and headers are too large.",
    500: "An internal error of the service or of the cluster.",
    503: "The cluster cannot be reached, or a feature is not configured.",
}
"""HTTP status -> its meaning."""
_EXAMPLES: dict[int, tuple[str, str, str | None]] = {
    400: ("InvalidRequest", "the query parameter page must be at least 1", None),
    401: ("Unauthorized", "the token is missing, invalid or expired", None),
    403: ("Forbidden", "anna may not create jobs in the namespace team-b", None),
    404: ("NotFound", "there is no job train", "name one by its jobId"),
    405: ("MethodNotAllowed", "the path has no method PATCH, but GET, HEAD, POST", None),
    408: ("RequestTimeout", "the body did not arrive within 15 s", None),
    409: ("AlreadyExists", "job.batch/train in team-a exists already", "PUT /jobs/{jobId} changes what exists"),
    413: ("RequestEntityTooLarge", "the body is larger than 1048576 bytes", None),
    429: ("TooManyRequests", "the service is busy; try again in a moment", None),
    431: ("RequestHeaderFieldsTooLarge", "the request line and headers are larger than 32768 bytes", None),
    500: (
        "InternalError",
        "internal error; its cause is in the log of the service, under the request id 5f0c6a1e",
        None,
    ),
    503: ("ServiceUnavailable", "https://10.0.0.1:6443 cannot be reached: timed out", None),
}
"""HTTP status -> error, message and hint of an example."""
NULLABLE = "OrNull"
"""Suffix of the name of a schema's nullable twin."""
ALWAYS = (400, 401, 403, 429, 431, 500, 503)
_OF_BODIES = (408, 413)
_SCOPES = frozenset({"namespace", "pool", "cluster", "name"})
"""Query parameters that can name an object that does not exist."""


def problem_statuses(method: str, path: str, operation: Mapping[str, Any]) -> list[int]:
    """Return the error statuses of an operation."""
    found = {*ALWAYS}
    named = {item["name"] for item in operation.get("parameters", ()) if item["in"] == "query"}
    if method != "get" or "{" in path or named & _SCOPES:
        found.add(404)
    if method != "get" or "{jobId}" in path:
        found.add(409)
    if "requestBody" in operation:
        found.update(_OF_BODIES)
    return sorted(found)


def table_of_problems() -> str:
    """Return the statuses and errors as a Markdown table."""
    rows = [f"| {status} | `{_EXAMPLES[status][0]}` | {text} |" for status, text in PROBLEMS.items()]
    return "\n".join(["| status | `error`, for example | meaning |", "|---|---|---|", *rows])


def _problem(status: int) -> dict[str, Any]:
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example_of(status)}
    return {"description": PROBLEMS[status], **_answer({"content": {"application/json": content}})}


def _add_nulls(example: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> None:
    """Add required fields with null to an example: FastAPI drops null values."""
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if isinstance(example, list):
        for item in example:
            _add_nulls(item, schema.get("items", {}), schemas)
    elif isinstance(example, dict):
        for name, part in schema.get("properties", {}).items():
            if name in example:
                _add_nulls(example[name], part, schemas)
            elif name in schema.get("required", ()) and part.get("nullable"):
                example[name] = None


def example_of(status: int) -> dict[str, Any]:
    """Return an example of an error answer."""
    error, message, hint = _EXAMPLES[status]
    value = {"error": error, "message": message, "details": []}
    return value if hint is None else {**value, "hint": hint}


def as_3_0(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document as version 3.0.3, as far as 3.0 can express it. The argument is not modified.

    ``null`` in a union becomes ``nullable``, ``const`` an ``enum`` with one value, ``prefixItems`` ``items``,
    ``examples`` of a schema its first one, and exclusive bounds become flags. Every operation gets its error answers.
    """
    paths = {path: _path(path, item) for path, item in document.get("paths", {}).items()}
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
    _name_nullable(paths, schemas)
    components["responses"] = {_EXAMPLES[status][0]: _problem(status) for status in PROBLEMS if status != 405}
    for schema in schemas.values():
        if "example" in schema:
            _add_nulls(schema["example"], schema, schemas)
    components["securitySchemes"] = {SECURITY: {"type": "http", "scheme": "bearer"}}
    info = {key: value for key, value in document["info"].items() if key != "summary"}
    rest = {key: document[key] for key in ("tags",) if key in document}
    return {
        "openapi": VERSION,
        "info": info,
        "servers": [{"url": "/", "description": "The service that serves this document."}],
        **rest,
        "security": [{SECURITY: []}],
        "paths": paths,
        "components": components,
    }


def schema_3_0(schema: Any) -> Any:
    """Return a schema of JSON Schema 2020-12 as one of OpenAPI 3.0."""
    if not isinstance(schema, Mapping):
        # The schemas `true` and `false`.
        return {} if schema is True else {"not": {}} if schema is False else schema
    if "$ref" in schema:
        # OpenAPI 3.0 ignores everything beside a reference.
        return {"$ref": schema["$ref"]}
    found = {key: value for key, value in schema.items() if key not in _UNKNOWN}
    _null(found)
    _merge_numbers(found)
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
    """Replace ``null`` among the allowed types by ``nullable``."""
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


def _merge_numbers(found: dict[str, Any]) -> None:
    """Merge ``integer`` and ``number`` into ``number``."""
    options = found.get("anyOf")
    if options == [{"type": "integer"}, {"type": "number"}]:
        del found["anyOf"]
        found["type"] = "number"


def _name_nullable(paths: Mapping[str, Any], schemas: dict[str, Any]) -> None:
    """Move ``nullable`` from properties to the schemas that they reference: 3.0.3 ignores it beside a reference.

    A schema that is also used where null is not allowed gets a nullable twin.
    """
    plain: set[str] = set()
    nullable: dict[str, list[dict[str, Any]]] = {}

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            parts = value.get("allOf")
            if value.get("nullable") and isinstance(parts, list) and "type" not in value:
                reference = parts[0]["$ref"]
                nullable.setdefault(reference.rpartition("/")[2], []).append(parts[0])
                del value["nullable"]
                return
            if isinstance(value.get("$ref"), str):
                plain.add(value["$ref"].rpartition("/")[2])
            for item in value.values():
                walk(item)

    walk(schemas)
    walk(paths)
    for name, references in nullable.items():
        twin = f"{name}{NULLABLE}" if name in plain else name
        schemas[twin] = {**schemas[name], "title": twin, "nullable": True}
        for reference in references:
            reference["$ref"] = f"#/components/schemas/{twin}"


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


def _path(path: str, item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _operation(key, path, value) if key in _METHODS else value for key, value in item.items()}


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(operation)
    if "parameters" in found:
        found["parameters"] = [_parameter(item) for item in found["parameters"]]
    if "requestBody" in found:
        found["requestBody"] = {**found["requestBody"], "content": _content(found["requestBody"]["content"])}
    answers = {status: _answer(item) for status, item in found["responses"].items() if status != "422"}
    for status in problem_statuses(method, path, operation):
        answers.setdefault(str(status), {"$ref": f"#/components/responses/{_EXAMPLES[status][0]}"})
    found["responses"] = dict(sorted(answers.items()))
    return found


def _name_body(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Move the schema of a body with a title to the components, where FastAPI puts its own bodies."""
    for value in operation.get("requestBody", {}).get("content", {}).values():
        schema = value.get("schema", {})
        if "properties" in schema and "title" in schema:
            parts = {name: schema_3_0(part) for name, part in schema.pop("$defs", {}).items()}
            for name, part in {**parts, schema["title"]: schema}.items():
                assert schemas.setdefault(name, part) == part, f"two schemas are called {name}"
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
