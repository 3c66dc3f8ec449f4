"""Commands of batch scripts that have no place in a container, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from gpuctl.importing.slurm.body_syntax import BodyCommand, Statement

_SOFTWARE = "the software comes from `environment.image`"
_IMAGES = "the cluster pulls the image: it is `environment.image`"
CONTAINER_TOOLS = {
    **dict.fromkeys(("apptainer", "singularity"), "exec|run"),
    **dict.fromkeys(("docker", "podman", "podman-hpc", "nerdctl", "sarus", "udocker"), "run"),
    "enroot": "start",
    **dict.fromkeys(("ch-run", "shifter"), ""),
}
"""Programs that start containers -> their words for that, "" if they need none."""
STARTS_CONTAINER = "|".join(
    rf"{name}(?=[ \t]+(?:-\S+[ \t]+)*(?:{action})[ \t])" if action else rf"{name}(?=[ \t])"
    for name, action in CONTAINER_TOOLS.items()
)
"""The pattern of their names in front of such a word."""
_IMAGE_ACTIONS = frozenset(
    [
        "build",
        "cache",
        "create",
        "images",
        "import",
        "inspect",
        "load",
        "login",
        "pull",
        "remote",
        "remove",
        "rmi",
        "verify",
    ]
)
SLURM_COMMANDS = {
    "sbatch": "a pod submits no jobs: the next one is a document with `job.after: [NAME]`",
    "salloc": "a pod submits no jobs: `gpuctl apply -f FILE`",
    "scancel": "use `gpuctl delete job NAME`",
    "squeue": "use `gpuctl get jobs`",
    "sinfo": "use `gpuctl get nodes`",
    "sacct": "use `gpuctl get jobs` and `gpuctl usage workloads`",
    "sstat": "use `gpuctl usage workloads`",
    "scontrol": "use `gpuctl describe job NAME`; `gpuctl rerun NAME` runs a job again",
    "sbcast": "files are in the image or in `storage.workdirs`",
    "sattach": "use `gpuctl logs NAME -f`",
    "seff": "use `gpuctl usage workloads`",
}
SUBMITS_TEXT = "a pod submits no jobs: the text is a batch script of its own: write it to a file, and import that"
_WRITE_TEXT = frozenset(["sbatch", "cat", "echo", "envsubst", "printf", "sed", "tee"])
NO_STEP = "a pod has no srun: write the program alone, or the value"
_OF_SLURM = rf"(?<![\w./-])(?:{'|'.join(SLURM_COMMANDS)})\b"
_ENVIRONMENTS = frozenset({"module", "ml", "conda", "mamba", "micromamba", "deactivate", "spack", "pyenv"})
_SETUP_FILE = (
    r"(?:^|/)(?:activate|conda\.sh|mamba\.sh|\.bashrc|\.bash_profile|\.profile|profile|bashrc|modules?\.sh|setvars\.sh|"
    r"[\w.-]*modules[\w.-]*\.sh|init/bash|setup-env\.sh)$"
)
_TOOL = r"\b(?:conda|mamba|micromamba)\b"
_HOOK = rf"(?s)\A(?:(?!{_TOOL}).)*{_TOOL}.*\b(?:hook|activate)\b|/(?:conda|micromamba)\b|__(?:conda|mamba)_setup\b"
_SMALL = """
. : [ [[ break cat cd clear continue date declare echo env exit export hostname id let local ls mkdir nvidia-smi popd
printenv printf pushd pwd read readonly return set shift shopt sleep source test trap true typeset ulimit umask uname
unset wait which whoami
"""
_HARMLESS = frozenset(_SMALL.split())
_TOOLS = """
awk chmod cp cut dd df find free git grep head kill killall ln lscpu mv pkill ps rm rsync sed sort tail tar tee tr uniq
wc
"""
_PREPARES = frozenset(_TOOLS.split())
_WITH_VARIABLES = frozenset({".", "source", "git"})
SHELL_WITH_COMMAND = r"(?:\S*/)?(?:bash|sh|zsh) -\w*c\Z"
"""The first two words of a command whose third word is a script."""
_JUPYTER = (
    r"(?:\A|[\s/\"'])(?:jupyter(?:-|\s+)?(?:lab|notebook|server)|jupyterhub-singleuser)(?=[\s\"']|\Z)"
    r"(?!\s+(?:list|stop|password|clean|build|--generate-config|--version)\b)"
)
_NOTEBOOK = (
    "`kind: notebook` runs Jupyter, and `gpuctl open NAME` opens it: `gpuctl init notebook` prints such a document"
)
_MOST_WORDS = 40
_OF_ONE_NODE = r"=.*(?:\$\([ \t]*|`[ \t]*)(?:date|mktemp|uuidgen|shuf)\b|=.*\$\{?RANDOM\b"
_LET = r"\A[ \t]*([A-Za-z_]\w*)[ \t]*[-+*/%]?="
_OF_SITES = frozenset(["aprun", "ibrun", "jsrun", "lrun", "singularity_wrapper", "apptainer_wrapper"])
MPI_LAUNCHERS = frozenset(["likwid-mpirun", "mpiexec", "mpiexec.hydra", "mpirun", "orterun", "prun"])
_REMOTE = MPI_LAUNCHERS | {"clush", "deepspeed", "dragon", "horovodrun", "pdsh", "ssh"}
_HOSTS_OPTION = r"--?(?:(?:machine|host)-?file|hostlist|cnf)(?:=|\Z)"
"""Options of programs that start their processes on the hosts of a file."""
_OTHER_HOSTS = frozenset(["scp", "sftp", "ssh"])
_REMOTE_PARALLEL = frozenset(["-S", "--sshlogin", "--sshloginfile", "--slf"])


def submits_text(statement: Statement) -> bool:
    """Return True for a statement that only submits a here-document as a batch script."""
    names = {command.name for command in statement.commands}
    return statement.end > statement.ends_at and "sbatch" in names and names <= _WRITE_TEXT


def reason_to_leave_out(statement: Statement) -> str | None:
    """Return why a statement is left out as a whole, with its redirections and here-documents; None if it stays."""
    if submits_text(statement):
        return SUBMITS_TEXT
    is_one = len(statement.commands) == 1 and statement.commands[0].certain and not statement.background
    return reason_to_drop(statement.commands[0]) if is_one else None


def reason_to_drop(command: BodyCommand) -> str | None:
    """Return why a command is left out; None if it stays."""
    name = command.name
    words = [word.text for word in command.program]
    if name in SLURM_COMMANDS:
        return SLURM_COMMANDS[name]
    if name == "trap" and (called := re.search(_OF_SLURM, " ".join(words[1:2]))) is not None:
        return SLURM_COMMANDS[called[0]]
    if name in CONTAINER_TOOLS and words[1:2] and words[1] in _IMAGE_ACTIONS:
        return _IMAGES
    if name in _ENVIRONMENTS and words[1:2] not in (["run"], ["install"]):
        return _SOFTWARE
    if name in ("source", ".") and words[1:] and re.search(_SETUP_FILE, words[1]):
        return _SOFTWARE
    if name == "ssh" and any(re.match(r"-\w*[NRLD]", word) for word in words[1:]):
        return "`gpuctl port-forward NAME` reaches a port of a pod, and `gpuctl open NAME` a notebook"
    if name == "eval" and re.search(_HOOK, " ".join(words[1:])):
        return _SOFTWARE
    return None


def differs_by_node(command: BodyCommand, words: Iterable[str]) -> bool:
    """Return True if a command sets a variable to a time or to a random value.

    :param words: of the command, as written.
    """
    sets = command.name in ("", "export", "declare", "readonly")
    return sets and any(re.search(_OF_ONE_NODE, word) is not None for word in words)


def lost_processes(command: BodyCommand, nodes: int) -> str | None:
    """Return what is lost of a program that starts processes on the nodes of a job; None if it is another program."""
    # Distributions name their launchers `mpirun.openmpi`.
    remote = command.name in _REMOTE or command.name.split(".")[0] in MPI_LAUNCHERS
    remote = remote or any(re.match(_HOSTS_OPTION, word.text) is not None for word in command.program[1:])
    if command.name == "parallel":
        remote = any(word.text.partition("=")[0] in _REMOTE_PARALLEL for word in command.program)
    if nodes > 1 and remote:
        note = f"it starts processes on other nodes, and a pod cannot: each of the {nodes} pods runs it"
        is_python = command.name.startswith("mpi") and any(word.text.startswith("python") for word in command.program)
        return f"{note}; with torchrun each node starts its own" if is_python else note
    return "it is the launcher of a site, which an image does not have" if command.name in _OF_SITES else None


def note_of_program(command: BodyCommand, nodes: int) -> str | None:
    """Return what to note of a program that another kind of document runs better, or that reaches other hosts."""
    words = " ".join(word.text for word in command.program[:_MOST_WORDS])
    if re.search(r"\s(?:install|add)\s", words) is not None:
        return None
    to_host = nodes == 1 and command.name in _OTHER_HOSTS
    if to_host or (command.name == "rsync" and re.search(r"\s[\w.@-]+:", words) is not None):
        return "a pod has no keys for other hosts: mount a Secret, and look whether the host can be reached"
    return _NOTEBOOK if re.search(_JUPYTER, words) is not None else None


def reads_variables(command: BodyCommand) -> bool:
    """Return True for a program, which may use exported variables, and for a file that may set them."""
    return bool(command.program) and command.name not in (_HARMLESS | _PREPARES) - _WITH_VARIABLES


def is_harmless_on_every_node(command: BodyCommand) -> bool:
    """Return True if it does not matter that a command for one node runs on all of them."""
    return not command.program or command.name in _HARMLESS


def is_for_each_node(words: Sequence[str]) -> bool:
    """Return True if a command prepares a node, or prints something about it.

    :param words: of the command; in a shell's ``-c``, its first command counts.
    """
    inner = words[-1].split() if re.match(SHELL_WITH_COMMAND, " ".join(words[:2])) is not None and words[2:] else words
    name = inner[0].rsplit("/", 1)[-1] if inner else ""
    return name in _HARMLESS or name in _PREPARES or (name.endswith("ray") and inner[1:2] == ["stop"])


def assignments(text: str, statements: Iterable[Statement]) -> Counter[str]:
    """Return how often a script sets or removes each variable."""
    found = Counter(re.findall(r"\b(?:for|select)[ \t]+([A-Za-z_]\w*)[ \t]+in\b", text))
    found.update(re.findall(r"\(\([ \t]*([A-Za-z_]\w*)[ \t]*=", text))
    for command in (item for statement in statements for item in statement.commands):
        found.update(assigned_names(command))
    return found


def assigned_names(command: BodyCommand) -> list[str]:
    """Return the names that a command may set or remove."""
    words = command.assignments
    if command.name in ("export", "declare", "typeset", "readonly", "local"):
        words = (*words, *(word for word in command.program[1:] if word.is_assignment))
    names = [word.text.split("=", 1)[0].rstrip("+").split("[", 1)[0] for word in words]
    if command.name == "let":
        names += [name for word in command.program[1:] for name in re.findall(_LET, word.text)]
    if command.name in ("read", "unset", "mapfile", "readarray", "getopts", "printf"):
        names += [word.text for word in command.program[1:] if word.text.isidentifier()]
    return names
