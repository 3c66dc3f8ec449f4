"""The `#SBATCH` options of a job as fields of a training."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import get_args

from gpuctl.importing.draft import Draft
from gpuctl.importing.environment_variables import take_variable
from gpuctl.importing.import_values import Missing
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.slurm.sbatch_options import OF_CONTAINERS, SlurmOption
from gpuctl.importing.slurm.slurm_values import ArrayRange, array_of, duration_of
from gpuctl.language.array_block import MOST_RUNS
from gpuctl.language.checkpoint_block import Signal
from gpuctl.language.names import is_dns_label, is_env_name
from gpuctl.language.path_fields import normal_path
from gpuctl.language.settings import DEFAULT_PRIORITIES
from gpuctl.objects.durations import MAX_CHECKPOINT_SECONDS
from gpuctl.objects.quantities import whole_number

_LOG = "the log is kept with the pods: `gpuctl logs`"
_NODES = "nodes are selected by `resources.pool` and `resources.gpu-type`"
_CPUS = "the kubelet assigns CPUs"
SCRATCH = "scratch space is `storage.workdirs: [{path: /scratch, emptyDir: {size: 100Gi}}]`"
_SUBMISSION = "it is about the output of sbatch"
DROPPED = {
    **dict.fromkeys(("output", "error", "open-mode"), _LOG),
    "input": "a pod has no standard input",
    **dict.fromkeys(
        ("mail-type", "mail-user"), "gpuctl sends no mail: `gpuctl wait NAME --for=done` waits for the end"
    ),
    **dict.fromkeys(("constraint", "cluster-constraint", "prefer", "nodelist", "exclude", "nodefile"), _NODES),
    **dict.fromkeys(("batch", "contiguous", "spread-job", "use-min-nodes"), _NODES),
    **dict.fromkeys(("hint", "threads-per-core", "cores-per-socket", "sockets-per-node", "extra-node-info"), _CPUS),
    **dict.fromkeys(("ntasks-per-core", "ntasks-per-socket", "core-spec", "thread-spec", "distribution"), _CPUS),
    **dict.fromkeys(("mem-bind", "gres-flags", "cpu-freq"), _CPUS),
    **dict.fromkeys(("gpu-bind", "gpu-freq"), "a launcher assigns the GPUs of a pod"),
    **dict.fromkeys(
        ("gpus-per-socket", "tres-per-job"), "the GPUs and CPUs of a node are `resources.gpu` and `resources.cpu`"
    ),
    **dict.fromkeys(("parsable", "quiet", "verbose", "test-only", "ignore-pbs", "usage", "help"), _SUBMISSION),
    "reservation": "use a pool of the reserved nodes: `resources.pool`",
    "switches": "`resources.topology` keeps the nodes of a job close",
    "begin": "apply the document at that time, or use `schedule`",
    "deadline": "`gpuctl fit` predicts when a job can start",
    "hold": "`gpuctl pause NAME` holds a job",
    "licenses": "gpuctl counts no licenses",
    "nice": "`job.priority` is high, medium or low",
    "priority": "`job.priority` is high, medium or low",
    "wait": "`gpuctl wait NAME --for=done` waits for the end",
    "wait-all-nodes": "a queue starts all pods together: `resources.queue`",
    "time-min": "`job.max_runtime` is one time",
    "reboot": "nodes are not restarted for a job",
    "tmp": SCRATCH,
    "no-kill": "`job.retries` starts a job again after a node is lost",
    "clusters": "clusters are `placement.clusters`",
    "container": "an image is `environment.image`",
    "export-file": "variables are `environment.env`",
    "get-user-env": "variables are `environment.env`",
    "propagate": "limits are those of the container",
    "network": "fast networks are `resources.network`",
    "oversubscribe": "a GPU is shared by `resources.gpu-share`",
    "overcommit": "CPUs are `resources.cpu`",
    **dict.fromkeys(("uid", "gid"), "users are `security.user` and `security.group`"),
    "profile": "GPU use is recorded: `gpuctl usage`",
    "wckey": "use `job.labels`",
}
_RETRIES = 2
# Handled with the numbers of nodes, tasks, GPUs, CPUs and memory.
_NUMBERS = """
cpus-per-gpu cpus-per-task exclusive gpus gpus-per-node gpus-per-task gres mem mem-per-cpu mem-per-gpu mincpus nodes
ntasks ntasks-per-gpu ntasks-per-node
"""
ALLOCATION = frozenset(_NUMBERS.split())


def missing_pool(partition: SlurmOption) -> Missing:
    """Return the question for the pool of a partition."""
    reason = f"`{partition.text}` is not the name of a pool"
    return Missing("--partition", f"{partition.value}=POOL", partition.line, reason)


class JobOptions:
    """Adds options to a document and its ledger."""

    def __init__(self, draft: Draft, ledger: LineLedger, pools: Mapping[str, str], pool: str | None) -> None:
        self.draft = draft
        self.ledger = ledger
        self.pools = pools
        self.pool = pool
        self.array: ArrayRange | None = None
        self.partition_without_pool: SlurmOption | None = None
        self._actions: dict[str, Callable[[SlurmOption, str], None]] = {
            "account": self._account,
            "chdir": self._chdir,
            "comment": self._comment,
            "dependency": self._dependency,
            "export": self._export,
            "no-requeue": self._no_requeue,
            "partition": self._partition,
            "qos": self._qos,
            "requeue": self._requeue,
            "signal": self._signal,
            "time": self._time,
        }

    def take(self, options: Mapping[str, SlurmOption]) -> None:
        """Take the options of a job, without those of the allocation, of containers, the name and the array."""
        for option in options.values():
            if option.name in ALLOCATION or option.name in OF_CONTAINERS or option.name in ("job-name", "array"):
                continue
            action = self._actions.get(option.name)
            if action is not None:
                action(option, option.value or "")
            else:
                self._drop(option, DROPPED.get(option.name, "it has no equal in a document"))

    def _drop(self, option: SlurmOption, note: str) -> None:
        self.ledger.dropped(option.line, option.text, note)

    def _map(self, option: SlurmOption, field: str, value: object) -> None:
        self.draft.set(field, value, option.line)
        self.ledger.mapped(option.line, option.text, field)

    def _change(self, option: SlurmOption, field: str, value: object, note: str) -> None:
        self.draft.set(field, value, option.line)
        self.ledger.changed(option.line, option.text, field, note)

    def _account(self, option: SlurmOption, value: str) -> None:
        if is_dns_label(value):
            self._change(option, "job.namespace", value, "quotas are those of the namespace")
        else:
            self._drop(option, f"`{value}` is not the name of a namespace: write one into `job.namespace`")

    def take_array(self, option: SlurmOption | None, nodes: int) -> None:
        """Take the indices of an array.

        :param nodes: of each run.
        """
        if option is None:
            return
        array = array_of(option.value or "")
        if array is None:
            self._drop(option, f"`{option.value}` is not a list of at most {MOST_RUNS:,} indices: write `array`")
            return
        if nodes > 1:
            note = f"the runs of an array have one node, and these have {nodes}: write a document for each run"
            self._drop(option, note)
            return
        self.array = array
        size, parallelism = len(array.indices), array.parallelism
        limited = parallelism is not None and parallelism < size
        field: object = {"size": size, "parallelism": parallelism} if limited else size
        if array.indices == list(range(size)):
            self._map(option, "array", field)
        else:
            note = "indices count from 0; the script computes `SLURM_ARRAY_TASK_ID` from them"
            self._change(option, "array", field, note)

    def _chdir(self, option: SlurmOption, value: str) -> None:
        if value.startswith("/") and "%" not in value:
            self._map(option, "environment.workdir", normal_path(value))
        elif value in (".", "./"):
            self.ledger.mapped(option.line, option.text, None, "it is where sbatch is called, as without it")
        else:
            self._drop(option, "it is not an absolute path: write one into `environment.workdir`")

    def _comment(self, option: SlurmOption, value: str) -> None:
        self._map(option, "job.description", value)

    def _dependency(self, option: SlurmOption, value: str) -> None:
        if value == "singleton":
            self.ledger.mapped(option.line, option.text, "job.name", "a name is that of one job in a namespace")
        else:
            self._drop(option, "a number names no job here: write the name, `job.after: [NAME]`")

    def _export(self, option: SlurmOption, value: str) -> None:
        for item in filter(None, value.split(",")):
            name, equals, text = item.partition("=")
            if equals and is_env_name(name):
                field, note = take_variable(self.draft, name, text, option.line)
                self.ledger.taken(option.line, f"--export={item}", field, note)
            elif item in ("NONE", "NIL"):
                self.ledger.mapped(option.line, f"--export={item}", None)
            else:
                note = "variables of the shell that submits are not passed on: write them into `environment.env`"
                self.ledger.dropped(option.line, f"--export={item}", note)

    def _no_requeue(self, option: SlurmOption, value: str) -> None:
        self._map(option, "job.retries", 0)

    def _requeue(self, option: SlurmOption, value: str) -> None:
        note = f"Slurm has no limit; after {_RETRIES} more failures the job has failed"
        self._change(option, "job.retries", _RETRIES, note)

    def _partition(self, option: SlurmOption, value: str) -> None:
        if self.pool is not None:
            self._change(option, "resources.pool", self.pool, f"--pool: the pool `{self.pool}`")
        elif not value:
            self._drop(option, "it names no partition: add --pool")
        elif value in self.pools:
            self._change(option, "resources.pool", self.pools[value], f"--partition: the pool `{self.pools[value]}`")
        else:
            self.partition_without_pool = option
            self.ledger.changed(option.line, option.text, "resources.pool", "--partition names the pool")

    def _qos(self, option: SlurmOption, value: str) -> None:
        if value in DEFAULT_PRIORITIES:
            self._change(option, "job.priority", value, "limits are quotas of the namespace")
        else:
            self._drop(option, "`job.priority` is high, medium or low, and limits are quotas of the namespace")

    def _signal(self, option: SlurmOption, value: str) -> None:
        match = re.match(r"(?:R?B?:)?(?:SIG)?([A-Z]+\d?)(?:@(\d+))?\Z", value)
        seconds = whole_number(match[2] or "") if match is not None else None
        if match is None or match[1] not in get_args(Signal):
            self._drop(option, "`job.checkpoint` has a signal or command, which gpuctl uses before it stops a job")
            return
        checkpoint: dict[str, str] = {"signal": match[1]}
        if seconds:
            checkpoint["timeout"] = f"{min(seconds, MAX_CHECKPOINT_SECONDS)}s"
        note = "gpuctl sends it before it stops the job, not before the time limit"
        self._change(option, "job.checkpoint", checkpoint, note)

    def _time(self, option: SlurmOption, value: str) -> None:
        duration = duration_of(value)
        if duration is None:
            self._drop(option, f"`{value}` is not a time of Slurm: write `job.max_runtime`")
        elif duration:
            self._map(option, "job.max_runtime", duration)
        else:
            self.ledger.mapped(option.line, option.text, None, "a job without `job.max_runtime` has no limit")
