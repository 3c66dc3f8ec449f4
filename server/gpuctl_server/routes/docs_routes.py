"""The documentation of the API: the OpenAPI document, and Swagger UI from local files, as clusters may have no
internet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import swagger_ui_bundle
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response

from gpuctl_server.routes.routers import api_router

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
    found: dict[str, Any] = request.app.openapi()
    return found


@router.get("/docs", include_in_schema=False)
async def without_slash(request: Request) -> Response:
    """Redirect to the path that the relative links of the page need."""
    return Response(status_code=307, headers={"Location": f"{request.url.path}/"})


@router.get("/docs/", include_in_schema=False)
async def page() -> Response:
    return HTMLResponse(_PAGE, headers=_HEADERS)


@router.get("/docs/start.js", include_in_schema=False)
async def start() -> Response:
    """Return the start script. It is not inlined, so that the policy of the page can forbid inline scripts."""
    return Response(_START, media_type="text/javascript", headers=_HEADERS)


@router.get("/docs/files/{name}", include_in_schema=False)
async def file(name: str) -> Response:
    """Return a file of Swagger UI that the page loads. Its other pages are not served: they load documents from the
    internet.
    """
    if name not in _FILES:
        raise HTTPException(404)
    return FileResponse(Path(swagger_ui_bundle.swagger_ui_path) / name, media_type=_FILES[name], headers=_HEADERS)
