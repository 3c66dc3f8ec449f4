"""Variables that Slurm sets, and the host names that scripts ask it for, as the variables of gpuctl."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from gpuctl.frontend.slurm_checks import ARRAY_VARIABLES, NODE_VARIABLES
from gpuctl.importing.slurm.job_numbers import replace_job_numbers, replace_random_ports
from gpuctl.importing.slurm.script_edits import VariableChange, substitute
from gpuctl.importing.slurm.slurm_values import ArrayRange
from gpuctl.importing.slurm.text_places import FIRST_LINE, LineBreaks, parts_read_later, reference
from gpuctl.objects.quantities import whole_number

_ONE_TASK = {
    "SLURM_PROCID": "NODE_RANK",
    "SLURM_NTASKS": "NNODES",
    "SLURM_NPROCS": "NNODES",
    "SLURM_STEP_NUM_TASKS": "NNODES",
    "SLURM_STEP_NUM_NODES": "NNODES",
}
_IDS = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID")
_ID_NOTE = "`GPUCTL_JOB` is the name of the job, which is not a number and the same for each run"
_ADVICE = {
    "SLURM_SUBMIT_DIR": "write the directory into `environment.workdir`: the program starts there",
    "SLURM_TMPDIR": "mount scratch space: `storage.workdirs: [{path: /scratch, emptyDir: {}}]`",
    "SLURM_JOB_NODELIST": "pods have no list of hosts; the first is `MASTER_ADDR`",
    "SLURM_NODELIST": "pods have no list of hosts; the first is `MASTER_ADDR`",
    "SLURM_PROCID": "a launcher such as torchrun starts the processes of a node, and sets `RANK`",
    "SLURM_LOCALID": "a launcher such as torchrun starts the processes of a node, and sets `LOCAL_RANK`",
    "SLURM_RESTART_COUNT": "gpuctl does not count the attempts",
    **dict.fromkeys(
        ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX"),
        "write `array` into the document: the index of a run is `GPUCTL_ARRAY_INDEX`",
    ),
}
_PART_ADVICE = "the first host of a role is `GPUCTL_ROLE_ADDR`, with the name of the role"
_OTHER_ADVICE = "write its value into the script"
_SHOWN = r"\bscontrol[ \t]+show[ \t]+hostnames?\b[^\n()`|]*"
_FIRST_HOST = rf"\$\([ \t]*{_SHOWN}\|[ \t]*{FIRST_LINE}[ \t]*\)|`[ \t]*{_SHOWN}\|[ \t]*{FIRST_LINE}[ \t]*`"
_OF_PART = r"\$(?P<brace>\{)?SLURM_(?:JOB_)?NODELIST_HET_GROUP_(?P<part>\d)\b(?(brace)\})"
_FIRST_OF_PART = (
    rf"\$\([ \t]*scontrol[ \t]+show[ \t]+hostnames?[ \t]+\"?{_OF_PART}\"?[ \t]*\|[ \t]*{FIRST_LINE}[ \t]*\)"
)
PART = "GPUCTL_PART_"
"""Start of a placeholder for the first host of a part of a heterogeneous job, before its role is known."""
_COUNTED = r"(?:\|[ \t]*(?:sort|uniq)\b[^\n()`|]*)*\|[ \t]*(?:wc[ \t]+-l|grep[ \t]+-c[ \t]+\S+)[ \t]*"
_NUMBER_OF_HOSTS = rf"\$\([ \t]*{_SHOWN}{_COUNTED}\)|`[ \t]*{_SHOWN}{_COUNTED}`"
_NUMBER_NOTE = "the number of nodes is `NNODES`"
_ALL_HOSTS = rf"\$\([ \t]*{_SHOWN}\)|`[ \t]*{_SHOWN}`"
_HOSTS = (
    rf"(?m)^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)=\(?[ \t]*\"?(?:{_ALL_HOSTS})\"?[ \t]*\)?",
    rf"(?m)^[ \t]*(?:mapfile|readarray)[ \t]+-t[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+<[ \t]*<\([ \t]*{_SHOWN}\)",
)
_COPY = (
    r"(?m)^[ \t]*(?:(?:export|declare[ \t]+-a)[ \t]+)?([A-Za-z_]\w*)="
    r"\([ \t]*\"?\$\{?([A-Za-z_]\w*)(?:\[[@*]\])?\}?\"?[ \t]*\)"
)
_HOST_NAME = (
    r"(?<!\\)\$\([ \t]*hostname(?:[ \t]+-[-a-zA-Z]+)?[ \t]*\)|`hostname(?:[ \t]+-[-a-zA-Z]+)?`"
    rf"|(?<!\\){reference('HOSTNAME|SLURMD_NODENAME')}|(?<=\$\{{)(?:HOSTNAME|SLURMD_NODENAME)\b(?=[:%#/-])"
)
_ASKED = (
    r"\$\([ \t]*srun\b(?P<options>[^\n()]*)(?:\bhostname\b|[ \t](?:ip|ifconfig)[ \t])"
    r"(?:[^\n()']|'[^'\n]*'|\([^\n()]*\))*\)"
)
_LOOKED_UP = r"\$\([ \t]*(?:getent|dig|host|nslookup|ping)\b(?P<options>[^\n()]*(?:\([^\n()]*\)[^\n()]*)*)\)"
_FIRST_ADDRESS = r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=\"?\$MASTER_ADDR\"?[ \t]*(?:#.*)?$"
_LISTENS = r"--(?:host|ip|bind|listen)[= ]"
_ANY = "0.0.0.0"  # noqa: S104
_NAME = r"SLURMD?_\w+"
_VARIABLE = (
    rf"\\?\$\{{(?P<braced>{_NAME})(?::?(?P<default>[-=?+][^{{}}\n]*))?\}}|\\?\$(?P<plain>{_NAME})|\b(?P<bare>{_NAME})"
)
_IN_DEFAULT = rf"\$({_NAME})"
# `APPTAINERENV_X=$X` stays: the value comes from another line, or is not known.
_OF_CONTAINER = (
    r"\b(?:APPTAINER|SINGULARITY)ENV_(?!(?:PREPEND|APPEND)_PATH=)(?P<name>[A-Za-z_]\w*)"
    r"(?==(?![\"']?\$\{?(?P=name)\b))"
)
_OF_INFINIBAND = r"(?P<host>\$\{MASTER_ADDR\}[\"']?|\$MASTER_ADDR[\"'])i(?=[:\"'\s]|\Z)"
"""The name of the first host in another network, where sites add a letter to it."""
_OWN = r"(?m)^[ \t]*(?:(?:export|readonly|local|declare(?:[ \t]+-\w+)*)[ \t]+)?(SLURM_\w+)=(?!\S*\$\{?\1\b)"
"""A variable that a script sets, though its name is like Slurm's."""
_GPUS_OF_JOB = r"[\"${}:-]*(?:(?:SLURM_(?:JOB|STEP)_GPUS|GPU_DEVICE_ORDINAL)[\"${}:-]*)+"
_PRINTS = r"[ \t]*(?:echo|printf)\b"
_LONGEST_START = 40
_UNSET = r"\bunset[ \t][^\n;&|]*"
_ARITHMETIC = r"\(\((?:[^()\n]|\((?:[^()\n]|\([^()\n]*\))*\))*\)\)"
"""A sum of the shell, where variables need no dollar sign."""
FIRST = "$MASTER_ADDR"


class SlurmFacts(NamedTuple):
    """Facts about a job that its script uses. ``tasks`` and ``gpus``: on each node; 0 tasks if steps have others.

    ``workdir``: the directory of the command line. ``account``: of the job. ``renames_index``: False if another line
    computes the array's index.
    """

    nodes: int
    tasks: int
    cpus_per_task: int | None
    gpus: int
    partition: str | None
    account: str | None
    workdir: str | None
    array: ArrayRange | None
    renames_index: bool


class Replaced(NamedTuple):
    """The body with gpuctl's variables. It has the same lines. ``hosts``: the names of lists of hosts."""

    text: str
    changes: list[VariableChange]
    hosts: frozenset[str]


def replace_variables(body: str, facts: SlurmFacts) -> Replaced:
    """Replace Slurm's variables and host names in a script."""
    changes: list[VariableChange] = []
    note = "the pod is the container, and its variables have no prefix"
    body = substitute(_OF_CONTAINER, lambda match: match["name"], body, note, changes)
    body = replace_job_numbers(body, changes)
    note = "the first host of a part is that of its role"
    body = substitute(_FIRST_OF_PART, lambda match: f"${PART}{match['part']}", body, note, changes)
    note = "the first host is `MASTER_ADDR`"
    body = substitute(_FIRST_HOST, FIRST, body, note, changes)
    other = "the first host has one address, and no name for InfiniBand"
    body = substitute(_OF_INFINIBAND, lambda match: match["host"], body, other, changes)
    body = substitute(_NUMBER_OF_HOSTS, "$NNODES", body, _NUMBER_NOTE, changes)
    hosts = _hosts(body)
    if hosts:
        names = "|".join(map(re.escape, sorted(hosts)))
        body = substitute(rf"\$\{{(?:{names})\[0\]\}}", FIRST, body, note, changes)
        number = rf"\$\{{#(?:{names})\[[@*]\]\}}"
        body = substitute(number, "$NNODES", body, _NUMBER_NOTE, changes)
    body = _replace_lookups(body, changes)
    if facts.nodes > 1:
        body = replace_random_ports(body, changes)
        note = "the host of the script is the first one: `MASTER_ADDR`"
        # The shell of each node reads this text.
        body = substitute(_HOST_NAME, _first_host, body, note, changes, outside=parts_read_later(body))
    else:
        names = "|".join([*map(re.escape, sorted(set(re.findall(_FIRST_ADDRESS, body)))), "MASTER_ADDR"])
        note = "the address of one node is 127.0.0.1: the server listens on all addresses of its pod"
        listens = rf"(?P<option>{_LISTENS}[\"']?){reference(names)}"
        body = substitute(listens, lambda match: f"{match['option']}{_ANY}", body, note, changes)
    return Replaced(_rename(body, facts, changes), changes, frozenset(hosts))


def _first_host(match: re.Match[str]) -> str:
    """Return the first host in place of a host name; the rest of an expansion such as ``${HOSTNAME%%.*}`` stays."""
    return FIRST if match[0].startswith(("$", "`")) else FIRST.removeprefix("$")


def lists_own_gpus(name: str, written: str) -> bool:
    """Return True if a variable has the list of the GPUs that Slurm gives to a job."""
    return name == "CUDA_VISIBLE_DEVICES" and re.fullmatch(_GPUS_OF_JOB, written) is not None


def is_list_of_other_gpus(devices: str, gpus: int, *, has_steps: bool) -> bool:
    """Return True if a list of GPUs, such as ``4,5``, is not about the GPUs of a pod, or if Slurm replaces it.

    :param gpus: of the pod.
    :param has_steps: Slurm starts programs, to which it gives a list of their GPUs.
    """
    numbers = {whole_number(item) for item in devices.split(",")} - {None}
    is_whole = numbers == set(range(gpus))
    is_other = any(number is not None and number >= gpus for number in numbers)
    return bool(numbers) and gpus > 0 and (is_other or (has_steps and not is_whole))


def _hosts(body: str) -> set[str]:
    """Return the names of variables with all hosts, also those copied from others."""
    hosts = {match["name"] for pattern in _HOSTS for match in re.finditer(pattern, body)}
    for match in re.finditer(_COPY, body):
        if match[2] in hosts:
            hosts.add(match[1])
    return hosts


def _replace_lookups(body: str, changes: list[VariableChange]) -> str:
    """Replace commands that ask for the address of the first host."""

    def replaced(match: re.Match[str]) -> str:
        names = set(re.findall(r"\$\{?([A-Za-z_]\w*)", match["options"]))
        about_first = bool(names) and names <= first | {"MASTER_ADDR"}
        is_one = re.search(r"(?:-N|--nodes)[= ]?1\b", match["options"]) is not None and not names
        if not about_first and not is_one:
            return match[0]
        changes.append(
            VariableChange(breaks.before(match.start()), "the address of the first host is `MASTER_ADDR`", FIRST)
        )
        return FIRST

    for pattern in (_ASKED, _LOOKED_UP):
        breaks = LineBreaks(body)
        first = set(re.findall(_FIRST_ADDRESS, body))
        body = re.sub(pattern, replaced, body)
    return body


def _rename(body: str, facts: SlurmFacts, changes: list[VariableChange]) -> str:
    renamed, literal = _table(facts)
    own = set(re.findall(_OWN, body)) - {*NODE_VARIABLES, *_ONE_TASK, *_IDS, *literal}
    breaks = LineBreaks(body)
    is_unset, is_sum = (_places(pattern, body) for pattern in (_UNSET, _ARITHMETIC))

    def replaced(match: re.Match[str]) -> str:
        name = match["braced"] or match["plain"] or match["bare"]
        is_value = match["bare"] is None or is_sum(match.start())
        line = breaks.before(match.start())
        if match["bare"] is not None and is_unset(match.start()):
            return match[0]
        if name in renamed:
            note = _ID_NOTE if name in _IDS else f"`{name}` is `{renamed[name]}`"
            changes.append(VariableChange(line, note, renamed[name]))
            return match[0].replace(name, renamed[name])
        if name in literal and is_value:
            changes.append(VariableChange(line, f"`{name}` is {literal[name]}", literal[name]))
            return literal[name]
        if not is_value and (not name.isupper() or re.match(r"/", body[match.end() :][:1])):
            # A file or directory, such as `SLURM_logs`.
            return match[0]
        if not is_value and re.match(_PRINTS, body[body.rfind("\n", 0, match.start()) + 1 :][:_LONGEST_START]):
            return match[0]
        if name in own or (name == "SLURM_ARRAY_TASK_ID" and facts.array is not None):
            return match[0]
        default = match["default"] or ""
        if default.startswith("-") and (renamed.keys() | literal).issuperset(re.findall(_IN_DEFAULT, default)):
            written = re.sub(_IN_DEFAULT, lambda m: literal.get(m[1], f"${renamed.get(m[1])}"), match[0])
            note = f"a pod does not have `{name}`: its default `{match['default'][1:]}` is used"
            changes.append(VariableChange(line, note, written))
            return written
        advice = _ADVICE.get(name, _OTHER_ADVICE if "HET_GROUP" not in name else _PART_ADVICE)
        changes.append(VariableChange(line, f"it has no equal: {advice}", "", name))
        return match[0]

    return re.sub(_VARIABLE, replaced, body)


def _places(pattern: str, text: str) -> Callable[[int], bool]:
    """Return the function that returns True for an offset inside a match of a pattern."""
    parts = [range(*match.span()) for match in re.finditer(pattern, text)]
    starts = [part.start for part in parts]

    def is_inside(offset: int) -> bool:
        before = bisect_right(starts, offset) - 1
        return before >= 0 and offset in parts[before]

    return is_inside


def _table(facts: SlurmFacts) -> tuple[dict[str, str], dict[str, str]]:
    """Return variables with another name, and variables with a known value."""
    renamed = {**NODE_VARIABLES, **dict.fromkeys(_IDS, "GPUCTL_JOB")}
    literal = dict.fromkeys(("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), str(facts.tasks)) if facts.tasks else {}
    if facts.tasks == 1:
        renamed |= _ONE_TASK
        literal["SLURM_LOCALID"] = "0"
    elif facts.tasks:
        literal |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(facts.tasks * facts.nodes))
    if facts.cpus_per_task is not None:
        literal["SLURM_CPUS_PER_TASK"] = str(facts.cpus_per_task)
        literal["SLURM_CPUS_ON_NODE"] = str(facts.cpus_per_task * max(facts.tasks, 1))
    if facts.gpus:
        literal["SLURM_GPUS"] = str(facts.gpus * facts.nodes)
    if facts.workdir is not None:
        literal["SLURM_SUBMIT_DIR"] = facts.workdir
    if facts.partition is not None:
        literal["SLURM_JOB_PARTITION"] = facts.partition
    if facts.account is not None:
        literal["SLURM_JOB_ACCOUNT"] = facts.account
    if facts.array is not None:
        first, last, step = facts.array.indices[0], facts.array.indices[-1], facts.array.step
        literal |= {"SLURM_ARRAY_TASK_MIN": str(first), "SLURM_ARRAY_TASK_MAX": str(last)}
        literal |= {} if step is None else {"SLURM_ARRAY_TASK_STEP": str(step)}
        renamed["SLURM_ARRAY_TASK_COUNT"] = ARRAY_VARIABLES["SLURM_ARRAY_TASK_COUNT"]
        if facts.renames_index:
            renamed["SLURM_ARRAY_TASK_ID"] = ARRAY_VARIABLES["SLURM_ARRAY_TASK_ID"]
    return renamed, literal


def values_in_pod(facts: SlurmFacts) -> dict[str, str]:
    """Return the variables of Slurm that have an equal in a pod, and its value as a shell writes it."""
    renamed, literal = _table(facts)
    return {**{name: f"${ours}" for name, ours in renamed.items()}, **literal}
