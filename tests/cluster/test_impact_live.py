"""``impact`` with a cluster names the same running jobs that an apply of the change would replace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cluster_tools import Document, Place, compute, image, inference, merged, notebook, training
from support.repositories import Repository

BEFORE = (
    training(),
    training("multi", resources={"nodes": 2}, environment={"command": ["deepspeed", "--no_ssh", "x.py"]}),
    inference(),
    notebook(),
    compute(),
)
CHANGES: dict[str, dict[str, Any]] = {
    "image": {"environment": image("v2")},
    "command": {"environment": {"command": ["run", "again"]}},
    "variable": {"environment": {"env": [{"name": "SEED", "value": "7"}]}},
    "gpus": {"resources": {"gpu": 2}},
    "memory": {"resources": {"memory": "8Gi"}},
    "memory in another unit": {"resources": {"memory": "4096Mi"}},
    "description": {"job": {"description": "mine"}},
    "priority": {"job": {"priority": "high"}},
    "labels": {"job": {"labels": {"team": "x"}}},
    "volume": {"storage": {"workdirs": [{"path": "/data"}]}},
    "patch": {"podPatch": {"hostIPC": True}},
}


def _changed(name: str) -> list[Document]:
    return [merged(document, CHANGES[name]) for document in BEFORE]


def _in(namespace: str, documents: list[Document]) -> list[Document]:
    return [merged(document, {"job": {"namespace": namespace}}) for document in documents]


def test_impact_names_the_jobs_that_apply_replaces(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(place.directory / "repository")
    monkeypatch.chdir(repository.root)
    before = _in(place.namespace, list(BEFORE))

    def write(documents: list[Document]) -> None:
        repository.write("jobs.yaml", "\n---\n".join(json.dumps(document) for document in documents) + "\n")

    write(before)
    repository.commit()
    place.anywhere("apply", "-f", "jobs.yaml")
    place.running("train", "serve", "note", "comp")
    place.running("multi", pods=2)
    kubeconfig = str(place.plane.kubeconfig())
    replaced: dict[str, set[str]] = {}
    for name in CHANGES:
        write(_in(place.namespace, _changed(name)))
        plan = place.anywhere("apply", "-f", "jobs.yaml", "--dry-run=server", "-o", "json")
        found = place.anywhere("impact", "--from", "HEAD", "--kubeconfig", kubeconfig, "-o", "json")
        told = {item["name"] for item in found.value["cluster"]["ended"] if item["manner"] == "replaced"}
        replaced[name] = {
            step["name"]
            for step in plan.value["steps"]
            if step["action"] == "replace" and step["kind"] in ("Job", "Deployment", "StatefulSet")
        }
        assert told == replaced[name], name
    assert replaced["image"] == {"train", "multi", "serve", "note", "comp"}
    assert (replaced["description"], replaced["memory in another unit"]) == (set(), {"comp"})
    write(before[1:])
    found = place.anywhere("impact", "--from", "HEAD", "--kubeconfig", kubeconfig)
    assert f"training train in {place.namespace}: running for " in found.out
