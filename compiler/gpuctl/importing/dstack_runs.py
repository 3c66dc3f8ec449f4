"""Imports tasks and services of dstack."""

from __future__ import annotations

import re

from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import SCALAR
from gpuctl.importing.carried_fields import PodPatch
from gpuctl.importing.draft import Draft
from gpuctl.importing.import_values import Given, Unreadable
from gpuctl.importing.imported import Imported
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.node_script import convert_node_script, with_constants
from gpuctl.importing.slurm.slurm_values import whole_number
from gpuctl.importing.source_tree import SourceTree, read_documents
from gpuctl.importing.task_fields import AS_PROBES, TaskFields, is_no_gpu

TOOL = "dstack"
KINDS = {"task": "training", "service": "inference"}
_VARIABLES = {
    r"\bDSTACK_NODES_NUM\b": "NNODES",
    r"\bDSTACK_NODE_RANK\b": "NODE_RANK",
    r"\bDSTACK_MASTER_NODE_IP\b": "MASTER_ADDR",
    r"\bDSTACK_GPUS_PER_NODE\b": "GPUCTL_GPUS_PER_NODE",
    r"(?m)^([ \t]*)fg[ \t]*$": r"\1wait $!",
    r"\$\{\{[^{}\n]*\}\}": "",
    r"\$\{?\bDSTACK_(?!NODES_NUM|NODE_RANK|MASTER_NODE_IP|GPUS_PER_NODE|GPUS_NUM)\w+\}?"
    r"|\bDSTACK_(?!NODES_NUM|NODE_RANK|MASTER_NODE_IP|GPUS_PER_NODE|GPUS_NUM)\w+": "",
}
_RANGE = "the number of GPUs is fixed: the smallest of the range"
_COUNT = r"(\d+)(\.\.\d*)?\Z"
_MEMORY = r"(?i)(?:\d+(?:\.\d+)?[KMGT]B)?(?:\.\.)?(?:\d+(?:\.\d+)?[KMGT]B)?\Z"
_VENDORS = frozenset({"nvidia", "amd"})
_OTHER_VENDORS = frozenset({"google", "intel", "tenstorrent"})
_HINTS = {
    "dev-environment": "`gpuctl new notebook` starts a document for a development environment",
    "fleet": "nodes are a `pool` here: `gpuctl new pool` starts one",
    "volume": "a volume is a PersistentVolumeClaim here: `storage.workdirs: [{path: DIR, pvc: {claim: NAME}}]`",
    "gateway": "an address outside the cluster is `service.route`",
}
"""Type of a configuration that is no job -> what to do."""
_SHELL = r"(?:/\S*/)?(?:ba|da|k|z)?sh"
_LIST = r"&&|\|\|"
_COMMAND = "environment.command"
_HEALTH = "service.health_check"
_NOTES = {
    r"^(python|nvcc|build|setup)": "the software is a part of `environment.image`",
    r"^(files|repos|repo)": "files come from the image, `code` or `storage.workdirs`",
    r"^(backends|regions|instance_types|availability_zones|fleets)": "nodes are selected by `resources.pool`",
    r"^ports": "pods of a training need no open ports",
    r"^retry": "`job.retries` is a number of further attempts",
    r"^(model|gateway|https|auth|strip_prefix|domain)": "clients call the Service; an address outside the cluster is "
    "`service.route`",
    r"^scaling": "write `autoscaling`",
    r"^rate_limits": "`service.request_limit` is requests per second",
    r"^groups": "each group is a role: write `roles`",
    r"^replicas": "each group of replicas is a document of its own",
    r"^startup_order": "all nodes start together",
    r"^stop_criteria": "a training ends when the programs of all nodes have ended",
    r"^entrypoint": "write it as the begin of `environment.command`",
    r"^resources\.disk": "scratch space is `storage.workdirs: [{path: /scratch, emptyDir: {}}]`",
    r"^volumes": "a volume is a PersistentVolumeClaim here: `storage.workdirs: [{path: DIR, pvc: {claim: NAME}}]`",
    r"^probes": "`service.health_check` is an HTTP path; gpuctl sets the times of the probes",
    r"^stop_duration": "the time between the signal and the end is `job.grace`",
    r"^schedule": "times to run at are `schedule`",
    r"^(privileged|user)": "write `podPatch`",
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
        written = tree.text(("type",)) or ""
        hint = f"import tasks and services; {_HINTS.get(written, 'name the type of the configuration')}"
        raise Unreadable(tree.line(("type",)), f"the type `{written}` is not imported", hint)
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
    for other in raws[1:]:
        SourceTree(other, ledger).dropped((), "dstack reads the first configuration of a file")
    missing = task.missing_values()
    return Imported(TOOL, [draft], ledger.entries(), missing)


def _resources(tree: SourceTree, draft: Draft, task: TaskFields) -> None:
    path = ("resources", "gpu")
    text = tree.text(path)
    if text is not None:
        _gpu_text(text, draft, task)
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
        vendor = tree.text((*path, "vendor"))
        if vendor in _VENDORS:
            _vendor(vendor, draft, tree.line((*path, "vendor")))
            tree.mapped((*path, "vendor"), "resources.gpu-vendor")
        tree.dropped((*path, "memory"), "the memory of a card is that of its type: `resources.gpu-type`")
    for source, name, unit in (("cpu", "cpu", ""), ("memory", "memory", "Gi"), ("shm_size", "shm", "Gi")):
        task.amount(("resources", source), name, unit)


def _vendor(vendor: str, draft: Draft, line: int) -> None:
    if vendor != "nvidia":
        draft.set("resources.gpu-vendor", vendor, line)


def _gpu_text(text: str, draft: Draft, task: TaskFields) -> None:
    """Take GPUs such as ``H100:80GB:8``, ``amd:MI300X:2..4`` or ``24GB..``."""
    path = ("resources", "gpu")
    name, number, notes = None, 1, []
    for part in text.split(":"):
        count = re.match(_COUNT, part)
        if count is not None:
            number = int(count[1])
            notes += [_RANGE] if count[2] else []
        elif part and re.match(_MEMORY, part):
            notes.append(f"the memory of a card is that of its type ({part}): `resources.gpu-type`")
        elif part in _VENDORS:
            _vendor(part, draft, task.tree.line(path))
        elif is_no_gpu(part) or part in _OTHER_VENDORS:
            task.no_gpus(path)
            return
        elif re.match(r"[A-Za-z][\w-]*\Z", part):
            name = part
        else:
            task.ask_for_gpus(path)
            return
    task.set_gpus(path, number, name, "; ".join(notes) or None)


def _volumes(tree: SourceTree, draft: Draft) -> None:
    """Take directories of the node, such as ``/mnt/data:/data``; named volumes are objects of dstack."""
    for index in range(tree.items(("volumes",))):
        path = ("volumes", index)
        source, _, target = (tree.text(path) or "").partition(":")
        source, target = tree.text((*path, "instance_path")) or source, tree.text((*path, "path")) or target
        if source.startswith("/") and target.startswith("/"):
            extra = {"mountPath": target} if target != source else {}
            draft.append("storage.workdirs", {"path": source, **extra}, tree.line(path))
            tree.mapped(path, "storage.workdirs")


def _probes(tree: SourceTree, draft: Draft) -> None:
    """Take the path of the first probe, if it asks over HTTP as the kubelet does."""
    url = tree.text(("probes", 0, "url"))
    method = tree.text(("probes", 0, "method")) or "get"
    is_plain = method.lower() == "get" and not {"headers", "body"} & set(tree.keys(("probes", 0)))
    if url is not None and url.startswith("/") and draft.kind == "inference" and is_plain:
        draft.set(_HEALTH, url, tree.line(("probes", 0, "url")))
        for name in ("type", "method"):
            tree.mapped(("probes", 0, name), _HEALTH)
        tree.changed(("probes", 0, "url"), _HEALTH, AS_PROBES)


def _others(tree: SourceTree, draft: Draft) -> None:
    _volumes(tree, draft)
    _probes(tree, draft)
    login = "make a Secret with the login, and name it: `environment.imagePullSecret`"
    tree.dropped_secret(("registry_auth",), "registry_auth", login)
    for key in ("groups", "replicas"):
        for index in range(tree.items((key,))):
            tree.dropped((key, index), _NOTES[f"^{key}"])
    for key, value in (("startup_order", "any"), ("stop_criteria", "all-done")):
        if tree.text((key,)) == value:
            tree.mapped((key,), None, _NOTES[f"^{key}"])
    cron = tree.text(("schedule", "cron"))
    if cron is not None and draft.kind == "training":
        draft.set("schedule.cron", cron, tree.line(("schedule", "cron")))
        tree.mapped(("schedule", "cron"), "schedule.cron")
    if tree.text(("privileged",)) == "true":
        PodPatch(tree, draft).of_container(("privileged",), "securityContext", {"privileged": True})
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
        is_range = ".." in (tree.text(("replicas",)) or "")
        tree.taken(("replicas",), "service.replicas", "a range needs `autoscaling`" if is_range else None)


def _shell(tree: SourceTree) -> str:
    """Take the shell. Without one, dstack runs bash in its own image, and sh in others."""
    written = tree.text(("shell",))
    if written is None:
        return "bash" if tree.node(("image",)) is None else "sh"
    if re.fullmatch(_SHELL, written) is None:
        return "sh"
    note = "dstack starts it with `-i`, and it reads `~/.bashrc`: source that file in the command if it is needed"
    tree.taken(("shell",), _COMMAND, note if written.endswith("bash") else None)
    return written


def _commands(tree: SourceTree, draft: Draft, task: TaskFields, ledger: LineLedger) -> None:
    shell = _shell(tree)
    items = tree.items(("commands",))
    if not items:
        return
    texts = [tree.node(("commands", index)) for index in range(items)]
    if any(node is None or node.kind != SCALAR for node in texts):
        return
    entrypoint = tree.text(("entrypoint",))
    if entrypoint is not None:
        found = re.match(rf"({_SHELL})[ \t]+-c\Z", entrypoint)
        if found is None or items > 1:
            tree.dropped(("commands",), "they are arguments of `entrypoint`: write both into `environment.command`")
            return
        shell = found[1]
        tree.mapped(("entrypoint",), _COMMAND)
    tree.take_apart(("commands",))
    # Empty lines keep the lines of the script at those of the file.
    lines: list[str] = []
    written: list[str] = []
    first = tree.block_line(("commands", 0))
    for index, node in enumerate(texts):
        gap = tree.block_line(("commands", index)) - first - len(lines)
        item = str(node.value).rstrip("\n").split("\n") if node is not None else []
        written += [""] * gap + item
        # `set -e` does not stop at the commands of a list, but for its last one.
        if len(item) == 1 and index + 1 < items and re.search(_LIST, item[0]) and not re.search(r"&\s*\Z|#", item[0]):
            item = [f"{item[0]} || exit"]
        lines += [""] * gap + item
    text, source = ("\n".join(part) + "\n" for part in (lines, written))
    values: dict[str, int | str] = {"DSTACK_GPUS_NUM": task.gpus * task.node_count}
    if draft.kind == "inference":
        values |= {"DSTACK_NODES_NUM": 1, "DSTACK_NODE_RANK": 0, "DSTACK_MASTER_NODE_IP": "localhost"}
        values["DSTACK_GPUS_PER_NODE"] = task.gpus
    variables = with_constants(values, text, _VARIABLES, draft, first)
    convert_node_script(text, first, (task.node_count, task.gpus), variables, draft, ledger, source, shell)
    for index in range(items):
        tree.widen(("commands", index))
    command = draft.get(_COMMAND)
    if items > 1 and command and command[:2] == [shell, "-c"]:
        command[-1] = f"set -e\n{command[-1]}"
        note = "an item runs if the one before it succeeded: `set -e`, which holds inside of an item, too"
        ledger.changed(tree.line(("commands",)), f"commands: {items} items", _COMMAND, note)
