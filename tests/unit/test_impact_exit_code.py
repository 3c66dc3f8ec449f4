"""The exit code of ``gpuctl impact``: a pull request fails for what it makes worse, not for existing shortages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from support.repositories import Repository, pool, quota, service, training

A = "gpu-type: A100-80G, gpu-count: 8"
NODES = {"pool.yaml": pool({"n1": A, "n2": A})}
OVERCOMMITTED = {**NODES, **{f"{name}.yaml": training(name, gpu=8) for name in "abc"}}
"""Three trainings of 8 GPUs on 16 GPUs."""
PLATFORM = "kind: platform\nversion: v0.1\n"
QUEUE = {"platform.yaml": PLATFORM + "training: {queue: {a100: research}}\n"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "team")


def exit_codes(repository: Repository, before: dict[str, str], after: dict[str, str], *more: str) -> tuple[int, int]:
    """Return the exit codes without and with ``--fail-on any``."""
    for name, content in before.items():
        repository.write(name, content)
    repository.commit()
    for name in before.keys() - after.keys():
        repository.remove(name)
    for name, content in after.items():
        repository.write(name, content)
    found = [repository.gpuctl("impact", "--from", "HEAD", *more, *option) for option in ([], ["--fail-on", "any"])]
    return found[0].code, found[1].code


CHANGES_WITH_EXIT_CODES = {
    "nothing": (OVERCOMMITTED, OVERCOMMITTED, (0, 1)),
    "an image": (OVERCOMMITTED, {**OVERCOMMITTED, "a.yaml": training("a", gpu=8).replace(":v1", ":v2")}, (0, 1)),
    "one job fewer": ({**OVERCOMMITTED, "d.yaml": training("d", gpu=8)}, OVERCOMMITTED, (0, 1)),
    "one job more": (OVERCOMMITTED, {**OVERCOMMITTED, "d.yaml": training("d", gpu=1)}, (1, 1)),
    "fewer nodes": (OVERCOMMITTED, {**OVERCOMMITTED, "pool.yaml": pool({"n1": A})}, (1, 1)),
    "more nodes": (
        OVERCOMMITTED,
        {**OVERCOMMITTED, "pool.yaml": pool({"n1": A, "n2": A, "n3": "gpu-count: 2"})},
        (0, 1),
    ),
    "enough nodes": (OVERCOMMITTED, {**OVERCOMMITTED, "pool.yaml": pool({"n1": A, "n2": A, "n3": A})}, (0, 0)),
    "one of several types": (
        {"pool.yaml": pool({"n1": "gpu-type: H100, gpu-count: 8", "n2": A})},
        {
            "pool.yaml": pool({"n1": "gpu-type: H100, gpu-count: 8", "n2": A}),
            "a.yaml": training("a", gpu=8, resources=", gpu-type: [H100, T4]"),
        },
        (0, 0),
    ),
    "a quota that was exceeded": (
        {"q.yaml": quota("gpu: 4"), "a.yaml": training("a", gpu=8)},
        {"q.yaml": quota("gpu: 5"), "a.yaml": training("a", gpu=8)},
        (0, 1),
    ),
    "a quota that is exceeded further": (
        {"q.yaml": quota("gpu: 4"), "a.yaml": training("a", gpu=8)},
        {"q.yaml": quota("gpu: 3"), "a.yaml": training("a", gpu=8)},
        (1, 1),
    ),
    "a job for no node": (
        {"pool.yaml": pool({"n1": A}), "a.yaml": training("a", gpu=9)},
        {"pool.yaml": pool({"n1": A}), "a.yaml": training("a", gpu=9).replace(":v1", ":v2")},
        (0, 1),
    ),
    "a larger job for no node": (
        {"pool.yaml": pool({"n1": A}), "a.yaml": training("a", gpu=9)},
        {"pool.yaml": pool({"n1": A}), "a.yaml": training("a", gpu=10)},
        (1, 1),
    ),
    "a pool's limit": (
        {"pool.yaml": pool({"n1": A}) + "quota: {maxGpuPerJob: 2}\n", "a.yaml": training("a", gpu=4)},
        {"pool.yaml": pool({"n1": A}) + "quota: {maxGpuPerJob: 3}\n", "a.yaml": training("a", gpu=4)},
        (0, 1),
    ),
    "pods of 5 on nodes of 8": (
        {**NODES, **{f"{name}.yaml": training(name, gpu=5) for name in "abc"}},
        {**NODES, **{f"{name}.yaml": training(name, gpu=5).replace(":v1", ":v2") for name in "abc"}},
        (0, 1),
    ),
}


@pytest.mark.parametrize("name", CHANGES_WITH_EXIT_CODES)
def test_only_new_or_larger_shortages_exit_1(repository: Repository, name: str) -> None:
    before, after, wanted = CHANGES_WITH_EXIT_CODES[name]
    assert exit_codes(repository, before, after) == wanted


@pytest.mark.parametrize(("old", "new", "wanted"), [("9", "9", (0, 1)), ("9", "10", (1, 1))])
def test_job_that_never_fits_fails_only_if_it_grows(
    repository: Repository, old: str, new: str, wanted: tuple[int, int]
) -> None:
    labels = {"runwhere.ai/pool": "a100"}
    room = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    snapshot = repository.root.parent / "cluster.json"
    nodes = [{"name": "n1", "labels": labels, "allocatable": room}]
    snapshot.write_text(render(Snapshot("2026-01-01T03:00:00Z", nodes, [])))
    before, after = {"a.yaml": training("a", gpu=int(old))}, {"a.yaml": training("a", gpu=int(new)).replace("v1", "v2")}
    assert exit_codes(repository, before, after, "--snapshot", str(snapshot)) == wanted


def test_queued_trainings_are_counted_separately(repository: Repository) -> None:
    """A queue exists for requests above the capacity, so neither the pool nor a quota of pods is reported as short."""
    full = {**OVERCOMMITTED, **QUEUE, "q.yaml": quota("gpu: 8, maxJobs: 9")}
    assert exit_codes(repository, {**NODES, **QUEUE}, full) == (0, 0)
    report = json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json").out)
    rows = {row["gpuType"]: row["after"] for row in report["pools"]}
    assert rows[None] == {"gpus": 0, "gpusAtMost": 0, "capacity": 16, "gpusQueued": 24}
    assert {job["after"]["queued"] for job in report["jobs"]} == {True}
    assert {row["resource"]: row["after"]["asked"] for row in report["quotas"]} == {
        "requests.nvidia.com/gpu": 0,
        "count/jobs.batch": 3,
    }
    out = repository.gpuctl("impact", "--from", "HEAD").out
    assert (
        "POOL  GPU TYPE  GPUS REQUESTED  GPUS IN POOL  GPUS QUEUED\na100  any       0               16            0 -> 24\n"
        in out
    )


def test_queued_job_too_large_for_any_node_exits_1(repository: Repository) -> None:
    base = {**NODES, **QUEUE}
    assert exit_codes(repository, base, {**base, "a.yaml": training("a", gpu=9)}) == (1, 1)


def test_services_are_not_queued(repository: Repository) -> None:
    base = {**OVERCOMMITTED, **QUEUE}
    assert exit_codes(repository, base, {**base, "s.yaml": service("s", gpu=8, least=3, most=3)}) == (1, 1)


@pytest.mark.parametrize("output", ["text", "markdown"])
def test_tables_omit_unchanged_rows(repository: Repository, output: str) -> None:
    base = {**NODES, "q.yaml": quota("gpu: 16"), "v.yaml": quota("gpu: 4", "other", "vision"), "a.yaml": training("a")}
    base["other.yaml"] = pool({"m1": A}).replace("a100", "idle")
    exit_codes(repository, base, {**base, "a.yaml": training("a").replace(":v1", ":v2")})
    out = repository.gpuctl("impact", "--from", "HEAD", "-o", output).out.lower()
    assert "gpus there" not in out
    assert "requested at most" not in out
    exit_codes(repository, base, {**base, "b.yaml": training("b")})
    out = repository.gpuctl("impact", "--from", "HEAD", "-o", output).out
    assert "idle" not in out
    assert "vision" not in out


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (":v1", ":v2", "image"),
        ("gpu: 1", "gpu: 2", "resources.requests.nvidia.com/gpu, resources.limits.nvidia.com/gpu"),
        ("job: {", "job: {description: mine, ", None),
    ],
)
def test_services_with_replaced_pods_are_restarts(
    repository: Repository, old: str, new: str, reason: str | None
) -> None:
    text = service("s", gpu=1)
    exit_codes(repository, {"s.yaml": text}, {"s.yaml": text.replace(old, new)})
    report = json.loads(repository.gpuctl("impact", "--from", "HEAD", "-o", "json").out)
    wanted = [{"kind": "inference", "namespace": "nlp", "name": "s", "reason": reason}] if reason else []
    assert report["restarts"] == wanted
