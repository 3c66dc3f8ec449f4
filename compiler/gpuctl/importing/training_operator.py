"""Imports PyTorchJobs and TrainJobs of Kubeflow as trainings."""

from __future__ import annotations

from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import Given
from gpuctl.importing.imported import Imported
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.manifest_metadata import take_labels, take_metadata
from gpuctl.importing.pod_fields import PodFields, is_same
from gpuctl.importing.slurm.body_steps import python_script
from gpuctl.importing.slurm.launcher_options import launcher_arguments, set_by_gpuctl
from gpuctl.importing.slurm.slurm_values import short_duration, whole_number
from gpuctl.importing.source_tree import Path, SourceTree

TOOL = "PyTorchJob"
_REPLICAS: Path = ("spec", "pytorchReplicaSpecs")
_POLICY: Path = ("spec", "runPolicy")
_RENAMED = {"$(RANK)": "$(NODE_RANK)", "$(WORLD_SIZE)": "$(NNODES)"}
_NOTES = {
    r"elasticPolicy": "the number of nodes is fixed: `resources.nodes`",
    r"schedulingPolicy": "a queue starts all pods together: `resources.queue`",
    r"cleanPodPolicy": "pods of a finished job stay until `job.ttl`",
    r"initializer": "data comes from `storage.workdirs`, `storage.models` or an `init` container",
    r"odTemplateOverrides|runtimePatches": "write `podPatch`",
    r"suspend": "`gpuctl pause NAME` holds a job",
    r"valueFrom|volume": "the language has no such volume or variable: use `podPatch`",
    r"ports": "pods of a training reach each other at every port",
}


def import_pytorch_job(raw: RawDocument, source: str, given: Given) -> Imported:
    """Return the training of a PyTorchJob."""
    ledger = LineLedger()
    tree = SourceTree(raw, ledger)
    draft = Draft("training", source, TOOL)
    missing = take_metadata(tree, draft, given)
    names = [name for name in ("Master", "Worker") if tree.node((*_REPLICAS, name)) is not None]
    numbers = [whole_number(tree.text((*_REPLICAS, name, "replicas"))) for name in names]
    nodes = given.nodes or sum(1 if number is None else number for number in numbers) or 1
    if nodes > 1:
        draft.set("resources.nodes", nodes, tree.line((*_REPLICAS, names[0], "replicas")) if names else None)
    for name in names:
        tree.mapped((*_REPLICAS, name, "replicas"), "resources.nodes")
    if names:
        base: Path = (*_REPLICAS, names[0], "template")
        take_labels(tree, (*base, "metadata", "labels"), draft)
        # The operator sets its variables in the container of this name.
        pod = PodFields(tree, base, draft, given, main="pytorch")
        pod.take()
        missing += pod.missing
        _program(tree, pod, draft, nodes)
        for name in names[1:]:
            for path in is_same(tree, base, (*_REPLICAS, name, "template")):
                tree.dropped(path, f"the {names[0]} has another value: programs that differ are `roles`")
    _policy(tree, draft, names)
    tree.drop_rest(_NOTES)
    return Imported(TOOL, [draft], ledger.entries(), missing)


def import_train_job(raw: RawDocument, source: str, given: Given) -> Imported:
    """Return the training of a TrainJob. Its runtime is an object of the cluster, and is not read."""
    ledger = LineLedger()
    tree = SourceTree(raw, ledger)
    draft = Draft("training", source, "TrainJob")
    missing = take_metadata(tree, draft, given)
    tree.changed(("spec", "runtimeRef"), None, "the runtime is not read: image and command are those of the document")
    for name in ("labels", "annotations"):
        tree.dropped(("spec", name), "write them into `job.labels` or `job.annotations`")
    base: Path = ("spec", "trainer")
    nodes = given.nodes or whole_number(tree.text((*base, "numNodes"))) or 1
    if nodes > 1:
        draft.set("resources.nodes", nodes, tree.line((*base, "numNodes")))
    tree.mapped((*base, "numNodes"), "resources.nodes")
    pod = PodFields(tree, base, draft, given)
    pod.take_trainer()
    _program(tree, pod, draft, nodes, ("spec", "trainer", "numProcPerNode"))
    tree.drop_rest(_NOTES)
    return Imported("TrainJob", [draft], ledger.entries(), [*missing, *pod.missing])


def _program(
    tree: SourceTree, pod: PodFields, draft: Draft, nodes: int, processes_path: Path = ("spec", "nprocPerNode")
) -> None:
    """Adapt the command: the operator sets RANK and WORLD_SIZE of pods, gpuctl leaves them to torchrun."""
    path = (*pod.container, "command")
    command, args = draft.get("environment.command"), draft.get("environment.args")
    processes = tree.text(processes_path)
    if processes in (str(pod.gpus), "gpu", "auto"):
        tree.mapped(processes_path, None, "torchrun starts a process for each GPU")
    tree.dropped(processes_path, "torchrun starts a process for each GPU: add `--nproc-per-node`")
    for name, words in (("command", command), ("args", args)):
        if words and any(word in _RENAMED for word in words):
            draft.set(
                f"environment.{name}", [_RENAMED.get(word, word) for word in words], tree.line((*pod.container, name))
            )
    if not command:
        pod.take_program(_BY_TORCHRUN if nodes > 1 else None)
        return
    note = None
    words = [_RENAMED.get(word, word) for word in command]
    found = set_by_gpuctl(words, nodes, pod.gpus)
    if found is not None:
        note = "gpuctl sets the options of torchrun for the rendezvous as variables"
        words = [word for place, word in enumerate(words) if place not in found.places]
        draft.set("environment.command", words, tree.line(path), last=tree.last_line(path))
        if found.port is not None:
            draft.set("job.master_port", found.port, tree.line(path))
    elif nodes > 1 and launcher_arguments(words) is None and (at := python_script(words)) is not None and pod.gpus <= 1:
        note = "torchrun sets RANK and WORLD_SIZE, as PyTorchJob does"
        draft.set("environment.command", ["torchrun", *words[at:]], tree.line(path), last=tree.last_line(path))
    elif nodes > 1 and launcher_arguments(words) is None:
        note = _BY_TORCHRUN
    pod.take_program(note)


_BY_TORCHRUN = "gpuctl sets NODE_RANK and NNODES, not RANK and WORLD_SIZE: start the program by torchrun"


def _policy(tree: SourceTree, draft: Draft, names: list[str]) -> None:
    ttl = whole_number(tree.text((*_POLICY, "ttlSecondsAfterFinished")))
    if ttl is not None:
        draft.set("job.ttl", short_duration(ttl) or "0s", tree.line((*_POLICY, "ttlSecondsAfterFinished")))
        tree.mapped((*_POLICY, "ttlSecondsAfterFinished"), "job.ttl")
    deadline = whole_number(tree.text((*_POLICY, "activeDeadlineSeconds")))
    if deadline:
        draft.set("job.max_runtime", short_duration(deadline), tree.line((*_POLICY, "activeDeadlineSeconds")))
        note = "it counts while the pods of an attempt run"
        tree.changed((*_POLICY, "activeDeadlineSeconds"), "job.max_runtime", note)
    retries = whole_number(tree.text((*_POLICY, "backoffLimit")))
    if retries is not None:
        draft.set("job.retries", retries, tree.line((*_POLICY, "backoffLimit")))
        tree.mapped((*_POLICY, "backoffLimit"), "job.retries")
    queue = tree.text((*_POLICY, "schedulingPolicy", "queue"))
    if queue is not None:
        tree.dropped((*_POLICY, "schedulingPolicy", "queue"), "it is a queue of Volcano; Kueue's is `resources.queue`")
    for name in names:
        policy = (*_REPLICAS, name, "restartPolicy")
        if tree.text(policy) in ("Never", None):
            tree.mapped(policy, "job.retries")
        else:
            tree.changed(policy, "job.retries", "the number of further attempts is `job.retries`; it restarts all pods")
