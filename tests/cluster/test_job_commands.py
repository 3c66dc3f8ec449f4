"""The job commands of the product's documents, run line by line on the cluster that the documents describe.

Commands on nodes, pools and quotas are in test_node_commands, test_pool_commands and test_quota_commands.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_plane import ControlPlane
from support import node_world
from support.cluster_tools import DOMAIN, Outcome, Place
from support.real_parts import control_plane_binaries
from support.tables import table

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
TRAINING, INFERENCE, NOTEBOOK, COMPUTE = (
    "qwen2-7b-llamafactory-sft",
    "llama3-8b-inference",
    "data-prep-notebook",
    "test-nginx",
)
HEADERS = ["JOB ID", "NAME", "NAMESPACE", "KIND", "STATUS", "READY", "NODE", "IP", "AGE"]


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A new cluster with the nodes of the documents, and a working directory with their files."""
    for case in GOLDEN.glob("seed-readme-*"):
        shutil.copytree(case / "input", tmp_path, dirs_exist_ok=True)
    with ControlPlane(control_plane_binaries()) as plane:
        for name in ("node1", "node2"):
            plane.add_node(name, gpus=8)
        for name, pool, gpus, model in (
            ("node3", "inference-pool", 8, "A100-100G"),
            ("node4", "dev-pool", 4, "a10-24g"),
            ("node5", "test-pool", 0, ""),
        ):
            labels = {f"{DOMAIN}/pool": pool, **({f"{DOMAIN}/gpu-type": model} if model else {})}
            plane.add_node(name, gpus=gpus, labels=labels)
        plane.wait_for_nodes()
        yield node_world.place(plane, tmp_path, capsys, monkeypatch)


def run(place: Place, line: str, code: int | None = 0) -> Outcome:
    """Run a command line as printed in the documents."""
    program, *words = shlex.split(line)
    assert program == "gpuctl"
    return place.anywhere(*words, code=code)


def listed(place: Place, line: str) -> list[tuple[str, str, str, str]]:
    """Return name, kind, status and readiness of each row that a command line prints."""
    return [(row["NAME"], row["KIND"], row["STATUS"], row["READY"]) for row in table(run(place, line).out)]


def pods(place: Place, name: str) -> list[str]:
    """Return the JOB IDs of a job's pods."""
    return [row["JOB ID"] for row in table(run(place, f"gpuctl get jobs --pods {name}").out)]


def all_pods_run(place: Place) -> bool:
    """Return True if all six pods of the four jobs run."""
    return [row[2:] for row in listed(place, "gpuctl get jobs")] == [("Running", "1/1")] * 6


def test_quick_start_and_job_commands_of_the_documents(place: Place) -> None:
    created = run(place, "gpuctl create -f train-pool.yaml").out
    assert "created   configmap/pool-training-pool" in created
    created = run(place, "gpuctl create -f training-job.yaml")
    assert f"created   job.batch/{TRAINING}" in created.out
    run(place, "gpuctl create -f inference-service.yaml")
    run(place, "gpuctl create -f notebook-job.yaml -f nginx-job.yaml")
    again = run(place, "gpuctl create -f training-job.yaml", code=1)
    assert f"job.batch/{TRAINING} in default exists already" in again.err
    place.until(lambda: all_pods_run(place), "all jobs to run")

    shown = run(place, "gpuctl get jobs").out
    assert re.split(r" {2,}", shown.splitlines()[0]) == HEADERS
    running = ("Running", "1/1")
    everything = [
        (NOTEBOOK, "notebook", *running),
        (INFERENCE, "inference", *running),
        (INFERENCE, "inference", *running),
        (TRAINING, "training", *running),
        (COMPUTE, "compute", *running),
        (COMPUTE, "compute", *running),
    ]
    assert listed(place, "gpuctl get jobs") == everything
    assert listed(place, "gpuctl get jobs --pods") == everything
    assert listed(place, "gpuctl get jobs --pool training-pool") == [(TRAINING, "training", *running)]
    assert listed(place, "gpuctl get jobs --type training") == [(TRAINING, "training", *running)]
    rows = {row["NAME"]: row for row in table(shown)}
    assert re.fullmatch(rf"{TRAINING}-[a-z0-9]{{5}}", rows[TRAINING]["JOB ID"])
    assert re.fullmatch(rf"{INFERENCE}-[a-z0-9]{{8,10}}-[a-z0-9]{{5}}", rows[INFERENCE]["JOB ID"])
    assert rows[NOTEBOOK]["JOB ID"] == f"{NOTEBOOK}-0"
    assert (rows[TRAINING]["NODE"], rows[NOTEBOOK]["NODE"]) == ("node1", "node4")

    # <job-id> in the documents is the name of the job or of one of its pods.
    for job_id in (TRAINING, *pods(place, TRAINING)):
        described = run(place, f"gpuctl describe job {job_id}").out
        facts = dict(re.findall(r"^(\w[\w ]*):\s+(.*)$", described, re.MULTILINE))
        assert (facts["Name"], facts["Status"], facts["Pool"]) == (TRAINING, "Running", "training-pool")
        assert facts["Resources"].startswith("4 x A100-100G GPU, 32 cpu, 128Gi memory")
        assert "kind: training" in described

    (pod,) = pods(place, TRAINING)
    place.plane.write_log("default", pod, "step 1 loss 0.91\nstep 2 loss 0.87\nsaved\n")
    for line, printed in (
        (f"gpuctl logs {TRAINING}", ["step 1 loss 0.91", "step 2 loss 0.87", "saved"]),
        (f"gpuctl logs {pod} --tail 1", ["saved"]),
        (f"gpuctl logs {TRAINING} --grep loss", ["step 1 loss 0.91", "step 2 loss 0.87"]),
    ):
        assert run(place, line).out.splitlines() == printed

    assert "paused" in run(place, f"gpuctl pause {TRAINING}").out
    place.until(lambda: listed(place, f"gpuctl get jobs {TRAINING}")[0][2] == "Paused", "the training to be paused")
    place.until(lambda: not place.pods(TRAINING), "its pod to go")

    def gpus() -> tuple[str, str]:
        pools = {row["POOL NAME"]: row for row in table(run(place, "gpuctl get pools").out)}
        return pools["training-pool"]["GPU TOTAL"], pools["training-pool"]["GPU USED"]

    # A terminating pod still holds its GPUs.
    place.until(lambda: gpus() == ("16", "0"), "the GPUs to be free")
    run(place, f"gpuctl resume {TRAINING}")
    place.until(lambda: listed(place, f"gpuctl get jobs {TRAINING}")[0][2] == "Running", "the training to run again")

    (pod,) = pods(place, TRAINING)
    place.plane.annotate("default", pod, outcome="complete")
    # `logs -f` of a training ends when the training ends.
    followed = run(place, f"gpuctl logs {TRAINING} -f")
    assert "simulated container" in followed.out
    run(place, f"gpuctl wait {TRAINING} --for=done")
    assert listed(place, f"gpuctl get jobs {TRAINING}") == [(TRAINING, "training", "Succeeded", "0/1")]

    assert f"deleted   deployment.apps/{COMPUTE}" in run(place, "gpuctl delete -f nginx-job.yaml").out
    assert f"deleted   deployment.apps/{INFERENCE}" in run(place, f"gpuctl delete job {INFERENCE}").out
    run(place, f"gpuctl delete job {NOTEBOOK} --force --yes")
    place.until(
        lambda: [row[0] for row in listed(place, "gpuctl get jobs")] == [TRAINING], "what was deleted to be gone"
    )
    assert "deleted   configmap/pool-training-pool" in run(place, "gpuctl delete -f train-pool.yaml --yes").out
    assert "training-pool" not in {row["POOL NAME"] for row in table(run(place, "gpuctl get pools").out)}
