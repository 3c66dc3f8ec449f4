"""Content negotiation: documents as YAML in bodies, JSON or YAML answers, English or Chinese messages."""

from __future__ import annotations

import json

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from gpuctl.backend.emitter import emit_object

JSON = "application/json"
YAML = "application/yaml"
REFUSAL = "refusal=answer"
"""Preference (RFC 7240): answer a refused read or dry run with status 200."""
_YAML = frozenset({YAML, "application/x-yaml", "text/yaml", "text/x-yaml"})


def sends_yaml(request: Request) -> bool:
    """Return True if the body is YAML."""
    return _media_type(request.headers.get("content-type", "")) in _YAML


def states_format(request: Request) -> bool:
    """Return True if the header ``Content-Type`` says JSON or YAML. Curl's default says neither."""
    return _media_type(request.headers.get("content-type", "")) in _YAML | {JSON}


def wants_yaml(request: Request) -> bool:
    """Return True if the client prefers YAML: by the parameter ``accept``, else by the header ``Accept``."""
    stated = request.query_params.get("accept")
    if stated is not None:
        return _media_type(stated) in _YAML
    weights = accepted(",".join(request.headers.getlist("accept")))
    json_weight = next((weights[name] for name in (JSON, "application/*", "*/*") if name in weights), 0.0)
    return max(weights.get(name, 0.0) for name in _YAML) > json_weight


def wants_refusal(request: Request) -> bool:
    """Return True if the client wants a refusal as an answer instead of an error, by the header ``Prefer``."""
    given = ",".join(request.headers.getlist("prefer")).split(",")
    return any(part.partition(";")[0].strip().lower() == REFUSAL for part in given)


def wants_chinese(request: HTTPConnection) -> bool:
    """Return True if a client prefers Chinese to English, by ``Accept-Language``."""
    header = request.headers.get("accept-language")
    if header is None:
        return False
    weights = accepted(header)
    chinese = max((weight for name, weight in weights.items() if name.partition("-")[0] == "zh"), default=0.0)
    english = max((weight for name, weight in weights.items() if name.partition("-")[0] == "en"), default=0.0)
    return chinese > english or (chinese > 0 and chinese == english and next(iter(weights)).partition("-")[0] == "zh")


def as_yaml(response: Response) -> Response:
    """Return a JSON answer as YAML; any other answer unchanged."""
    if _media_type(response.headers.get("content-type", "")) != JSON:
        return response
    headers = {key: value for key, value in response.headers.items() if key not in ("content-type", "content-length")}
    return Response(emit_object(json.loads(bytes(response.body))), response.status_code, headers, YAML)


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def accepted(header: str) -> dict[str, float]:
    """Return the items of an ``Accept`` header, or a similar one, with their weights, in the order of the header."""
    found: dict[str, float] = {}
    for item in header.split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            found[name] = float(weight)
        except ValueError:
            found[name] = 0.0
    return found
