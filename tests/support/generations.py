"""Trainings under names with a hash, as a GitOps controller makes them."""

from __future__ import annotations

import re
from typing import Any

from gpuctl.cli.main import run
from support.cluster_tools import Place, training

NAME = re.compile(r"train-[0-9a-f]{6}")
TWO = {"resources": {"nodes": 2}}
OTHER = {"environment": {"image": "registry.example.com/train:v2"}}


def sync(place: Place, document: dict[str, Any], *flags: str, name: str = "synced") -> str:
    """Build a document and apply the directory as a controller would; the training's name in the cluster."""
    directory = place.directory / name
    path = place.file(document, name=f"{name}.yaml")
    assert run(["build", path, "-o", str(directory), "--gitops", "flux", "-n", place.namespace, *flags]) == 0
    for file in sorted(directory.rglob("*.yaml")):
        place.plane.kubectl("apply", "-f", str(file))
    (job,) = (directory / place.namespace).glob("job*-train-*.yaml")
    found = NAME.search(job.name)
    assert found is not None
    return found[0]


def until_active(place: Place, job: str, pods: int = 1) -> None:
    """Wait until the pods of a Job run, and the Job knows it."""
    place.until(lambda: (place.get("Job", job).get("status") or {}).get("ready") == pods, f"the pods of {job}")


def half_replaced(place: Place, new: dict[str, Any]) -> str:
    """An apply has deleted what a controller made, and did not get to its successor; the name with a hash."""
    name = sync(place, training(**TWO))
    place.kubectl("patch", "job", name, "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    place.apply(new, flags=("--yes", "--timeout", "2s"), code=1)
    place.kubectl("patch", "job", name, "--type=merge", "-p", '{"metadata":{"finalizers":[]}}')
    place.until(lambda: not place.exists("Job", name), "the old one to go")
    # A run that is killed does not put it up again.
    place.kubectl("delete", "service", name)
    assert not place.exists("Job", "train")
    return name
