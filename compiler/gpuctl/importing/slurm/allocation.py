"""Nodes, GPUs, CPUs and memory of a batch job, for each node."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuctl.importing.card_resources import set_types
from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import Gpus, gpus_of, number_or_text
from gpuctl.importing.import_values import Given, Missing
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.slurm.job_options import SCRATCH
from gpuctl.importing.slurm.sbatch_options import SlurmOption
from gpuctl.importing.slurm.slurm_values import gpus_of_gres, memory_of
from gpuctl.language.display_text import count_text
from gpuctl.objects.quantities import whole_number

_GPUS_IN_BODY = (
    r"(?m)^[ \t]*(?:export[ \t]+)?(?:N?GPUS?_PER_NODE|NUM_GPUS_PER_NODE|NPROC_PER_NODE)=[\"']?(\d{1,3})\b",
    r"--nproc[-_]per[-_]node[= ](\d{1,3})\b",
    r"\bsrun\b(?:[^\n\\]|\\.|\\\n){0,400}?[ \t]--gpus-per-node[= ](?:[a-z]\w*:)?(\d{1,3})\b",
    r"--num_gpus[= ](\d{1,3})\b",
    r"\bslots=(\d{1,3})\b",
)
_GPUS_OF_JOB = r"(?m)^[ \t]*(?:export[ \t]+)?(?:NUM_GPUS|N_GPUS)=[\"']?(\d{1,3})\b"
"""Numbers of all GPUs of a job, or of each node."""
_OF_GPU_SOFTWARE = (
    r"(?im)^[ \t]*(?:module|ml)\b[^\n#]*[ \t/](?:cuda|cudnn|nccl|rocm)|(?:[ \t]--nv\b|\bnvcr\.io/nvidia/)"
)
_NEEDS_GPUS = (
    r"\bsrun\b(?:[^\n\\]|\\.|\\\n){0,400}?[ \t]--(?:gpus(?:-per-(?:task|node))?[= ](?:\w+:)?[1-9]|gres[= ]gpu\b)|"
    r"\b(?:torchrun|nvidia-smi|deepspeed|CUDA_VISIBLE_DEVICES|NCCL_\w+|torch\.distributed\.\w+|accelerate launch)\b"
)
_GPU_NODES = r"(?i)gpu|(?<![a-z\d])(?:[avhp]100|h200|a40|l40s?|mi\d{3}x?)(?![a-z\d])"
"""Names of partitions and features of nodes with GPUs."""
_GPU = r"(?:gres[/:])?gpu\b"
_OF_GPUS = frozenset({"gpus", "gpus-per-task", "gpus-per-node"})
_OTHER_GRES = {
    r"(?:gres[/:])?(?:shard|mps)\b": "a GPU is shared by `resources.gpu-share`",
    r".*(?:scratch|tmp|nvme|ssd|disk)": SCRATCH,
    "": "gpuctl knows GPUs only",
}


class Allocation:
    """The numbers of a job. ``tasks``: on each node. ``missing``: values that nothing names."""

    def __init__(self, options: Mapping[str, SlurmOption], given: Given, draft: Draft, ledger: LineLedger) -> None:
        self.options = options
        self.given = given
        self.draft = draft
        self.ledger = ledger
        self.missing: list[Missing] = []
        self.nodes = 1
        self.tasks = 1
        self.gpus = 0
        self.cpus_per_task: int | None = None

    def take(self, body: str, first_line: int) -> None:
        """Compute the numbers, and add them to the document.

        :param body: may name the GPUs of a node, where the options name none.
        """
        self._nodes_and_tasks()
        self._gpus(body, first_line)
        self._cpus()
        self._memory()

    def _number(self, name: str) -> int | None:
        option = self.options.get(name)
        number = whole_number(option.value or "") if option is not None else None
        if option is not None and not number:
            self.ledger.dropped(option.line, option.text, f"`{option.value or ''}` is not a whole number above 0")
        return number or None

    def _note(self, name: str, field: str | None, note: str | None = None) -> None:
        option = self.options.get(name)
        if option is not None:
            self.ledger.taken(option.line, option.text, field, note)

    def _set(self, field: str, value: object, name: str | None) -> None:
        option = self.options.get(name) if name is not None else None
        self.draft.set(field, value, option.line if option is not None else None)

    def _nodes_and_tasks(self) -> None:
        tasks, per_node = self._number("ntasks"), self._number("ntasks-per-node")
        per_gpu = self._number("ntasks-per-gpu")
        named = "ntasks"
        if tasks is None and per_node is None:
            named = "gpus"
            tasks, per_node = self._tasks_of_gpus(per_gpu)
            if per_gpu and (tasks or per_node):
                self._note("ntasks-per-gpu", "environment.command")
                per_gpu = None
        nodes = self._nodes()
        if nodes is None and tasks is not None and per_node:
            nodes = -(-tasks // per_node)
        if nodes is None and tasks is not None and tasks > 1:
            option = self.options[named]
            reason = f"`{option.text}` starts {tasks} processes, and no line says on how many nodes"
            self.missing.append(Missing("--nodes", "N", option.line, reason))
        self.nodes = nodes or 1
        if per_node is None and tasks is not None:
            per_node = tasks // self.nodes if tasks % self.nodes == 0 else None
            if per_node is None:
                note = f"{tasks} processes do not divide into {self.nodes} nodes: every pod is alike"
                self.ledger.dropped(self.options[named].line, self.options[named].text, note)
            else:
                self._note("ntasks", "resources.nodes")
        elif tasks is not None:
            self._note("ntasks", "resources.nodes")
        if per_gpu is not None:
            self.ledger.dropped(
                self.options["ntasks-per-gpu"].line,
                self.options["ntasks-per-gpu"].text,
                "a launcher such as torchrun starts the processes of a node",
            )
        self.tasks = max(per_node or 1, 1)
        if self.options.get("ntasks-per-node") is not None and per_node is not None:
            self._note("ntasks-per-node", None if self.tasks == 1 else "environment.command")
        if self.nodes > 1 or self.given.nodes:
            self._set(
                "resources.nodes",
                self.nodes,
                None if self.given.nodes else "nodes" if "nodes" in self.options else "ntasks",
            )

    def _tasks_of_gpus(self, per_gpu: int | None) -> tuple[int | None, int | None]:
        """Return the number of processes that Slurm computes from the GPUs: of the job, and of each node.

        :param per_gpu: processes for each GPU.
        """
        values = {name: (self.options[name].value or "").removeprefix("gpu:") for name in _OF_GPUS & set(self.options)}
        found = {name: gpus_of(value) for name, value in values.items()}
        numbers = {name: gpus.number for name, gpus in found.items() if gpus is not None}
        total, each, on_node = (numbers.get(name) for name in ("gpus", "gpus-per-task", "gpus-per-node"))
        if "gres" in self.options and on_node is None:
            gpus = gpus_of_gres(self.options["gres"].value or "")[0]
            on_node = gpus.number if gpus is not None else None
        if per_gpu and on_node:
            return None, on_node * per_gpu
        if total and (each or per_gpu):
            return (total // each if each else total * (per_gpu or 1)), None
        return None, None

    def _nodes(self) -> int | None:
        option = self.options.get("nodes")
        if self.given.nodes is not None:
            self._note("nodes", "resources.nodes", "--nodes replaces it")
            return self.given.nodes
        if option is None:
            return None
        match = re.match(r"(?a)(\d{1,6})(?:-(\d{1,6}))?\Z", option.value or "")
        number = int(match[1]) if match is not None else 0
        if match is None or number == 0:
            reason = f"`{option.text}` does not name a number of nodes"
            self.missing.append(Missing("--nodes", "N", option.line, reason))
            self.ledger.changed(option.line, option.text, "resources.nodes", "--nodes names the number")
            return 1
        if match[2] is not None and int(match[2]) != number:
            note = "the number of nodes is fixed: the smallest of the range"
            self.ledger.changed(option.line, option.text, "resources.nodes", note)
        else:
            self.ledger.mapped(option.line, option.text, "resources.nodes")
        return number

    def _gpus(self, body: str, first_line: int) -> None:
        name, gpus = self._gpus_of_options()
        if self.given.gpus_per_node is not None:
            if name is not None:
                self._note(name, "resources.gpu", "--gpus-per-node replaces the number")
            gpus = Gpus(self.given.gpus_per_node, gpus.type if gpus is not None else None)
            self.draft.set("resources.gpu", gpus.number)
        elif gpus is not None and name is not None:
            self._set("resources.gpu", gpus.number, name)
            self._note(name, "resources.gpu")
        elif self._is_complete("--gpus-per-node"):
            gpus = self._gpus_of_body(body, first_line)
        if gpus is not None and gpus.model is not None:
            option = self.options.get(name) if name is not None else None
            set_types(self.draft, [gpus.model], option.line if option is not None else None)
        if gpus is not None and gpus.profile is not None:
            self._set("resources.gpu-profile", gpus.profile, name)
        self.gpus = gpus.number if gpus is not None else 0
        if "exclusive" in self.options:
            note = "a job has the GPUs, CPUs and memory that it names"
            self._note("exclusive", "resources.gpu", note)

    def _gpus_of_options(self) -> tuple[str | None, Gpus | None]:
        """Return the option that names the GPUs of a node, and their number; others are added to the ledger."""
        found: tuple[str | None, Gpus | None] = (None, None)
        named = ""
        for name in ("gpus-per-node", "gres", "gpus-per-task", "gpus"):
            option = self.options.get(name)
            if option is None:
                continue
            others: list[str] = []
            if name == "gres":
                gpus, others = gpus_of_gres(option.value or "")
            else:
                gpus = gpus_of((option.value or "").removeprefix("gpu:"))
            if gpus is not None and name == "gpus-per-task":
                gpus = gpus._replace(number=gpus.number * self.tasks)
            if gpus is not None and name == "gpus":
                gpus = gpus._replace(number=gpus.number // self.nodes) if gpus.number % self.nodes == 0 else None
            is_unreadable = gpus is None and (name != "gres" or any(re.match(_GPU, item) for item in others))
            for item in others if not is_unreadable else ():
                note = next(note for pattern, note in _OTHER_GRES.items() if re.match(pattern, item))
                self.ledger.dropped(option.line, f"--gres={item}", note)
            if is_unreadable:
                if self.given.gpus_per_node is None:
                    self._missing_gpus(option)
                self.ledger.changed(option.line, option.text, "resources.gpu", "--gpus-per-node names the number")
            elif gpus is not None and found[1] is None:
                found = (name, gpus)
                named = re.split(r"[= ]", option.text)[0]
            elif gpus is not None:
                self.ledger.mapped(option.line, option.text, "resources.gpu", f"`{named}` names the GPUs")
        return found

    def _missing_gpus(self, option: SlurmOption) -> None:
        reason = f"`{option.text}` is not a number of GPUs for each of {count_text(self.nodes, 'node')}"
        if "$" in (option.value or ""):
            reason = f"`{option.text}` names no number of GPUs: Slurm replaces no variables in options"
        self.missing.append(Missing("--gpus-per-node", "N", option.line, reason))

    def _gpus_of_body(self, body: str, first_line: int) -> Gpus | None:
        """Return the number of GPUs that the script states; add to ``missing`` if it needs some and names none."""
        found = {
            int(match[1]): first_line + body.count("\n", 0, match.start())
            for pattern in (*_GPUS_IN_BODY, *([_GPUS_OF_JOB] if self.nodes == 1 else []))
            for match in re.finditer(pattern, body)
        }
        if len(found) == 1:
            number, line = found.popitem()
            self.draft.set("resources.gpu", number, line)
            text = body.split("\n")[line - first_line]
            self.ledger.changed(line, text, "resources.gpu", "no option names GPUs: the number is that of the script")
            return Gpus(number, None)
        exclusive = self.options.get("exclusive")
        needs = re.search(_NEEDS_GPUS, body)
        nodes = [self.options.get(name) for name in ("constraint", "partition")]
        selects = next((item for item in nodes if item is not None and re.search(_GPU_NODES, item.value or "")), None)
        if needs is None and not any(item is not None and re.search("(?i)cpu", item.value or "") for item in nodes):
            needs = re.search(_OF_GPU_SOFTWARE, body)
        if not body:
            # The script of a heterogeneous job does not say which part has GPUs.
            selects = None
        if found or exclusive is not None or needs is not None or selects is not None:
            line = exclusive.line if exclusive is not None else first_line
            if found:
                reason = f"the script names different numbers of GPUs: {', '.join(map(str, sorted(found)))}"
            elif exclusive is not None:
                reason = "`--exclusive` takes all GPUs of a node, and no line says how many"
            elif needs is not None:
                line = first_line + body.count("\n", 0, needs.start())
                reason = f"`{needs[0].split()[-1]}` uses GPUs, and no line says how many"
            elif selects is not None:
                line, reason = selects.line, f"`{selects.text}` names nodes with GPUs, and no line says how many"
            self.missing.append(Missing("--gpus-per-node", "N", line, reason))
        return None

    def _cpus(self) -> None:
        numbers = {name: self._number(name) for name in ("cpus-per-task", "cpus-per-gpu", "mincpus")}
        per_task, per_gpu, least = numbers.values()
        self.cpus_per_task = per_task
        names = [name for name, number in numbers.items() if number is not None]
        cpu: int | str | None = None
        if per_task is not None:
            cpu = per_task * self.tasks
        elif per_gpu is not None and self.gpus:
            cpu = per_gpu * self.gpus
        elif least is not None:
            cpu = least
        if self.given.cpu is not None:
            given = whole_number(self.given.cpu)
            if per_task is not None:
                self.cpus_per_task = None if given is None else max(given // max(self.tasks, 1), 1)
            for name in names:
                self._note(name, "resources.cpu", "--cpu replaces it")
            self.draft.set("resources.cpu", number_or_text(self.given.cpu))
            return
        for name in names:
            self._note(name, "resources.cpu")
        if cpu is not None:
            self._set("resources.cpu", cpu, names[0])
        elif self.gpus == 0 and "exclusive" not in self.options and self._is_complete("--gpus-per-node"):
            # Slurm's default: one CPU for each task.
            self.cpus_per_task = 1
            self.draft.set("resources.cpu", self.tasks if self._is_complete("--nodes") else None)
        else:
            self._ask("--cpu", "no line says how many CPUs the job needs on each node")

    def _memory(self) -> None:
        names = [name for name in ("mem", "mem-per-gpu", "mem-per-cpu") if name in self.options]
        name = names[0] if names else None
        for other in names[1:]:
            self._note(other, "resources.memory", f"`--{name}` names the memory")
        option = self.options.get(name) if name is not None else None
        if self.given.memory is not None:
            if name is not None:
                self._note(name, "resources.memory", "--memory replaces it")
            self.draft.set("resources.memory", self.given.memory)
            return
        times: int | None = 1
        if name == "mem-per-gpu":
            times = self.gpus
        elif name == "mem-per-cpu":
            cpu = self.draft.get("resources.cpu")
            times = cpu if isinstance(cpu, int) else None
        memory = memory_of(option.value or "", times) if option is not None and times else None
        if option is not None and not times and self.missing:
            # The amount is known as soon as what is missing is.
            self._note(str(name), "resources.memory")
            return
        if option is None or memory == "":
            if option is not None:
                self.ledger.changed(option.line, option.text, "resources.memory", "--memory names the amount")
            reason = "no line says how much memory the job needs on each node"
            if option is not None:
                reason = f"`{option.text}` is all memory of a node, and no line says how much that is"
            self._ask("--memory", reason, option.line if option is not None else 0)
        elif memory is None:
            self.ledger.changed(option.line, option.text, "resources.memory", "--memory names the amount")
            self._ask("--memory", f"`{option.text}` is not an amount of memory that is known", option.line)
        else:
            self._set("resources.memory", memory, name)
            self._note(str(name), "resources.memory")

    def _is_complete(self, option: str) -> bool:
        return all(item.option != option for item in self.missing)

    def _ask(self, option: str, reason: str, line: int = 0) -> None:
        lines = [
            item.line
            for item in self.options.values()
            if item.name in ("nodes", "gpus", "gres", "exclusive", "gpus-per-node")
        ]
        value = "N" if option == "--cpu" else "AMOUNT"
        self.missing.append(Missing(option, value, line or min(lines, default=1), reason))
