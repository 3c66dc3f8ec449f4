"""Rows of jobs as JSON and back: a new field must not be lost on the way. Models take fields by their names."""

from __future__ import annotations

import inspect

import pytest

from gpuctl.api.difference_answers import ImpactEnded
from gpuctl.api.job_list_answers import JobFields, ListedPod
from gpuctl.apply.plan.jobs_stopped_by_change import StoppedJob
from gpuctl.language.platform_document import PlatformDocument
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.job_rows import JobTableRow, gpus_of_spec, job_row, platform_keys
from gpuctl.reading.jobs.status import Status
from gpuctl.usecases.queries.job_queries import JobQuery
from gpuctl.usecases.service.service_jobs import row_of

ROW = JobTableRow(
    uid="4f0b7a52",
    pod="sft-x7k2p",
    identity=Identity("team-a", "sft", "training", "sft-1f2e3d"),
    state=Status("Running", "running", "all is well"),
    ready="1/1",
    node="node-1",
    ip="10.0.0.7",
    created_at="2024-06-01T10:00:00Z",
    started_at="2024-06-01T10:05:00Z",
    pools=("a", "b"),
    gpu=4,
    gpu_type="a100-80g",
    priority="high",
    applied_by="anna",
    sweep_values={"lr": "1e-5"},
    object_name="sft-1f2e3d",
)


def test_row_from_a_service_is_the_row() -> None:
    assert all(ROW), "a new field needs a value here"
    assert row_of(ListedPod.model_validate(ROW).as_json()) == ROW


def test_each_field_of_a_row_is_in_the_answer() -> None:
    """What is not an own field of the answer is part of one: the identity, the status, the pools."""
    derived = {name for name, value in inspect.getmembers(JobTableRow) if isinstance(value, property)}
    shown = set(ListedPod.model_fields)
    assert set(JobTableRow._fields) - shown == {"identity", "state", "pools"}
    assert set(JobFields.model_fields) <= derived | set(JobTableRow._fields)


def test_a_model_takes_attributes_of_its_source_by_name() -> None:
    job = StoppedJob("training", "team-a", "sft", "replaced", "another image", "2024-06-01T10:00:00Z", "3h", 2, 16)
    assert ImpactEnded.taken_from(job, running_since=job.since, reason="the image").as_json() == {
        "kind": "training",
        "namespace": "team-a",
        "name": "sft",
        "manner": "replaced",
        "reason": "the image",
        "runningSince": "2024-06-01T10:00:00Z",
        "pods": 2,
        "gpus": 16,
    }


@pytest.mark.parametrize("name", ["sft", "job/sft", "training/sft", "training/sft-1f2e3d", "sft-x7k2p", "po/sft-x7k2p"])
def test_row_passes_a_filter_by_any_of_its_names(name: str) -> None:
    assert JobQuery((name,)).filter.matches(ROW)


@pytest.mark.parametrize("name", ["inference/sft", "notebook/sft-1f2e3d", "eval"])
def test_row_does_not_pass_a_filter_by_the_name_of_another_job(name: str) -> None:
    """A training and a service of one namespace may have one name."""
    assert not JobQuery((name,)).filter.matches(ROW)


@pytest.mark.parametrize(("phase", "gpus"), [("Running", 2), ("Failed", 0)])
def test_pod_holds_its_gpus_until_it_has_ended(phase: str, gpus: int) -> None:
    """A container has failed, and another one runs, or the same one is about to be restarted."""
    pod = {
        "metadata": {"name": "lone", "namespace": "n", "uid": "1"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1}}}]},
    }
    keys = platform_keys(Settings(), records(Settings()))
    assert job_row(Job(Identity("n", "lone", "training"), None, [pod]), keys).gpu == gpus


@pytest.mark.parametrize(
    "amounts",
    [
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192"},
        {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"},
        {"enflame.com/gcu-memory": "8192"},
        {"nvidia.com/mig-1g.10gb": "1"},
    ],
    ids=["memory", "cores", "memory-alone", "mig"],
)
def test_share_of_a_card_counts_as_one(amounts: dict[str, str]) -> None:
    """Also one of Enflame's cards, of which a pod requests the memory and no number."""
    settings = Settings(PlatformDocument.model_validate({"kind": "platform", "gpu": {"sharing": "hami"}}))
    spec = {"containers": [{"name": "main", "resources": {"limits": amounts}}]}
    assert gpus_of_spec(spec, "team", platform_keys(settings, records(settings))) == 1
