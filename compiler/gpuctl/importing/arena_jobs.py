"""Imports job files of Arena v2 as trainings.

The format is that of Arena's enhancement proposal (keps/arena-v2/yaml-schema.md of kubeflow/arena), schema 0.1.0.
"""

from __future__ import annotations

import re
from typing import Any

from gpuctl.frontend.platform_restrictions import is_reserved_key
from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.importing.arena_options import COPIED_DATA, DROPPED
from gpuctl.importing.arena_programs import FRAMEWORKS, PYTORCH, arena_program
from gpuctl.importing.card_resources import card_kinds, set_card_kind
from gpuctl.importing.carried_fields import PATCHED, PodPatch
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.draft import Draft
from gpuctl.importing.environment_variables import take_variable
from gpuctl.importing.field_values import number_or_text
from gpuctl.importing.fields_from_options import set_given_values
from gpuctl.importing.import_result import Imported
from gpuctl.importing.import_values import Given, Missing
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.pod_fields import DEVICES, is_same
from gpuctl.importing.restart_policies import take_restarts
from gpuctl.importing.source_tree import Path, read_documents
from gpuctl.importing.task_fields import TaskFields, open_nodes
from gpuctl.language.names import is_env_name
from gpuctl.objects.durations import parse_duration

TOOL = "Arena"
_PATCHED_FILE = "podPatch.volumes"
_ROLE = "programs that differ are `roles`"
_LAUNCHER = "every pod runs the program: no launcher starts it on the others"
_ROLES = {_ROLE: ("chief", "ps", "evaluator"), _LAUNCHER: ("launcher",)}
_TOLERATION = {
    **{name: name for name in ("key", "operator", "value", "effect")},
    "toleration_seconds": "tolerationSeconds",
}
"""Field of Arena's tolerations -> Kubernetes' name."""
_SOURCES = {"secret": "secret", "configmap": "configMap"}
_NOTES = {
    r"^master": _ROLE,
    r"^init": "write an `init` container",
    r"^scheduling\.gang": DROPPED["gang"],
    r"^scheduling\.queue": DROPPED["queue"],
    r"^scheduling\.priority": DROPPED["priority"],
    r"^scheduling\.node_selector": DROPPED["selector"],
    r"^scheduling\.affinity": "nodes are selected by `resources.pool`; `resources.topology` keeps them close",
    r"^scheduling": DROPPED["scheduler"],
    r"^lifecycle\.clean": DROPPED["clean-task-policy"],
    r"^lifecycle\.suspend": DROPPED["suspend"],
    r"^lifecycle\.success": "`primary` names the roles whose end is the end of the training",
    r"^logging": DROPPED["tensorboard"],
    r"^framework\.options\.nproc": DROPPED["nproc-per-node"],
    r"^framework\.options": _LAUNCHER,
    r"^storages": "the language has no such volume: use `podPatch`",
    **DEVICES,
}


def is_arena_job(text: str) -> bool:
    """Return True if a text is a job file of Arena v2."""
    keys = set(re.findall(r"(?m)^([a-z_]+):", text))
    return {"version", "framework"} <= keys and not keys.isdisjoint(("worker", "master", "launcher", "chief", "ps"))


def import_arena_jobs(source: Source, given: Given) -> Imported:
    """Return the documents of a file's jobs."""
    ledger = LineLedger()
    raws = read_documents(source)
    jobs = [_ArenaJobFile(raw, source.name, given.of_job(index, len(raws)), ledger) for index, raw in enumerate(raws)]
    missing: list[Missing] = [item for job in jobs for item in job.take()]
    return Imported(TOOL, [job.draft for job in jobs], ledger.entries(), missing)


class _ArenaJobFile:
    """One job."""

    def __init__(self, raw: RawDocument, source: str, given: Given, ledger: LineLedger) -> None:
        self.given = given
        self.draft = Draft("training", source, TOOL, given.settings)
        self.tree = ConvertedTree(raw, ledger, self.draft)
        self.task = TaskFields(self.tree, given)
        self.framework = self.tree.text(("framework", "name")) or ""
        self.is_pytorch = FRAMEWORKS.get(self.framework) == PYTORCH
        # Only a pod that is the job's whole group has its values in the job.
        self.group = "worker" if self.tree.node(("worker",)) is not None else "master"

    def take(self) -> list[Missing]:
        """Take the fields. Return what is missing."""
        self._head()
        self._scale()
        self._environment()
        self._storages()
        self._pod()
        self._lifecycle()
        self._init()
        self._sync()
        self._program()
        self.tree.drop_rest(_NOTES)
        line = self.tree.line((self.group,))
        missing = set_given_values(self.draft, self.given, self.tree.ledger, line, has_gpus=self.task.gpus > 0)
        return [*open_nodes(self.tree, [(self.group, "replicas")], self.given), *missing]

    def _head(self) -> None:
        tree = self.tree
        tree.mapped(("version",), "version")
        tree.set_name(("name",), self.given)
        tree.set_text(("namespace",), "job.namespace")
        tree.set_text(("description",), "job.description")
        for key in ("labels", "annotations"):
            for name in tree.keys((key,)):
                if not is_reserved_key(name, self.draft.settings):
                    tree.set_item((key, name), f"job.{key}", name, tree.text((key, name)) or "")
        tree.set_text(("image",), "environment.image")
        tree.set_directory(("working_dir",))
        if self.is_pytorch:
            tree.mapped(("framework", "name"), "kind")
        else:
            note = (
                f"`{self.framework}` starts its processes in another way: use torchrun, or `roles` for other programs"
            )
            tree.changed(("framework", "name"), "kind", note)

    def _scale(self) -> None:
        """Take the number of nodes and their resources: PyTorch has a master beside the workers."""
        tree = self.tree
        workers = tree.number(("worker", "replicas"))
        has_workers = tree.node(("worker",)) is not None
        nodes = self.given.nodes or ((1 if workers is None else workers) + self.is_pytorch if has_workers else 1)
        self.task.node_count = nodes
        path: Path = (self.group, "replicas")
        if nodes > 1:
            line = tree.line(path) if self.given.nodes is None and workers is not None else None
            self.draft.set("resources.nodes", nodes, line)
        if self.is_pytorch and has_workers:
            tree.changed(("worker", "replicas"), "resources.nodes", "the master is a node, too")
        tree.mapped(path, "resources.nodes")
        tree.mapped(("master", "replicas"), "resources.nodes")
        if has_workers and self.is_pytorch and tree.node(("master",)) is not None:
            self._master()
        self._resources((self.group, "resources"))
        for role, note in ((role, note) for note, roles in _ROLES.items() for role in roles):
            tree.dropped((role,), note)

    def _master(self) -> None:
        """Compare the master with the workers: in Arena it has its own values alone."""
        tree = self.tree
        lost = []
        for name in ("resources", "envs"):
            for part in is_same(tree, ("worker", name), ("master", name)):
                tree.dropped(part, f"the workers have another value: {_ROLE}")
            if tree.get(("worker", name)) and not tree.get(("master", name)):
                lost.append(name)
        if lost:
            tree.note(("master",), f"it gets what the workers have: {', '.join(lost)}")
        elif not tree.get(("master",)):
            tree.mapped(("master",), None, "it is a node, too")

    def _resources(self, base: Path) -> None:
        tree = self.tree
        for name, kind in card_kinds(self.draft.settings).items():
            number = tree.number((*base, name))
            if number is not None and not self.draft.get("resources.gpu"):
                note = set_card_kind(self.draft, kind, tree.line((*base, name)))
                self.task.set_gpus((*base, name), number, note=note)
        if self.given.rdma is not None:
            tree.set_number((*base, self.given.rdma), "resources.network.rdma")
        for name in ("cpu", "memory"):
            text = tree.text((*base, name))
            if text is not None:
                tree.set((*base, name), f"resources.{name}", number_or_text(text))

    def _environment(self) -> None:
        for base in (("envs",), (self.group, "envs")):
            for name in self.tree.keys(base):
                path = (*base, name)
                value = self.tree.get(path)
                if isinstance(value, dict):
                    kind = next((kind for kind in _SOURCES if set(value) == {kind, "key"}), None)
                    if kind is None:
                        continue
                    value = {_SOURCES[kind]: value[kind], "key": value["key"]}
                if isinstance(value, (str, dict)) and is_env_name(name):
                    field, note = take_variable(self.draft, name, value, self.tree.line(path))
                    self.tree.taken(path, field, note)

    def _storages(self) -> None:
        tree = self.tree
        for index in range(tree.items(("storages",))):
            path: Path = ("storages", index)
            values = tree.get(path)
            if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
                continue
            field = self._storage(values, path)
            if field is not None:
                tree.taken(path, field, PATCHED if field == _PATCHED_FILE else None)

    def _storage(self, values: dict[str, str], path: Path) -> str | None:
        """Add a storage. Return its field; None if the language has none."""
        line, target = self.tree.line(path), values.get("mount_path", "")
        known = {"name", "mount_path", "sub_path", "key"}
        kinds = set(values) - known
        if len(kinds) != 1:
            return None
        [kind] = kinds
        sub = values.get("sub_path", "").strip("/")
        if kind == "shm" and target in ("", "/dev/shm"):  # noqa: S108
            self.draft.set("resources.shm", values["shm"] or "2Gi", line)
            return "resources.shm"
        if not target.startswith("/"):
            return None
        if kind == "pvc":
            claim = {"claim": values["pvc"], **({"subPath": sub} if sub else {})}
            entry: dict[str, Any] = {"path": target, "pvc": claim}
        elif sub:
            return None
        elif kind == "hostpath":
            entry = {"path": values["hostpath"], **({"mountPath": target} if target != values["hostpath"] else {})}
        elif kind in ("tmp", "shm"):
            size = {"size": values[kind]} if values[kind] else {}
            medium = {"medium": "Memory"} if kind == "shm" else {}
            entry = {"path": target, "emptyDir": {**size, **medium}}
        elif kind in ("configmap", "secret"):
            return self._files(values, kind, target, line)
        else:
            return None
        self.draft.append("storage.workdirs", entry, line)
        return "storage.workdirs"

    def _files(self, values: dict[str, str], kind: str, target: str, line: int) -> str:
        if "key" in values:
            is_map = kind == "configmap"
            source = {"name": values[kind]} if is_map else {"secretName": values[kind]}
            volume = {"name": values.get("name", kind), ("configMap" if is_map else kind): source}
            PodPatch(self.tree).mounted(volume, {"mountPath": target, "subPath": values["key"]})
            return _PATCHED_FILE
        entry = {"path": target, "configMap" if kind == "configmap" else "secret": values[kind]}
        self.draft.append("storage.mounts", entry, line)
        return "storage.mounts"

    def _pod(self) -> None:
        tree = self.tree
        if tree.text(("image_pull_policy",)) is not None:
            PodPatch(tree).set_by_gpuctl(("image_pull_policy",), "imagePullPolicy")
        secrets = tree.get(("image_pull_secrets",))
        if isinstance(secrets, list) and secrets and all(isinstance(item, str) for item in secrets):
            value = secrets[0] if len(secrets) == 1 else secrets
            tree.set(("image_pull_secrets",), "environment.imagePullSecret", value)
        account = tree.text(("service_account",))
        if account is not None:
            tree.set(("service_account",), "podPatch.serviceAccountName", account, PATCHED)
        for key, field in (
            ("host_network", "resources.network.hostNetwork"),
            ("host_ipc", "podPatch.hostIPC"),
            ("host_pid", "podPatch.hostPID"),
        ):
            tree.set_switch((key,), field)
        selector: Path = ("scheduling", "node_selector")
        if self.given.pool is not None:
            tree.changed(selector, "resources.pool", "--pool selects the nodes")
        elif (labels := tree.get(selector)) is not None:
            tree.set(selector, "podPatch.nodeSelector", labels, PATCHED)
        self._tolerations()
        for path in (("scheduling", "gang", "enabled"), ("logging", "tensorboard", "enabled")):
            if tree.flag(path) is False:
                tree.mapped(path[:-1], None, "it is not enabled")
        if tree.text(("scheduling", "scheduler_name")) in ("default", "default-scheduler"):
            tree.mapped(("scheduling", "scheduler_name"), None, "it is Kubernetes' default")
        if tree.text(("scheduling", "affinity", "policy")) == "none":
            tree.mapped(("scheduling", "affinity"), None, "it is Kubernetes' default")

    def _tolerations(self) -> None:
        path: Path = ("scheduling", "tolerations")
        values = self.tree.typed(path)
        if isinstance(values, list) and all(
            isinstance(item, dict) and set(item) <= set(_TOLERATION) for item in values
        ):
            new = [{_TOLERATION[key]: value for key, value in item.items()} for item in values]
            self.tree.set(path, "podPatch.tolerations", new, PATCHED)

    def _lifecycle(self) -> None:
        tree = self.tree
        if tree.text(("lifecycle", "clean_pod_policy")) == "None":
            tree.mapped(("lifecycle", "clean_pod_policy"), None, DROPPED["clean-task-policy"])
        deadline = ("lifecycle", "active_deadline")
        if parse_duration(tree.text(deadline) or ""):
            note = "it counts while the pods of an attempt run"
            tree.set(deadline, "job.max_runtime", tree.text(deadline), note)
        ttl = ("lifecycle", "ttl_after_finished")
        if parse_duration(tree.text(ttl) or "") is not None:
            tree.set_text(ttl, "job.ttl")
        take_restarts(tree, [("restart",)], ("lifecycle", "backoff_limit"), in_place=self.is_pytorch)

    def _sync(self) -> None:
        """Drop copies of code and data, each with the field that replaces it."""
        for index in range(self.tree.items(("sync",))):
            path: Path = ("sync", index)
            is_code = self.tree.node((*path, "git")) is not None
            self.tree.dropped(path, DROPPED["sync-mode"] if is_code else COPIED_DATA)

    def _init(self) -> None:
        tree = self.tree
        for index in range(tree.items(("init",))):
            path: Path = ("init", index)
            values = {key: tree.text((*path, key)) for key in ("name", "image", "run")}
            if None in values.values():
                continue
            shell = tree.text((*path, "shell")) or tree.text(("shell",)) or "/bin/sh"
            entry = {"name": values["name"], "image": values["image"], "command": [shell, "-c", values["run"]]}
            self.draft.append("init", entry, tree.line(path))
            for key in ("name", "image", "run", "shell"):
                tree.mapped((*path, key), "init[]")
            tree.changed((*path, "mounts"), "storage.workdirs", "it has the mounts of the program")

    def _program(self) -> None:
        """Take the program: a role's own replaces that of the job."""
        tree = self.tree
        processes: Path = ("framework", "options", "nproc_per_node")
        if self.task.gpus and tree.text(processes) in (str(self.task.gpus), "gpu", "auto"):
            tree.mapped(processes, None, "torchrun starts a process for each GPU")
        own: Path = (self.group, "run")
        path = own if tree.text(own) else ("run",)
        text = tree.text(path)
        if text is None:
            return
        shell = tree.text(("shell",)) or "sh"
        found = arena_program(text.strip("\n"), shell, self.task.node_count, self.task.gpus, self.framework)
        if found.port is not None:
            self.draft.set("job.master_port", found.port, tree.line(path))
        tree.set(path, "environment.command", found.words, found.note)
        tree.mapped(("shell",), "environment.command")
        of_master = tree.text(("master", "run")) if self.group == "worker" else None
        if of_master == text:
            tree.mapped(("master", "run"), "environment.command")
        has_master = self.group == "worker" and tree.node(("master",)) is not None
        if path == own and self.is_pytorch and has_master and of_master is None:
            tree.dropped(("run",), f"the master runs it, and the workers `worker.run`: {_ROLE}")
        elif path == own:
            tree.mapped(("run",), None, f"no pod runs it: `{self.group}.run` replaces it")
