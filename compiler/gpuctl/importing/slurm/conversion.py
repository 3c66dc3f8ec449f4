"""Converts a batch script into a training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from gpuctl.frontend.code_tree import CodeTree
from gpuctl.frontend.platform_restrictions import RESERVED_ENV
from gpuctl.frontend.source import STDIN, Source
from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import gpus_of
from gpuctl.importing.fields_from_options import replace_values
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Missing, Unreadable, check_script
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.slurm.allocation import Allocation
from gpuctl.importing.slurm.batch_file import BatchFile, read_batch_file
from gpuctl.importing.slurm.body_facts import BodyFacts
from gpuctl.importing.slurm.called_scripts import CalledScripts
from gpuctl.importing.slurm.command_rules import submits_text
from gpuctl.importing.slurm.heterogeneous_jobs import (
    RolePart,
    runs_in_turn,
    separate_steps,
    take_parts,
    why_undivided,
)
from gpuctl.importing.slurm.host_files import with_our_host_file
from gpuctl.importing.slurm.job_options import JobOptions, missing_pool
from gpuctl.importing.slurm.role_bodies import import_roles
from gpuctl.importing.slurm.sbatch_options import OF_CONTAINERS
from gpuctl.importing.slurm.script_body import ScriptBody
from gpuctl.importing.slurm.script_edits import as_argument
from gpuctl.importing.slurm.slurm_values import ArrayRange
from gpuctl.importing.slurm.slurm_variables import SlurmFacts, replace_variables, values_in_pod
from gpuctl.importing.slurm.srun_options import SrunOptions
from gpuctl.language.names import longest_job_name, nearest_dns_label, shortened

TOOL = "Slurm"
_EVALUATES = r"(?:perl|ruby|Rscript|julia|node|nodejs|lua)[\d.]*\Z"
"""Interpreters whose option for a program is ``-e``; others have ``-c``."""
_SEVERAL_TASKS = r"\bsrun\b(?:[^\n\\]|\\\n){0,400}?--n?tasks-per-node[= ](?:[2-9]|[1-9]\d|\$)"
"""A step with several processes on a node, where the options of the job name none."""
_OTHER_SHELLS = frozenset({"csh", "tcsh", "fish"})
_CALLED = r"[ \t]*(?:time[ \t]+)?(srun|sbatch|scontrol|module|ml|conda|mpirun|mpiexec)\b"
_VARIABLE = r"\bSLURMD?_\w+"


def import_batch_script(source: Source, given: Given) -> Imported:
    """Return the training of a batch script.

    :raises Unreadable: the script cannot be imported.
    """
    text = source.text.replace("\r\n", "\n")
    check_script(text, "name a batch script")
    ledger = LineLedger()
    batch = read_batch_file(text, ledger)
    draft = Draft("training", source.name, TOOL, given.settings)
    job = JobOptions(draft, ledger, given.pools, given.pool)
    job.take(batch.options)
    missing: list[Missing] = []
    if job.partition_without_pool is not None:
        missing.append(missing_pool(job.partition_without_pool))
    body = "" if batch.parts else batch.body
    allocation = Allocation(batch.options, given, draft, ledger)
    allocation.take(body, batch.first_line)
    parts = take_parts(batch, given, allocation, draft, ledger)
    nodes = sum(part.nodes for part in parts) or allocation.nodes
    job.take_array(batch.options.get("array"), nodes)
    runs = len(job.array.indices) if job.array is not None else 0
    # On several nodes: the limit of JobSet, which the platform may use.
    missing += _name(batch, source, given, draft, ledger, longest_job_name("training", nodes, "jobset", runs)[0])
    missing += [item for part in parts[1:] for item in part.missing if item not in missing]
    srun = SrunOptions(draft, ledger, keeps_image=given.image is not None)
    srun.take([batch.options[name] for name in sorted(OF_CONTAINERS & set(batch.options))])
    _body(batch, job.array, given.workdir, allocation, parts, draft, ledger, srun, source.tree)
    replace_values(draft, given, ledger)
    if draft.get("environment.image") is None:
        missing.append(srun.missing_image())
    return Imported(TOOL, [draft], ledger.entries(), [*missing, *allocation.missing])


def _name(
    batch: BatchFile, source: Source, given: Given, draft: Draft, ledger: LineLedger, longest: int
) -> list[Missing]:
    """Set the name of the job. Return it as missing if no valid name is known."""
    option = batch.options.get("job-name")
    file = "" if source.name == STDIN else source.name.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    written = option.value or "" if option is not None else file
    nearest = nearest_dns_label(written, letter_first=True)
    if option is not None and nearest is not None and written[:1].isdigit():
        nearest = nearest_dns_label(f"job-{written}")
    name = given.name or (shortened(nearest, longest) if nearest is not None else None)
    line = option.line if option is not None else 1
    if name is None:
        reason = f"`{written}` has no letters for a name" if written else "no line names the job"
        return [Missing("--name", "NAME", line, reason)]
    draft.set("job.name", name, line if option is not None and not given.name else None)
    if option is not None and name == option.value:
        ledger.mapped(line, option.text, "job.name")
    elif option is not None:
        note = "--name replaces it" if given.name else "a name has lower-case letters, digits and `-`"
        if nearest is not None and len(nearest) > longest and not given.name:
            note += f", {longest} at most"
        ledger.changed(line, option.text, "job.name", note)
    return []


def _body(
    batch: BatchFile,
    array: ArrayRange | None,
    workdir: str | None,
    allocation: Allocation,
    parts: Sequence[RolePart],
    draft: Draft,
    ledger: LineLedger,
    srun: SrunOptions,
    tree: CodeTree | None,
) -> None:
    if not batch.is_shell:
        _other_program(batch, draft, ledger)
        return
    values = {name: option.value for name, option in batch.options.items()}
    shift = _index_line(array, batch.interpreter[0])
    nodes = sum(part.nodes for part in parts) or allocation.nodes
    facts = SlurmFacts(
        nodes=nodes,
        tasks=0 if re.search(_SEVERAL_TASKS, batch.body) and allocation.tasks == 1 else allocation.tasks,
        cpus_per_task=allocation.cpus_per_task,
        gpus=allocation.gpus,
        partition=values.get("partition"),
        account=values.get("account"),
        workdir=workdir,
        array=array,
        renames_index=shift is None,
    )
    replaced = replace_variables(batch.body, facts)
    if parts:
        replaced = replaced._replace(text=separate_steps(replaced.text))
    if nodes > 1:
        replaced = replaced._replace(text=with_our_host_file(replaced.text, replaced.hosts))
    body = BodyFacts(
        nodes=nodes,
        tasks=allocation.tasks,
        gpus=allocation.gpus,
        first_line=batch.first_line,
        interpreter=batch.interpreter,
        index_line=shift,
        scripts=CalledScripts(tree, values_in_pod(facts)),
        in_submit_directory=workdir is None and draft.get("environment.workdir") is None,
        gpus_per_task=per_task.number if (per_task := gpus_of(values.get("gpus-per-task") or "")) is not None else None,
    )
    script = ScriptBody(batch.body, replaced, body, draft, srun)
    undivided = import_roles(batch.body, replaced, script.statements, body, draft, ledger, srun.keeps_image, parts)
    if undivided is not None and parts:
        message = "a heterogeneous job has parts with options of their own, and it is not known which steps they run"
        hint = "split the file at this line, and import each part"
        reason = undivided or why_undivided(batch.body)
        if not undivided and runs_in_turn(batch.body):
            hint += "; `job.after` of the later document names the earlier one"
        raise Unreadable(batch.part_line, message, f"{reason}: {hint}" if reason else hint)
    if undivided is not None:
        script.body.facts = body._replace(undivided=undivided)
        script.convert().write(ledger)
    if all(draft.get(field) is None for field in ("environment.command", "environment.args", "roles")):
        _refuse_empty(batch, script)


def _other_program(batch: BatchFile, draft: Draft, ledger: LineLedger) -> None:
    """Set the command to the interpreter of a script that is not a shell's, with the script as its argument."""
    lines = range(batch.first_line, batch.first_line + batch.body.rstrip().count("\n") + 1)
    option = "-e" if re.match(_EVALUATES, batch.interpreter[0]) else "-c"
    program = as_argument(batch.body.rstrip("\n") + "\n", RESERVED_ENV)
    draft.set("environment.command", [*batch.interpreter, option, program], lines)
    for number, text in enumerate(batch.body.split("\n"), batch.first_line):
        for name in dict.fromkeys(re.findall(_VARIABLE, text)):
            ledger.dropped(number, name, "a pod does not have this variable of Slurm: write its value")
        found = re.match(_CALLED, text) if batch.interpreter[0] in _OTHER_SHELLS else None
        if found is not None:
            note = f"a pod has no `{found[1]}`, and a script of {batch.interpreter[0]} stays as it is: use bash"
            ledger.dropped(number, text, note)
    ledger.mapped(lines, batch.body, "environment.command")


def _refuse_empty(batch: BatchFile, script: ScriptBody) -> NoReturn:
    """Raise the reason why a script has no program.

    :raises Unreadable: always.
    """
    submits = next(filter(submits_text, script.statements), None)
    if submits is not None:
        hint = "write the text that it submits to a file, and import that"
        raise Unreadable(script.body.line(submits.start), "the script only submits another batch script", hint)
    raise Unreadable(batch.first_line, "the script starts no program", "name a batch script with a command")


def _index_line(array: ArrayRange | None, shell: str) -> str | None:
    """Return the line of shell that computes the index of an array; None if gpuctl's is the same."""
    if array is None or array.indices == list(range(len(array.indices))):
        return None
    first, step = array.indices[0], array.step
    if step is None:
        listed = " ".join(map(str, array.indices))
        if shell != "bash":
            # Other shells have no arrays, or count from 1.
            place = "$((GPUCTL_ARRAY_INDEX + 1))"
            return f"export SLURM_ARRAY_TASK_ID=$(echo {listed} | cut -d ' ' -f {place})"
        return f"indices=({listed})\nexport SLURM_ARRAY_TASK_ID=${{indices[GPUCTL_ARRAY_INDEX]}}"
    times = f" * {step}" if step > 1 else ""
    plus = f" + {first}" if first else ""
    return f"export SLURM_ARRAY_TASK_ID=$((GPUCTL_ARRAY_INDEX{times}{plus}))"
