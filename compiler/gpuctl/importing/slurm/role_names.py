"""Names of the roles that the steps of a batch script become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from gpuctl.importing.slurm.command_rules import CONTAINER_TOOLS
from gpuctl.importing.slurm.step_groups import StepGroup
from gpuctl.language.names import nearest_dns_label, shortened
from gpuctl.language.role_block import LONGEST_ROLE_NAME

_SHORTEST_NAME = 8
_LONGEST_POD = 53
"""Maximum length of the names of a job and a role, and of a node's number, in the name of a pod."""
_STARTERS = rf"(?:python[\d.]*|torchrun|accelerate|bash|sh|uv|env|deepspeed|stdbuf|time|{'|'.join(CONTAINER_TOOLS)})\Z"
_ENTRY = r"\.(?:run|main|cli|server|__main__)\Z"
_RAY = r"(?:\A|[/}])ray\Z"


def role_names(groups: Sequence[StepGroup], job: str) -> list[str]:
    """Return a name for each group, after its program.

    :param job: the name of the job.
    """
    most = max(len(str(group.nodes - 1)) for group in groups)
    longest = max(_SHORTEST_NAME, min(LONGEST_ROLE_NAME, _LONGEST_POD - most - len(job)))
    found: list[str] = []
    for group in groups:
        name = shortened(_program_name(group.steps[0].program), longest) if group.steps else "main"
        unique, number = name, 2
        while unique in found:
            unique, number = f"{name[: longest - 3]}-{number}", number + 1
        found.append(unique)
    return found


def _program_name(words: Sequence[str]) -> str:
    program = words[0].rsplit("/", 1)[-1]
    if any(re.search(_RAY, before) is not None and after == "start" for before, after in pairwise(words)):
        return "head" if "--head" in words else "worker"
    files = [word.rsplit("/", 1)[-1] for word in words if re.search(r"\.(?:py|sh)\Z", word)]
    modules = [re.sub(_ENTRY, "", after).rsplit(".", 1)[-1] for word, after in pairwise(words) if word == "-m"]
    if re.match(_STARTERS, program):
        names = files[:1] or modules[:1]
        program = names[0].rsplit(".", 1)[0] if names else "main"
        script = next((after.split() for word, after in pairwise(words) if word == "-c"), [])
        if script and program == "main":
            return _program_name(script)
    return shortened(nearest_dns_label(program, letter_first=True) or "main", LONGEST_ROLE_NAME)
