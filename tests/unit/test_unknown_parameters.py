"""The query parameters that a path accepts: those of the OpenAPI document, and no others."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi.routing import APIRoute

from gpuctl_server.app import ROUTERS
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
