"""Requests of the command line that change many jobs through a service."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from pydantic import ValidationError

from gpuctl.api.change_models import NamesBody
from gpuctl.language.settings import Settings
from gpuctl.objects.sweep_names import MOST_SWEEP_JOBS
from gpuctl.usecases.changes.service_changes import pause_by_service
from gpuctl.usecases.queries.read_context import service_context
from gpuctl.usecases.service.service_client import ServiceRefusal


class PausingService:
    """A service that pauses jobs by name until it meets the job ``broken``."""

    url = "http://service.example.com"

    def __init__(self) -> None:
        self.requests: list[int] = []

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    def request(self, method: str, path: str, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        names = NamesBody.model_validate(body).names
        self.requests.append(len(names))
        done = {
            "items": [
                {
                    "jobId": f"{name}-1x8k2",
                    "name": name,
                    "namespace": "default",
                    "kind": "training",
                    "status": "paused",
                    "changed": True,
                    "message": "is paused",
                }
                for name in names[: names.index("broken") if "broken" in names else None]
            ]
        }
        if "broken" in names:
            raise ServiceRefusal(409, "NotPossible", "broken cannot be paused", answer=done)
        return done


def test_many_jobs_are_paused_by_several_requests() -> None:
    """The results of a request are returned before the next one; an error ends the command."""
    service = PausingService()
    reader = service_context(service, Settings())  # type: ignore[arg-type]
    names = [f"tune-{number}" for number in range(250)]
    assert [job.name for job in pause_by_service(reader, names, checkpoint=True)] == names
    assert service.requests == [100, 100, 50]
    paused = pause_by_service(reader, [*names[:120], "broken", *names[120:]], checkpoint=True)
    assert [next(paused).name for _ in range(120)] == names[:120]
    with pytest.raises(ServiceRefusal, match="broken cannot be paused"):
        next(paused)
    assert service.requests[3:] == [100, 100]


def test_one_request_names_all_jobs_of_the_largest_sweep() -> None:
    names = [f"tune-{number}" for number in range(MOST_SWEEP_JOBS)]
    assert NamesBody.model_validate({"names": names}).names == names
    with pytest.raises(ValidationError, match="at most 1000 items"):
        NamesBody.model_validate({"names": [*names, "one-more"]})
