"""The command that a warning about a launcher advises causes no warning itself."""

from __future__ import annotations

import re

import pytest

import gpuctl

PLATFORM = gpuctl.Source("platform.yaml", "kind: platform\nversion: v0.1\ntraining: {queue: {default: all}}\n")


def warnings_about(command: list[str]) -> list[gpuctl.Diagnostic]:
    """Return the warnings about a training on two nodes with this command."""
    text = (
        "kind: training\nversion: v0.1\njob: {name: demo}\nresources: {nodes: 2, gpu: 8, cpu: 64, memory: 512Gi}\n"
        f"environment: {{image: 'app:1', command: {command!r}}}\n"
    )
    return gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=PLATFORM).diagnostics


@pytest.mark.parametrize(
    "command",
    [
        ["deepspeed", "train.py"],
        ["/opt/bin/deepspeed", "--num_gpus", "8", "train.py", "--deepspeed"],
        ["python", "-m", "deepspeed", "--module", "pkg.train"],
        ["deepspeed", "--no_ssh", "train.py"],
        ["deepspeed", "--no_ssh", "--node_rank=0", "--master_addr=$(MASTER_ADDR)", "train.py"],
        ["deepspeed", "--no_ssh", "--node_rank=$(NODE_RANK)", "train.py"],
        ["deepspeed", "-H", "/job/hostfile", "train.py", "--no_ssh"],
    ],
)
def test_advised_deepspeed_command_has_no_warning(command: list[str]) -> None:
    (warning,) = warnings_about(command)
    assert warning.code == "GPU506"
    advised = re.search(r"`(.*) \.\.\.`", warning.hint or "")
    assert advised is not None
    words = advised[1].split()
    assert words[-1] in command
    assert warnings_about(words) == []


@pytest.mark.parametrize("kind", ["inference", "training"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_server_without_gpus_is_told_how_many_it_needs(kind: str, nodes: int) -> None:
    def warnings(gpus: int) -> list[str | None]:
        text = (
            f"kind: {kind}\nversion: v0.1\njob: {{name: demo}}\n"
            f"resources: {{nodes: {nodes}, gpu: {gpus}, cpu: 64, memory: 512Gi}}\n"
            "environment: {image: 'app:1', command: [vllm, serve, /models/m, --tensor-parallel-size=8, --node-rank=0]}\n"
        )
        found = gpuctl.compile(gpuctl.Source("demo.yaml", text), platform=PLATFORM).diagnostics
        return [item.hint for item in found if item.code == "GPU503"]

    (hint,) = warnings(0)
    assert hint is not None
    needed = re.match(r"set `resources\.gpu: (\d+)`", hint)
    assert needed is not None
    assert warnings(int(needed[1])) == []


TORCHRUN = "start the program with torchrun, which sets `{}` for each process"
WITHOUT_SRUN = (
    "remove `srun` and its options: gpuctl starts the command once on each node of `resources.nodes`, and torchrun "
    "a process for each GPU"
)
IN_PLACE = "write `{}`, which has the same value in a pod"


@pytest.mark.parametrize(
    ("command", "part", "code", "hint", "better"),
    [
        (
            *(["srun", "--ntasks=2", "torchrun", "t.py"], "srun", "GPU527"),
            WITHOUT_SRUN,
            ["torchrun", "t.py"],
        ),
        (
            *(["bash", "-c", "cd /w && srun torchrun t.py"], "srun", "GPU527"),
            WITHOUT_SRUN,
            ["bash", "-c", "cd /w && torchrun t.py"],
        ),
        (
            *(["bash", "-c", "python t.py --rank $SLURM_PROCID"], "$SLURM_PROCID", "GPU527", TORCHRUN.format("RANK")),
            ["bash", "-c", "torchrun t.py"],
        ),
        (
            *(["bash", "-c", "python t.py --node ${SLURM_NODEID}"], "${SLURM_NODEID}", "GPU527"),
            IN_PLACE.format("${NODE_RANK}"),
            ["bash", "-c", "python t.py --node ${NODE_RANK}"],
        ),
        (
            *(["python", "t.py", "$SLURM_NNODES"], "$SLURM_NNODES", "GPU510", IN_PLACE.format("$(NNODES)")),
            ["python", "t.py", "$(NNODES)"],
        ),
        (
            *(["python", "t.py", "--host=$(SLURM_JOB_NODELIST)"], "$(SLURM_JOB_NODELIST)", "GPU510"),
            "pods have no list of hosts; the address of the first node is `$(MASTER_ADDR)`",
            ["python", "t.py", "--host=$(MASTER_ADDR)"],
        ),
        (
            *(["bash", "-c", "python t.py $SLURM_ARRAY_TASK_ID"], "$SLURM_ARRAY_TASK_ID", "GPU527"),
            "write `$GPUCTL_ARRAY_INDEX`, which the runs of an `array` have; indexes begin with 0",
            ["bash", "-c", "python t.py $GPUCTL_ARRAY_INDEX"],
        ),
        (
            *(["bash", "-c", "echo $SLURM_CLUSTER_NAME"], "$SLURM_CLUSTER_NAME", "GPU527"),
            "write its value: no pod has such a variable",
            ["bash", "-c", "echo a100"],
        ),
    ],
)
def test_slurm_in_a_command(command: list[str], part: str, code: str, hint: str, better: list[str]) -> None:
    (warning,) = warnings_about(command)
    assert (warning.code, warning.hint) == (code, hint)
    assert part.strip("$(){}") in warning.message
    assert warnings_about(better) == []


@pytest.mark.parametrize(
    "script",
    ["echo ${SLURM_PROCID:-0}", "export SLURM_PROCID=0; echo $SLURM_PROCID", "echo '\\$SLURM_PROCID'", "ls srun"],
)
def test_script_that_copes_without_slurm(script: str) -> None:
    assert warnings_about(["bash", "-c", script]) == []
