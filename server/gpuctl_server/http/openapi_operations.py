"""Operation ids, tags and extensions of the OpenAPI document.

Operation ids are names in generated clients, so they must not change. They are derived from method and path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastapi.routing import APIRoute

IDEMPOTENT = "x-idempotent"
"""Extension: true if sending a request twice has the same effect as sending it once."""
KEY = "Idempotency-Key"

_BASE = re.compile(r"^/api/v\d+")
_NAMES = {
    "POST /jobs": "createJobs",
    "POST /jobs/batch": "createJobBatch",
    "POST /jobs/wait": "waitJobs",
    "GET /jobs/{jobId}/history/{revision}": "getJobRevision",
    "POST /plan": "planDocuments",
    "GET /fit": "fitWaiting",
    "POST /apply": "applyDocuments",
    "POST /delete": "deleteDocuments",
    "POST /jobs/delete": "deleteJobs",
    "POST /pools/delete": "deletePools",
    "POST /quotas/delete": "deleteQuotas",
    "POST /jobs/rerun": "rerunJobs",
    "POST /jobs/run": "runJobs",
    "POST /jobs/scale": "scaleJobs",
    "POST /jobs/pause": "pauseJobs",
    "POST /jobs/resume": "resumeJobs",
    "POST /fit": "fitDocuments",
    "POST /recoveries": "recover",
    "POST /auth/check": "checkRight",
    "GET /nodes/gpu-detail": "listGpus",
    "GET /nodes/labels": "listNodesWithLabel",
    "GET /nodes/labels/all": "listGpuLabels",
    "POST /nodes/labels/batch": "setLabelOfNodes",
    "POST /nodes/labels/changes": "changeLabelsOfNodes",
    "POST /pools/{poolName}/nodes/add": "addNodes",
    "POST /pools/{poolName}/nodes/remove": "removeNodes",
    "GET /nodes/{nodeName}/labels": "listNodeLabels",
    "POST /nodes/{nodeName}/labels": "setNodeLabel",
    "GET /nodes/{nodeName}/labels/{key}": "getNodeLabel",
    "DELETE /nodes/{nodeName}/labels/{key}": "deleteNodeLabel",
    "GET /audit": "listAudit",
    "GET /gpu-use": "getGpuUse",
    "GET /gpu-aggregation/clusters": "listUsageClusters",
    "GET /gpu-aggregation/namespaces": "listUsageNamespaces",
    "GET /gpu-aggregation/dimension-keys": "listUsageKeys",
    "GET /gpu-aggregation/dimension-values": "listUsageValues",
    "GET /gpu-aggregation/cluster/hourly-stats": "getClusterUsage",
    "GET /gpu-aggregation/namespaces/hourly-stats": "getNamespaceUsage",
    "GET /gpu-aggregation/labels/hourly-stats": "getLabelUsage",
    "GET /gpu-aggregation/workloads/hourly-stats": "getWorkloadUsage",
    "GET /gpu-aggregation/workloads/models": "listHeldModels",
    "GET /gpu-aggregation/ledger": "getUsageLedger",
    "GET /gpu-aggregation/waste": "getUsageWaste",
    "GET /gpu-aggregation/snapshots/latest": "getLatestSnapshot",
    "GET /gpu-aggregation/snapshots": "listSnapshots",
    "GET /": "openDocumentation",
}
_VERBS = {"POST": "create", "PUT": "update", "DELETE": "delete"}
_ALIKE = frozenset(
    {
        *("planDocuments", "fitDocuments", "checkRight", "pauseJob", "resumeJob", "pauseJobs", "resumeJobs", "waitJob"),
        *("waitJobs", "scaleJob", "scaleJobs", "setNodeLabel", "setLabelOfNodes", "addNodes"),
    }
)
"""Operations with POST that are idempotent."""
_TAGS = {
    "jobs": "Jobs: trainings, inference services, notebooks, compute services.",
    "logs": "Output of the pods of jobs.",
    "plans": "Previews and fit of documents, and recovery of interrupted changes.",
    "pools": "Pools of nodes.",
    "nodes": "Nodes and their GPUs.",
    "labels": "Labels of nodes.",
    "quotas": "Quotas of users, and namespaces.",
    "queues": "Kueue's queues, and the jobs in them.",
    "usage": "Hourly allocation and utilization of GPUs.",
    "auth": "Rights of the caller, and the audit.",
}
_FAMILIES = {
    "pods": "jobs",
    "gpu-use": "jobs",
    "plan": "plans",
    "apply": "jobs",
    "delete": "jobs",
    "fit": "plans",
    "recoveries": "plans",
    "namespaces": "quotas",
    "audit": "auth",
    "gpu-types": "nodes",
}


def operation_id(route: APIRoute) -> str:
    """Return the operation id of a route: ``listJobs``, ``getJob``, ``pauseJob``, ``getJobLogs``."""
    (method,) = (route.methods or set()) - {"HEAD"}
    path = _BASE.sub("", route.path_format)
    return _NAMES.get(f"{method} {path}") or _named(method, path)


def _named(method: str, path: str) -> str:
    parts = [part for part in path.split("/") if part]
    fixed = [part for part in parts if not part.startswith("{")]
    last_is_name = bool(parts) and parts[-1].startswith("{")
    *before, last = [_words(part) for part in fixed]
    owner = "".join(_singular(part) for part in before)
    if last_is_name:
        return f"{'get' if method == 'GET' else _VERBS[method]}{owner}{_singular(last)}"
    if len(fixed) == len(parts):
        return f"list{owner}{last}" if method == "GET" else f"{_VERBS[method]}{owner}{_singular(last)}"
    # A path below an object: a part of it is read, or an action is applied to it.
    return f"get{owner}{last}" if method == "GET" else f"{last[0].lower()}{last[1:]}{owner}"


def _words(part: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", part))


def _singular(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def described(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with a tag and the extension for idempotence on each operation. The argument is not
    modified."""
    paths = {
        path: {method: _described(method, path, operation) for method, operation in item.items()}
        for path, item in document["paths"].items()
    }
    used = {tag for item in paths.values() for operation in item.values() for tag in operation["tags"]}
    tags = [{"name": name, "description": text} for name, text in _TAGS.items() if name in used]
    return {**document, "tags": tags, "paths": paths}


def _described(method: str, path: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    has_key = any(item["name"] == KEY for item in operation.get("parameters", []))
    idempotent = method != "post" or has_key or operation["operationId"] in _ALIKE
    return {**operation, "tags": [_family(path)], IDEMPOTENT: idempotent}


def _family(path: str) -> str:
    parts = _BASE.sub("", path).strip("/").split("/")
    if parts[0] == "gpu-aggregation":
        return "usage"
    special = next((part for part in parts[1:] if part in ("labels", "logs")), None)
    return special or _FAMILIES.get(parts[0], parts[0])
