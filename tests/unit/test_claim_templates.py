"""The GPUs that a job requests by ResourceClaimTemplates, before its pods have any."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.capacity.snapshot.device_entries import resource_claim_template_entry
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_facts import job_facts
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.job_rows import job_row, missing_row, platform_keys, pod_row
from gpuctl.reading.nodes.claim_templates import _gpus

Object = dict[str, Any]
SETTINGS = Settings()
NAMES = platform_keys(SETTINGS, records(SETTINGS))._replace(requested={("team", "cards"): 2})
SPEC = {"containers": [{"name": "main"}], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "cards"}]}


def pod(uid: str) -> Object:
    metadata = {"uid": uid, "name": uid, "namespace": "team"}
    return {"metadata": metadata, "spec": SPEC, "status": {"phase": "Pending"}}


def job(*pods: Object, count: int = 3) -> Job:
    spec = {"completions": count, "parallelism": count, "template": {"spec": SPEC}}
    workload = {"kind": "Job", "metadata": {"uid": "u", "name": "train", "namespace": "team"}, "spec": spec}
    return Job(Identity("team", "train", "training"), workload, list(pods))


@pytest.mark.parametrize(
    ("claimed", "whole", "pods"),
    [({}, 6, [2, 2]), ({"a": 2}, 6, [2, 2]), ({"a": 2, "b": 3}, 7, [2, 3])],
    ids=["none is allocated", "one is", "an alternative with more cards"],
)
def test_requested_gpus_of_a_job_and_its_pods(claimed: dict[str, int], whole: int, pods: list[int]) -> None:
    names, found = NAMES._replace(claimed=claimed), job(pod("a"), pod("b"))
    assert job_row(found, names).gpu == whole
    assert [pod_row(item, found.identity, names).gpu for item in found.pods] == pods
    missing = missing_row(found, names)
    assert missing is not None
    assert missing.gpu == 2


def test_description_of_a_job_has_the_requested_gpus() -> None:
    assert job_facts(job(), [], None, NAMES, SETTINGS).resources["gpu"] == 2


def test_unknown_templates_count_when_they_are_allocated() -> None:
    names = NAMES._replace(requested={}, claimed={"a": 2})
    assert job_row(job(pod("a"), pod("b"), count=2), names).gpu == 2


@pytest.mark.parametrize(
    ("requests", "gpus"),
    [
        ([{"exactly": {"deviceClassName": "gpu.nvidia.com", "count": 4}}], 4),
        ([{"exactly": {"deviceClassName": "mig.nvidia.com"}}], 1),
        ([{"firstAvailable": [{"deviceClassName": "gpu.nvidia.com", "count": n} for n in (2, 4)]}], 2),
        ([{"exactly": {"deviceClassName": "nic.example.com"}}, {"exactly": {"deviceClassName": "gpu.amd.com"}}], 1),
        ([{"exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}}], 0),
        ([{"exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}}], None),
        ([{"name": "of a newer API"}], 0),
        ([], 0),
    ],
)
def test_gpus_of_a_template(requests: list[Object], gpus: int | None) -> None:
    spec = {"devices": {"requests": requests}}
    template = {"metadata": {"namespace": "team", "name": "cards"}, "spec": {"spec": spec}}
    assert _gpus(resource_claim_template_entry(template)["requests"], NAMES.classes) == gpus
