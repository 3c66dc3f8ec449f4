"""The work of `gpuctl import` grows with the size of the file, not with its square."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest

from gpuctl.frontend.source import Source
from gpuctl.importing.import_values import Given
from gpuctl.importing.slurm.text_places import VariableUses
from gpuctl.importing.tools import find_importer

GIVEN = Given(image="registry.example.com/a:1")


def _deployments(number: int) -> str:
    return "---\n".join(
        f"kind: Deployment\nmetadata: {{name: d{i}}}\nspec:\n  template:\n    metadata: {{labels: {{app: d{i}, t: x}}}}\n"
        f"    spec: {{containers: [{{name: c, image: 'a:1'}}]}}\n---\n"
        f"kind: Service\nmetadata: {{name: d{i}}}\nspec: {{selector: {{app: d{i}}}, ports: [{{port: 80}}]}}\n"
        for i in range(number)
    )


def _script(line: str) -> Callable[[int], str]:
    """Return the function that makes a batch script with this many of a line."""
    head = "#SBATCH --job-name=a --mem=1G -N 4 --gpus-per-node=8 -c 1\n"
    return lambda number: head + "".join(line.format(i=i) for i in range(number)) + "\npython a.py\n"


FILES: dict[str, tuple[str, Callable[[int], str]]] = {
    "Deployments": ("deployment", _deployments),
    "exported variables": ("slurm", _script("export V{i}=x\n")),
    "variables": ("slurm", _script("V{i}=x\n")),
    "commands on one line": ("slurm", _script("true;")),
    "modules": ("slurm", _script("module load x\n")),
    "variables of Slurm": ("slurm", _script("echo $SLURM_JOB_ID $SLURM_PROCID\n")),
    "steps": ("slurm", _script("srun -N1 a{i} &\n")),
    "files of hosts": ("slurm", _script("scontrol show hostnames > h{i}\ncat h{i}\ndeepspeed -H h{i} a.py\n")),
    "hosts": ("slurm", _script("H{i}=$(scontrol show hostnames)\necho $H{i} > h\n")),
    "shells of processes": ("slurm", _script("srun --ntasks-per-node=8 sh -c 'a $SLURM_PROCID'\n")),
    "called scripts": ("slurm", _script("bash a{i}.sh\nsource b{i}.sh\n")),
    "names like those of Slurm": ("slurm", _script("SLURM_A{i}=x\nunset SLURM_B{i}\necho $SLURM_A{i}\n")),
    "reports": ("slurm", _script("echo a{i} >> h\nscontrol show hostnames > h{i}\n")),
    "programs in containers": ("slurm", _script("b{i}\nsrun --container-image x:1 python a.py\n")),
    "functions": ("slurm", _script("f{i}() {{ echo a; }}\n")),
    "commands of Arena": ("arena", lambda n: "".join(f"arena submit pytorch --name=a{i} 'a'\n" for i in range(n))),
}


def _calls(tool: str, text: str) -> int:
    """Return the number of function calls of an import."""
    profile = cProfile.Profile()
    source = Source("a", text)
    profile.runcall(find_importer(source, tool).run, source, GIVEN)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(FILES))
def test_twice_the_file_is_twice_the_work(name: str) -> None:
    tool, make = FILES[name]
    _calls(tool, make(2))  # Patterns are compiled once.
    assert _calls(tool, make(120)) < 2.3 * _calls(tool, make(60))


def test_uses_of_variables_are_found() -> None:
    text = "A=1\necho $A ${#B[@]} ${!C}\nD=$((E - 1))\nF=2\n"
    uses = VariableUses(text)
    assert [name for name in "ABCDEF" if uses.is_behind(name, 0)] == ["A", "B", "C", "E"]
    assert not uses.is_before("A", 4)
    assert uses.is_before("A", 12)
    assert not uses.is_behind("E", text.index("F"))
