"""Checkpoints: what runs saves its progress before gpuctl ends it, and nothing is ended where that fails unless somebody
agrees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from control_plane.streams import Streams
from support.cluster_tools import DOMAIN, Document, Place, image, inference, training

CHECKPOINT = f"{DOMAIN}/checkpoint"


@pytest.fixture
def streams(plane: ControlPlane) -> Streams:
    return plane.start_streams()


class Disk:
    """Where the simulated pods save: a file that each checkpoint adds its pod to."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "saved"
        self.file.touch()

    def script(self, then: str = "exit 0") -> list[str]:
        """A command that saves, and then does something."""
        return ["sh", "-c", f"echo $POD/$CONTAINER >> {self.file}; {then}"]

    def job(self, then: str = "exit 0", **more: Any) -> dict[str, Any]:
        """A `job` block with that checkpoint."""
        return {"checkpoint": {"command": self.script(then), **more}}

    @property
    def saved(self) -> list[str]:
        """The containers whose checkpoints ran, and the times that they did, in order."""
        return self.file.read_text().splitlines()


@pytest.fixture
def disk(tmp_path: Path, streams: Streams) -> Disk:
    return Disk(tmp_path)


def apply(place: Place, *documents: Document, flags: tuple[str, ...] = ("--yes",), code: int = 0) -> Any:
    return place.apply(*documents, flags=flags, code=code)


def test_before_a_replacement(place: Place, disk: Disk) -> None:
    """What runs saves once in each pod, and the plan has said so; the new object is there afterwards."""
    place.apply(training(job=disk.job(), resources={"nodes": 2}))
    pods = sorted(place.running("train", pods=2))
    uid = place.uid("Job", "train")
    changed = training(job=disk.job(), resources={"nodes": 2}, environment=image("v2"))
    plan = place.plan(changed).value
    (step,) = [step for step in plan["steps"] if step["kind"] == "Job"]
    assert step["checkpoint"].startswith("sh -c 'echo $POD"), step
    assert step["checkpoint"].endswith("(at most 2m)")
    assert disk.saved == []
    refused = place.apply(changed, code=2)
    assert "its progress since its checkpoint is lost; checkpoint runs before: sh -c" in refused.err
    assert disk.saved == []
    done = apply(place, changed)
    assert sorted(disk.saved) == [f"{place.namespace}/{pod}/main" for pod in pods]
    assert f"checkpoint of training/train in {place.namespace} has run in 2 pods\n" in done.err
    assert place.uid("Job", "train") != uid


def test_a_failure_keeps_everything(place: Place, disk: Disk) -> None:
    """A non-zero exit: nothing is ended, whatever --yes confirms, until somebody says that progress may be lost."""
    place.apply(training(job=disk.job("echo step 17; echo disk full >&2; exit 3")), inference("other"))
    (pod,) = place.running("train")
    place.running("other")
    before = place.records()
    changed = training(environment=image("v2"))
    for arguments in (("apply", "-f", place.file(changed), "--yes"), ("delete", "job", "train", "--yes")):
        failed = place.gpuctl(*arguments, code=1)
        told = f"checkpoint of training/train in {place.namespace} failed in pod {pod}: exit code 3: disk full\n"
        assert f"error: {told}  = nothing was ended; with --without-checkpoint" in failed.err
    assert {name: obj for name, obj in place.records().items() if "Lease" not in name} == before
    assert len(disk.saved) == 2
    place.gpuctl("delete", "job", "train", "--yes", "--without-checkpoint")
    assert len(disk.saved) == 2
    assert not place.exists("Job", "train")
