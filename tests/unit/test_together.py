"""What documents ask for together, against the quota beside them."""

from __future__ import annotations

import pytest

import gpuctl

QUOTA = "kind: quota\nversion: v0.1\nquota: {name: team}\nusers: {team: {gpu: 2}}\n"


def told(job: str) -> list[str]:
    """What is said of the quota when a job of three GPUs a pod is beside it."""
    head = f"version: v0.1\nenvironment: {{image: 'app:1'}}\n{job}\n"
    result = gpuctl.compile(gpuctl.Source("jobs.yaml", f"{head}---\n{QUOTA}"))
    return [item.message for item in result.diagnostics if item.code == "GPU406"]


@pytest.mark.parametrize(
    ("kind", "more", "gpus"),
    [
        ("training", "", 3),
        ("training", ", nodes: 2", 6),
        ("notebook", "", 3),
        ("inference", "", 3),
        ("inference", "}\nservice: {replicas: 3", 9),
        ("compute", "", 3),
        ("compute", "}\nservice: {replicas: 2", 6),
    ],
)
def test_every_pod_counts(kind: str, more: str, gpus: int) -> None:
    job = f"kind: {kind}\njob: {{name: a, namespace: team}}\nresources: {{gpu: 3, cpu: 1, memory: 1Gi{more}}}"
    assert told(job) == [f"the jobs of namespace `team` ask for {gpus} nvidia GPUs together; its quota is 2"]
