"""Steps of batch scripts that run on different nodes: as roles, or dropped with the reason."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpuctl.frontend.source import Source
from gpuctl.importing.draft import Draft
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.line_ledger import Outcome
from gpuctl.importing.tools import find_importer

GIVEN = Given(image="registry.example.com/a:1")
HEAD = "#!/bin/bash\n#SBATCH -J a -N 3 --ntasks-per-node=1 --gres=gpu:8 -c 8 --mem=64G\n"
HOSTS = 'hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))\n'


def imported(body: str, head: str = HEAD) -> Imported:
    source = Source("a.sbatch", head + body)
    return find_importer(source, "slurm").run(source, GIVEN)


def roles(body: str) -> list[tuple[str, int, list[str]]]:
    draft: Draft = imported(body).drafts[0]
    return [(role["name"], role.get("nodes", 1), role["command"]) for role in draft.get("roles")]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("srun -N1 a &\nsrun -N1 b &\nwait\n", "the steps take 2 of the job's 3 nodes"),
        ("srun -N1 -w x a &\nsrun -N2 -w x,y b &\nwait\n", "steps share some of their nodes"),
        ("srun -N1 a &\nsrun -N2 b &\n", "the script ends while its steps run: `wait` is missing"),
        ("srun -N1 a &\nwait\nsrun -N2 b &\nwait\n", "a program runs before all steps have started"),
        ("srun -N1 a &\nsrun -N2 b &\nwait\npython c.py\n", "a program runs after the steps have ended"),
        ("srun -N1 a &\nsrun -N2 b &\npython c.py\n", "it is not known beside which step"),
        ("srun -N1 a &\nsrun -N$N b &\nwait\n", "`-N$N` is not a number that is known"),
        ('srun -N1 -w "$X" a &\nsrun -N2 b &\nwait\n', "names nodes that are not known"),
        ("srun -N1 --overlap a &\nsrun -N2 b &\nwait\n", "shares nodes with other steps"),
        ("if true; then srun -N1 a & fi\nsrun -N2 b &\nwait\n", "a loop, condition or function starts it"),
        ("srun -N1 a & srun -N2 b &\necho $!\nwait\n", "the number of a process, which other nodes do not know"),
        (f"{HOSTS}srun -N1 a --to ${{hosts[0]}} &\nsrun -N2 b &\nwait\n", "uses the address of the first node"),
        ("srun -n2 --ntasks-per-node=2 a &\nsrun -r2 -N2 b &\nwait\n", "does not name nodes of the job"),
    ],
)
def test_steps_whose_nodes_are_not_known_are_dropped_with_the_reason(body: str, reason: str) -> None:
    found = imported(body)
    assert found.drafts[0].get("roles") is None
    notes = [entry.note or "" for entry in found.entries if entry.outcome is Outcome.DROPPED]
    assert [note for note in notes if reason in note], notes


ROLES: dict[str, tuple[str, list[tuple[str, int, list[str]]], list[str] | None]] = {
    "numbers of nodes": (
        "srun -N1 -n1 python a.py &\nsrun -N2 -n2 python b.py --x 1 > b.log 2>&1 &\nwait\n",
        [("a", 1, ["python", "a.py"]), ("b", 2, ["bash", "-c", "python b.py --x 1 > b.log 2>&1\n"])],
        None,
    ),
    "pipelines in the background": (
        "srun -N1 python a.py 2>&1 | tee a.log &\nsrun -N2 b &\nwait\n",
        [("a", 1, ["bash", "-c", "python a.py 2>&1 | tee a.log\n"]), ("b", 2, ["b"])],
        None,
    ),
    "relative nodes": (
        "srun -r1 -N2 python b.py &\nsrun -r0 -N1 python a.py\n",
        [("a", 1, ["python", "a.py"]), ("b", 2, ["python", "b.py"])],
        ["a"],
    ),
    "program of the script on the first node": (
        f"{HOSTS}for h in ${{hosts[@]:1}}; do srun -N1 -w $h python w.py --to ${{hosts[0]}} & done\npython main.py\n",
        [("main", 1, ["python", "main.py"]), ("w", 2, ["python", "w.py", "--to", "$(GPUCTL_MAIN_ADDR)"])],
        ["main"],
    ),
    "number of a loop": (
        f"{HOSTS}srun -w ${{hosts[0]}} a &\nfor i in {{1..2}}; do srun -N1 -w ${{hosts[$i]}} b --id $i & done\nwait\n",
        [("a", 1, ["a"]), ("b", 2, ["bash", "-c", "b --id $((NODE_RANK + 1))\n"])],
        None,
    ),
    "document in a step": (
        "srun -N1 a &\nsrun -N2 python - <<EOF &\nprint(1)\nEOF\nwait\n",
        [("a", 1, ["a"]), ("main", 2, ["bash", "-c", "python - <<EOF\nprint(1)\nEOF\n"])],
        None,
    ),
}


@pytest.mark.parametrize("case", sorted(ROLES))
def test_steps_on_groups_of_nodes_are_roles(case: str) -> None:
    body, expected, primary = ROLES[case]
    assert roles(body) == expected
    draft = imported(body).drafts[0]
    assert (draft.get("primary"), draft.get("resources.nodes")) == (primary, None)


def test_the_status_of_a_step_is_that_of_its_role() -> None:
    """`status=$?` as the last command would always succeed."""
    body = f"{HOSTS}srun -N2 -w ${{hosts[0]}},${{hosts[1]}} a &\nA=$!\nsrun -N1 -w ${{hosts[2]}} b\n"
    assert roles(f"{body}status=$?\nkill $A\nexit $status\n") == [("a", 2, ["a"]), ("b", 1, ["b"])]
    assert roles(f"{body}if [ $? -ne 0 ]; then echo bad; exit 1; fi\n") == [("a", 2, ["a"]), ("b", 1, ["b"])]


@pytest.mark.parametrize(
    ("end", "script"),
    [
        ("srun --exclude=${hosts[0]} c\n", "a &\nb & wait\n"),
        ("srun --exclude=${hosts[0]} c &\nC=$!\nwait $C\nstatus=$?\nkill $A\nexit $status\n", "a &\n\nb &\nwait\n"),
        (
            "srun --exclude=${hosts[0]} c &\nC=$!\nwait $A\nstatus=$?\nkill $C\nexit $status\n",
            "a &\nA=$!\nb &\n\nwait $A\nstatus=$?\n\nexit $status\n",
        ),
    ],
)
def test_programs_beside_each_other_run_until_the_end(end: str, script: str) -> None:
    """A role whose script has ended would stop its programs, and only its own processes have numbers."""
    node = "srun -N1 -w ${hosts[0]} --overlap"
    found = roles(f"{HOSTS}{node} a &\nA=$!\n{node} b &\n{end}")
    assert re.sub("\n+", "\n", found[0][2][2]) == re.sub("\n+", "\n", script)
    assert found[1] == ("c", 2, ["c"])


def test_a_monitor_without_gpus_leaves_those_of_its_node() -> None:
    body = f"{HOSTS}srun -N1 -w ${{hosts[0]}} --gres=gpu:8 a &\nsrun -N1 -w ${{hosts[0]}} --overlap --gres=gpu:0 m &\n"
    found = imported(f"{body}srun -N2 --exclude=${{hosts[0]}} --gpus-per-node=4 b &\nwait\n")
    assert [role.get("resources") for role in found.drafts[0].get("roles")] == [None, {"gpu": 4}]


@pytest.mark.parametrize(
    ("body", "outcome", "note"),
    [
        ("srun -N2 -n2 a\n", Outcome.CHANGED, "all 3 nodes run it; Slurm runs it on 2"),
        ("srun -N1 -n4 a\n", Outcome.DROPPED, "srun starts 4 processes on each node, a pod one"),
        ("srun --gpus-per-node=2 a\n", Outcome.CHANGED, "the program sees all 8 GPUs of a pod; Slurm shows it 2"),
        ("srun --gpus-per-node=4 a &\nsrun --gpus-per-node=4 b &\nwait\n", Outcome.DROPPED, "share all GPUs of a pod"),
        ("srun --multi-prog a.conf\n", Outcome.DROPPED, "each program of the file is a role"),
    ],
)
def test_steps_that_run_otherwise_are_noted(body: str, outcome: Outcome, note: str) -> None:
    assert [entry for entry in imported(body).entries if entry.outcome is outcome and note in (entry.note or "")]


def test_steps_that_choose_their_gpus_are_exact() -> None:
    steps = [f"CUDA_VISIBLE_DEVICES={number} srun --gpus-per-node=1 a {number} &\n" for number in range(8)]
    assert all(entry.outcome is Outcome.MAPPED for entry in imported("".join(steps) + "wait\n").entries)


def test_programs_of_one_name_have_different_roles() -> None:
    names = [name for name, _, _ in roles("srun -N1 x &\nsrun -N1 x &\nsrun -N1 x &\nwait\n")]
    assert names == ["x", "x-2", "x-3"]


def test_a_monitor_beside_a_step_on_all_nodes_is_no_role() -> None:
    found = imported("srun -N1 -n1 monitor &\nsrun torchrun train.py\n")
    script = '[ "$NODE_RANK" != 0 ] || monitor &\ntorchrun train.py\n'
    assert found.drafts[0].get("environment.command") == ["bash", "-c", script]
    assert found.drafts[0].get("resources.nodes") == 3
    assert all(entry.outcome is not Outcome.DROPPED for entry in found.entries)


def test_an_array_of_jobs_with_roles_is_dropped() -> None:
    head = HEAD.replace("-J a", "-J a --array=0-3")
    found = imported("srun -N1 a &\nsrun -N2 b &\nwait\n", head)
    notes = [entry.note for entry in found.entries if entry.text == "--array=0-3"]
    assert notes == ["the runs of an array have one node, and these have 3: write a document for each run"]
    assert found.drafts[0].get("array") is None


@pytest.mark.parametrize(
    ("first", "second", "resources"),
    [
        ("--gpus-per-node=a100:4", "--gpus-per-node=2", [{"gpu-type": "a100"}, {"gpu": 2}]),
        (
            "--gres=gpu:a100_1g.5gb:1",
            "--gpus-per-node=2",
            [{"gpu-type": "a100", "gpu-profile": "1g.5gb"}, {"gpu": 2}],
        ),
        (
            "--gpus-per-node=2",
            "--gres=gpu:a100_1g.5gb:1",
            [None, {"gpu": 1, "gpu-type": "a100", "gpu-profile": "1g.5gb"}],
        ),
        ("--gpus-per-node=a100:4", "", [None, {"gpu": 0}]),
    ],
)
def test_parts_have_the_gpus_that_they_name(first: str, second: str, resources: list[object]) -> None:
    head = f"#SBATCH -J a -N1 -c4 --mem=4G {first}\n#SBATCH hetjob\n#SBATCH -N2 -c4 --mem=4G {second}\n"
    found = imported("srun --het-group=0 a &\nsrun --het-group=1 b &\nwait\n", head)
    assert [role.get("resources") for role in found.drafts[0].get("roles")] == resources
    assert all(entry.outcome is not Outcome.DROPPED for entry in found.entries)


def test_parts_whose_steps_are_not_known_are_refused() -> None:
    head = "#SBATCH -J a -N1 --mem=4G\n#SBATCH hetjob\n#SBATCH -N2 --mem=8G\n"
    with pytest.raises(Unreadable, match="it is not known which steps they run"):
        imported("srun --het-group=0 a &\nsrun --het-group=2 b &\nwait\n", head)


@pytest.mark.parametrize("nodes", [1, 2])
def test_each_step_beside_others_has_gpus_that_no_other_has(nodes: int, tmp_path: Path) -> None:
    head = f"#!/bin/bash\n#SBATCH -J a -N {nodes} -n 8 --gpus-per-node=4 -c 1 --mem=8G\n"
    step = "srun -N1 -n1 --gpus=1 --exact python"
    loop = f"for a in 1 2; do for b in 1 2 3; do\n  X=1 {step} $a$b > /dev/null & names+=($!)\ndone; done\n"
    loop += 'wait "${names[@]}"\nwait\n'
    body = f"{step} first &\n{step} second &\nwait\n{loop}srun -N1 -n1 -G2 python last &\nwait\n"
    draft = imported(body, head).drafts[0]
    [_, _, script] = draft.get("environment.command")
    (tmp_path / "python").write_text('#!/bin/bash\nsleep 0.1\necho "$NODE_RANK $1 $CUDA_VISIBLE_DEVICES" >> $LOG\n')
    (tmp_path / "python").chmod(0o755)
    found: list[list[str]] = []
    for rank in range(nodes):
        log = tmp_path / f"log{rank}"
        variables = {"NODE_RANK": str(rank), "LOG": str(log), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run(["bash", "-euc", script], env=variables, check=True)
        found += [line.split() for line in log.read_text().splitlines()]
    steps = {name: (rank, gpus) for rank, name, gpus in found}
    assert len(found) == len(steps) == 9
    assert [steps[name] for name in ("first", "second", "last")] == [("0", "0"), ("0", "1"), ("0", "0,1")]
    in_loop = [steps[name] for name in ("11", "12", "13", "21", "22", "23")]
    at_a_time = 4 * nodes
    assert len(set(in_loop[:at_a_time])) == len(in_loop[:at_a_time])
    assert {gpus for _, gpus in in_loop} <= {"0", "1", "2", "3"}


def test_roles_have_the_shared_memory_and_the_program_of_their_containers() -> None:
    run = "docker run --shm-size 16g a:1"
    draft = imported(f"srun -N1 {run} python a.py &\nsrun -N2 {run} ./b.sh &\nwait\n").drafts[0]
    assert draft.get("resources.shm") == "16Gi"
    assert [(role["name"], role["command"]) for role in draft.get("roles")] == [
        ("a", ["python", "a.py"]),
        ("b", ["./b.sh"]),
    ]
