"""Trainings with roles without a cluster: rows, missing pods, fit, and the impact of a change."""

from __future__ import annotations

from typing import Any

import pytest

import gpuctl
from gpuctl.backend.lift import lift
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import labels_of
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.reading.jobs.job_facts import job_facts
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.job_rows import JobFilter, JobTableRow, job_row, missing_row, platform_keys
from gpuctl_server.access.caller import TokenCaller
from gpuctl_server.access.rights import AccessRequest, Rights
from gpuctl_server.changes.document_access import require_document_access
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.lookups.job_lookups import VisibleJobs, sees_job
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.mirror.visibility import Visibility
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


APART = DOCUMENT.replace("resources: {cpu", "resources: {pool: train, cpu").replace(
    "{name: head}", "{name: head, resources: {pool: cpu}}"
)
"""The head in a pool of its own."""
POOL = KEYS.pool


def test_rows_of_pods_are_in_the_pools_of_their_roles() -> None:
    names = platform_keys(Settings(), KEYS)
    made = jobset(APART)
    job = Job(Identity("team", "ray", "training"), made, [])
    assert labels_of(made)[POOL] == "train"
    assert [labels_of(template)[POOL] for template, _ in pod_templates(made)] == ["cpu", "train"]
    whole = job_row(job, names)
    assert whole.pool == "train,cpu"
    assert [JobFilter(pool=name).matches(whole) for name in ("train", "cpu", "train,cpu")] == [True, True, False]
    assert [(role["name"], role["pool"]) for role in job_facts(job, [], None, names, Settings()).roles] == [
        ("head", "cpu"),
        ("worker", "train"),
    ]


def test_fit_places_each_role_in_its_pool() -> None:
    def verdict(head: str, worker: str) -> str:
        nodes = [node("c", 0, labels={POOL: head}), node("g", 8, labels={POOL: worker})]
        classes = [{"name": "gpuctl-medium", "value": 500_000}]
        (answer,) = fit(cluster(nodes, priority_classes=classes), [jobset(APART)])
        return answer.verdict

    assert verdict("cpu", "train") == "fits"
    assert verdict("train", "train") == "never"


def test_lift_reads_the_pool_of_a_role() -> None:
    made = jobset(APART)
    (document,) = lift([made], Settings(), use_annotation=False)
    assert document["resources"]["pool"] == "train"
    assert [role.get("resources", {}).get("pool") for role in document["roles"]] == ["cpu", None]


def test_token_needs_the_pools_of_all_roles() -> None:
    row = job_row(Job(Identity("team", "ray", "training"), jobset(APART), []), platform_keys(Settings(), KEYS))
    (document,) = gpuctl.compile(gpuctl.Source("job.yaml", APART), platform=PLATFORM).documents
    workload = {
        "kind": "Workload",
        "metadata": {"namespace": "team"},
        "spec": {"podSets": [{"template": template} for template, _ in pod_templates(jobset(APART))]},
    }

    def sees(*pools: str) -> list[bool]:
        caller = TokenCaller("anna", Rights("user", None, frozenset(pools)))
        visibility = Visibility(caller.sees, caller.pools, POOL)
        found = [sees_job(caller, "team", row.pools), VisibleJobs(None, caller.rights.pools).takes(listed(row))]
        found += [visibility.sees(jobset(APART)), visibility.sees(workload)]
        return [*found, caller.may(AccessRequest("update", "jobs", "team", row.pool)).allowed]

    assert sees("train", "cpu") == [True] * 5
    assert sees("train") == sees("cpu") == [False] * 5
    admin = TokenCaller("anna", Rights("user", None, frozenset({"train"})))
    with pytest.raises(Problem, match="pool cpu"):
        require_document_access(admin, "create", [document])


def test_visibility_of_objects_that_lack_labels_or_parts() -> None:
    visibility = Visibility(lambda namespace: True, frozenset({"train"}), POOL)
    labelled: Object = {"metadata": {"labels": {POOL: "train"}}}
    head: Object = {"metadata": {"name": "x", "namespace": "team"}}

    def workload(*templates: Object) -> Object:
        return {"kind": "Workload", **head, "spec": {"podSets": [{"template": item} for item in templates]}}

    assert visibility.sees(workload(labelled))
    # Pods without the label are in the pool `default`.
    assert not visibility.sees(workload(labelled, {}))
    for template in (None, {}, {"spec": {}}, {"spec": {"template": {}}}):
        jobset = {"kind": "JobSet", **head, "spec": {"replicatedJobs": [{"name": "a", "template": template}]}}
        assert not visibility.sees(jobset)
        assert visibility.sees({**jobset, "metadata": {**head["metadata"], **labelled["metadata"]}})


def listed(row: JobTableRow) -> ListedJob:
    return ListedJob("1", Job(row.identity, None), row)


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
