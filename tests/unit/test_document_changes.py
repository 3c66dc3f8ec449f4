"""The differences between documents: their order, their text, and masked credentials."""

from __future__ import annotations

import json
from typing import Any

from gpuctl import compile
from gpuctl.frontend.source import Source
from gpuctl.gitops.document_changes import NamedDocuments, changed_documents, documents_of, embedded_changes
from gpuctl.gitops.value_change import ValueChange, changes_text

JOB = """kind: training
version: v0.1
job: {name: sft, namespace: nlp}
environment: {image: "registry.example.com/train:v1", command: [python, train.py], env: {API_TOKEN: abc, SEED: "1"}}
resources: {gpu: 4}
"""
POOL = """---
kind: pool
version: v0.1
metadata: {name: a100}
nodes: {node-1: {gpu-type: A100-80G}}
"""
KEY = "gpuctl.io/document"


def documents(text: str) -> NamedDocuments:
    return documents_of(compile([Source("jobs.yaml", text)]))


def object_with(document: Any) -> dict[str, Any]:
    return {"kind": "Job", "metadata": {"annotations": {KEY: json.dumps(document)}}}


def test_changed_documents_are_listed_in_their_own_terms() -> None:
    old = documents(JOB + POOL)
    new = documents(JOB.replace("gpu: 4", "gpu: 8").replace("train:v1", "train:v2") + POOL)
    (found,) = changed_documents(old, new)
    assert str(found.document) == "training sft in nlp"
    assert changes_text(found.changes) == "environment.image: ...train:v1 -> ...train:v2, resources.gpu: 4 -> 8"


def test_changed_pool_has_no_namespace() -> None:
    old, new = (documents(text) for text in (POOL, POOL.replace("A100-80G", "H100-80G")))
    (found,) = changed_documents(old, new)
    assert str(found.document) == "pool a100"
    assert changes_text(found.changes) == "nodes.node-1.gpu-type: A100-80G -> H100-80G"


def test_new_and_removed_documents_are_left_out() -> None:
    assert changed_documents(documents(JOB), documents(JOB.replace("sft", "dpo"))) == []
    assert changed_documents(documents_of(None), documents(JOB)) == []


def test_credentials_are_masked() -> None:
    old, new = (documents(JOB.replace("abc", token)) for token in ("abc", "def"))
    (found,) = changed_documents(old, new)
    assert changes_text(found.changes) == "environment.env.API_TOKEN: *** -> <masked, changed>"


def test_embedded_documents_are_compared() -> None:
    old, new = object_with({"resources": {"gpu": 4}}), object_with({"resources": {"gpu": 8}})
    assert changes_text(embedded_changes(old, new, KEY)) == "resources.gpu: 4 -> 8"


def test_absent_or_invalid_embedded_document_has_no_changes() -> None:
    new = object_with({"resources": {"gpu": 8}})
    assert embedded_changes({"metadata": {}}, new, KEY) == []
    assert embedded_changes({"metadata": {"annotations": {KEY: "{"}}}, new, KEY) == []


def test_a_change_to_a_long_value_names_the_field_alone() -> None:
    long = "x" * 25
    for old, new in (("a", long), (long, "a"), ("r.io/" + long, "r.io/a")):
        assert changes_text([ValueChange("job.description", old, new)]) == "job.description"
