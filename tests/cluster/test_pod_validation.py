"""Patched pods: the API server rejects what gpuctl rejects."""

from __future__ import annotations

import json
from typing import Any

import pytest

import gpuctl
from fault_tools.world import Api, path_of
from gpuctl.backend.pod_merge import merge_spec
from support.podpatch_fragments import patch

Object = dict[str, Any]
SEEDS = 300

DOCUMENTS: dict[str, Object] = {
    "training": {"resources": {"gpu": 1, "cpu": 2, "memory": "2Gi"}, "storage": {"workdirs": [{"path": "/data"}]}},
    "inference": {
        "resources": {"cpu": 2, "memory": "2Gi"},
        "service": {"health_check": "/health", "ports": [{"name": "metrics", "port": 9000}]},
        "storage": {"workdirs": [{"path": "/data"}]},
    },
    "notebook": {"resources": {"gpu": 2, "cpu": 2, "memory": "2Gi"}, "service": {"port": 8000}},
}
WORKLOADS = {"training": "Job", "inference": "Deployment", "notebook": "StatefulSet"}


def compiled(kind: str, patched: Object | None) -> tuple[Object | None, list[str]]:
    """Compile a document with a patch; return its workload and the errors."""
    document = {"kind": kind, "version": "v0.1", "job": {"name": "demo"}, "environment": {"image": "app:1"}}
    document |= DOCUMENTS[kind]
    if patched is not None:
        document["podPatch"] = patched
    result = gpuctl.compile(gpuctl.Source("demo.yaml", json.dumps(document)), shared=False)
    errors = [f"{item.code} {item.message}" for item in result.diagnostics if item.severity.value == "error"]
    assert not any(error.startswith("GPU901") for error in errors), errors
    return next((obj for obj in result.objects if obj["kind"] == WORKLOADS[kind]), None), errors


def refusal(api: Api, obj: Object) -> str | None:
    """Return the API server's error message for an object; None if it is accepted."""
    path = f"{path_of(obj['kind'], 'default')}?dryRun=All&fieldValidation=Strict"
    status, answer = api.request("POST", path, obj)
    return None if status < 300 else str(answer.get("message"))


@pytest.mark.slow
def test_api_server_rejects_what_gpuctl_rejects(api: Api) -> None:
    taken = refused = strict = 0
    for seed in range(SEEDS):
        kind = sorted(DOCUMENTS)[seed % 3]
        wanted = patch(seed)
        ours, _ = compiled(kind, wanted)
        if ours is not None:
            taken += 1
            continue
        # Ask the server about the patched pod without gpuctl's checks.
        base, _ = compiled(kind, None)
        assert base is not None
        try:
            merge_spec(base["spec"]["template"]["spec"], wanted)
        except (KeyError, TypeError):
            continue
        strict += refusal(api, base) is None
        refused += 1
    assert taken > SEEDS / 6
    assert refused > SEEDS / 4
    # gpuctl alone rejects images that no runtime accepts, ports that no probe finds, and duplicate entries.
    assert strict < refused / 5
