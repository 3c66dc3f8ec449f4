"""The API documentation, as served to browsers and code generators."""

from __future__ import annotations

import re

import httpx

from support.served import Served


def test_openapi_document_is_served(served: Served) -> None:
    """Without a token."""
    document = served.get("/openapi.json", "")
    assert document["openapi"] == "3.0.3"
    assert {item["get"]["operationId"] for item in document["paths"].values() if "get" in item} >= {
        "listJobs",
        "getPool",
    }


def test_documentation_page_loads_only_local_files(served: Served) -> None:
    """Every file it loads is served by the service."""
    page = served.client("").get("/docs", follow_redirects=True)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) == 4
    for name in files:
        assert "//" not in name
        assert served.client("").get(f"/docs/{name}").status_code == 200
    assert served.client("").get("/docs/files/../../jobs").status_code in {401, 404}


def test_invalid_parameters_and_fields_are_named(served: Served) -> None:
    """The error says whether a query parameter or a field of the body is wrong."""
    token = {"Authorization": f"Bearer {served.tokens['admin']}"}
    found = {
        path: httpx.get(f"{served.url}/api/v1{path}", headers=token).json()["message"]
        for path in ("/nodes/labels", "/jobs?page=0", "/jobs?pageSize=many")
    }
    assert found == {
        "/nodes/labels": "the query parameter key is required",
        "/jobs?page=0": "the query parameter page must be at least 1",
        "/jobs?pageSize=many": "the query parameter pageSize must be a whole number",
    }
    answer = httpx.post(f"{served.url}/api/v1/auth/check", headers=token, json={"action": "get", "resorce": "jobs"})
    assert answer.json()["details"] == [
        {"field": "resource", "message": "is required"},
        {"field": "resorce", "message": "is unknown"},
    ]
