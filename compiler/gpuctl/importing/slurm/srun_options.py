"""The options of `srun`: those of containers become fields, those of the allocation are compared with the job's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuctl.importing.draft import Draft
from gpuctl.importing.field_values import gpus_of
from gpuctl.importing.import_values import REASONS, Missing
from gpuctl.importing.line_ledger import LineLedger
from gpuctl.importing.slurm.job_options import DROPPED
from gpuctl.importing.slurm.sbatch_options import OPTION_NAMES, SlurmOption
from gpuctl.importing.slurm.slurm_values import gpus_of_gres
from gpuctl.language.path_fields import normal_path
from gpuctl.objects.quantities import whole_number

_SUPERFLUOUS = {
    **dict.fromkeys(("label", "unbuffered"), "`gpuctl logs` prints lines of all pods with their names"),
    "kill-on-bad-exit": "a pod that fails ends the job",
    "wait": "a pod that fails ends the job",
    **dict.fromkeys(("jobid", "overlap", "exact", "exclusive", "whole", "oversubscribe"), "a job is one step"),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task", "gres"), "a pod has the GPUs of `resources.gpu`"),
    **dict.fromkeys(("cpus-per-gpu", "cpus-per-task"), "a pod has the resources of the job"),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), "a pod has the resources of the job"),
    **dict.fromkeys(("account", "partition", "qos"), "a step has those of its job"),
    "no-container-entrypoint": "`environment.command` replaces the entrypoint of the image",
    "quiet": None,
    "verbose": None,
    "job-name": None,
    "comment": None,
    "container-name": "each pod has a container of its own",
    "container-writable": "the file system of a container is writable",
    "no-container-mount-home": "only the mounts of the document are mounted",
    "container-remap-root": "the container runs as its image's user, unless `security.user` names another",
    "no-container-remap-root": "the container runs as its image's user, unless `security.user` names another",
}
_DROPPED = {
    **DROPPED,
    "mpi": "no MPI library starts processes in a pod: use torchrun or another launcher",
    **dict.fromkeys(("bcast", "send-libs"), "the program is in the image or in `storage.workdirs`"),
    "accel-bind": "a launcher assigns the GPUs of a pod",
    **dict.fromkeys(("uenv", "view"), "the software comes from `environment.image`"),
    "cpu-bind": "CPUs are bound by the kubelet",
    "nodelist": "a pod has no list of nodes",
    "time": "a step has no limit of its own: `job.max_runtime` is that of the job",
    "container-entrypoint": "`environment.args` in place of `command` starts the entrypoint of the image",
    "multi-prog": "each program of the file is a role: write `roles`",
    "pty": "use `gpuctl exec -it` in a running job",
    "container-mount-home": "mount the directory in `storage.workdirs`",
    "module": "what a module of the host adds has to be in the image",
    "container-save": "images are built outside of the cluster",
}
_STEP_SETTING = (
    r"(?:SRUN|SBATCH|SALLOC)_(?P<option>\w+)\Z|SLURM_(?P<other>CPU_BIND(?:_TYPE|_LIST|_VERBOSE)?|DISTRIBUTION|EXACT|"
    r"EXPORT_ENV|GPU_BIND|GPUS_PER_TASK|HINT|HOSTFILE|KILL_BAD_EXIT|LABELIO|MEM_BIND|MPI_TYPE|NETWORK|OVERLAP|"
    r"UNBUFFEREDIO|WHOLE)\Z"
)
_SETTING_NAMES = {
    "cpu-bind-type": "cpu-bind",
    "cpu-bind-list": "cpu-bind",
    "cpu-bind-verbose": "cpu-bind",
    "export-env": "export",
    "hostfile": "nodelist",
    "kill-bad-exit": "kill-on-bad-exit",
    "labelio": "label",
    "mpi-type": "mpi",
    "unbufferedio": "unbuffered",
}
_ITEM = r"(?:[^,\"']|\"[^\"]*\"|'[^']*')+"
# Options of steps on other nodes.
_OF_ROLES = {
    **dict.fromkeys(("exclude", "het-group", "nodelist", "overlap", "relative"), "roles"),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), "roles[].nodes"),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task", "gres"), "roles[].resources.gpu"),
    "cpus-per-task": "roles[].resources.cpu",
    "mem": "roles[].resources.memory",
}


class SrunStep(NamedTuple):
    """The numbers of nodes and tasks of an `srun`, None if it does not name them. ``host``: the nodes that it names."""

    nodes: int | None
    tasks: int | None
    tasks_per_node: int | None
    host: str | None

    def is_first_node_only(self, nodes: int) -> bool:
        """Return True if it runs on one node of several."""
        return nodes > 1 and (self.nodes == 1 or (self.tasks == 1 and self.nodes is None))

    def is_everywhere(self, nodes: int) -> bool:
        """Return True if it runs on all nodes."""
        return self.nodes in (None, nodes) and (self.tasks is None or self.tasks >= nodes)


def step_gpus(options: Sequence[SlurmOption], nodes: int, tasks: int) -> int | None:
    """Return the GPUs of a step on each of its nodes; None if its options do not name them.

    :param tasks: processes on each node.
    """
    values = {option.name: option.value or "" for option in options}
    if "gres" in values:
        found, times = gpus_of_gres(values["gres"])[0], 1
    elif "gpus-per-task" in values:
        found, times = gpus_of(values["gpus-per-task"]), tasks
    elif "gpus-per-node" in values:
        found, times = gpus_of(values["gpus-per-node"]), 1
    else:
        found, times = gpus_of(values.get("gpus", "")), 1
        found = None if found is None else found._replace(number=-(-found.number // nodes))
    return None if found is None else found.number * times


def setting_of_step(name: str) -> tuple[str, bool] | None:
    """Return the note about a variable that sets an option of `srun`, and True if a pod has no equal of the option.

    None if it is another variable.
    """
    match = re.match(_STEP_SETTING, name)
    if match is None:
        return None
    written = (match["option"] or match["other"]).lower().replace("_", "-")
    if _SETTING_NAMES.get(written, written) not in OPTION_NAMES:
        return None
    option = _SETTING_NAMES.get(written, written)
    if option == "export" or option in _SUPERFLUOUS:
        note = _SUPERFLUOUS.get(option) or "the program has the variables of the document and of the script"
        return f"it is `--{option}` of srun: {note}", False
    return f"it is `--{option}` of srun: {_DROPPED.get(option, 'it has no equal in a document')}", True


def exported(raw: str) -> list[tuple[str, str]]:
    """Return the variables that ``--export`` sets, with their values as written.

    :param raw: the word as written, such as ``--export=ALL,LR=$lr``, or ``ALL,LR=$lr``.
    """
    text = re.sub(r"\A([\"']?)--export=", r"\1", raw)
    whole = re.match(r"([\"'])([^\"']*)\1\Z", text)
    found = []
    for item in re.findall(_ITEM, text if whole is None else whole[2]):
        quoted = re.match(r"([\"'])(\w+=)(.*)\1\Z", item, re.DOTALL) if whole is None else None
        name, equals, value = (f"{quoted[2]}{quoted[1]}{quoted[3]}{quoted[1]}" if quoted else item).partition("=")
        if equals and name.isidentifier() and name.isascii():
            found.append((name, value if whole is None else f"{whole[1]}{value}{whole[1]}"))
    return found


def _unquoted(option: SlurmOption) -> SlurmOption:
    """Return an option whose value is not known, and stays as written, without quotation marks."""
    if "$" not in (option.value or ""):
        return option
    value, text = (re.sub("[\"']", "", part) for part in (option.value or "", option.text))
    return option._replace(value=value, text=text)


class SrunOptions:
    """Adds the options of `srun` to a document and its ledger.

    :param role: the role of the nodes on which all steps run, "" if these are all nodes. None: there are no roles.
    """

    def __init__(self, draft: Draft, ledger: LineLedger, *, keeps_image: bool, role: str | None = None) -> None:
        self.draft = draft
        self.ledger = ledger
        self.keeps_image = keeps_image
        self.role = role
        self._unknown_image: tuple[int, str] | None = None
        """The line of an image that is not one of a registry, and why."""
        self._replaced_image = ""
        self.steps = 0
        """The number of steps and containers of the script so far."""
        self._actions: dict[str, Callable[[SlurmOption, str], None]] = {
            "container-image": self._image,
            "container-mounts": self._mounts,
            "container-workdir": self._workdir,
            "environment": self._environment,
            "image": self._image,
            "volume": self._mounts,
            "chdir": self._workdir,
            "export": self._export,
        }

    def take(self, options: list[SlurmOption]) -> SrunStep:
        """Take the options of one `srun`."""
        for option in map(_unquoted, options):
            action = self._actions.get(option.name)
            if not option.known:
                self.ledger.dropped(option.line, option.text, "srun has no such option")
            elif action is not None:
                action(option, option.value or "")
            elif self.role is not None and option.name in _OF_ROLES:
                self._of_role(option)
            elif option.name == "nodelist" and option.value == "$(MASTER_ADDR)":
                self.ledger.mapped(option.line, option.text, None, "the first node has `NODE_RANK` 0")
            elif option.name in ("nodes", "ntasks", "ntasks-per-node"):
                self.ledger.mapped(option.line, option.text, "resources.nodes")
            elif option.name == "kill-on-bad-exit" and option.value == "0":
                note = "a pod that fails ends the job; srun lets the other processes run"
                self.ledger.changed(option.line, option.text, None, note)
            elif option.name in _SUPERFLUOUS:
                self.ledger.mapped(option.line, option.text, None, _SUPERFLUOUS[option.name])
            else:
                note = _DROPPED.get(option.name, "it has no equal in a document")
                self.ledger.dropped(option.line, option.text, note)
        values = {option.name: option.value for option in options}
        return SrunStep(
            whole_number(values.get("nodes") or ""),
            whole_number(values.get("ntasks") or ""),
            whole_number(values.get("ntasks-per-node") or ""),
            values.get("nodelist", values.get("relative")),
        )

    def missing_image(self) -> Missing:
        """Return the image as a value that is missing."""
        line, reason = self._unknown_image or (1, REASONS["--image"])
        return Missing("--image", "REF", line, reason)

    def _of_role(self, option: SlurmOption) -> None:
        if self.role:
            self.ledger.mapped(option.line, option.text, _OF_ROLES[option.name], f"the role `{self.role}`")
        else:
            self.ledger.mapped(option.line, option.text, "resources.nodes")

    def _image(self, option: SlurmOption, value: str) -> None:
        is_file = value.endswith((".sqsh", ".squashfs", ".sif")) or value.startswith(("/", "."))
        self.take_image(option, is_file=is_file)

    def _environment(self, option: SlurmOption, value: str) -> None:
        """Ask for the image that an environment file of Enroot names."""
        field = "environment.image"
        if self.keeps_image:
            self.ledger.changed(option.line, option.text, field, "--image replaces it")
            return
        self._unknown_image = (option.line, f"`{value}` is an environment file, which names the image")
        note = "an environment file is not read: --image names its image, `storage.workdirs` its mounts"
        self.ledger.changed(option.line, option.text, field, note)

    def take_image(self, option: SlurmOption, *, is_file: bool) -> None:
        """Take the image of a container.

        :param is_file: the value is a file, not an image of a registry.
        """
        # enroot writes `registry#name`; without a registry it is Docker Hub.
        image = (option.value or "").removeprefix("docker://").removeprefix("docker:").replace("#", "/", 1)
        field = "environment.image"
        if self.keeps_image and self._replaced_image in ("", image):
            self._replaced_image = image
            self.ledger.changed(option.line, option.text, field, "--image replaces it")
        elif self.keeps_image:
            note = f"the container has one image, and --image replaces `{self._replaced_image}`"
            self.ledger.dropped(option.line, option.text, note)
        elif self.draft.get(field) not in (None, image):
            self.ledger.dropped(option.line, option.text, f"the container has one image: `{self.draft.get(field)}`")
        elif "$" in image or not image:
            self._unknown_image = (option.line, "the script computes the image")
            self.ledger.changed(option.line, option.text, field, "the script computes it: --image names it")
        elif is_file:
            self._unknown_image = (option.line, f"`{image}` is a file, not an image of a registry")
            note = "a file is not an image of a registry: --image names the image that it was made from"
            self.ledger.changed(option.line, option.text, field, note)
        elif self._unknown_image is not None:
            note = f"the container has one image, and line {self._unknown_image[0]} has another"
            self.ledger.dropped(option.line, option.text, note)
        else:
            self.draft.set(field, image, option.line)
            self.ledger.mapped(option.line, option.text, field)

    def _mounts(self, option: SlurmOption, value: str) -> None:
        taken = {item["mountPath"] if "mountPath" in item else item["path"] for item in self._workdirs()}
        bad = []
        for item in filter(None, (" ".join(part.split()) for part in re.split("[,;]", value))):
            source, _, rest = item.partition(":")
            target, _, flags = rest.partition(":")
            target = target or source
            if not re.match(r"/[^$]*\Z", source) or not re.match(r"/[^$]*\Z", target):
                bad.append(item)
                continue
            source, target = normal_path(source), normal_path(target)
            if target not in taken:
                taken.add(target)
                mount: dict[str, object] = {"path": source}
                if target != source:
                    mount["mountPath"] = target
                if "ro" in re.split(r"[+,]", flags):
                    mount["readOnly"] = True
                self.draft.append("storage.workdirs", mount, option.line)
        if bad:
            note = f"`{bad[0]}` is not an absolute path that is known: add it to `storage.workdirs`"
            self.ledger.dropped(option.line, option.text, note)
        else:
            self.ledger.mapped(option.line, option.text, "storage.workdirs")

    def _export(self, option: SlurmOption, value: str) -> None:
        """Note which variables the program has; :func:`exported` returns those that the option sets."""
        names = [item.partition("=")[0] for item in filter(None, value.split(","))]
        if "NONE" in names or "NIL" in names:
            self.ledger.changed(option.line, option.text, None, "the program has the variables of the pod")
        else:
            self.ledger.mapped(option.line, option.text, None, "the program has the script's variables, and these")

    def _workdirs(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.draft.get("storage.workdirs") or []
        return found

    def _workdir(self, option: SlurmOption, value: str) -> None:
        if not re.match(r"/[^$]*\Z", value):
            note = "it is not an absolute path that is known: write it into `environment.workdir`"
            self.ledger.dropped(option.line, option.text, note)
            return
        value = normal_path(value)
        if self.draft.get("environment.workdir") not in (None, value):
            note = f"the script starts in `{self.draft.get('environment.workdir')}`: write `cd` before the program"
            self.ledger.dropped(option.line, option.text, note)
            return
        self.draft.set("environment.workdir", value, option.line)
        is_common = "all programs of the script start there" if self.steps > 1 else None
        self.ledger.taken(option.line, option.text, "environment.workdir", is_common)
