"""Values that a source does not name: those of the command line, and those that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gpuctl.language.names import nearest_dns_label
from gpuctl.language.settings import Settings

REASONS = {
    "--name": "no line names the job",
    "--image": "no line names a container image",
    "--cpu": "no line says how many CPUs the job needs on each node",
    "--memory": "no line says how much memory the job needs on each node",
}
"""Option -> why its value is missing, where no line calls for it."""
_LONGEST_SCRIPT = 64 * 1024
_QUESTIONS = {
    "--name": "Name of the job",
    "--image": "Image",
    "--nodes": "Nodes",
    "--gpus-per-node": "GPUs of each node",
    "--cpu": "CPU cores of each node",
    "--memory": "Memory of each node",
    "--partition": "Pool",
}


class Given(NamedTuple):
    """Values of the command line. None: the source's value, or a question.

    ``pools``: a partition of Slurm -> the pool. ``names``: the name of a job that is too long -> the one in its place.
    ``settings``: those of the platform.
    """

    image: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    cpu: str | None = None
    memory: str | None = None
    pool: str | None = None
    workdir: str | None = None
    name: str | None = None
    pools: Mapping[str, str] = MappingProxyType({})
    names: Mapping[str, str] = MappingProxyType({})
    settings: Settings = Settings()

    @property
    def rdma(self) -> str | None:
        """The extended resource of the platform's RDMA devices; None if it has none."""
        rdma = self.settings.platform.network.rdma
        return rdma.resource if rdma is not None else None

    def job_name(self, written: str) -> tuple[str | None, str | None]:
        """Return the name of a job, and what differs from the written one; None if this has no letters for a name."""
        nearest = nearest_dns_label(written, letter_first=True)
        name = self.name or self.names.get(nearest or "", nearest)
        if name == written:
            return name, None
        if self.name is not None:
            return name, "--name replaces it"
        return name, f"the name is `{name}`" + ("" if name == nearest else ": a longer one is not valid here")

    def of_job(self, index: int, number: int) -> Given:
        """Return the values for one of several jobs of a source, whose names then end in a number."""
        is_one = number == 1 or self.name is None
        return self if is_one else self._replace(name=f"{self.name}-{index + 1}")


class Missing(NamedTuple):
    """A value that neither the source nor the command line names.

    ``option`` gives it; ``value`` is what stands for it in messages. ``line``: the line that calls for it.
    """

    option: str
    value: str
    line: int
    reason: str

    @property
    def is_number(self) -> bool:
        """True if the value is a whole number."""
        return self.option in ("--nodes", "--gpus-per-node")

    @property
    def question(self) -> str:
        """The question for the value."""
        return _QUESTIONS[self.option]


class ImportFailure(NamedTuple):
    """The reason why a source cannot be imported: the place, what is wrong, and what to do."""

    line: int
    message: str
    hint: str
    column: int = 1

    @property
    def place(self) -> str:
        """The line and the column."""
        return f"{self.line}:{self.column}"


class Unreadable(Exception):
    """The source cannot be imported at all."""

    def __init__(self, line: int, message: str, hint: str, column: int = 1) -> None:
        super().__init__(message)
        self.problem = ImportFailure(line, message, hint, column)

    def at(self, line: int) -> Unreadable:
        """Return the same reason at another line."""
        return Unreadable(line, self.problem.message, self.problem.hint, self.problem.column)


def check_script(text: str, hint: str, what: str = "file", first_line: int = 1) -> None:
    """Check that a script can be the argument of a process.

    :param hint: what to do with a very long one.
    :raises Unreadable: it is very long, or has a NUL character.
    """
    if len(text) > _LONGEST_SCRIPT:
        raise Unreadable(first_line, f"the {what} has more than {_LONGEST_SCRIPT // 1024} KiB", hint)
    before, nul, _ = text.partition("\0")
    if nul:
        message = "the line has a NUL character, which no process can receive"
        column = len(before.rpartition("\n")[2]) + 1
        raise Unreadable(first_line + before.count("\n"), message, "remove it", column)


def completed(given: Given, missing: Missing, answer: str) -> Given:
    """Return the values with the answer to a question."""
    if missing.option == "--partition":
        partition = missing.value.rpartition("=")[0]
        return given._replace(pools={**given.pools, partition: answer})
    value: Any = int(answer) if missing.is_number else answer
    return given._replace(**{missing.option.removeprefix("--").replace("-", "_"): value})
