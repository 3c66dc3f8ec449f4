"""The documentation of the API, as a browser and as generators get it."""

from __future__ import annotations

import re

from openapi_spec_validator import OpenAPIV30SpecValidator

from support.served import Served


def test_the_document_is_valid(served: Served) -> None:
    """No token is needed for it."""
    document = served.get("/openapi.json", "")
    assert document["openapi"] == "3.0.3"
    OpenAPIV30SpecValidator(document).validate()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert {"summary", "operationId"} <= operation.keys(), f"{method} {path}"


def test_the_page_needs_no_internet(served: Served) -> None:
    """Everything it loads is the service's own."""
    page = served.client("").get("/docs", follow_redirects=True)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) == 4
    for name in files:
        assert "//" not in name
        assert served.client("").get(f"/docs/{name}").status_code == 200
    assert served.client("").get("/docs/files/../../jobs").status_code in {401, 404}
