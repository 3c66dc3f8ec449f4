"""Imports tasks and services of dstack."""

from __future__ import annotations

import re

from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import SCALAR
from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.imported import Imported
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.node_script import convert_node_script
from gpuctl.importing.slurm.slurm_values import whole_number
from gpuctl.importing.source_tree import SourceTree, read_documents
from gpuctl.importing.task_fields import TaskFields

TOOL = "dstack"
KINDS = {"task": "training", "service": "inference"}
_VARIABLES = {
    r"\bDSTACK_NODES_NUM\b": "NNODES",
    r"\bDSTACK_NODE_RANK\b": "NODE_RANK",
    r"\bDSTACK_MASTER_NODE_IP\b": "MASTER_ADDR",
    r"\bDSTACK_GPUS_PER_NODE\b": "GPUCTL_GPUS_PER_NODE",
    r"\$\{?DSTACK_(?!NODES_NUM|NODE_RANK|MASTER_NODE_IP|GPUS_PER_NODE)\w+\}?": "",
}
_RANGE = "the number of GPUs is fixed: the smallest of the range"
_NOTES = {
    r"^(python|nvcc)": "the software is a part of `environment.image`",
    r"^(files|repos|repo)": "files come from the image, `code` or `storage.workdirs`",
    r"^(backends|regions|instance_types|availability_zones|fleets)": "nodes are selected by `resources.pool`",
    r"^ports": "pods of a training need no open ports",
    r"^retry": "`job.retries` is a number of further attempts",
    r"^(model|scaling|rate_limits|gateway|https|auth)": "an address outside the cluster is `service.route`, scaling "
    "`autoscaling`",
    r"^resources\.disk": "scratch space is `storage.workdirs: [{path: /scratch, emptyDir: {}}]`",
    r"^volumes": "write `storage.workdirs`",
    r"^registry_auth": "make a Secret with the login, and name it: `environment.imagePullSecret`",
    r"^stop_duration": "the time between the signal and the end is `job.grace`",
    r"^schedule": "times to run at are `schedule`",
    r"^privileged": "write `podPatch`",
    r"^utilization_policy": "`gpuctl usage idle` lists jobs whose GPUs are idle",
    r"^spot_policy": "nodes that may be taken away are `resources.spot`",
    r"^priority": "`job.priority` is high, medium or low",
}


def import_dstack_run(source: Source, given: Given) -> Imported:
    """Return the document of a task or service.

    :raises Unreadable: the configuration is of another type.
    """
    raws = read_documents(source)
    if not raws:
        raise Unreadable(1, "the file has no document", "name a configuration of dstack")
    raw = raws[0]
    ledger = LineLedger()
    tree = SourceTree(raw, ledger)
    kind = KINDS.get(tree.text(("type",)) or "")
    if kind is None:
        hint = "import tasks and services; `gpuctl new notebook` starts a document for a development environment"
        raise Unreadable(tree.line(("type",)), f"the type `{tree.text(('type',))}` is not imported", hint)
    draft = Draft(kind, source.name, TOOL)
    task = TaskFields(tree, draft, given)
    tree.mapped(("type",), "kind")
    task.name(("name",))
    task.nodes(("nodes",))
    image = tree.text(("image",))
    if image is not None:
        draft.set("environment.image", image, tree.line(("image",)))
        tree.mapped(("image",), "environment.image")
    workdir = tree.text(("working_dir",))
    if workdir is not None and workdir.startswith("/"):
        draft.set("environment.workdir", workdir, tree.line(("working_dir",)))
        tree.mapped(("working_dir",), "environment.workdir")
    task.variables(("env",))
    _resources(tree, draft, task)
    _others(tree, draft)
    _commands(tree, draft, task, ledger)
    tree.drop_rest(_NOTES)
    return Imported(TOOL, [draft], ledger.entries(), task.missing_values())


def _resources(tree: SourceTree, draft: Draft, task: TaskFields) -> None:
    path = ("resources", "gpu")
    text = tree.text(path)
    if text is not None:
        name, number, rest = None, 1, []
        for part in text.split(":"):
            if re.match(r"\d+(\.\.\d*)?\Z", part):
                number = int(part.split("..")[0])
            elif re.match(r"[A-Za-z][\w-]*\Z", part):
                name = part
            else:
                rest.append(part)
        if "," in text:
            task.ask_for_gpus(path)
            return
        notes = [_RANGE] if ".." in re.sub(r"(?i)\d+[KMGT]B", "", text) else []
        notes += [f"the memory of a card is that of its type ({rest[0]}): `resources.gpu-type`"] if rest else []
        task.set_gpus(path, number, name, "; ".join(notes) or None)
    elif tree.node(path) is not None:
        count = tree.text((*path, "count")) or "1"
        number = whole_number(count.split("..")[0]) or 1
        task.set_gpus((*path, "count"), number, None, _RANGE if ".." in count else None)
        if not task.gpus or draft.get("resources.gpu") is None:
            draft.set("resources.gpu", number, tree.line(path))
        name = tree.text((*path, "name"))
        if name is not None and "," not in name:
            draft.set("resources.gpu-type", name, tree.line((*path, "name")))
            tree.mapped((*path, "name"), "resources.gpu-type")
        tree.dropped((*path, "memory"), "the memory of a card is that of its type: `resources.gpu-type`")
    for source, name, unit in (("cpu", "cpu", ""), ("memory", "memory", "Gi"), ("shm_size", "shm", "Gi")):
        task.amount(("resources", source), name, unit)


def _others(tree: SourceTree, draft: Draft) -> None:
    duration = tree.text(("max_duration",))
    if duration is not None and re.match(r"(\d+[dhms])+\Z", duration):
        draft.set("job.max_runtime", duration, tree.line(("max_duration",)))
        tree.mapped(("max_duration",), "job.max_runtime")
    elif duration in ("off", "-1"):
        tree.mapped(("max_duration",), None, "a job without `job.max_runtime` has no limit")
    spot = tree.text(("spot_policy",))
    if spot == "spot":
        draft.set("resources.spot", True, tree.line(("spot_policy",)))
    if spot in ("spot", "on-demand"):
        tree.mapped(("spot_policy",), "resources.spot")
    if draft.kind != "inference":
        return
    port = whole_number((tree.text(("port",)) or "").rpartition(":")[2])
    if port is not None:
        draft.set("service.port", port, tree.line(("port",)))
        tree.mapped(("port",), "service.port")
    replicas = whole_number((tree.text(("replicas",)) or "").split("..")[0])
    if replicas is not None:
        draft.set("service.replicas", replicas, tree.line(("replicas",)))
        if ".." in (tree.text(("replicas",)) or ""):
            tree.changed(("replicas",), "service.replicas", "a range needs `autoscaling`")
        else:
            tree.mapped(("replicas",), "service.replicas")


def _commands(tree: SourceTree, draft: Draft, task: TaskFields, ledger: LineLedger) -> None:
    items = tree.items(("commands",))
    if not items:
        return
    texts = [tree.node(("commands", index)) for index in range(items)]
    if any(node is None or node.kind != SCALAR for node in texts):
        return
    tree.take_apart(("commands",))
    # Empty lines keep the lines of the script at those of the file.
    lines: list[str] = []
    first = tree.block_line(("commands", 0))
    for index, node in enumerate(texts):
        lines += [""] * (tree.block_line(("commands", index)) - first - len(lines))
        lines += str(node.value).rstrip("\n").split("\n") if node is not None else []
    variables = dict(_VARIABLES)
    if task.gpus:
        variables = {r"\$\{?DSTACK_GPUS_NUM\b\}?": str(task.gpus * task.node_count), **variables}
    if task.gpus and draft.kind == "inference":
        # Pods of services do not have gpuctl's variables of trainings.
        variables = {r"\$\{?DSTACK_GPUS_PER_NODE\b\}?": str(task.gpus), **variables}
    convert_node_script("\n".join(lines) + "\n", first, (task.node_count, task.gpus), variables, draft, ledger)
