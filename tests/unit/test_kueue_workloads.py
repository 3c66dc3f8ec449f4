"""The assignment of Kueue's Workloads to jobs."""

from __future__ import annotations

from typing import Any

from gpuctl.kube.kueue import workload_of
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.queues.queue_position import claim_of

JOB = {"kind": "Job", "metadata": {"name": "train", "uid": "job"}}


def workload(name: str, *owners: tuple[str, bool], created: str = "1", over: bool = False) -> dict[str, Any]:
    references = [{"uid": uid, **({"controller": True} if controls else {})} for uid, controls in owners]
    references = [{"kind": "Job", "name": f"the-{item['uid']}", **item} for item in references]
    times = {"creationTimestamp": f"2026-01-01T00:00:0{created}Z"}
    metadata = {"name": name, "namespace": "n", "ownerReferences": references, **times}
    conditions = [{"type": "Finished", "status": "True"}] if over else []
    return {"metadata": metadata, "status": {"conditions": conditions}}


def test_workload_of_a_job_is_the_one_it_controls() -> None:
    named = workload("named", ("job", False), created="2")
    of_another = workload("of-another", ("job", False), ("other", True), created="3")
    own = workload("own", ("other", False), ("job", True))
    assert workload_of([named, of_another, own], JOB) is own
    assert workload_of([named, of_another], JOB) is None


def test_elastic_job_uses_its_latest_unfinished_workload_slice() -> None:
    first = workload("first", ("job", True), created="1", over=True)
    second = workload("second", ("job", True), created="2")
    third = workload("third", ("job", True), created="3", over=True)
    assert workload_of([first, second, third], JOB) is second
    assert workload_of([first, third], JOB) is third


def test_workload_is_named_after_its_controlling_owner() -> None:
    named = workload("own", ("other", False), ("job", True)), workload("loose", ("other", False))
    assert [claim_of(item, records(Settings())).name for item in named] == ["Job/the-job", "Workload/loose"]
