"""The options of `sbatch` and `srun`: their names, and how they are written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Long names with a value. The second part are options of the plugins Shifter, Enroot and uenv, the third those of srun
# and of pyxis.
_VALUED = """
acctg-freq autocomplete bb bbf begin burst-buffer cluster-constraint comment container container-id context
cores-per-socket cpu-freq cpus-per-gpu deadline delay-boot export export-file extra gid gpu-bind gpu-freq gpus-per-node
gpus-per-socket gpus-per-task gres gres-flags hint kill-on-invalid-dep mail-type mail-user mcs-label mem mem-bind
mem-per-cpu mem-per-gpu mem-update mincpus network ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
ntasks-per-tres open-mode power prefer priority profile reservation resources runtime segment signal sockets-per-node
switches thread-spec threads-per-core time-min tmp tres-bind tres-per-job tres-per-task uid wait-all-nodes wckey wrap

environment image module uenv view volume

accel-bind bcast-exclude container-env container-image container-mounts container-name container-save container-workdir
cpu-bind epilog het-group ignore-signals jobid mpi msg-timeout prolog relative slurmd-debug task-epilog task-prolog
threads treewidth
"""
_WITH_LETTER = {
    "account": "A",
    "array": "a",
    "batch": "",
    "chdir": "D",
    "clusters": "M",
    "constraint": "C",
    "core-spec": "S",
    "cpus-per-task": "c",
    "dependency": "d",
    "distribution": "m",
    "error": "e",
    "exclude": "x",
    "extra-node-info": "B",
    "gpus": "G",
    "input": "i",
    "job-name": "J",
    "licenses": "L",
    "nodefile": "F",
    "nodelist": "w",
    "nodes": "N",
    "ntasks": "n",
    "output": "o",
    "partition": "p",
    "qos": "q",
    "time": "t",
}
_WITH_VALUE = frozenset({*_VALUED.split(), *_WITH_LETTER})
# Options without a value, or with one only after `=`.
_PLAIN = """
async bcast compress consolidate-segments contiguous debugger-test disable-status disable-stdout-job-summary
enforce-binding exact exclusive external external-launcher get-user-env ignore-pbs interactive multi-prog nice
no-requeue oom-kill-step overlap parsable propagate pty quit-on-interrupt reboot requeue resv-ports send-libs spread-job
spread-segments stepmgr test-only usage use-min-nodes wait-for-children whole x11

container-entrypoint container-mount-home container-readonly container-remap-root container-writable kill-on-bad-exit
no-container-entrypoint no-container-mount-home no-container-remap-root
"""
_FLAG_LETTERS = {
    "help": "h",
    "hold": "H",
    "immediate": "I",
    "label": "l",
    "no-kill": "k",
    "no-allocate": "Z",
    "oversubscribe": "s",
    "overcommit": "O",
    "preserve-env": "E",
    "quiet": "Q",
    "unbuffered": "u",
    "verbose": "v",
    "version": "V",
    "wait": "W",
}
_FLAGS = frozenset({*_PLAIN.split(), *_FLAG_LETTERS})
_LETTERS = {letter: name for table in (_WITH_LETTER, _FLAG_LETTERS) for name, letter in table.items() if letter}
_LETTERS["b"] = "begin"
_OLD_NAMES = {
    "cluster": "clusters",
    "pack-group": "het-group",
    "share": "oversubscribe",
    "tasks": "ntasks",
    "tasks-per-node": "ntasks-per-node",
    "workdir": "chdir",
}
_NAMES = sorted({*_WITH_VALUE, *_FLAGS, *_OLD_NAMES})
OPTION_NAMES = frozenset(_NAMES)
OF_CONTAINERS = frozenset(
    [
        "environment",
        "image",
        "module",
        "uenv",
        "view",
        "volume",
        *(name for name in _NAMES if name.startswith(("container-", "no-container-"))),
    ]
) - {"container-id"}
"""Options of the plugins pyxis, Shifter, Enroot and uenv."""
_ATTACHED = frozenset({"immediate", "kill-on-bad-exit"})
"""Options whose value, if any, follows their letter."""
# `srun --wait 60` and `-K` differ from those of sbatch.
_OF_SRUN = {"K": "kill-on-bad-exit", "X": "disable-status", "r": "relative"}

_TRES = {"cpu": "cpus-per-task", "gres/gpu": "gpus-per-task"}
"""Resource of `--tres-per-task` -> the option that names it."""


class SlurmOption(NamedTuple):
    """An option as written. ``value`` is None for a flag; ``known`` is False if Slurm does not define the option."""

    name: str
    value: str | None
    text: str
    line: int
    known: bool = True


class SplitOptions(NamedTuple):
    """Options in front of a command, and the number of words that they take."""

    options: list[SlurmOption]
    words: int


def directive_words(text: str) -> list[str]:
    """Return the words after ``#SBATCH``. A quotation mark that is not closed stays as written."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split(" #", 1)[0].split()


def read_options(words: Sequence[str], line: int, *, srun: bool = False) -> SplitOptions:
    """Return the options at the start of the words, up to the first word that is not one."""
    options: list[SlurmOption] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        if word == "--":
            at += 1
            break
        following = words[at + 1] if at + 1 < len(words) else None
        found = list(
            _long(word, following, line, srun) if word.startswith("--") else _short(word, following, line, srun)
        )
        options += (option for item in found for option in _of_each_task(item))
        at += 1 + (found[-1].text.startswith(word + " ") and found[-1].value == following)
    return SplitOptions(options, at)


def _of_each_task(option: SlurmOption) -> Iterator[SlurmOption]:
    """Yield an option, or those that ``--tres-per-task=cpu:8,gres/gpu:h100:1`` stands for."""
    if option.name != "tres-per-task" or not option.value:
        yield option
        return
    for item in option.value.split(","):
        kind, _, amount = item.replace("=", ":").partition(":")
        name, value = (_TRES[kind], amount) if kind in _TRES else (option.name, item)
        yield option._replace(name=name, value=value, text=f"--tres-per-task={item}")


def _long(word: str, following: str | None, line: int, srun: bool) -> Iterator[SlurmOption]:
    """Read an option such as ``--nodes=2`` or ``--nodes 2``; as with getopt, the start of a name is enough."""
    written, equals, value = word[2:].partition("=")
    name = written.replace("_", "-")
    if name not in _WITH_VALUE and name not in _FLAGS and name not in _OLD_NAMES:
        full = [item for item in _NAMES if item.startswith(name)]
        if len(full) != 1:
            yield SlurmOption(name, value if equals else None, word, line, known=False)
            return
        name = full[0]
    name = _OLD_NAMES.get(name, name)
    if equals:
        yield SlurmOption(name, value, word, line)
    elif _has_value(name, srun) and following is not None:
        yield SlurmOption(name, following, f"{word} {following}", line)
    else:
        yield SlurmOption(name, None, word, line)


def _has_value(name: str, srun: bool) -> bool:
    return name in _WITH_VALUE or (srun and name == "wait")


def _short(word: str, following: str | None, line: int, srun: bool) -> Iterator[SlurmOption]:
    """Read letters such as ``-N2``, ``-N 2`` or ``-lu``."""
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        name = _OF_SRUN.get(letter) if srun else None
        name = name or _LETTERS.get(letter)
        if name is None:
            yield SlurmOption(letter, letters or None, f"-{letter}{letters}", line, known=False)
            return
        if name in _ATTACHED and letters[:1].isdigit():
            yield SlurmOption(name, letters, f"-{letter}{letters}", line)
            return
        if _has_value(name, srun):
            if letters:
                yield SlurmOption(name, letters.removeprefix("="), f"-{letter}{letters}", line)
            elif following is not None:
                yield SlurmOption(name, following, f"-{letter} {following}", line)
            else:
                yield SlurmOption(name, None, f"-{letter}", line)
            return
        yield SlurmOption(name, None, f"-{letter}", line)
