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
