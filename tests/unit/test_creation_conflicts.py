"""Creations whose name another request takes at the same time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key
from gpuctl.objects.label_names import MANAGED_BY
from gpuctl.objects.ownership_metadata import records
from gpuctl_server.changes import job_creation
from gpuctl_server.http.http_problems import Problem

UNCHANGED = "PUT /jobs/{jobId} changes what exists; nothing was changed by this request"
PARTLY_DONE = "PUT /jobs/{jobId} changes what exists; other objects of this request were created"


@pytest.mark.parametrize(("other", "hint"), [("failed", UNCHANGED), ("not-run", UNCHANGED), ("done", PARTLY_DONE)])
def test_taken_name_is_no_unchanged_request_if_another_job_was_created(
    monkeypatch: pytest.MonkeyPatch, other: str, hint: str
) -> None:
    taken, beside = (Step("create", Key("Job", "team-a", name)) for name in ("a", "b"))
    taken.result, beside.result = "failed", other
    monkeypatch.setattr(job_creation, "_tried", lambda *arguments: Plan([taken, beside]))
    theirs = {"metadata": {"labels": {MANAGED_BY: "gpuctl"}, "annotations": {}}}
    change: Any = SimpleNamespace(service=SimpleNamespace(keys=records(Settings())))
    session: Any = SimpleNamespace(get=lambda key: theirs if key == taken.key else None)
    submission: Any = None
    with pytest.raises(Problem) as caught:
        job_creation._apply(change, session, submission, "mine")
    assert (caught.value.status, caught.value.hint) == (409, hint)
    assert [item["name"] for item in caught.value.details] == ["a"]
