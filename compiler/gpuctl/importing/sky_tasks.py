"""Imports tasks and services of SkyPilot."""

from __future__ import annotations

import re

from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import MAPPING, SEQUENCE, RawDocument
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import COMMAND, Draft
from gpuctl.importing.field_values import MOST_DIGITS, gpus_of
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Missing, Unreadable
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.manifest_metadata import take_labels
from gpuctl.importing.node_script import convert_node_script, with_constants
from gpuctl.importing.pod_fields import PodFields
from gpuctl.importing.slurm.text_places import FIRST_LINE
from gpuctl.importing.source_tree import Path, SourceTree, read_documents
from gpuctl.importing.task_fields import AS_PROBES, TaskFields, is_no_gpu
from gpuctl.language.array_block import MOST_RETRIES
from gpuctl.objects.quantities import whole_number

TOOL = "SkyPilot"
_IPS = r"[ \t]*echo[ \t]+(?:-e[ \t]+)?\"?\$\{?SKYPILOT_NODE_IPS\}?\"?[ \t]*\|[ \t]*"
_TAKES_FIRST = rf"{FIRST_LINE}[ \t]*"
_HERE = r"<<<[ \t]*(?:\"\$\{?SKYPILOT_NODE_IPS\}?\"|\$\{?SKYPILOT_NODE_IPS\b\}?)[ \t]*"
_FIRST = rf"(?:{_IPS}{_TAKES_FIRST}|[ \t]*{_TAKES_FIRST}{_HERE})"
_HEAD = rf"\$\({_FIRST}\)|`{_FIRST}`"
_READ = rf"(?m)^([ \t]*)read[ \t]+(?:-r[ \t]+)?([A-Za-z_]\w*)(?:[ \t]+_)?[ \t]*{_HERE}(?=$|;)"
_COUNT = rf"\$\({_IPS}wc[ \t]+-l[ \t]*\)|`{_IPS}wc[ \t]+-l[ \t]*`"
_OTHER = r"(?!(?:NUM_NODES|NODE_RANK|NUM_GPUS_PER_NODE)\b)"
_VARIABLES = {
    _HEAD: "$MASTER_ADDR",
    _READ: r"\1\2=$MASTER_ADDR",
    _COUNT: "$NNODES",
    r"\bSKYPILOT_NUM_NODES\b": "NNODES",
    r"\bSKYPILOT_NODE_RANK\b": "NODE_RANK",
    r"\bSKYPILOT_NUM_GPUS_PER_NODE\b": "GPUCTL_GPUS_PER_NODE",
    rf"\$\{{?\bSKYPILOT_{_OTHER}\w+\}}?|\bSKYPILOT_{_OTHER}\w+": "",
}
_OF_PIPELINE = frozenset({"name", "execution", "primary_tasks", "termination_delay"})
_SUDO = r"(?:^|[;&|({])[ \t]*sudo[ \t]"
_RAY = r"\bray[ \t]+start\b(?!.*--block)(?=.*--address)"
"""A node of Ray that starts in the background, and whose machine goes on without a program."""
_KUBERNETES = ("k8s", "kubernetes")
_ANY = "SkyPilot takes any of these types; the document prefers the first one"
_SECRETS = "make a Secret, and name it: `environment.env: {NAME: {secret: NAME, key: KEY}}`"
_OF_REGISTRY = r"SKYPILOT_DOCKER_"
"""Begin of the names of variables with the login at a registry."""
_LOGIN = "make a Secret with the login, and name it: `environment.imagePullSecret`"
_SIDE_BY_SIDE = "all start side by side; tasks that reach each other are `roles` of one training"
_NOTES = {
    r"^run": "a document needs a program: `environment.command`",
    r"^setup": "software is a part of `environment.image`; what remains is an `init` container",
    r"^(workdir|file_mounts)": "files come from the image, `code` or `storage.workdirs`",
    r"^secrets": _SECRETS,
    r"^resources\..*use_spot": "a job runs on spot nodes, or on others: `resources.spot`",
    r"^resources\..*image_id": "the image of a machine is not one of a container: --image names one",
    r"^resources\..*\.(cpus|memory)\Z": "write one amount: `resources.cpu`, `resources.memory`",
    r"^resources\.(cloud|region|zone|infra|instance_type|any_of|ordered)": "nodes are selected by `resources.pool`",
    r"^resources\.labels": "write them into `job.labels`",
    r"^config\.kubernetes\.pod_config": "write `podPatch`",
    r"^resources\.autostop": "a job gives its nodes back when it ends",
    r"^resources\.(job|spot)_recovery": "`job.retries` is a number of further attempts",
    r"^(primary_tasks|termination_delay)": "`primary` names the roles whose end is the end of a training",
    r"^resources\.disk": "scratch space is `storage.workdirs: [{path: /scratch, emptyDir: {}}]`",
    r"^resources\.network_tier": "fast networks are `resources.network`",
    r"^resources\.ports": "pods of a training need no open ports: a program that serves is an `inference`",
    r"^service\.readiness_probe": "`service.health_check` asks a path by GET: many servers have `/health`",
    r"^service\.replica_policy": "write `autoscaling`",
    r"^service\.load_balanc": "the Service spreads connections over its pods",
    r"^service\.(tls|https)": "an address outside the cluster is `service.route`",
    r"^volumes": "scratch space is `emptyDir` in `storage.workdirs`; `pvc: {claim: NAME, create: {size: 1Ti}}` makes a "
    "claim",
    r"^pool": "a pool of workers has no equal: `array` runs a program many times, `after` orders jobs",
    r"^(job|job_group|name_prefix|config)": "it has no equal in a document",
}


def import_sky_tasks(source: Source, given: Given) -> Imported:
    """Return the documents of SkyPilot's tasks.

    :raises Unreadable: it has no task.
    """
    drafts: list[Draft] = []
    missing: list[Missing] = []
    ledger = LineLedger()
    is_pipeline = False
    raws = read_documents(source)
    number = sum(not _is_head(SourceTree(raw)) for raw in raws)
    for raw in raws:
        tree = SourceTree(raw, ledger)
        if _is_head(tree):
            is_pipeline = tree.text(("execution",)) != "parallel"
            field = "job.after" if is_pipeline else None
            order = "it starts after the one before it" if is_pipeline else _SIDE_BY_SIDE
            tree.changed(("name",), field, f"each task is a document; {order}")
            tree.mapped(("execution",), field)
            tree.drop_rest(_NOTES)
            continue
        missing += _task(raw, source.name, given.of_job(len(drafts), number), ledger, drafts)
        if is_pipeline and len(drafts) > 1 and drafts[-2].get("job.name") is not None:
            drafts[-1].set("job.after", [drafts[-2].get("job.name")], tree.line(("name",)))
    if not drafts:
        raise Unreadable(1, "the file has no task with `run`", "name a task of SkyPilot")
    return Imported(TOOL, drafts, ledger.entries(), missing)


def _is_head(tree: SourceTree) -> bool:
    """Return True if a document is the head of a pipeline or of a group of jobs."""
    return {"name"} <= set(tree.keys(())) <= _OF_PIPELINE


def _task(raw: RawDocument, source: str, given: Given, ledger: LineLedger, drafts: list[Draft]) -> list[Missing]:
    kind = "inference" if SourceTree(raw).node(("service",)) is not None else "training"
    draft = Draft(kind, source, TOOL, given.settings)
    tree = ConvertedTree(raw, ledger, draft)
    drafts.append(draft)
    task = TaskFields(tree, given)
    tree.set_name(("name",), given)
    task.nodes(("num_nodes",))
    _resources(tree, task)
    for group in ("envs", "secrets"):
        for key in tree.keys((group,)):
            if re.match(_OF_REGISTRY, key) is not None:
                tree.dropped_secret((group, key), key, _LOGIN)
    for key in tree.keys(("envs",)):
        if lost := re.search(r"\bSKYPILOT_\w+", tree.text(("envs", key)) or ""):
            note = f"pods do not have `{lost[0]}`, which the value names"
            tree.changed(("envs", key), f"environment.env.{key}", note)
    task.variables(("envs",), without=_OF_REGISTRY)
    _volumes(tree)
    for key in tree.keys(("secrets",)):
        if tree.node(("secrets", key)) is None:
            tree.dropped_null(("secrets", key), _SECRETS)
    _service(tree)
    run = tree.text(("run",))
    if run is not None and run.strip():
        variables = _VARIABLES
        if kind == "inference":
            values = {"SKYPILOT_NUM_GPUS_PER_NODE": task.gpus}
            if task.node_count == 1:
                values |= {"SKYPILOT_NUM_NODES": 1, "SKYPILOT_NODE_RANK": 0}
                variables = {**variables, _HEAD: "localhost", _READ: r"\1\2=localhost", _COUNT: "1"}
            variables = with_constants(values, run, variables, draft, tree.line(("run",)))
        tree.take_apart(("run",))
        size = task.node_count, task.gpus
        convert_node_script(run, tree.lines_of_text(("run",)), size, variables, draft, ledger)
        _note_lines(run, tree, _SUDO, "it needs an image with `sudo`; most run as root without it")
        if task.node_count > 1:
            _note_lines(run, tree, _RAY, "a pod ends with its command, and Ray with it: add `--block`")
    for key in tree.keys(("file_mounts",)):
        tree.dropped_entry(("file_mounts", key), "files come from the image, `code` or `storage.workdirs`")
    _pod(tree, given)
    tree.drop_rest(_NOTES)
    return task.missing_values()


def _volumes(tree: ConvertedTree) -> None:
    """Take the volumes that exist: their names, or mappings with a name."""
    for key in tree.keys(("volumes",)):
        path: Path = ("volumes", key)
        named = path if tree.text(path) is not None else (*path, "name")
        claim, sub = tree.text(named), tree.text((*path, "sub_path"))
        if claim is not None and key.startswith("/"):
            source = {"claim": claim, **({"subPath": sub} if sub else {})}
            note = "a volume is a PersistentVolumeClaim of the namespace"
            tree.append(named, "storage.workdirs", {"path": key, "pvc": source}, note)
            tree.mapped((*path, "sub_path"), "storage.workdirs")


def _note_lines(run: str, tree: ConvertedTree, pattern: str, note: str) -> None:
    """Note the lines of the program with a command that differs in a pod, as ``sudo`` does, which machines have."""
    program = "\n".join(tree.draft.get(COMMAND) or [])
    for lines, line in zip(tree.lines_of_text(("run",)), run.split("\n"), strict=False):
        start = re.search(pattern, line)
        if start is not None and line[start.start() :].split("$")[0].strip() in program:
            tree.ledger.changed(lines, line, COMMAND, note)


def _pod(tree: ConvertedTree, given: Given) -> None:
    """Take the part of a pod that Kubernetes clusters add to a task."""
    config: Path = ("config", "kubernetes", "pod_config")
    take_labels(tree, (*config, "metadata"))
    PodFields(tree, config, given).carry((*config, "spec"))


def _resources(tree: ConvertedTree, task: TaskFields) -> None:
    base = ("resources",)
    path = (*base, "accelerators" if "accelerators" in tree.keys(base) else "gpus")
    node = tree.node(path)
    text = tree.text(path)
    texts = [text] if text is not None else []
    note = None
    if node is not None and node.kind == MAPPING:
        # `{A100:8, H100:8}` is a set, whose keys have no values.
        texts = [str(key.value) if value.is_null else f"{key.value}:{value.value}" for key, value in node.value]
        note = _ANY if len(texts) > 1 else None
    elif node is not None and node.kind == SEQUENCE:
        texts = [str(item.value) for item in node.value]
    gpus = [gpus_of(item) for item in texts]
    numbers = {item.number for item in gpus if item is not None}
    types = [item.type for item in gpus if item is not None and item.type is not None]
    if types and all(map(is_no_gpu, types)):
        task.no_gpus(path)
    elif None not in gpus and len(numbers) == 1 and len(types) == len(gpus):
        task.set_gpus(path, numbers.pop(), types, note)
    elif node is not None:
        task.ask_for_gpus(path)
    else:
        _alternatives(tree, task)
    for name, unit in (("cpus", ""), ("memory", "Gi")):
        task.amount((*base, name), "cpu" if name == "cpus" else name, unit)
    for name in ("infra", "cloud"):
        if tree.text((*base, name)) in _KUBERNETES:
            tree.mapped((*base, name), None, "documents are for Kubernetes")
    image = tree.text((*base, "image_id"))
    is_kubernetes = any(tree.text((*base, name)) in _KUBERNETES for name in ("infra", "cloud"))
    if image is not None and (image.startswith("docker:") or (is_kubernetes and "/" in image)):
        tree.set((*base, "image_id"), "environment.image", image.removeprefix("docker:"))
    tree.set_switch((*base, "use_spot"), "resources.spot")
    for name in ("job_recovery", "spot_recovery"):
        tree.set_number((*base, name, "max_restarts_on_errors"), "job.retries", most=MOST_RETRIES)
    if tree.draft.kind == "inference":
        _ports(tree)


def _ports(tree: ConvertedTree) -> None:
    """Take the ports of a service: clients are sent to the first one, unless the service names another."""
    ports: Path = ("resources", "ports")
    paths: list[Path] = [(*ports, index) for index in range(tree.items(ports))] or [ports]
    named: Path = ("service", "ports")
    if tree.number(named) is not None:
        paths.insert(0, named)
    main = next((number for path in paths if (number := tree.number(path)) is not None), None)
    for path in paths:
        number = tree.number(path)
        if number is None:
            continue
        field = "service.port" if number == main else "service.ports"
        if number != main:
            tree.append(path, field, {"name": f"port-{number}", "port": number})
        elif tree.draft.get(field) is None:
            tree.set(path, field, number)
        tree.mapped(path, field)


def _alternatives(tree: ConvertedTree, task: TaskFields) -> None:
    """Take GPUs that alternatives name, if all have one number; ask for those that a type of machines may have."""
    for key in ("any_of", "ordered"):
        base: Path = ("resources", key)
        paths: list[Path] = [(*base, index, "accelerators") for index in range(tree.items(base))]
        named = [path for path in paths if tree.node(path) is not None]
        if not named:
            continue
        gpus = [gpus_of(tree.text(path) or "") for path in paths]
        types = [item.type for item in gpus if item is not None and item.type is not None]
        numbers = {item.number for item in gpus if item is not None}
        if None in gpus or len(numbers) != 1 or len(types) != len(gpus) or any(map(is_no_gpu, types)):
            task.ask_for_gpus(named[0])
            return
        types = list(dict.fromkeys(types))
        [number] = numbers
        for path in named:
            task.set_gpus(path, number, types, _ANY if types[1:] else None)
        return
    if tree.text(("resources", "instance_type")) is not None:
        task.ask_for_gpus(("resources", "instance_type"))


def _service(tree: ConvertedTree) -> None:
    probe = ("service", "readiness_probe")
    path = probe if tree.text(probe) is not None else (*probe, "path")
    value = tree.text(path)
    is_plain = not {"post_data", "headers"} & set(tree.keys(probe))
    if value is not None and is_plain:
        tree.set(path, "service.health_check", value, AS_PROBES)
    seconds = whole_number(re.sub(r"s\Z", "", tree.text((*probe, "initial_delay_seconds")) or ""), MOST_DIGITS)
    if seconds and is_plain:
        tree.set((*probe, "initial_delay_seconds"), "service.startup_timeout", f"{seconds}s")
    for replicas in (("service", "replicas"), ("service", "replica_policy", "min_replicas")):
        number = tree.number(replicas)
        if number == 0 and len(replicas) > 2:
            tree.changed(replicas, "service.replicas", "one pod runs: without `autoscaling` no request starts one")
        elif number is not None and tree.draft.get("service.replicas") is None:
            tree.set(replicas, "service.replicas", number)
    most: Path = ("service", "replica_policy", "max_replicas")
    if (number := tree.number(most)) and number == tree.draft.get("service.replicas"):
        tree.mapped(most, "service.replicas")
