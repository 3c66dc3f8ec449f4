"""The query parameters that a path accepts: those of the OpenAPI document, and no others; names of namespaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from gpuctl.api.auth_models import RightQuestion
from gpuctl.api.wait_models import JobsWaitQuestion
from gpuctl_server.app import ROUTERS
from gpuctl_server.http.http_problems import invalid_query
from gpuctl_server.http.request_bodies import validated
from gpuctl_server.routes.unknown_parameters import EVERYWHERE, names_of

DOCUMENT = json.loads((Path(__file__).parents[2] / "schemas" / "rest" / "openapi.json").read_text(encoding="utf-8"))


def test_query_parameters_equal_those_of_the_document() -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    compared = 0
    for route in routes:
        for method in route.methods if route.include_in_schema else ():
            operation = DOCUMENT["paths"].get(route.path.replace(":path}", "}"), {}).get(method.lower())
            assert operation is not None, (method, route.path)
            documented = {item["name"] for item in operation.get("parameters", []) if item["in"] == "query"}
            assert names_of(route) == documented | EVERYWHERE, (method, route.path)
            compared += bool(documented)
    assert compared > 20


def nullable_namespaces(dependant: Dependant) -> list[object]:
    """Return what an empty `namespace` is read as, for each parameter of this name that may be left out as null."""
    found: list[object] = []
    for field in dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            found += [model.model_validate({"namespace": ""}).namespace] if "namespace" in model.model_fields else []
        elif field.alias == "namespace" and field.default is None:
            found.append(field.validate("", {}, loc=("query", "namespace"))[0])
    return [*found, *(value for part in dependant.dependencies for value in nullable_namespaces(part))]


def test_empty_namespace_counts_as_not_given() -> None:
    """`DELETE /jobs/train?namespace=$NAMESPACE` without the variable got a 404, as if there were no such job."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    found = [value for route in routes for value in nullable_namespaces(route.dependant)]
    assert len(found) > 25
    assert set(found) == {None}


def refusals(dependant: Dependant, name: str, text: str) -> list[str | None]:
    """Return the message of the 400 for a value of each parameter of a name; None where the value is accepted."""
    found: list[str | None] = []
    for field in dependant.query_params:
        model = field.field_info.annotation
        errors: Any = []
        if isinstance(model, type) and issubclass(model, BaseModel):
            if name not in model.model_fields:
                continue
            try:
                model.model_validate({name: text})
            except ValidationError as error:
                errors = [{**item, "loc": ("query", *item["loc"])} for item in error.errors()]
        elif field.alias == name:
            _, errors = field.validate(text, {}, loc=("query", name))
        else:
            continue
        found.append(invalid_query(RequestValidationError(errors)).message if errors else None)
    return [*found, *(message for part in dependant.dependencies for message in refusals(part, name, text))]


def refusals_of_all(name: str, text: str) -> list[str | None]:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return [message for route in routes for message in refusals(route.dependant, name, text)]


def test_malformed_selector_is_rejected_with_an_example() -> None:
    assert refusals_of_all("selector", "tier in (a,b),!old") == [None, None]
    message = (
        "the query parameter selector is invalid: `app in chat` is not a requirement of a label selector; a label "
        "selector is, for example, `app=chat,tier in (a,b),!old`"
    )
    assert refusals_of_all("selector", "app in chat") == [message, message]


@pytest.mark.parametrize("text", ["Foo_bar", "team-a/x", "..", "-a", "a" * 64])
def test_illegal_namespace_is_rejected(text: str) -> None:
    """An empty list would hide the mistake."""
    found = refusals_of_all("namespace", text)
    assert len(found) > 35
    if len(text) < 64:
        assert set(found) == {f"the query parameter namespace is invalid: `{text}` is not a legal namespace name"}
    assert None not in found
    assert set(refusals_of_all("namespace", "team-a")) == {None}


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (RightQuestion, lambda text: {"resource": "jobs", "action": "get", "namespace": text}, "namespace"),
        (
            JobsWaitQuestion,
            lambda text: {"condition": "done", "jobs": [{"job": "train", "namespace": text}]},
            "jobs.0.namespace",
        ),
    ],
)
def test_illegal_namespace_in_a_body_is_rejected(
    model: type[BaseModel], body: Callable[[str], dict[str, Any]], field: str
) -> None:
    with pytest.raises(RequestValidationError) as caught:
        validated(model, body("team-a/x"))
    problem = invalid_query(caught.value)
    said = f"the field {field} is invalid: `team-a/x` is not a legal namespace name"
    assert (problem.status, problem.message) == (400, said)
    validated(model, body("team-a"))
