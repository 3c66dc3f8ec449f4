"""Commands that start a program in a container, such as `apptainer exec`: the pod is that container."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from gpuctl.frontend.platform_restrictions import RESERVED_ENV
from gpuctl.importing.draft import COMMAND
from gpuctl.importing.slurm.body_facts import BodyState
from gpuctl.importing.slurm.body_syntax import BodyWord
from gpuctl.importing.slurm.command_rules import (
    CONTAINER_TOOLS,
    MPI_LAUNCHERS,
    STARTS_CONTAINER,
    is_for_each_node,
)
from gpuctl.importing.slurm.sbatch_options import SlurmOption
from gpuctl.importing.slurm.slurm_values import memory_of
from gpuctl.importing.slurm.srun_options import SrunOptions
from gpuctl.language.names import is_env_name

_STARTS_CONTAINER = re.compile(STARTS_CONTAINER)
_STARTER = rf"(?:\S*/)?({'|'.join(CONTAINER_TOOLS)})\Z"
# Options with a value; others have none, or one after `=`.
_OF_APPTAINER = """
-B --bind -H --home -S --scratch -W --workdir -o --overlay --add-caps --app --apply-cgroups --cpus --cwd --dns
--drop-caps --env --env-file --fusemount --hostname --memory --mount --network --network-args --no-mount --pem-path
--pwd --security
"""
_OF_DOCKER = """
-e -h -l -m -p -u -v -w --add-host --annotation --cap-add --cap-drop --cgroup-parent --cidfile --cpus --cpuset-cpus
--cpu-shares --device --dns --entrypoint --env --env-file --expose --gpus --group-add --hostname --ip --ipc --label
--log-driver --log-opt --memory --memory-swap --mount --name --net --network --pid --platform --publish --pull
--restart --runtime --security-opt --shm-size --stop-signal --stop-timeout --tmpfs --ulimit --user --volume --workdir
"""
_MOUNTED = {"-v": "mounts", "--volume": "mounts", "-w": "workdir", "--workdir": "workdir", "-e": "env", "--env": "env"}


class _Tool(NamedTuple):
    """A tool that starts containers.

    ``valued``: options with a value. ``fields``: an option -> what it sets. ``has_files``: its images are files, but
    for those of a registry with ``docker://``. ``names_image``: the first word behind the options is the image.
    """

    valued: frozenset[str]
    fields: Mapping[str, str]
    has_files: bool = False
    names_image: bool = True


_APPTAINER = _Tool(
    frozenset(_OF_APPTAINER.split()),
    {"-B": "mounts", "--bind": "mounts", "--pwd": "workdir", "--cwd": "workdir", "--env": "envs"},
    has_files=True,
)
_DOCKER = _Tool(
    frozenset(_OF_DOCKER.split()), {**_MOUNTED, "--entrypoint": "entrypoint", "--shm-size": "shared memory"}
)
_ENROOT = _Tool(
    frozenset(["-m", "--mount", "-e", "--env", "-c", "--conf"]),
    {"-m": "mounts", "--mount": "mounts", "-e": "env", "--env": "env"},
    has_files=True,
)
_SHIFTER = _Tool(
    frozenset(["-V", "--volume", "-v", "-i", "--image", "-m", "--module", "-e", "--env", "-w", "--workdir"]),
    {**_MOUNTED, "-V": "mounts", "-i": "image", "--image": "image"},
    names_image=False,
)
_CHARLIECLOUD = _Tool(
    frozenset(["-b", "--bind", "-c", "--cd", "-g", "--gid", "-m", "--mount", "-u", "--uid", "--join-ct", "--join-tag"]),
    {"-b": "mounts", "--bind": "mounts", "-c": "workdir", "--cd": "workdir", "--set-env": "env"},
    has_files=True,
)
_TOOLS = {
    "apptainer": _APPTAINER,
    "singularity": _APPTAINER,
    "enroot": _ENROOT,
    "shifter": _SHIFTER,
    "ch-run": _CHARLIECLOUD,
}
"""Other tools have the options of Docker."""
_SUPERFLUOUS = {
    **dict.fromkeys(
        ("--nv", "--nvccli", "--rocm", "--gpus", "--gpu", "--runtime"), "a pod has the GPUs of `resources.gpu`"
    ),
    **dict.fromkeys(("-w", "--writable", "--writable-tmpfs", "--rw"), "the file system of a container is writable"),
    "--ipc": "shared memory is `resources.shm`",
    **dict.fromkeys(
        ("--no-home", "-c", "--contain", "-C", "--containall"), "only the mounts of the document are mounted"
    ),
    **dict.fromkeys(("-e", "--cleanenv"), "a container has the variables of the document and of its image"),
    **dict.fromkeys(("--rm", "-i", "-t", "--tty", "--interactive", "--init", "--name", "-q"), None),
    **dict.fromkeys(("--quiet", "-s", "--silent", "--disable-cache"), None),
}
MOUNTS = "mount the directory in `storage.workdirs`"
_NO_EQUAL = {
    **dict.fromkeys(("-H", "--home", "-S", "--scratch", "-W", "-o", "--overlay", "--mount", "--tmpfs"), MOUNTS),
    "--env-file": "variables are `environment.env`",
    **dict.fromkeys(("-p", "--publish"), "`gpuctl port-forward NAME` reaches a port of a pod"),
    **dict.fromkeys(("--network", "--net"), "use `resources.network`"),
    **dict.fromkeys(("-u", "--user"), "users are `security.user` and `security.group`"),
    **dict.fromkeys(("-d", "--detach"), "the script waits for the program: write `&` behind it"),
    "--privileged": "write `podPatch`",
    "--entrypoint": "write the program into `environment.command`",
    "--shm-size": "write `resources.shm`",
    **dict.fromkeys(("-m", "--module"), "what a module of the host adds has to be in the image"),
}
NO_CONTAINERS = "a pod is a container and starts no other: write its image and program into the document"
_MOST_WORDS = 20
_BIND_VARIABLE = r"\b(?:APPTAINER|SINGULARITY)_BIND(?:PATH)?\b"
_OPTIONS_IN_VARIABLE = r"\"?\$\{?\w*(?:ARG|OPT|BIND|FLAG|MOUNT)"


def bind_variable(name: str, value: str, line: int, srun: SrunOptions) -> str | None:
    """Take the variable with the mounts of Apptainer. Return its field; None if it is another variable.

    :param value: its value, which is known.
    """
    if re.fullmatch(_BIND_VARIABLE, name) is None:
        return None
    srun.take([SlurmOption("container-mounts", value, name, line)])
    return "storage.workdirs"


def unknown_mounts(text: str) -> str | None:
    """Return the name of the variable if a line that stays in a script sets the mounts of Apptainer."""
    found = re.search(rf"{_BIND_VARIABLE}(?==)", text)
    return found[0] if found is not None else None


def starts_container(name: str) -> bool:
    """Return True if a program of this name starts containers."""
    return re.match(_STARTER, name) is not None


class _Container(NamedTuple):
    """A command that starts a container: the places of its options, its image and its program among its words."""

    options: list[tuple[int, str, str | None]]
    image: int
    program: int


def container_program(body: BodyState, words: Sequence[BodyWord], srun: SrunOptions) -> int:
    """Add the image, mounts and directory of a container to the document. Return the index of its program.

    0 if the command starts no container, or if it is not known which program that runs.
    """
    known, owners = body.known_words(words)
    match = re.match(_STARTER, known[0]) if known else None
    if match is None:
        return 0
    tool, action = _TOOLS.get(match[1], _DOCKER), CONTAINER_TOOLS[match[1]]
    if tool is _SHIFTER and known[1:2] == ["run"]:
        # The shifter of some sites has the commands of Docker.
        tool, action = _DOCKER, "run"
    lines = body.lines(words[0].start, words[-1].end)
    start = _parse(known, tool, action)
    if start is None or start.program >= len(known) or owners[start.program] == owners[start.program - 1]:
        body.remarks.dropped(lines, NO_CONTAINERS)
        return 0
    if tool.names_image and re.match(_OPTIONS_IN_VARIABLE, known[start.image]) is not None:
        body.remarks.dropped(lines, "a variable has options of the container that are not known: write them out")
        return 0
    for at, name, value in start.options:
        _option(srun, body.line(words[owners[at]].start), tool.fields.get(name), name, value)
    if not tool.names_image:
        return owners[start.program]
    image = body.images.get(known[start.image], known[start.image])
    line = body.line(words[owners[start.image]].start)
    is_file = tool.has_files and not image.startswith("docker://")
    if tool is _CHARLIECLOUD:
        is_file = image.startswith(("/", ".", "~"))
    srun.take_image(SlurmOption("container-image", image, image, line), is_file=is_file)
    entrypoint = next((value for _, name, value in start.options if tool.fields.get(name) == "entrypoint"), None)
    if entrypoint is not None and "$" not in entrypoint:
        # The words behind the image are its arguments; an empty one leaves them as the program.
        first = words[owners[start.program]].start
        body.edits.replace(first, first, f"{shlex.quote(entrypoint)} " if entrypoint else "")
    elif known[start.program].startswith("-"):
        body.entrypoint_lines.append(lines)
    elif tool is _DOCKER:
        note = "an entrypoint of the image is not started: `environment.args` in place of `command` does that"
        body.remarks.changed(lines, note)
    elif tool is _APPTAINER and "run" in known[: start.image]:
        note = "`run` also starts the entrypoint of the image: `environment.args` in place of `command` does that"
        body.remarks.changed(lines, note)
    return owners[start.program]


def takes_inner_container(body: BodyState, words: Sequence[BodyWord], srun: SrunOptions) -> bool:
    """Take the container behind another program, as in ``mpirun -np 4 apptainer exec IMAGE PROGRAM``.

    Return True if there is one.
    """
    known, owners = body.known_words(words)
    if not known or is_for_each_node(known):
        return False
    launcher = known[0].rsplit("/", 1)[-1]
    text, places = " ".join(known), [0, *accumulate(len(word) + 1 for word in known)]
    at = next((at for at in range(1, len(known)) if _STARTS_CONTAINER.match(text, places[at])), 0)
    if not at or owners[at] == owners[at - 1]:
        return False
    first = owners[at]
    place = container_program(body, words[first:], srun)
    if not place:
        return False
    body.edits.replace(words[first].start, words[first + place].start, "")
    if launcher.split(".")[0] in MPI_LAUNCHERS:
        note = f"`{launcher}` is that of the image; Slurm runs it outside of the containers"
        body.remarks.changed(body.lines(words[0].start, words[-1].end), note)
    return True


def remember_pulled_image(body: BodyState, words: Sequence[BodyWord]) -> None:
    """Remember the image of `apptainer pull FILE docker://IMAGE`, or of `build`, for commands that use the file."""
    known, _ = body.known_words(words[:_MOST_WORDS])
    if len(known) < 4 or re.match(_STARTER, known[0]) is None or known[1] not in ("pull", "build"):
        return
    if known[-1].startswith("docker://") and "$" not in known[-1]:
        body.images[known[-2]] = known[-1]


def _parse(words: Sequence[str], tool: _Tool, action: str) -> _Container | None:
    """Return the parts of a command; None if it does another thing than to run a program.

    :param action: the words that start a program, separated by `|`; "" if none is needed.
    """
    at = 1
    while action and at < len(words) and words[at].startswith("-"):
        at += 1
    if action and (at == len(words) or words[at] not in action.split("|")):
        return None
    options: list[tuple[int, str, str | None]] = []
    at += 1 if action else 0
    valued = tool.valued
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        *switches, (name, value) = _split(words[at], valued)
        options += [(at, switch, None) for switch, _ in switches]
        is_next = value is None and name in valued
        options.append((at, name, words[at + 1] if is_next and at + 1 < len(words) else value))
        at += 2 if is_next else 1
    at += words[at : at + 1] == ["--"]
    program = at + tool.names_image
    program += tool is _CHARLIECLOUD and words[program : program + 1] == ["--"]
    return _Container(options, at, program) if at < len(words) else None


def _split(word: str, valued: Collection[str]) -> list[tuple[str, str | None]]:
    """Return the options of a word with their values, such as ``-itv/data:/data`` of Docker.

    :param valued: options that have a value; it may be in the next word.
    """
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return [(name, value if equals else None)]
    found: list[tuple[str, str | None]] = []
    for place, letter in enumerate(word[1:], 1):
        rest = word[place + 1 :]
        if f"-{letter}" in valued or rest.startswith("="):
            return [*found, (f"-{letter}", rest.removeprefix("=") or None)]
        found.append((f"-{letter}", None))
    return found or [(word, None)]


def _option(srun: SrunOptions, line: int, field: str | None, name: str, value: str | None) -> None:
    text = name if value is None else f"{name} {value}"
    if field in ("mounts", "workdir") and value is not None:
        srun.take([SlurmOption(f"container-{field}", value, text, line)])
    elif field == "entrypoint" and value is not None and "$" not in value:
        srun.ledger.mapped(line, text, COMMAND)
    elif field == "shared memory" and (size := _bytes(value or "")) is not None:
        srun.draft.set("resources.shm", size, line)
        srun.ledger.mapped(line, text, "resources.shm")
    elif field == "image" and value is not None:
        srun.take([SlurmOption("image", value, text, line)])
    elif field in ("env", "envs") and value is not None:
        _variables(srun, text, line, value.split(",") if field == "envs" else [value])
    elif name in _SUPERFLUOUS:
        srun.ledger.mapped(line, text, None, _SUPERFLUOUS[name])
    else:
        srun.ledger.dropped(line, text, _NO_EQUAL.get(name, "it has no equal in a document"))


def _bytes(text: str) -> str | None:
    """Return an amount of Docker, such as ``16g``, as a quantity; None if it is not one, or 0."""
    return memory_of(text) or None if re.search(r"(?i)[kmg]b?\Z", text) else None


def _variables(srun: SrunOptions, text: str, line: int, values: Sequence[str]) -> None:
    """Add the variables of an option to the document."""
    for item in values:
        name, equals, value = item.partition("=")
        if name in RESERVED_ENV:
            srun.ledger.mapped(line, text, None, f"gpuctl sets `{name}`")
        elif not equals or not is_env_name(name):
            srun.ledger.dropped(line, text, f"`{name}` has no value here: write it into `environment.env`")
        elif "$" in value:
            srun.ledger.dropped(line, text, f"the value of `{name}` is not known: write it into `environment.env`")
        else:
            srun.draft.set_item("environment.env", name, value, line)
            srun.ledger.mapped(line, text, f"environment.env.{name}")
