"""Steps of batch scripts that run on different nodes: as roles, or dropped with the reason."""

from __future__ import annotations

import pytest

from gpuctl.frontend.source import Source
from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.imported import Imported
from gpuctl.importing.line_ledger import Outcome
from gpuctl.importing.tools import import_source

GIVEN = Given(image="registry.example.com/a:1")
HEAD = "#!/bin/bash\n#SBATCH -J a -N 3 --ntasks-per-node=1 --gres=gpu:8 -c 8 --mem=64G\n"
HOSTS = 'hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))\n'


def imported(body: str, head: str = HEAD) -> Imported:
    return import_source(Source("a.sbatch", head + body), GIVEN, "slurm")


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
        ("if true; then srun -N1 a & fi\nsrun -N2 b &\nwait\n", "a condition or function starts it"),
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


def test_steps_on_numbers_of_nodes_are_roles() -> None:
    body = "srun -N1 -n1 python a.py &\nsrun -N2 -n2 python b.py --x 1 > b.log 2>&1 &\nwait\n"
    script = ["bash", "-c", "python b.py --x 1 > b.log 2>&1\n"]
    assert roles(body) == [("a", 1, ["python", "a.py"]), ("b", 2, script)]


def test_relative_nodes_are_roles() -> None:
    body = "srun -r1 -N2 python b.py &\nsrun -r0 -N1 python a.py\n"
    assert roles(body) == [("a", 1, ["python", "a.py"]), ("b", 2, ["python", "b.py"])]
    assert imported(body).drafts[0].get("primary") == ["a"]


def test_the_first_node_runs_the_program_of_the_script() -> None:
    body = f"{HOSTS}for h in ${{hosts[@]:1}}; do srun -N1 -w $h python w.py --to ${{hosts[0]}} & done\npython main.py\n"
    address = "$(GPUCTL_MAIN_ADDR)"
    assert roles(body) == [("main", 1, ["python", "main.py"]), ("w", 2, ["python", "w.py", "--to", address])]
    assert imported(body).drafts[0].get("primary") == ["main"]


def test_the_number_of_a_loop_is_the_rank_of_the_node() -> None:
    body = (
        f"{HOSTS}srun -w ${{hosts[0]}} a &\nfor i in {{1..2}}; do srun -N1 -w ${{hosts[$i]}} b --id $i & done\nwait\n"
    )
    assert roles(body)[1] == ("b", 2, ["bash", "-c", "b --id $((NODE_RANK + 1))\n"])


def test_programs_of_one_name_have_different_roles() -> None:
    names = [name for name, _, _ in roles("srun -N1 x &\nsrun -N1 x &\nsrun -N1 x &\nwait\n")]
    assert names == ["x", "x-2", "x-3"]


def test_a_document_in_a_step_stays_with_it() -> None:
    body = "srun -N1 a &\nsrun -N2 python - <<EOF &\nprint(1)\nEOF\nwait\n"
    assert roles(body)[1] == ("main", 2, ["bash", "-c", "python - <<EOF\nprint(1)\nEOF\n"])


def test_a_monitor_beside_a_step_on_all_nodes_is_no_role() -> None:
    found = imported("srun -N1 -n1 monitor &\nsrun torchrun train.py\n")
    script = '[ "$NODE_RANK" != 0 ] || monitor &\ntorchrun train.py\n'
    assert found.drafts[0].get("environment.command") == ["bash", "-c", script]
    assert found.drafts[0].get("resources.nodes") == 3
    assert all(entry.outcome is not Outcome.DROPPED for entry in found.entries)


def test_the_job_has_no_number_of_nodes_beside_roles() -> None:
    assert imported("srun -N1 a &\nsrun -N2 b &\nwait\n").drafts[0].get("resources.nodes") is None


def test_the_runs_of_an_array_have_no_roles() -> None:
    head = HEAD.replace("-J a", "-J a --array=0-3")
    notes = [entry.note or "" for entry in imported("srun -N1 a &\nsrun -N2 b &\nwait\n", head).entries]
    assert any("the runs of an array have one program" in note for note in notes)


def test_parts_whose_steps_are_not_known_are_refused() -> None:
    head = "#SBATCH -J a -N1 --mem=4G\n#SBATCH hetjob\n#SBATCH -N2 --mem=8G\n"
    with pytest.raises(Unreadable, match="it is not known which steps they run"):
        imported("srun --het-group=0 a &\nsrun --het-group=2 b &\nwait\n", head)
