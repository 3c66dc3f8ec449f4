"""Trainings with roles without a cluster: rows, missing pods, fit, and the impact of a change."""

from __future__ import annotations

from typing import Any

import gpuctl
from gpuctl.capacity.job_fit import Fit, fit
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.job_objects import Identity, Job
from gpuctl.reading.job_rows import job_row, missing_row, platform_keys
from support.fit_objects import cluster, node

Object = dict[str, Any]

KEYS = records(Settings())
PLATFORM = gpuctl.Source("platform.yaml", "kind: platform\nversion: v0.1\ntraining: {backend: jobset}\n")
DOCUMENT = """
kind: training
version: v0.1
job: {name: ray, namespace: team}
environment: {image: "app:v1"}
resources: {cpu: 1, memory: 1Gi}
roles:
  - {name: head}
  - {name: worker, nodes: 2, resources: {gpu: 4}}
primary: [head]
"""


def jobset(document: str = DOCUMENT) -> Object:
    """Return the JobSet as it is in a cluster."""
    result = gpuctl.compile(gpuctl.Source("job.yaml", document), platform=PLATFORM)
    (made,) = [item.object for item in result.lowered if item.object["kind"] == "JobSet"]
    return {**made, "metadata": {**made["metadata"], "uid": "1"}}


def pod(role: str, index: int) -> Object:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": role}
    name = f"ray-{role}-0-{index}-abcde"
    return {"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {}, "status": {"phase": "Running"}}


def test_rows_count_the_gpus_of_each_role() -> None:
    names = platform_keys(Settings(), KEYS)
    job = Job(Identity("team", "ray", "training"), jobset(), [pod("head", 0), pod("worker", 0)])
    assert job_row(job, names).gpu == 8
    row = missing_row(job, names)
    assert row is not None
    assert (row.gpu, row.ready) == (4, "0/1")


def test_row_lists_the_gpu_types_of_all_roles() -> None:
    types = "gpu: 4, gpu-type: A100}}\n  - {name: rollout, resources: {gpu: 1, gpu-type: [L40S, T4]}}"
    typed = jobset(DOCUMENT.replace("gpu: 4}}", types))
    assert job_row(Job(Identity("team", "ray", "training"), typed, []), platform_keys(Settings(), KEYS)).gpu_type == (
        "A100,L40S or T4"
    )


def judged(*gpus: int) -> Fit:
    """Return the fit of the training on nodes with these numbers of GPUs."""
    nodes = [node(f"n{number}", count) for number, count in enumerate(gpus)]
    classes = [{"name": "gpuctl-medium", "value": 500_000}]
    (answer,) = fit(cluster(nodes, priority_classes=classes), [jobset()])
    return answer


def test_fit_places_all_roles_together() -> None:
    assert judged(4, 4).verdict == "fits"
    assert judged(8).verdict == "fits"
    refused = judged(4, 3)
    assert refused.verdict == "never"
    assert "each)" not in refused.reason
