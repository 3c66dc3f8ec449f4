"""Titles of live jobs in plans and questions: one for a job, whichever command names it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gpuctl.apply.plan.pool_labels import users_of
from gpuctl.apply.run.checkpointing import checkpoint_target
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, Resource
from gpuctl.objects.ownership_metadata import records

KEYS = records(Settings())


class Cluster:
    """A session with one Job."""

    def __init__(self, job: Object) -> None:
        self.job = job

    def list_objects(self, resource: Resource, **_: Any) -> tuple[list[Object], str]:
        return [self.job] if resource.kind == "Job" else [], "1"


@pytest.mark.parametrize(
    ("name", "labels", "title"),
    [
        ("sft-0a1b2c", {KEYS.job_type: "training", "app": "sft"}, "training/sft in nlp"),
        ("sft", {KEYS.job_type: "training", "app": "sft"}, "training/sft in nlp"),
        ("sft", {"app": "sft"}, "job/sft in nlp"),
        ("sft-0a1b2c", {}, "job/sft-0a1b2c in nlp"),
    ],
)
def test_title_of_a_job_has_no_hash(name: str, labels: dict[str, str], title: str) -> None:
    template = {"metadata": {"labels": {KEYS.pool: "a100"}}, "spec": {}}
    metadata = {"name": name, "namespace": "nlp", "labels": {**labels, KEYS.pool: "a100"}}
    job = {"kind": "Job", "metadata": metadata, "spec": {"template": template}}
    assert checkpoint_target(job, KEYS).title == title
    assert list(users_of(cast(Session, Cluster(job)), "a100", KEYS).values()) == [title]
