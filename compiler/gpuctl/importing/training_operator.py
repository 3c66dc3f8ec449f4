"""Imports PyTorchJobs and TrainJobs of Kubeflow as trainings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuctl.frontend.command_advice import SHELLS
from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import short_duration
from gpuctl.importing.fields_from_options import set_given_values
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Missing
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.manifest_metadata import take_labels, take_metadata
from gpuctl.importing.pod_fields import HOST_NAME, OF_TRAININGS, PodFields, is_same
from gpuctl.importing.restart_policies import take_restarts
from gpuctl.importing.source_tree import Path
from gpuctl.importing.task_fields import TaskFields, open_nodes
from gpuctl.importing.torchrun_programs import ProgramChange, as_torchrun
from gpuctl.language.array_block import MOST_RETRIES
from gpuctl.objects.quantities import whole_number

TOOL = "PyTorchJob"
_REPLICAS: Path = ("spec", "pytorchReplicaSpecs")
_POLICY: Path = ("spec", "runPolicy")
_ELASTIC: Path = ("spec", "elasticPolicy")
_PATCHES: Path = ("spec", "runtimePatches")
_OVERRIDES: tuple[Path, ...] = (("spec", "podTemplateOverrides"), ("spec", "podSpecOverrides"))
_RENDEZVOUS = "pytorchjob-port"
"""The name of the port that the operator gives to the program as MASTER_PORT."""
_FIXED_NODES = r"--nnodes(?:=|[\"']?[\s,]+(?:-[ \t]+)?[\"']?)(\d+)(?![\d:])"
"""An option of torchrun with one number of nodes, in text of YAML."""
_FIXED_LAUNCHERS = r"(?<![\w./-])(accelerate|deepspeed|mpirun|mpiexec|horovodrun|llamafactory-cli)(?![\w.:/@=-])"
"""A launcher that no rendezvous of torchrun makes elastic, in text of YAML."""
_PORTS = r"ports"
_LAUNCHERS = r"(?:\S*/)?(?:mpirun|mpiexec|horovodrun)\Z"
_BY_LAUNCHER = "each node runs it: with a runtime of MPI the launcher alone does"
_RUNTIME = (
    "the runtime is not read: its image, nodes, resources and variables are not in the document, nor a launcher that "
    "it starts the program with"
)
_NODE = "node"
"""The name of the Job with the nodes in the runtimes of Trainer."""
_TRAINERS = (_NODE, "trainer")
"""Names of the container with the program in these runtimes."""
_RENAMED = {"RANK": "NODE_RANK", "WORLD_SIZE": "NNODES"}
_IN_SHELL = r"'[^']*'|\$(?P<open>\{?)(?P<name>RANK|WORLD_SIZE)\b"
_OF_OPERATOR = r"\$\{?(PET_(?:RDZV_\w+|MAX_RESTARTS|STANDALONE))\b"
_NOTES = {
    r"elasticPolicy": "the number of nodes is fixed: write `resources.nodes: {min, max}` for an elastic training",
    r"schedulingPolicy": "a queue starts all pods together: `resources.queue`",
    "cleanPodPolicy": "pods of a finished job stay until `job.ttl`",
    r"initializer": "data comes from `storage.workdirs`, `storage.models` or an `init` container",
    r"odTemplateOverrides|runtimePatches": "write `podPatch`",
    r"template\.metadata": "write it into `job.labels` or `job.annotations`",
    **OF_TRAININGS,
    _PORTS: "pods of a training reach each other at every port",
}


def import_pytorch_job(raw: RawDocument, source: str, given: Given) -> Imported:
    """Return the training of a PyTorchJob."""
    ledger = LineLedger()
    draft = Draft("training", source, TOOL, given.settings)
    tree = ConvertedTree(raw, ledger, draft)
    take_metadata(tree, given)
    missing: list[Missing] = []
    asking = tree.line(_REPLICAS)
    names = [name for name in ("Master", "Worker") if tree.node((*_REPLICAS, name)) is not None]
    numbers = [tree.number((*_REPLICAS, name, "replicas")) for name in names]
    nodes = given.nodes or sum(1 if number is None else number for number in numbers) or 1
    unknown = open_nodes(tree, [(*_REPLICAS, name, "replicas") for name in names], given)
    is_elastic = names == ["Worker"] and given.nodes is None and _elastic_nodes(tree, nodes)
    if nodes > 1 and not is_elastic:
        line = tree.line((*_REPLICAS, names[0], "replicas")) if names and given.nodes is None else None
        draft.set("resources.nodes", nodes, line)
    for name, number in zip(names, numbers, strict=True):
        path = (*_REPLICAS, name, "replicas")
        if number is None and given.nodes is None:
            tree.dropped(path, "it is not a number of nodes: add `--nodes`")
        else:
            tree.mapped(path, "resources.nodes")
    if names:
        base: Path = (*_REPLICAS, names[0], "template")
        take_labels(tree, (*base, "metadata"))
        # The operator sets its variables in the container of this name.
        pod = PodFields(tree, base, given, main="pytorch")
        pod.take()
        missing = pod.missing
        asking = tree.line(pod.container)
        _program(tree, pod, nodes)
        take_ports(tree, pod.container)
        for name in names[1:]:
            other: Path = (*_REPLICAS, name, "template")
            for path in is_same(tree, base, other, without=("ports",)):
                tree.dropped(path, f"the {names[0]} has another value: programs that differ are `roles`")
    # The restarts of an elastic policy are taken with its range.
    _policy(tree, [] if draft.get("job.retries") is not None else names)
    take_suspension(tree, (*_POLICY, "suspend"))
    take_defaults(
        tree, {"spec.runPolicy.suspend": "false", "spec.runPolicy.managedBy": "kubeflow.org/training-operator"}
    )
    tree.drop_rest(_NOTES)
    missing += set_given_values(draft, given, ledger, asking, has_gpus=bool(draft.get("resources.gpu")))
    return Imported(TOOL, [draft], ledger.entries(), [*unknown, *missing])


def _elastic_nodes(tree: ConvertedTree, nodes: int) -> bool:
    """Take the range of nodes of an elastic training. Return True if there is one."""
    least, most = (tree.number((*_ELASTIC, name)) for name in ("minReplicas", "maxReplicas"))
    text = tree.written((*_REPLICAS, "Worker", "template"))
    if fixed := re.search(_FIXED_NODES, text):
        tree.dropped(_ELASTIC, f"`--nnodes {fixed[1]}` of the program fixes the number of nodes")
        return False
    if "torchrun" not in text and (launcher := re.search(_FIXED_LAUNCHERS, text)):
        tree.dropped(_ELASTIC, f"`{launcher[1]}` starts a fixed number of nodes")
        return False
    if not least or most is None or not least <= nodes <= most or least == most:
        return False
    tree.draft.set("resources.nodes", {"min": least, "max": most}, tree.line((*_ELASTIC, "minReplicas")))
    tree.mapped((*_ELASTIC, "minReplicas"), "resources.nodes.min")
    note = None if nodes == most else f"{most} pods are made at first, not {nodes}: those without room wait"
    tree.taken((*_ELASTIC, "maxReplicas"), "resources.nodes.max", note)
    restarts: Path = (*_ELASTIC, "maxRestarts")
    if tree.number(restarts) is not None:
        note = "torchrun restarts the program this often, and the Job replaces as many pods"
        tree.set_number(restarts, "job.retries", note, MOST_RETRIES)
        for path in ((*_REPLICAS, "Worker", "restartPolicy"), (*_POLICY, "backoffLimit")):
            tree.changed(path, "job.retries", "every failure counts up to `maxRestarts`")
    for name in ("rdzvBackend", "rdzvHost", "rdzvPort", "rdzvId"):
        tree.changed((*_ELASTIC, name), None, "gpuctl sets the rendezvous, at the first pod")
    tree.dropped((*_ELASTIC, "metrics"), "no metric changes the number of nodes: pods join as soon as they run")
    return True


def take_ports(tree: ConvertedTree, container: Path) -> None:
    """Take the ports of the program: the operator gives one of them to torchrun, the others change nothing."""
    for index in range(tree.items((*container, "ports"))):
        path: Path = (*container, "ports", index)
        number = tree.number((*path, "containerPort"))
        is_rendezvous = tree.text((*path, "name")) == _RENDEZVOUS and number is not None
        if not set(tree.keys(path)) <= {"name", "containerPort", "protocol"}:
            continue
        if is_rendezvous:
            tree.set(path, "job.master_port", number)
        tree.mapped(path, None, _NOTES[_PORTS])


def import_train_job(raw: RawDocument, source: str, given: Given) -> Imported:
    """Return the training of a TrainJob. Its runtime is an object of the cluster, and is not read."""
    ledger = LineLedger()
    draft = Draft("training", source, "TrainJob", given.settings)
    tree = ConvertedTree(raw, ledger, draft)
    take_metadata(tree, given)
    tree.changed(("spec", "runtimeRef"), None, _RUNTIME)
    take_labels(tree, ("spec",))
    base: Path = ("spec", "trainer")
    task = TaskFields(tree, given)
    task.nodes((*base, "numNodes"))
    pod = PodFields(tree, base, given)
    pod.take_trainer()
    _program(tree, pod, task.node_count, ("spec", "trainer", "numProcPerNode"), is_operator=False)
    for index in range(tree.items(_PATCHES)):
        _patch(tree, (*_PATCHES, index), pod)
    for overrides in _OVERRIDES:
        for index in range(tree.items(overrides)):
            _override(tree, (*overrides, index), pod)
    take_time_limits(tree, ("spec",))
    take_suspension(tree, ("spec", "suspend"))
    take_defaults(tree, {"spec.suspend": "false", "spec.managedBy": "trainer.kubeflow.org/trainjob-controller"})
    tree.drop_rest(_NOTES)
    missing = set_given_values(draft, given, ledger, tree.line(base), has_gpus=pod.gpus > 0)
    unknown = open_nodes(tree, [(*base, "numNodes")], given)
    return Imported("TrainJob", [draft], ledger.entries(), [*unknown, *pod.missing, *missing])


def take_defaults(tree: ConvertedTree, values: Mapping[str, str]) -> None:
    """Take values that are the defaults of their fields."""
    for name, value in values.items():
        path = tuple(name.split("."))
        if tree.text(path) == value:
            tree.mapped(path, None, "it is the default")


def take_suspension(tree: ConvertedTree, path: Path) -> None:
    """Take the mark of a job that Kueue starts."""
    if tree.flag(path) and tree.draft.get("resources.queue") is not None:
        tree.mapped(path, "resources.queue", "Kueue starts the job")


def _override(tree: ConvertedTree, override: Path, pod: PodFields) -> None:
    """Take the labels and the pod of an override of the runtime, if it is about the nodes of the training alone."""
    jobs: Path = (*override, "targetJobs")
    names = [tree.text((*jobs, index, "name")) for index in range(tree.items(jobs))]
    if names != [_NODE]:
        return
    tree.mapped(jobs, None, "the pods of a document are the nodes")
    take_labels(tree, (*override, "metadata"))
    if tree.node((*override, "spec")) is not None:
        pod.carry((*override, "spec"), _TRAINERS)
    else:
        # The overrides of Trainer 2.0 are themselves the pod.
        pod.carry(override, _TRAINERS, without=("targetJobs", "metadata"))


def _patch(tree: ConvertedTree, patch: Path, pod: PodFields) -> None:
    """Take the labels and the pod of a patch of the runtime, if it is about the nodes of the training."""
    template: Path = (*patch, "trainingRuntimeSpec", "template")
    for key in ("manager", "time"):
        tree.mapped((*patch, key), None, "one document has all fields")
    take_labels(tree, (*template, "metadata"))
    jobs: Path = (*template, "spec", "replicatedJobs")
    for index in range(tree.items(jobs)):
        if tree.text((*jobs, index, "name")) != _NODE:
            continue
        tree.mapped((*jobs, index, "name"), None, "the pods of a document are the nodes")
        of_pod: Path = (*jobs, index, "template", "spec", "template")
        take_labels(tree, (*jobs, index, "template", "metadata"))
        take_labels(tree, (*of_pod, "metadata"))
        pod.carry((*of_pod, "spec"), _TRAINERS)


def _program(
    tree: ConvertedTree,
    pod: PodFields,
    nodes: int,
    processes_path: Path = ("spec", "nprocPerNode"),
    *,
    is_operator: bool = True,
) -> None:
    """Adapt the command: the operator sets RANK and WORLD_SIZE of pods, gpuctl leaves them to torchrun.

    :param is_operator: False for Trainer, which sets the variables of torchrun alone, as gpuctl does.
    """
    draft, path = tree.draft, (*pod.container, "command")
    processes = tree.text(processes_path)
    if processes in (str(pod.gpus), "gpu", "auto"):
        tree.mapped(processes_path, None, "torchrun starts a process for each GPU")
    tree.dropped(processes_path, "torchrun starts a process for each GPU: add `--nproc-per-node`")
    notes = [*_rename(tree, pod, processes), *_host_names(tree)] if is_operator else []
    command, args = draft.get("environment.command"), draft.get("environment.args")
    if not command:
        note = _joined([*notes, *([ProgramChange.NEEDS_TORCHRUN.value] if nodes > 1 and is_operator else [])])
        pod.take_program(note)
        if note is not None and not args:
            tree.note(pod.container, f"the program of the image: {note}")
        return
    program = as_torchrun(command, nodes, pod.gpus)
    if not is_operator and program.change is not ProgramChange.OPTIONS_REMOVED:
        is_launched = nodes > 1 and re.match(_LAUNCHERS, command[0]) is not None
        pod.take_program(_BY_LAUNCHER if is_launched else None)
        return
    if program.words is not command:
        draft.set("environment.command", program.words, tree.lines(path))
    if program.port is not None:
        draft.set("job.master_port", program.port, tree.line(path))
    needs_torchrun = program.change is ProgramChange.NEEDS_TORCHRUN
    if program.note is not None and not (needs_torchrun and _starts_torchrun(draft)):
        notes.append(program.note)
    pod.take_program(_joined(notes))


def _host_names(tree: ConvertedTree) -> list[str]:
    """Return notes about names of the operator's pods in the command."""
    name = tree.text(("metadata", "name")) or ""
    text = tree.draft.program_text()
    found = re.findall(rf"(?<![\w-]){re.escape(name)}-(?:master|worker)-\d+\b", text) if name else []
    notes = [f"no pod is called `{pod}`: the address of the first node is `MASTER_ADDR`" for pod in found]
    is_named = re.search(HOST_NAME, text) is not None
    return [*notes, *(["pods have other host names: the number of a node is `NODE_RANK`"] if is_named else [])]


def _joined(notes: list[str]) -> str | None:
    return "; ".join(dict.fromkeys(notes)) or None


def _is_shell(command: list[str]) -> bool:
    return bool(command) and command[0].rpartition("/")[2] in SHELLS


def _starts_torchrun(draft: Draft) -> bool:
    """Return True if a shell's text starts torchrun."""
    is_shell = _is_shell(draft.get("environment.command"))
    return is_shell and re.search(r"\b(?:torchrun|torch\.distributed)\b", draft.program_text()) is not None


def _rename(tree: ConvertedTree, pod: PodFields, processes: str | None) -> list[str]:
    """Replace the operator's variables about pods, in words and in the text of a shell. Return what to note."""
    draft = tree.draft
    command = draft.get("environment.command") or []
    is_shell = _is_shell(command)
    notes: list[str] = []

    def renamed(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        if name == "WORLD_SIZE" and whole_number(processes or "") not in (None, 1):
            notes.append("`WORLD_SIZE` counts processes, and gpuctl does not set it: torchrun does")
            return match[0]
        notes.append(f"`{name}` is `{_RENAMED[name]}`")
        return match[0].replace(name, _RENAMED[name])

    for field in ("command", "args"):
        words = draft.get(f"environment.{field}")
        if not words:
            continue
        new = [re.sub(r"(?<!\$)\$\((?P<name>RANK|WORLD_SIZE)\)", renamed, word) for word in words]
        if is_shell:
            new = [re.sub(_IN_SHELL, renamed, word) if _keeps(word) else word for word in new]
            lost = [name for word in new for name in re.findall(_OF_OPERATOR, word)]
            notes += [f"gpuctl does not set `{name}`: write its value" for name in lost]
        if new != words:
            draft.set(f"environment.{field}", new, tree.lines((*pod.container, field)))
    return notes


def _keeps(text: str) -> bool:
    """Return True if a script does not set the operator's variables itself."""
    return re.search(r"(?:^|[\s;(])(?:RANK|WORLD_SIZE)=", text) is None


def _policy(tree: ConvertedTree, names: list[str]) -> None:
    take_time_limits(tree, _POLICY)
    for path in ((*_POLICY, "cleanPodPolicy"), ("spec", "cleanPodPolicy")):
        if tree.text(path) == "None":
            tree.mapped(path, None, _NOTES["cleanPodPolicy"])
    queue = tree.text((*_POLICY, "schedulingPolicy", "queue"))
    if queue is not None:
        tree.dropped((*_POLICY, "schedulingPolicy", "queue"), "it is a queue of Volcano; Kueue's is `resources.queue`")
    if names:
        take_restarts(tree, [(*_REPLICAS, name, "restartPolicy") for name in names], (*_POLICY, "backoffLimit"))


def take_time_limits(tree: ConvertedTree, base: Path) -> None:
    """Take the limits of a job's time."""
    ttl = tree.number((*base, "ttlSecondsAfterFinished"))
    if ttl is not None:
        tree.set((*base, "ttlSecondsAfterFinished"), "job.ttl", short_duration(ttl) or "0s")
    deadline = tree.number((*base, "activeDeadlineSeconds"))
    if deadline:
        note = "it counts while the pods of an attempt run"
        tree.set((*base, "activeDeadlineSeconds"), "job.max_runtime", short_duration(deadline), note)
