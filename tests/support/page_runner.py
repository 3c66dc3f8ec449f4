"""Runs the pages of ``docs/paths`` and their like as a reader does: in order, in one directory, on a sandbox.

A fenced block of such a page has a note, an HTML comment on the line above it:

``file: NAME``
    the block is that file.
``run``, ``run: exit code N``
    the commands are typed into a shell. The directory that they end in is that of the next block.
``printed``
    the block is what the commands before it have printed, on both streams. ``# ...`` stands for any lines; ages,
    times, addresses, the random parts of pod names, and the choice between two equal nodes may differ.
``not run: REASON``
    the commands are not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from support.pages import Block, assert_output, blocks

_PATIENCE = 90.0
_READS = re.compile(
    r"(gpuctl (get|why|logs|describe|fit|history|diff|usage)|kubectl get|cat|head|grep|gpuctl validate)\b"
)
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_VARIABLE_PARTS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?( UTC)?"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?( UTC)?"), "TIME"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(rf"-[0-9a-f]{{7,10}}-{_SUFFIX}\b"), "-RANDOM"),
    (re.compile(rf"-{_SUFFIX}\b"), "-RANDOM"),
    # Kueue's Workloads end with a hash.
    (re.compile(r"-(?=[a-f]*\d)[0-9a-f]{5}\b"), "-RANDOM"),
    (re.compile(r"\b\d+ (h|min|s)( \d+ min)?\b"), "AGE"),
    (re.compile(r"\b(?=\d)(\d+d)?(\d+h)?(\d+m)?(\d+(\.\d+)?s)?\b(?<=[dhms])"), "AGE"),
    (re.compile(r"\bgpu-[12]\b"), "gpu-N"),
    (re.compile(r"\b3[0-2]\d{3}\b"), "PORT"),
    (re.compile(r"\bstep \d+"), "step N"),
    # The first job of a cluster creates them.
    (re.compile(r"^created   priorityclass\.\S+\n", re.MULTILINE), ""),
    (re.compile(r" {2,}"), "  "),
)

_STEPS = re.compile(r"(?:^(?:created|updated|replaced|unchanged|deleted|skipped) .*\n)+", re.MULTILINE)


def comparable(text: str) -> str:
    """Replace what differs from run to run by words that do not."""
    for pattern, word in _VARIABLE_PARTS:
        text = pattern.sub(word, text)
    # Steps that do not depend on each other are done at the same time.
    return _STEPS.sub(lambda match: "".join(sorted(match[0].splitlines(keepends=True))), text)


class PageRunner:
    """A shell in a directory."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = dict(environment)

    def run_page(self, document: str) -> None:
        """Run a page from top to bottom."""
        last = Block("", "", "")
        printed = ""
        for block in blocks(document):
            if (name := block.note_after("file:")) is not None:
                path = self.directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.note.startswith("run"):
                last, printed = block, self.run_block(block)
            elif block.note == "printed":
                self._compare(block, last, printed)
            else:
                assert block.note_after("not run:"), f"{document}: a block without a note:\n{block.text}"

    def run_block(self, block: Block) -> str:
        """Run the commands of a block, and return what they print."""
        code = int(block.note_after("run: exit code") or 0)
        where = self.directory.parent / "where"
        script = f"set -eu -o pipefail\ntrap 'pwd -P > {where}' EXIT\n{block.text}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=300,
        )
        assert done.returncode == code, f"exit code {done.returncode} of:\n{block.text}\n{done.stdout}"
        self.directory = Path(where.read_text().strip())
        return done.stdout

    def _compare(self, shown: Block, block: Block, printed: str) -> None:
        """Compare a block with what was printed; commands that only read are repeated until they agree."""
        reads = all(_READS.match(line) for line in block.text.splitlines() if line and not line.startswith(" "))
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                assert_output(comparable(shown.text), comparable(printed))
                return
            except AssertionError as error:
                if not reads or time.monotonic() > end:
                    raise AssertionError(f"{block.text}\nprinted:\n{printed}\n{error}") from error
            time.sleep(0.5)
            printed = self.run_block(block)


def reader_environment(programs: Iterable[Path], kubeconfig: Path) -> dict[str, str]:
    """Return the environment of a reader who has installed gpuctl and kubectl and uses a sandbox."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GPUCTL_", "PYTHONPATH"))}
    who = {f"GIT_{who}_{what}": "dev@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = os.pathsep.join((*map(str, programs), os.environ["PATH"]))
    config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return {**kept, **who, **config, "PATH": path, "KUBECONFIG": str(kubeconfig), "PYTHONUTF8": "1", "COLUMNS": "200"}
