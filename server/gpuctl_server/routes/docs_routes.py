"""The documentation of the API: its OpenAPI document, and Swagger UI out of files, as clusters have no internet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import swagger_ui_bundle
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response

from gpuctl_server.routes.common import api_router

router = api_router()

_FILES = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui-standalone-preset.js": "text/javascript",
}
_POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
_HEADERS = {"Content-Security-Policy": _POLICY, "X-Frame-Options": "DENY"}
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>gpuctl API</title>
<link rel="stylesheet" href="files/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="files/swagger-ui-bundle.js"></script>
<script src="files/swagger-ui-standalone-preset.js"></script>
<script src="start.js"></script>
</body>
</html>
"""
_START = """\
window.ui = SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
});
"""


@router.get("/openapi.json", include_in_schema=False)
async def document(request: Request) -> dict[str, Any]:
    """The OpenAPI document."""
    found: dict[str, Any] = request.app.openapi()
    return found


@router.get("/docs", include_in_schema=False)
async def without_slash(request: Request) -> Response:
    """To where the page's own paths are relative to."""
    return Response(status_code=307, headers={"Location": f"{request.url.path}/"})


@router.get("/docs/", include_in_schema=False)
async def page() -> Response:
    """The page."""
    return HTMLResponse(_PAGE, headers=_HEADERS)


@router.get("/docs/start.js", include_in_schema=False)
async def start() -> Response:
    """What begins it: a script of its own, so that the page may forbid those that stand in it."""
    return Response(_START, media_type="text/javascript", headers=_HEADERS)


@router.get("/docs/files/{name}", include_in_schema=False)
async def file(name: str) -> Response:
    """Return one of the files of Swagger UI that the page loads. Its other pages load documents from the internet."""
    if name not in _FILES:
        raise HTTPException(404)
    return FileResponse(Path(swagger_ui_bundle.swagger_ui_path) / name, media_type=_FILES[name], headers=_HEADERS)
