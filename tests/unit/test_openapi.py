"""The OpenAPI document: the conversion of FastAPI's 3.1 to 3.0.3."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl_server.http.openapi_document import as_3_0, schema_3_0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}, {"type": "string", "maxLength": 3, "nullable": True}),
        ({"type": ["integer", "null"]}, {"type": "integer", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}, {"type": "number", "nullable": True}),
        ({"anyOf": [{"$ref": "#/a"}, {"type": "null"}]}, {"allOf": [{"$ref": "#/a"}], "nullable": True}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
        ),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}]}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "string", "examples": ["a", "b"]}, {"type": "string", "example": "a"}),
        ({"type": "object", "additionalProperties": {"const": 1}}, {"type": "object", "additionalProperties": {"enum": [1]}}),
        ({"properties": {"const": {"type": "null"}}}, {"properties": {"const": {"nullable": True}}}),
        (True, {}),
    ],
)  # fmt: skip
def test_schema_is_converted_to_3_0(given: Any, expected: Any) -> None:
    before = repr(given)
    assert schema_3_0(given) == expected
    assert repr(given) == before


def test_operation_has_shared_errors_and_yaml() -> None:
    """Error responses are the shared ones; FastAPI's 422 is never returned."""
    operation = {
        "parameters": [{"name": "page", "in": "query", "schema": {"type": "integer", "examples": [1]}}],
        "responses": {
            "200": {"description": "ok", "content": {"application/json": {"schema": {"const": 1}}}},
            "422": {},
        },
    }
    document = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"get": operation}}}
    found = as_3_0(document)
    responses = found["paths"]["/a"]["get"]["responses"]
    assert found["openapi"] == "3.0.3"
    assert "422" not in responses
    assert responses["401"] == {"$ref": "#/components/responses/Unauthorized"}
    problem = found["components"]["responses"]["Unauthorized"]["content"]["application/json"]
    assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert problem["example"]["error"] == "Unauthorized"
    assert not {"404", "405", "408", "409", "413"} & responses.keys(), "the operation has no body and names no object"
    assert responses["200"]["content"]["application/yaml"]["schema"] == {"enum": [1]}
    assert found["paths"]["/a"]["get"]["parameters"][0]["example"] == 1


def test_nullable_moves_into_the_referenced_schema() -> None:
    """In 3.0.3, `nullable` beside a `$ref` has no effect."""
    schemas = {
        "A": {"type": "object", "properties": {"b": {"anyOf": [{"$ref": "#/components/schemas/B"}, {"type": "null"}]}}},
        "B": {"type": "object", "properties": {}},
    }
    document = {"info": {"title": "t", "version": "1"}, "paths": {}, "components": {"schemas": schemas}}
    found = as_3_0(document)["components"]["schemas"]
    assert found["A"]["properties"]["b"] == {"allOf": [{"$ref": "#/components/schemas/B"}]}
    assert found["B"]["nullable"] is True


def test_required_nulls_are_restored_in_examples() -> None:
    """FastAPI drops null values, even of required fields."""
    text = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema = {"type": "object", "required": ["a"], "properties": {"a": text, "b": text}, "example": {}}
    document = {"info": {"title": "t", "version": "1"}, "paths": {}, "components": {"schemas": {"A": schema}}}
    assert as_3_0(document)["components"]["schemas"]["A"]["example"] == {"a": None}


def test_partly_nullable_schema_gets_a_nullable_copy() -> None:
    """The copy has its own title, since generators name classes by it."""
    reference = {"$ref": "#/components/schemas/B"}
    parts = {"b": {"anyOf": [reference, {"type": "null"}]}, "always": reference}
    schemas = {"A": {"type": "object", "properties": parts}, "B": {"type": "object", "title": "B", "properties": {}}}
    document = {"info": {"title": "t", "version": "1"}, "paths": {}, "components": {"schemas": schemas}}
    found = as_3_0(document)["components"]["schemas"]
    assert found["A"]["properties"] == {"b": {"allOf": [{"$ref": "#/components/schemas/BOrNull"}]}, "always": reference}
    assert "nullable" not in found["B"]
    assert (found["BOrNull"]["title"], found["BOrNull"]["nullable"]) == ("BOrNull", True)
