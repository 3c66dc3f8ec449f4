"""Commands of batch scripts that have no place in a container, and why."""

from __future__ import annotations

import re

from gpuctl.importing.slurm.body_syntax import BodyCommand

_SOFTWARE = "the software comes from `environment.image`"
_IMAGES = "the cluster pulls the image: it is `environment.image`"
_CONTAINERS = frozenset(["apptainer", "singularity", "docker", "podman", "podman-hpc", "nerdctl", "enroot", "sarus"])
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
_OF_SLURM = rf"(?<![\w./-])(?:{'|'.join(SLURM_COMMANDS)})\b"
_ENVIRONMENTS = frozenset({"module", "ml", "conda", "mamba", "micromamba", "deactivate", "spack", "pyenv"})
_SETUP_FILE = (
    r"(?:^|/)(?:activate|conda\.sh|mamba\.sh|\.bashrc|\.bash_profile|\.profile|profile|bashrc|modules?\.sh|setvars\.sh|"
    r"[\w.-]*modules[\w.-]*\.sh|init/bash|setup-env\.sh)$"
)
_TOOL = r"\b(?:conda|mamba|micromamba)\b"
_HOOK = rf"(?s)\A(?:(?!{_TOOL}).)*{_TOOL}.*\b(?:hook|activate)\b|/(?:conda|micromamba)\b"
_SMALL = """
. : [ [[ break cat cd continue date declare echo env exit export hostname id let local ls mkdir nvidia-smi popd printenv
printf pushd pwd read readonly return set shift shopt sleep source test trap true typeset ulimit umask uname unset wait
which whoami
"""
_HARMLESS = frozenset(_SMALL.split())
_JUPYTER = (
    r"(?:\A|[\s/\"'])(?:jupyter(?:-|\s+)?(?:lab|notebook|server)|jupyterhub-singleuser)(?=[\s\"']|\Z)"
    r"(?!\s+(?:list|stop|password|clean|build|--generate-config|--version)\b)"
)
_NOTEBOOK = (
    "`kind: notebook` runs Jupyter, and `gpuctl open NAME` opens it: `gpuctl init notebook` prints such a document"
)
_MOST_WORDS = 40
_LET = r"\A[ \t]*([A-Za-z_]\w*)[ \t]*[-+*/%]?="
_OF_SITES = frozenset(["aprun", "ibrun", "jsrun", "lrun"])
_REMOTE = frozenset(
    [
        "clush",
        "deepspeed",
        "horovodrun",
        "likwid-mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "mpirun",
        "orterun",
        "pdsh",
        "prun",
        "ssh",
    ]
)
_REMOTE_PARALLEL = frozenset(["-S", "--sshlogin", "--sshloginfile", "--slf"])


def reason_to_drop(command: BodyCommand) -> str | None:
    """Return why a command is left out; None if it stays."""
    name = command.name
    words = [word.text for word in command.program]
    if name in SLURM_COMMANDS:
        return SLURM_COMMANDS[name]
    if name == "trap" and (called := re.search(_OF_SLURM, " ".join(words[1:2]))) is not None:
        return SLURM_COMMANDS[called[0]]
    if name in _CONTAINERS and words[1:2] and words[1] in _IMAGE_ACTIONS:
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


def lost_processes(command: BodyCommand, nodes: int) -> str | None:
    """Return what is lost of a program that starts processes on the nodes of a job; None if it is another program."""
    remote = command.name in _REMOTE
    if command.name == "parallel":
        remote = any(word.text.partition("=")[0] in _REMOTE_PARALLEL for word in command.program)
    if nodes > 1 and remote:
        return f"it starts processes on other nodes, and a pod cannot: each of the {nodes} pods runs it"
    return "it is the launcher of a site, which an image does not have" if command.name in _OF_SITES else None


def note_of_program(command: BodyCommand) -> str | None:
    """Return what to note of a program that another kind of document runs better."""
    words = " ".join(word.text for word in command.program[:_MOST_WORDS])
    if re.search(r"\s(?:install|add)\s", words) is not None:
        return None
    return _NOTEBOOK if re.search(_JUPYTER, words) is not None else None


def is_harmless_on_every_node(command: BodyCommand) -> bool:
    """Return True if it does not matter that a command for one node runs on all of them."""
    return not command.program or command.name in _HARMLESS


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
