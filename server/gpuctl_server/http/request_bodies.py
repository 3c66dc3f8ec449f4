"""Bodies of requests: models from JSON, and the text of documents."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from gpuctl.api.change_models import ChangesBody, DocumentsBody, FilesBody
from gpuctl.frontend.source import Source
from gpuctl.language.sentences import say
from gpuctl_server.http.body_parsing import InvalidBody, read_json
from gpuctl_server.http.content_negotiation import sends_yaml, states_format
from gpuctl_server.http.http_problems import Problem

NAME = "yamlContent"
"""Name of the text in diagnostics: the field of the request."""
Body = TypeVar("Body", bound=BaseModel)


def body_of(model: type[BaseModel], documents: str) -> dict[str, Any]:
    """Return the OpenAPI description of a body: fields as JSON, or documents as YAML.

    :param documents: description of the YAML.
    """
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(item) for item in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).rpartition("/")[2]
        return whole(parts[name]) if name else {key: whole(item) for key, item in value.items()}

    content = {
        "application/json": {"schema": whole(schema)},
        "application/yaml": {"schema": {"type": "string", "description": documents}},
    }
    return {"requestBody": {"required": True, "content": content}}


def json_body_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a body for :func:`parsed`."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def parsed(model: type[Body], request: Request) -> Body:
    """Parse a JSON body as a model.

    :raises RequestValidationError: the fields are invalid.
    :raises InvalidBody: the body is not valid JSON, or is sent as YAML.
    """
    if sends_yaml(request):
        raise InvalidBody(say("this path takes JSON: send it with `Content-Type: application/json`"))
    return validated(model, read_json(await request.body()))


def validated(model: type[Body], value: object) -> Body:
    """Validate a parsed value as a model.

    :raises RequestValidationError: the fields are invalid.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> RequestValidationError:
    found = [{**item, "loc": ("body", *item["loc"])} for item in error.errors(include_url=False)]
    return RequestValidationError(found)


def parsed_body(model: type[Body], *, is_optional: bool = False) -> Callable[[Request], Coroutine[Any, Any, Body]]:
    """Return a dependency that parses the JSON body of a request as a model.

    Routes must list it after the caller, so that the body is only read if the caller has the right.

    :param is_optional: a request may have no body; then all fields have their defaults.
    """

    async def read(request: Request) -> Body:
        if is_optional and not (await request.body()).strip():
            return model()
        return await parsed(model, request)

    # FastAPI must see the model, not the type variable.
    read.__annotations__["return"] = model
    return read


async def changes_of(request: Request) -> ChangesBody:
    """Return the documents of a change."""
    return await _documents(ChangesBody, request)


async def documents_of(request: Request) -> DocumentsBody:
    """Return the documents of a request."""
    return await _documents(DocumentsBody, request)


async def files_of(request: Request) -> FilesBody:
    """Return the files of a request."""
    return await _documents(FilesBody, request)


async def _documents(model: type[Body], request: Request) -> Body:
    """Return a body with documents. A YAML body is their text.

    :raises RequestValidationError: the fields are invalid.
    :raises Problem: 400.
    """
    text, fields = await text_or_fields(request)
    return validated(model, fields) if text is None else model(yaml_content=text)


async def text_or_fields(request: Request) -> tuple[str | None, Any]:
    """Return the text of documents if the body is YAML; else None, and the value of the JSON body.

    :raises Problem: 400.
    """
    body = await request.body()
    if sends_yaml(request):
        return document_text(body), None
    try:
        return None, read_json(body)
    except InvalidBody as error:
        hint = None if states_format(request) else say("`Content-Type: application/yaml` sends YAML")
        raise Problem(400, str(error), error="InvalidRequest", hint=hint) from None


def sources_of(body: FilesBody) -> list[Source]:
    """Return the texts of a request, with the names for diagnostics."""
    files = [Source(item.name, item.text, direct=not item.in_directory) for item in body.files]
    return [Source(NAME, body.yaml_content), *files] if body.yaml_content or not files else files


def document_text(body: bytes) -> str:
    """Return a body as the text of documents.

    :raises Problem: 400.
    """
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, say("the body is not UTF-8 text"), error="InvalidDocuments") from None
