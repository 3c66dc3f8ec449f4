"""Finds what the scripts that a batch script calls use of Slurm."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.frontend.code_tree import CodeTree
from gpuctl.frontend.command_advice import SHELLS
from gpuctl.importing.slurm.command_rules import SLURM_COMMANDS

_LONGEST = 64 * 1024
_SHELLS = SHELLS | {"source", "."}
_SCRIPT = r"[\w@%+=:,./${}~-]*[\w}-]\.(?:sh|bash)\Z"
_USE = r"\b(?P<name>SLURMD?_\w+)(?P<default>:?-)?"
_COMMAND = rf"(?m)(?:^|[;&|(`]|\bthen\b|\bdo\b)[ \t]*({'|'.join([*SLURM_COMMANDS, 'srun'])})\b"
_COMMENT = r"(?m)^[ \t]*#[^\n]*"
_SETS = r"(?m)^[ \t]*(?:export[ \t]+|declare[ \t]+-x[ \t]+)?([A-Za-z_]\w*)="
OF_TORCHRUN = {"SLURM_PROCID": "RANK", "SLURM_LOCALID": "LOCAL_RANK", "SLURM_STEP_NUM_TASKS": "WORLD_SIZE"}
"""Variables of a process -> those that torchrun sets."""
LAUNCHER = (
    r"(?:^|[\s;&|(/\"'=])(?:torchrun|deepspeed|accelerate[ \t]+launch|composer|horovodrun|mpirun|mpiexec)(?=[\s\"'])"
    r"|\btorch\.distributed\.(?:run|launch)\b"
)
"""A program that starts the processes of a node."""


class CalledScript(NamedTuple):
    """A script that a batch script calls.

    :param text: its content; None if there is no such file, or it cannot be read.
    """

    name: str
    text: str | None

    @property
    def variables(self) -> list[str]:
        """The variables of Slurm that it uses, and to which it gives no value."""
        used = (match["name"] for match in re.finditer(_USE, self._code) if match["default"] is None)
        return [name for name in dict.fromkeys(used) if name not in self.assigned]

    @property
    def commands(self) -> list[str]:
        """The commands of Slurm that it calls."""
        return list(dict.fromkeys(re.findall(_COMMAND, self._code)))

    @property
    def assigned(self) -> frozenset[str]:
        """The variables that it sets."""
        return frozenset(re.findall(_SETS, self._code))

    @property
    def starts_processes(self) -> bool:
        """True if it starts torchrun or another launcher."""
        return re.search(LAUNCHER, self._code) is not None

    @property
    def _code(self) -> str:
        return re.sub(_COMMENT, "", self.text or "")


class CalledScripts:
    """Finds the scripts that a batch script calls.

    :param tree: the files around the batch script; None if it is in no directory.
    :param equals: a variable of Slurm -> its value in a pod, as a shell writes it.
    """

    def __init__(self, tree: CodeTree | None, equals: Mapping[str, str] = MappingProxyType({})) -> None:
        self.tree = tree
        self.equals = equals
        self._read: dict[str, str | None] = {}

    def script_of(self, words: Sequence[str]) -> CalledScript | None:
        """Return the script that a command runs; None if it runs none.

        :param words: of the command. The script is the program, or the first argument of a shell.
        """
        is_shell = bool(words) and words[0].rsplit("/", 1)[-1] in _SHELLS
        rest = [word for word in words[1:3] if word not in ("-x", "-e", "-l", "-u")] if is_shell else list(words)
        path = rest[0].strip('"') if rest else ""
        is_script = re.match(_SCRIPT, path) is not None or (is_shell and re.match(r"[\w./~$]", path) is not None)
        return CalledScript(path, self._text(path)) if is_script else None

    def _text(self, path: str) -> str | None:
        if path not in self._read:
            self._read[path] = self._found(path)
        return self._read[path]

    def _found(self, path: str) -> str | None:
        """Read a script. Batch scripts are submitted from their directory, or from the root of their repository."""
        if self.tree is None or path.startswith("/") or "$" in path:
            return None
        for directory in dict.fromkeys((posixpath.dirname(self.tree.file), "")):
            place = posixpath.normpath(posixpath.join(directory, path))
            if place.startswith("../") or (real := self.tree.real_path(place)) is None:
                continue
            try:
                if self.tree.sizes([real])[real] <= _LONGEST:
                    return self.tree.read_all([real])[real].decode(errors="replace")
            except OSError:
                continue
        return None
