"""The pod template of a Kubernetes manifest as fields of a document."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from gpuctl.backend.patch_rules import FORBIDDEN_FIELDS
from gpuctl.frontend.platform_restrictions import is_reserved_key
from gpuctl.importing.card_resources import CardKind, card_kinds, set_card_kind
from gpuctl.importing.carried_fields import PATCHED, SET_BY_GPUCTL, PodPatch
from gpuctl.importing.container_ports import container_ports, with_port_numbers
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.environment_variables import is_set_by_gpuctl, refers_to, source_of_variable, take_variable
from gpuctl.importing.field_values import number_or_text, short_duration
from gpuctl.importing.further_containers import HELPER_CALLED_MAIN, take_further_containers
from gpuctl.importing.import_values import Given, Missing
from gpuctl.importing.label_selectors import selected_labels
from gpuctl.importing.manifest_volumes import PodVolumes
from gpuctl.importing.source_tree import Path, dotted_path
from gpuctl.language.names import MAIN_CONTAINER

HOST_NAME = r"\$\(\s*hostname\b|`\s*hostname\b|\$\{?HOSTNAME\b"
"""A command of the shell that reads the name of the pod."""
_RDMA = r"(?i:rdma|hca|efa|roce|infiniband)"
_SHARE = r"(?i:gpu-?mem|gpu-?core|vgpu|\.shared)"
_RDMA_NOTE = "RDMA devices are `resources.network.rdma`: the platform's `network.rdma` names their resource"
DEVICES = {
    rf"resources\b.*{_RDMA}": _RDMA_NOTE,
    rf"resources\b.*{_SHARE}": "a part of a card is `resources.gpu-share`",
    r"resources\b": "no field requests this; GPUs are a whole number in `resources.gpu`",
}
"""Pattern of a resource that no importer takes -> what to do."""
OF_TRAININGS = {
    r"suspend": "`gpuctl pause NAME` holds a job",
    r"generateName": "--name names the job",
    r"valueFrom|volume": "the language has no such volume or variable: use `podPatch`",
    **DEVICES,
    r"hostPort": "`resources.network.hostNetwork` takes the ports of a node",
}
"""Pattern of a path in a job's manifest that no importer takes -> what to do."""
_NOT_CARRIED = frozenset(["containers", "initContainers", "volumes", "restartPolicy"])
_CARRIED = ("securityContext", "lifecycle", "stdin", "tty")
"""Fields of the program's container that `podPatch` carries."""
_QUANTITY = r"\d+(?:\.\d+)?[A-Za-z]{0,2}\Z"
_SLICE = r"nvidia\.com/mig-(\d{1,2}g\.\d{1,3}gb)\Z"
_ONE_KIND = "GPUs of a pod are whole cards of one vendor, or slices of one profile, all for the program"
_POD_DEFAULTS = {
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "preemptionPolicy": "PreemptLowerPriority",
    **dict.fromkeys(("hostNetwork", "hostPID", "hostIPC", "setHostnameAsFQDN"), "false"),
}


class PodFields:
    """Adds a pod template to a document. ``missing``: numbers of GPUs that it leaves open.

    :param base: the path of the template.
    :param main: the name of the container with the program. Default: the first one with GPUs, else the first one.
    """

    def __init__(self, tree: ConvertedTree, base: Path, given: Given, main: str | None = None) -> None:
        self.tree = tree
        self.spec: Path = (*base, "spec")
        self.base = base
        self.draft = tree.draft
        self.given = given
        containers: Path = (*self.spec, "containers")
        names = [tree.text((*containers, index, "name")) for index in range(tree.items(containers))]
        self.cards = card_kinds(tree.draft.settings)
        with_gpus = [index for index in range(len(names)) if self._gpu_requests((*containers, index))]
        self.main = names.index(main) if main is not None and main in names else next(iter(with_gpus), 0)
        self.container: Path = (*containers, self.main)
        self.resources: Path = (*self.container, "resources")
        self.patch = PodPatch(tree)
        self.gpus = 0
        self.missing: list[Missing] = []

    def _amounts(self, resources: Path) -> Iterator[tuple[Path, str, str]]:
        """Yield the path, group (``limits`` or ``requests``) and name of each amount that a container requests."""
        for group in ("limits", "requests"):
            for name in self.tree.keys((*resources, group)):
                yield (*resources, group, name), group, name

    def _gpu_requests(self, container: Path) -> list[Path]:
        """Return the paths of the requests of a container for whole GPUs and for slices of them."""
        amounts = self._amounts((*container, "resources"))
        return [path for path, _, name in amounts if name in self.cards or re.match(_SLICE, name) is not None]

    def take_trainer(self) -> None:
        """Take the fields of a TrainJob's trainer, which has those of a container."""
        self.container = self.base
        self.resources = (*self.base, "resourcesPerNode")
        self._program()
        self._resources()

    def take(self, without: Collection[str] = ()) -> None:
        """Take the pod, except for ports and probes.

        :param without: fields of the pod that the importer has taken.
        """
        tree = self.tree
        if tree.items((*self.spec, "containers")) == 0:
            return
        self._program()
        self._resources()
        others: list[Path] = [
            (*self.spec, group, index)
            for group, main in (("initContainers", -1), ("containers", self.main))
            for index in range(tree.items((*self.spec, group)))
            if index != main
        ]
        volumes = PodVolumes(tree, self.spec, self.container, others)
        volumes.take()
        take_further_containers(tree, self.spec, self.main, volumes)
        volumes.take_unused()
        for path in others:
            for request in self._gpu_requests(path):
                tree.dropped(request, _ONE_KIND)
            name = tree.text((*path, "name")) or ""
            self._devices((*path, "resources"), HELPER_CALLED_MAIN if name == MAIN_CONTAINER else name)
        self._pod(without)
        program = tree.text((*self.container, "name"))
        self.patch.rename_containers({MAIN_CONTAINER: HELPER_CALLED_MAIN, program: MAIN_CONTAINER})

    def _program(self) -> None:
        tree, main = self.tree, self.container
        tree.mapped((*main, "name"), None, "the container is called `main`")
        image = tree.text((*main, "image"))
        if image:
            tree.set((*main, "image"), "environment.image", image)
        for name in ("command", "args"):
            value = tree.get((*main, name))
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                self.draft.set(f"environment.{name}", value, tree.lines((*main, name)))
        self._workdir(main)
        self._variables(main)

    def _workdir(self, container: Path) -> None:
        path = (*container, "workingDir")
        self.tree.set_directory(path)
        self.tree.dropped(path, "write an absolute path: `environment.workdir`")

    def take_program(self, note: str | None = None) -> None:
        """Take the command and its arguments, after the importer has adapted them.

        :param note: what differs.
        """
        for name in ("command", "args"):
            path = (*self.container, name)
            if self.draft.get(f"environment.{name}") is None:
                self.tree.dropped(path, "it is not a list of texts")
            else:
                self.tree.taken(path, f"environment.{name}", note)

    def _variables(self, container: Path) -> None:
        tree, base = self.tree, (*container, "env")
        carried: list[str] = []
        for index in range(tree.items(base)):
            path = (*base, index)
            name, value = tree.text((*path, "name")), tree.get((*path, "value"))
            if name is None:
                continue
            if found := source_of_variable(tree, (*path, "valueFrom")):
                value = found
            is_carried = tree.node((*path, "valueFrom")) is not None and not found
            if (is_carried or refers_to(value, carried)) and not is_set_by_gpuctl(self.draft, name):
                self.patch.of_container(path, "env", [tree.typed(path)])
                carried.append(name)
                continue
            known = (self.draft.get("environment.env") or {}).get(name)
            field, note = take_variable(self.draft, name, "" if value is None else value, tree.line(path))
            if known is not None and known != value:
                note = "the variable occurs twice: this value is also that of variables which name it before"
            tree.taken(path, field, note)
        base = (*container, "envFrom")
        for index in range(tree.items(base)):
            for kind, field in (("secretRef", "secret"), ("configMapRef", "configMap")):
                source = tree.text((*base, index, kind, "name"))
                if source is not None and not tree.flag((*base, index, kind, "optional")):
                    entry = {field: source}
                    prefix = tree.text((*base, index, "prefix"))
                    self.draft.append("environment.envFrom", {**entry, **({"prefix": prefix} if prefix else {})})
                    tree.mapped((*base, index), "environment.envFrom")
                elif source is not None:
                    self.patch.of_container((*base, index), "envFrom", [tree.typed((*base, index))])

    def _resources(self) -> None:
        tree = self.tree
        limits, requests = (*self.resources, "limits"), (*self.resources, "requests")
        for name, kind in self.cards.items():
            path = (*limits, name) if tree.node((*limits, name)) is not None else (*requests, name)
            number = tree.number(path)
            if number is not None and not self.gpus:
                self.gpus = number
                tree.set(path, "resources.gpu", number, set_card_kind(self.draft, kind, tree.line(path)))
                tree.mapped((*requests, name), "resources.gpu")
            elif number:
                tree.dropped((*limits, name), _ONE_KIND)
                tree.dropped((*requests, name), _ONE_KIND)
        self._slices()
        for path, _, name in self._amounts(self.resources):
            # RDMA devices, if the platform serves this resource.
            if name == self.given.rdma:
                tree.set_number(path, "resources.network.rdma")
        if not self.gpus:
            self._open_numbers()
        if self.given.gpus_per_node is not None:
            self.gpus = self.given.gpus_per_node
            self.draft.set("resources.gpu", self.gpus)
        for name in ("cpu", "memory"):
            self._amount(name, (*limits, name), (*requests, name))
        self._devices(self.resources)

    def _devices(self, resources: Path, container: str = MAIN_CONTAINER) -> None:
        """Carry the requests of a container that no field has, but for cards and parts of them."""
        fields = {*self.cards, *self.draft.settings.scarce_gpu_resources, "cpu", "memory", self.given.rdma}
        for path, group, name in self._amounts(resources):
            if name in fields or re.match(_SLICE, name) is not None or re.search(_SHARE, name) is not None:
                continue
            if re.match(_QUANTITY, self.tree.text(path) or "") is not None:
                note = f"`podPatch` carries it; {_RDMA_NOTE}" if re.search(_RDMA, name) else PATCHED
                self.patch.resource(path, group, name, note, container)

    def _slices(self) -> None:
        """Take MIG slices."""
        tree = self.tree
        for path, _, name in self._amounts(self.resources):
            match, number = re.match(_SLICE, name), tree.number(path)
            if match is None or not number:
                continue
            if self.gpus and self.draft.get("resources.gpu-profile") != match[1]:
                tree.dropped(path, _ONE_KIND)
            else:
                self.gpus = number
                self.draft.set("resources.gpu-profile", match[1], tree.line(path))
                set_card_kind(self.draft, CardKind("nvidia", None), tree.line(path))
                tree.set(path, "resources.gpu", number)

    def _open_numbers(self) -> None:
        """Take numbers of GPUs that a manifest leaves open, as templates do: the command line has to name them."""
        tree, given = self.tree, self.given.gpus_per_node
        for path, _, name in self._amounts(self.resources):
            text = tree.text(path)
            if name not in self.cards or tree.number(path) is not None:
                continue
            if given is not None:
                tree.mapped(path, "resources.gpu")
            elif text is None:
                tree.dropped_null(path, "--gpus-per-node names the number")
            if given is None and all(item.option != "--gpus-per-node" for item in self.missing):
                reason = f"`{name}: {text or ''}` is not a number of GPUs"
                self.missing.append(Missing("--gpus-per-node", "N", tree.line(path[:-1]), reason))

    def _amount(self, name: str, limit: Path, request: Path) -> None:
        tree, field = self.tree, f"resources.{name}"
        value = tree.text(limit) or tree.text(request)
        if value is None:
            return
        path = limit if tree.node(limit) is not None else request
        self.draft.set(field, number_or_text(value), tree.line(path))
        for item in (limit, request):
            differs = tree.text(item) not in (None, value) or path == request
            tree.taken(item, field, f"request and limit are one: `{value}`" if differs else None)

    def _pod(self, without: Collection[str]) -> None:
        """Take fields of the pod; those without a field of the language go into `podPatch`."""
        tree = self.tree
        for name in tree.keys(self.container):
            path = (*self.container, name)
            if name in SET_BY_GPUCTL:
                self.patch.set_by_gpuctl(path, name)
            else:
                self._container_field(self.container, name)
        for name in tree.keys(self.spec):
            if name not in without:
                self._pod_field((*self.spec, name), name)

    def _container_field(self, container: Path, name: str) -> None:
        """Carry a field of the program's container that the language does not have."""
        value = self.tree.typed((*container, name)) if name in _CARRIED else None
        if name == "lifecycle" and isinstance(value, dict):
            ports = container_ports(self.tree, container)
            value = {moment: with_port_numbers(action, ports) for moment, action in value.items()}
        if value not in (None, {}):
            self.patch.of_container((*container, name), name, value)

    def _pod_field(self, path: Path, name: str) -> None:
        tree, value = self.tree, self.tree.get(path)
        if name == "imagePullSecrets" and isinstance(value, list) and value:
            names = list(dict.fromkeys(item["name"] for item in value if isinstance(item, dict) and "name" in item))
            tree.set(path, "environment.imagePullSecret", names[0] if len(names) == 1 else names)
        elif name == "hostNetwork" and tree.flag(path):
            tree.set(path, "resources.network.hostNetwork", True)
        elif name == "terminationGracePeriodSeconds" and tree.number(path):
            tree.set(path, "job.grace", short_duration(int(value)))
        elif name in _POD_DEFAULTS and value == _POD_DEFAULTS[name]:
            tree.mapped(path, None, "it is Kubernetes' default")
        elif name in ("nodeSelector", "affinity") and self.given.pool is not None:
            tree.changed(path, "resources.pool", "--pool selects the nodes")
        elif name == "priorityClassName":
            tree.dropped(path, "`job.priority` is high, medium or low")
        elif name == "schedulerName":
            tree.dropped(path, "gpuctl uses the cluster's scheduler; gangs wait in a queue: `resources.queue`")
        elif name == "activeDeadlineSeconds":
            tree.dropped(path, "`job.max_runtime` limits the time of a training")
        elif name in FORBIDDEN_FIELDS:
            tree.dropped(path, FORBIDDEN_FIELDS[name])
        elif name == "nodeSelector":
            self._node_selector(path)
        elif name not in _NOT_CARRIED:
            self._carry(path, name)

    def _node_selector(self, path: Path) -> None:
        """Take the labels of nodes: pools and GPU types have fields of their own."""
        label = self.draft.settings.label
        fields = {label("pool"): "resources.pool", label("gpu-type"): "resources.gpu-type"}
        own = [key for key in self.tree.keys(path) if self.tree.text((*path, key)) and key in fields]
        if not own:
            self._carry(path, "nodeSelector")
            return
        for key in self.tree.keys(path):
            at = (*path, key)
            if key in own:
                self.tree.set_text(at, fields[key])
            else:
                self.tree.set_item(at, "podPatch.nodeSelector", key, self.tree.typed(at), PATCHED)

    def carry(self, spec: Path, main: Sequence[str] = (), without: Collection[str] = ()) -> None:
        """Take the pod of a patch: its volumes and variables, and other fields in `podPatch`.

        :param main: names of the container with the program. Default: the first one.
        :param without: fields that are not those of a pod.
        """
        tree, containers = self.tree, (*spec, "containers")
        for index in range(tree.items(containers)):
            path: Path = (*containers, index)
            if (index and not main) or (main and tree.text((*path, "name")) not in main):
                continue
            tree.mapped((*path, "name"), None, "the container is called `main`")
            volumes = PodVolumes(tree, spec, path, [])
            volumes.take()
            self._variables(path)
            self._devices((*path, "resources"))
            self._workdir(path)
            for name in tree.keys(path):
                self._container_field(path, name)
            self.patch.rename_containers({tree.text((*path, "name")): MAIN_CONTAINER})
        for name in tree.keys(spec):
            if name not in without and self.draft.get(f"podPatch.{name}") is None:
                self._pod_field((*spec, name), name)

    def _carry(self, path: Path, name: str) -> None:
        for key, values in selected_labels(self.tree.get(path)):
            if is_reserved_key(key, self.draft.settings) and self.draft.get("job.name") not in values:
                self.tree.dropped(
                    path, f"it selects pods by the label `{key}`, which gpuctl sets to the name of the job"
                )
                return
        if self.tree.typed(path) not in (None, {}, []):
            self.patch.field(path, name)


def is_same(tree: ConvertedTree, first: Path, second: Path, without: Collection[str] = ()) -> list[Path]:
    """Return the paths below ``second`` whose values differ from those below ``first``; the others are mapped.

    Keys that ``first`` alone has are entries of the ledger at ``second``.

    :param without: keys without a meaning for pods that reach each other at every port.
    """
    one, two = tree.get(first), tree.get(second)
    if one == two:
        tree.mapped(second, None, f"it equals {dotted_path(first)}")
        return []
    if isinstance(one, dict) and isinstance(two, dict):
        lost = [key for key, value in one.items() if key not in two and key not in without and value]
        differing = [path for key in two for path in is_same(tree, (*first, key), (*second, key), without)]
        if lost:
            tree.note(second, f"it gets what {dotted_path(first)} has: {', '.join(lost)}")
        return differing
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return [path for index in range(len(two)) for path in is_same(tree, (*first, index), (*second, index), without)]
    return [second]
