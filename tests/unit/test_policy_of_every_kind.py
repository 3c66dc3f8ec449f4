"""The platform's policy applies to the pods of every object that a document becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import gpuctl
from gpuctl.frontend.platform_restrictions import own_host_paths

Object = dict[str, Any]
PLATFORM: Object = {
    "kind": "platform",
    "version": "v0.1",
    "training": {"backend": "job"},
    "inference": {"backend": "lws"},
    "policy": {
        "hostPaths": [],
        "privileged": "deny",
        "capabilities": [],
        "require": {"runAsNonRoot": True, "limits": ["cpu", "memory"]},
    },
}
BASE: Object = {
    "kind": "training",
    "version": "v0.1",
    "job": {"name": "demo"},
    "environment": {"image": "app:1", "command": ["python", "run.py"]},
    "resources": {"cpu": 1, "memory": "1Gi"},
    "security": {"user": 1000},
}
PAIR = {"cpu": 1, "memory": "1Gi", "nodes": 2}
KINDS: dict[str, Object] = {
    "Job": {},
    "suspended Job": {"job": {"name": "demo", "after": ["other"]}},
    "Job with indexes": {"array": 3},
    "Jobs of a sweep": {"sweep": {"lr": ["1", "2"]}, "environment": {"image": "app:1", "args": ["{{sweep.lr}}"]}},
    "Job on several nodes": {"resources": PAIR},
    "elastic Job": {"resources": {**PAIR, "nodes": {"min": 1, "max": 2}}},
    "CronJob": {"schedule": "@daily"},
    "JobSet": {"resources": PAIR, "backend": "jobset"},
    "JobSet of roles": {"roles": [{"name": "head"}, {"name": "worker", "nodes": 2}], "backend": "jobset"},
    "Deployment": {"kind": "inference"},
    "LeaderWorkerSet": {"kind": "inference", "resources": PAIR},
    "StatefulSet": {"kind": "notebook", "notebook": {"max_lifetime": "2h"}},
    "service on CPUs": {"kind": "compute"},
    "Job with code": {"code": {"git": "https://git.example.com/a.git", "ref": "a" * 40}},
}
BROKEN: dict[str, tuple[Object, set[str]]] = {
    "podPatch": (
        {"podPatch": {"containers": [{"name": "main", "securityContext": {"privileged": True}}]}},
        {"GPU438"},
    ),
    "limit of zero": (
        {
            "podPatch": {
                "containers": [{"name": "main", "resources": {"limits": {"cpu": "0"}, "requests": {"cpu": "0"}}}]
            }
        },
        {"GPU440"},
    ),
    "security": ({"security": {"user": 0, "capabilities": ["SYS_PTRACE"]}}, {"GPU438", "GPU440"}),
    "helpers": ({"init": [{"name": "fetch"}], "sidecars": [{"name": "sync"}]}, {"GPU440"}),
    "workdir": ({"storage": {"workdirs": [{"path": "/data"}]}}, {"GPU423"}),
    "profile": ({"profiles": {"p": {"security": {"user": 0}}}}, {"GPU440"}),
}


def codes(document: Object) -> set[str]:
    """Return the codes of the errors of a document, compiled with its profile `p` if it has one."""
    document = {**BASE, **document}
    platform = {**PLATFORM, "training": {"backend": document.pop("backend", "job")}}
    result = gpuctl.compile(
        gpuctl.Source("job.yaml", json.dumps(document)),
        platform=gpuctl.Source("platform.yaml", json.dumps(platform)),
        profile="p" if "profiles" in document else None,
    )
    return {item.code for item in result.diagnostics if item.severity.value == "error"}


@pytest.mark.parametrize("kind", KINDS)
def test_policy_is_checked_on_the_pods_of(kind: str) -> None:
    assert codes(KINDS[kind]) == set()
    assert {name: codes({**KINDS[kind], **fields}) for name, (fields, _) in BROKEN.items()} == {
        name: expected for name, (_, expected) in BROKEN.items()
    }


def test_the_platforms_own_host_paths_are_allowed() -> None:
    """Of a path with a template, the directory before it; a new job's directory in it need not be listed."""
    own = {
        **PLATFORM,
        "defaults": {"compute": {"storage": {"workdirs": [{"path": "/data/jobs/{{job.name}}"}, {"path": "/models"}]}}},
    }
    result = gpuctl.compile([], platform=gpuctl.Source("platform.yaml", json.dumps(own)))
    assert own_host_paths(result.settings) == ["/data/jobs", "/models"]
