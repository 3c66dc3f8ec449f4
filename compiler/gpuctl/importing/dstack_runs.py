"""Imports tasks, services and development environments of dstack."""

from __future__ import annotations

import shlex

from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import MAPPING, SEQUENCE, RawDocument
from gpuctl.importing.carried_fields import PodPatch
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import COMMAND, Draft
from gpuctl.importing.dstack_groups import take_groups
from gpuctl.importing.dstack_nodes import NOTES, shell_of, take_commands, take_resources
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Missing, Unreadable
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.source_tree import SourceTree, read_documents
from gpuctl.importing.task_fields import AS_PROBES, TaskFields
from gpuctl.objects.durations import parse_duration
from gpuctl.objects.quantities import whole_number

TOOL = "dstack"
KINDS = {"task": "training", "service": "inference", "dev-environment": "notebook"}
_HINTS = {
    "fleet": "nodes are a `pool` here: `gpuctl new pool` starts one",
    "volume": "a volume is a PersistentVolumeClaim here: `storage.workdirs: [{path: DIR, pvc: {claim: NAME}}]`",
    "gateway": "an address outside the cluster is `service.route`",
}
"""Type of a configuration that is no job -> what to do."""
_HEALTH = "service.health_check"
_OTHER_GROUPS = "write `roles`: a group names its numbers of nodes and GPUs; its directory and port are those of all"
_NOTES = {
    r"^(python|nvcc|build|setup)": "the software is a part of `environment.image`",
    r"^(files|repos|repo)": "files come from the image, `code` or `storage.workdirs`",
    r"^(backends|regions|instance_types|availability_zones|fleets)": "nodes are selected by `resources.pool`",
    r"^ports": "`gpuctl port-forward NAME` reaches a port of a pod",
    r"^inactivity_duration": "`notebook.stop_after` reads the activity of a Jupyter server: write both if there is one",
    r"^version": "the image has the programs of an IDE",
    r"^retry": "`job.retries` is a number of further attempts",
    r"^(model|gateway|https|auth|strip_prefix|domain)": "clients call the Service; an address outside the cluster is "
    "`service.route`",
    r"^scaling": "write `autoscaling`",
    r"^rate_limits": "`service.request_limit` is requests per second",
    r"^replicas": "each group of replicas is a document of its own",
    r"^startup_order": "all nodes start together",
    r"^stop_criteria": "a training ends when the programs of all nodes have ended",
    r"^entrypoint": "write it as the begin of `environment.command`",
    **NOTES,
    r"^volumes": "a volume is a PersistentVolumeClaim here: `storage.workdirs: [{path: DIR, pvc: {claim: NAME}}]`",
    r"^probes": "`service.health_check` is an HTTP path; gpuctl sets the times of the probes",
    r"^stop_duration": "the time between the signal and the end is `job.grace`",
    r"^schedule": "times to run at are `schedule`",
    r"^(privileged|user)": "write `podPatch`",
    r"^docker": "a pod is a container and starts no other: write its image and program into the document",
    r"^utilization_policy": "`gpuctl usage idle` lists jobs whose GPUs are idle",
    r"^spot_policy": "nodes that may be taken away are `resources.spot`",
    r"^priority": "`job.priority` is high, medium or low",
}


def import_dstack_run(source: Source, given: Given) -> Imported:
    """Return the document of a task, service or development environment, and of each group of a service's replicas.

    :raises Unreadable: the configuration is of another type.
    """
    raws = read_documents(source)
    if not raws:
        raise Unreadable(1, "the file has no document", "name a configuration of dstack")
    ledger = LineLedger()
    tree = SourceTree(raws[0], ledger)
    written = tree.text(("type",)) or ""
    kind = KINDS.get(written)
    if kind is None:
        what = _HINTS.get(written, "name the type of the configuration")
        hint = f"import tasks, services and development environments; {what}"
        raise Unreadable(tree.line(("type",)), f"the type `{written}` is not imported", hint)
    groups = _groups_of_replicas(raws[0]) if kind == "inference" else []
    if groups:
        tree.changed(("name",), "job.name", "each group of replicas is a document, with a Service of its own")
        used = {id(value) for group in groups for _, value in group.root.value}
        for key, value in raws[0].root.value:
            if id(value) not in used and key.value != "replicas":
                tree.mapped((str(key.value),), None, "each group of replicas has its own")
    drafts: list[Draft] = []
    missing: list[Missing] = []
    for index, raw in enumerate(groups or raws[:1]):
        own = given.of_job(index, len(groups) or 1)
        drafts.append(Draft(kind, source.name, TOOL, given.settings))
        job = "" if not groups else tree.text(("name",)) or ""
        if groups and SourceTree(raw).text(("name",)) is None:
            job += f"-{index + 1}"
        missing += _run(raw, ConvertedTree(raw, ledger, drafts[-1]), own, job)
    for other in raws[1:]:
        SourceTree(other, ledger).dropped((), "dstack reads the first configuration of a file")
    # Groups have some lines in common.
    return Imported(TOOL, drafts, list(dict.fromkeys(ledger.entries())), missing)


def _groups_of_replicas(raw: RawDocument) -> list[RawDocument]:
    """Return the configuration of each group of a service's replicas, with what it has from the service."""
    fields = raw.root.value
    groups = next((value for key, value in fields if key.value == "replicas" and value.kind == SEQUENCE), None)
    if groups is None or any(group.kind != MAPPING for group in groups.value):
        return []
    found = []
    for group in groups.value:
        own = {"name", "replicas", *(key.value for key, _ in group.value)}
        common = [field for field in fields if field[0].value not in own]
        found.append(raw._replace(root=raw.root.with_value([*common, *group.value])))
    return found


def _run(raw: RawDocument, tree: ConvertedTree, given: Given, job: str) -> list[Missing]:
    """Take a configuration. Return what is missing.

    :param job: the name of the service, if its name is that of a group of replicas.
    """
    draft, kind = tree.draft, tree.draft.kind
    task = TaskFields(tree, given)
    tree.mapped(("type",), "kind")
    tree.set_name(("name",), given, job)
    task.nodes(("nodes",))
    tree.set_text(("image",), "environment.image")
    tree.set_directory(("working_dir",))
    task.variables(("env",))
    shell = shell_of(tree)
    _others(tree)
    if kind == "training" and take_groups(raw, tree, task, shell):
        tree.mapped(("resources",), None, "no node has them: each group has its own")
    else:
        take_resources(tree, task)
        values: dict[str, int | str] = {"DSTACK_GPUS_NUM": task.gpus * task.node_count}
        values["DSTACK_RUN_NAME"] = draft.get("job.name") or ""
        if kind != "training":
            values |= {"DSTACK_NODES_NUM": 1, "DSTACK_NODE_RANK": 0, "DSTACK_MASTER_NODE_IP": "localhost"}
            values["DSTACK_GPUS_PER_NODE"] = task.gpus
        take_commands(tree, task, shell, values, key="init" if kind == "notebook" else "commands")
        if kind == "notebook":
            _wait_for_users(tree, shell)
        for key in ("groups", "replicas"):
            for index in range(tree.items((key,))):
                tree.dropped((key, index), _OTHER_GROUPS if kind == "training" else _NOTES["^replicas"])
    tree.drop_rest(_NOTES)
    return task.missing_values()


def _wait_for_users(tree: ConvertedTree, shell: str) -> None:
    """Have the program wait after the commands that prepare it: users connect to a development environment."""
    draft = tree.draft
    command = draft.get(COMMAND) or []
    before = command[2] if command[:2] == [shell, "-c"] else shlex.join(command) + "\n" if command else ""
    path = ("init",) if before else ("ide",)
    words = [shell, "-c", f"{before}exec sleep infinity\n"] if before else ["sleep", "infinity"]
    draft.set(COMMAND, words, tree.lines(path))
    tree.changed(
        ("ide",), COMMAND, "the pod waits, and `gpuctl exec NAME` opens a shell: write the command of a server"
    )
    draft.set("service.type", "ClusterIP")
    if tree.flag(("inactivity_duration",)) is False:
        tree.mapped(("inactivity_duration",), None, "a notebook without `notebook.stop_after` has no limit")


def _volumes(tree: ConvertedTree) -> None:
    """Take directories of the node, such as ``/mnt/data:/data``; named volumes are objects of dstack."""
    for index in range(tree.items(("volumes",))):
        path = ("volumes", index)
        source, _, target = (tree.text(path) or "").partition(":")
        source, target = tree.text((*path, "instance_path")) or source, tree.text((*path, "path")) or target
        if source.startswith("/") and target.startswith("/"):
            extra = {"mountPath": target} if target != source else {}
            tree.append(path, "storage.workdirs", {"path": source, **extra})


def _probes(tree: ConvertedTree) -> None:
    """Take the path of the first probe, if it asks over HTTP as the kubelet does."""
    url = tree.text(("probes", 0, "url"))
    method = tree.text(("probes", 0, "method")) or "get"
    is_plain = method.lower() == "get" and not {"headers", "body"} & set(tree.keys(("probes", 0)))
    if url is not None and url.startswith("/") and tree.draft.kind == "inference" and is_plain:
        for name in ("type", "method"):
            tree.mapped(("probes", 0, name), _HEALTH)
        tree.set(("probes", 0, "url"), _HEALTH, url, AS_PROBES)


def _others(tree: ConvertedTree) -> None:
    draft = tree.draft
    _volumes(tree)
    _probes(tree)
    login = "make a Secret with the login, and name it: `environment.imagePullSecret`"
    tree.dropped_secret(("registry_auth",), "registry_auth", login)
    if tree.flag(("auth",)) is False:
        tree.mapped(("auth",), None, "gpuctl asks for no token")
    for key, value in (("startup_order", "any"), ("stop_criteria", "all-done")):
        if tree.text((key,)) == value:
            tree.mapped((key,), None, _NOTES[f"^{key}"])
    cron = tree.text(("schedule", "cron"))
    if cron is not None and tree.node(("groups",)) is not None:
        tree.dropped(("schedule",), "a training with roles has no `schedule`")
    elif cron is not None and draft.kind == "training":
        tree.set(("schedule", "cron"), "schedule.cron", cron)
    if tree.flag(("privileged",)):
        PodPatch(tree).of_container(("privileged",), "securityContext", {"privileged": True})
    duration = tree.text(("max_duration",))
    if duration is not None and parse_duration(duration):
        field = "notebook.max_lifetime" if draft.kind == "notebook" else "job.max_runtime"
        paused = "the notebook is paused, and `gpuctl resume` starts it again"
        tree.set(("max_duration",), field, duration, paused if draft.kind == "notebook" else None)
    elif duration == "-1" or tree.flag(("max_duration",)) is False:
        tree.mapped(("max_duration",), None, "a job without `job.max_runtime` has no limit")
    spot = tree.text(("spot_policy",))
    if spot == "spot":
        tree.set(("spot_policy",), "resources.spot", True)
    elif spot == "on-demand":
        tree.mapped(("spot_policy",), "resources.spot")
    if draft.kind != "inference":
        return
    port = whole_number((tree.text(("port",)) or "").rpartition(":")[2])
    if port is not None:
        tree.set(("port",), "service.port", port)
    for key in ("replicas", "count"):
        first, is_range, _ = (tree.text((key,)) or "").partition("..")
        if (replicas := whole_number(first)) is not None:
            tree.set((key,), "service.replicas", replicas, "a range needs `autoscaling`" if is_range else None)
