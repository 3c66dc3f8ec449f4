"""Jobs of a namespace compared with its quota, if both are compiled together."""

from __future__ import annotations

from fractions import Fraction

import pytest

import gpuctl
from gpuctl.gitops.breakages import _quota_breakages
from gpuctl.gitops.declared_state import QuotaKey, QuotaLimit
from gpuctl.gitops.impact_rows import QuotaRow

QUOTA = "kind: quota\nversion: v0.1\nquota: {name: team}\nusers: {team: {gpu: 2}}\n"


def quota_messages(job: str) -> list[str]:
    """Return the messages about the quota compiled together with a job."""
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
def test_gpus_of_every_pod_count(kind: str, more: str, gpus: int) -> None:
    job = f"kind: {kind}\njob: {{name: a, namespace: team}}\nresources: {{gpu: 3, cpu: 1, memory: 1Gi{more}}}"
    assert quota_messages(job) == [f"the jobs of namespace `team` ask for {gpus} nvidia GPUs together; its quota is 2"]


@pytest.mark.parametrize(("most", "warnings"), [(2, 0), (3, 1)])
def test_autoscaling_within_the_quota_is_no_warning(most: int, warnings: int) -> None:
    scaling = f"autoscaling: {{enabled: true, minReplicas: 1, maxReplicas: {most}}}"
    head = "kind: inference\nversion: v0.1\njob: {name: a, namespace: team}\nenvironment: {image: 'app:1'}\n"
    job = f"{head}resources: {{gpu: 1, cpu: 1, memory: 1Gi}}\n{scaling}\n"
    result = gpuctl.compile(gpuctl.Source("jobs.yaml", f"{job}---\n{QUOTA}"))
    assert [item.code for item in result.diagnostics].count("GPU405") == warnings


@pytest.mark.parametrize(("before", "is_new"), [(2, True), (3, False)])
def test_breakage_is_new_if_the_quota_was_met_before(before: int, is_new: bool) -> None:
    limit = QuotaLimit(Fraction(2))
    row = QuotaRow(QuotaKey("team", "gpu"), Fraction(before), Fraction(3), limit, limit)
    (found,) = _quota_breakages([row])
    assert found.new is is_new
