"""Documents of pools and quotas from bodies of requests, which have them as text or as fields of the API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.requests import Request

from gpuctl.api.admin_models import PoolBody, QuotaBody
from gpuctl.capacity.snapshot.pod_requests import amounts
from gpuctl.kube.session import Session
from gpuctl.language.names import is_dns_subdomain
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.request_bodies import document_text, text_or_fields, validated
from gpuctl_server.service_context import Service

_VERSION = "v0.1"


class AdminBody(NamedTuple):
    """The body of a request: a document as text, or the fields of the API."""

    text: str | None
    pool: PoolBody | None = None
    quota: QuotaBody | None = None

    @property
    def dry_run(self) -> bool:
        """True if the body asks for a dry run."""
        return any(body is not None and body.dry_run for body in (self.pool, self.quota))


async def pool_of(request: Request) -> AdminBody:
    """Return the body of a request about a pool.

    :raises RequestValidationError: the fields are invalid.
    :raises Problem: 400.
    """
    text, value = await _read(request)
    return AdminBody(None, pool=validated(PoolBody, value)) if text is None else AdminBody(text)


async def quota_of(request: Request) -> AdminBody:
    """Return the body of a request about quotas.

    :raises RequestValidationError: the fields are invalid.
    :raises Problem: 400.
    """
    text, value = await _read(request)
    return AdminBody(None, quota=validated(QuotaBody, value)) if text is None else AdminBody(text)


async def _read(request: Request) -> tuple[str | None, Any]:
    """Return the text of a document, or the fields of the API. A JSON body with the key `kind` is a document."""
    text, value = await text_or_fields(request)
    is_document = isinstance(value, dict) and "kind" in value
    return (document_text(await request.body()), None) if is_document else (text, value)


def pool_document(service: Service, session: Session, body: PoolBody, name: str | None) -> str:
    """Return the pool document that is equivalent to the fields of the API."""
    if body.name is None and name is None:
        raise Problem(400, say("name: is required"), error="InvalidRequest")
    if len(set(body.nodes)) != len(body.nodes):
        raise Problem(400, say("nodes: a node is listed twice"), error="InvalidRequest")
    types = _types(service, session, body)
    document = {
        "kind": "pool",
        "version": _VERSION,
        "pool": _present({"name": body.name or name, "description": body.description}),
        "nodes": {node: _present({"gpu-type": types.get(node)}) for node in body.nodes},
        "quota": None if body.quota is None else body.quota.model_dump(exclude_none=True, by_alias=True),
    }
    return json.dumps(_present(document), ensure_ascii=False)


def _types(service: Service, session: Session, body: PoolBody) -> dict[str, str]:
    """Return node -> GPU type: that of its labels, else the only type in the request. Nodes without GPUs are left
    out."""
    if not body.gpu_type:
        return {}
    gpus, known = PlatformGpus(service.platform), {name.casefold() for name in body.gpu_type}
    # An invalid name must not become part of a path. The compiler reports it.
    names = [name for name in body.nodes if is_dns_subdomain(name)]
    found: dict[str, str] = {}
    for name, node in zip(names, session.each(session.get, [Key("Node", "", name) for name in names]), strict=True):
        if node is not None and not gpus.count(amounts(node["status"].get("allocatable") or {})):
            continue
        labelled = gpus.type_of(node) if node is not None else None
        if labelled is not None and labelled.casefold() not in known:
            raise Problem(
                409, say("node {name} has GPUs of type {type}, which is not in gpuType", name=name, type=labelled)
            )
        if labelled is None and len(body.gpu_type) > 1:
            hint = say("label the node with its GPU type, or send a pool document with the type of each node")
            raise Problem(400, say("the GPU type of node {name} is unknown", name=name), error="UnknownType", hint=hint)
        found[name] = labelled or body.gpu_type[0]
    return found


def quota_document(body: QuotaBody) -> str:
    """Return the quota document that is equivalent to the fields of the API."""
    fields = body.model_dump(exclude_none=True, exclude={"name", "description", "dry_run"}, by_alias=True)
    header = _present({"name": body.name, "description": body.description})
    return json.dumps({"kind": "quota", "version": _VERSION, "quota": header, **fields}, ensure_ascii=False)


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
