"""``schemas/rest/openapi.json``, the service's OpenAPI document in the tree."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import openapi
import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator

from gpuctl_server.http.openapi_operations import IDEMPOTENT
from support.locked_releases import with_locked_releases


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(openapi.DOCUMENT.read_text(encoding="utf-8"))
    return found


@with_locked_releases
def test_document_matches_the_routes() -> None:
    assert openapi.main(["--check"]) == 0


@with_locked_releases
def test_document_is_valid_openapi(document: dict[str, Any]) -> None:
    OpenAPIV30SpecValidator(document).validate()


def test_operations_have_unique_ids_and_one_tag(document: dict[str, Any]) -> None:
    operations = [
        (f"{method} {path}", value) for path, item in document["paths"].items() for method, value in item.items()
    ]
    names = Counter(value["operationId"] for _, value in operations)
    assert [name for name, count in names.items() if count > 1] == []
    families = {tag["name"] for tag in document["tags"]}
    for title, value in operations:
        assert re.fullmatch("[a-z]+([A-Z][a-z0-9]+)*", value["operationId"]), title
        assert len(value["tags"]) == 1, title
        assert set(value["tags"]) <= families, title
        assert isinstance(value[IDEMPOTENT], bool), title


def test_responses_have_schemas_with_examples(document: dict[str, Any]) -> None:
    """Each schema is named or has typed items, and each field has an example."""
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, found in operation["responses"].items():
                if "$ref" in found:
                    found = document["components"]["responses"][found["$ref"].rpartition("/")[2]]
                schema = found["content"]["application/json"]["schema"]
                assert schema.keys() & {"$ref", "anyOf", "additionalProperties"}, f"{method} {path}: {status}"
    for name, schema in schemas.items():
        for field, value in {} if "example" in schema else schema.get("properties", {}).items():
            is_shown = {"example", "default", "$ref"} & value.keys() or "#/components" in json.dumps(value)
            assert is_shown, f"{name}.{field}"
