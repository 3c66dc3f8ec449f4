"""Lookup of a job's object when only its pods are visible."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.apply.plan.plan import NoSuchJob
from gpuctl.reading.jobs.job_lookup import workload_of
from gpuctl.reading.jobs.job_objects import Identity, Job


def pod(called: str, **owner: Any) -> dict[str, Any]:
    return {"metadata": {"name": called, "ownerReferences": [owner] if owner else []}}


@pytest.mark.parametrize("owner", [{}, {"kind": "Job", "name": "train"}], ids=["no owner", "no controller"])
def test_job_with_only_uncontrolled_pods_is_not_found(owner: dict[str, Any]) -> None:
    with pytest.raises(NoSuchJob, match="only pods of train in n are left") as caught:
        workload_of(Job(Identity("n", "train", "training"), None, [pod("a", **owner)]))
    assert caught.value.hint == "`kubectl delete pod a -n n` ends what runs"


def test_missing_controller_may_not_be_visible_yet() -> None:
    """The hint has no `kubectl delete pod`: an existing controller would recreate the pods."""
    pods = [pod("a", kind="Job", name="train", controller=True)]
    with pytest.raises(NoSuchJob, match="their controller is gone, or not visible yet") as caught:
        workload_of(Job(Identity("n", "train", "training"), None, pods))
    assert "try again" in (caught.value.hint or "")
