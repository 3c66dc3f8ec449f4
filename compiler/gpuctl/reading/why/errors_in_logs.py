"""Findings for program errors in a log that have a cause of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuctl.hints import command_line
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import containers_of
from gpuctl.reading.why.container_exits import ContainerExit

_QUOTED = re.compile(r"[\"'\u2018](/[^\"'\u2019]+)[\"'\u2019]")
_BARE = re.compile(r"(?:^|[\s:])(/[^\s:;,]+)")
_PORT = re.compile(r"port:? (\d+)|\]:(\d+)|', (\d+)\)|:(\d{4,5})\b")
_HOST = re.compile(r"host='([^']+)'|https?://([^/'\" ]+)|resolve host:? (\S+)|connect to (\S+) port")
_MODULE = re.compile(r"No module named '?([\w.-]+)|([\w./+-]+\.so[\d.]*): cannot open", re.IGNORECASE)
_CONTEXT = re.compile(r"estimated maximum model length is (\d+)|stored in KV cache \((\d+)\)", re.IGNORECASE)


class Mount(NamedTuple):
    """A volume mount. ``source`` is the volume's type (a field such as hostPath), ``detail`` the value of that
    field.
    """

    path: str
    name: str
    source: str
    detail: Object


class _Error(NamedTuple):
    pod: Object
    end: ContainerExit
    line: str

    @property
    def path(self) -> str | None:
        """Return the file or directory that the line names."""
        return _first(_QUOTED, self.line) or _first(_BARE, self.line)

    @property
    def mount(self) -> Mount | None:
        """Return the mount that contains the path; None if the path is in the image."""
        inside = [item for item in _mounts(self.pod, self.end.container) if _is_below(self.path or "", item.path)]
        return max(inside, key=lambda item: len(item.path), default=None)


_Answer = tuple[Sentence, Sentence, dict[str, object]]


def program_error(cause: str, pod: Object, end: ContainerExit, line: str) -> _Answer:
    """Return what went wrong, the fix and the numbers for a cause of
    :data:`~gpuctl.reading.why.log_patterns.PROGRAM_CAUSES`.

    :param line: the line of the log that shows it.
    """
    return _KINDS[cause](_Error(pod, end, line))


def _kv_cache(error: _Error) -> _Answer:
    most = _first(_CONTEXT, error.line)
    option = f"`--max-model-len {most}`" if most else say("a shorter context (vLLM: `--max-model-len`)")
    fix = say(
        "{option}, a larger share of the GPU (`--gpu-memory-utilization 0.95`), or more GPUs for each replica "
        "(`resources.gpu` with `--tensor-parallel-size`)",
        option=option,
    )
    what = say("the GPU memory that is left for the KV cache is too small for the model's context")
    return what, fix, {"maximumContext": int(most) if most else None}


def _unsupported(error: _Error) -> _Answer:
    fix = say(
        "use an image whose PyTorch or CUDA is built for this GPU (a newer one for newer GPUs), or another "
        "`resources.gpu-type`: {command} shows what there is",
        command=command_line("get gpu-types"),
    )
    node = error.end.node
    return say("the program has no code for the GPU of {node}", node=node), fix, {"node": node}


def _disk_full(error: _Error) -> _Answer:
    mount = error.mount
    if mount is None:
        where = say("the disk of the container")
        fix = say("write to a mounted volume (`storage.workdirs`), not into the container")
    elif mount.source == "persistentVolumeClaim":
        where = say("the claim {name}", name=mount.detail.get("claimName"))
        fix = say("delete what is not needed in {path}, or enlarge {where}", path=mount.path, where=where)
    elif mount.source == "hostPath":
        where = say("the disk of {node}", node=error.end.node)
        fix = say(
            "delete what is not needed in {path} on {node}, or use a claim (`pvc`)",
            path=mount.detail.get("path"),
            node=error.end.node,
        )
    else:
        where = say("the volume {name}", name=mount.name)
        fix = say("write less to {path}, or enlarge the volume", path=mount.path)
    return say("{where} has no space left", where=where), fix, {"path": error.path}


def _permission(error: _Error) -> _Answer:
    mount, path = error.mount, error.path
    what = say("the program may not use {path}", path=path) if path else say("the program lacks a permission")
    numbers: dict[str, object] = {"path": path, "volume": mount.name if mount else None}
    if "read-only" in error.line.casefold():
        fix = say("remove `readOnly` of the workdir, or write to another")
        return say("{what}, which is mounted read-only", what=what), fix, numbers
    if mount is not None and mount.source == "hostPath":
        fix = say(
            "on {node} let the user of the image own {path} (what kubelet has created belongs to root), use a claim "
            "(`pvc`), or run as root: `podPatch: {{securityContext: {{runAsUser: 0}}}}`",
            node=error.end.node,
            path=mount.detail.get("path"),
        )
    elif mount is not None:
        fix = say(
            "let the volume belong to a group of the image's user, here with the number 1000: "
            "`podPatch: {{securityContext: {{fsGroup: 1000}}}}`"
        )
    else:
        fix = say("write to a directory of `storage.workdirs`, or let the user of the image own this one in the image")
    return what, fix, numbers


def _module(error: _Error) -> _Answer:
    name = _first(_MODULE, error.line)
    if name is not None and ".so" in name:
        fix = say("install its package in the image")
        return say("the library {name} is not in the image", name=name), fix, {"library": name}
    what = say("a Python module is not in the image")
    if name:
        what = say("the Python module {name} is not in the image", name=name)
    fix = say(
        "install it in the image; for code of your own set `PYTHONPATH`, or `environment.workdir`, to its directory"
    )
    return what, fix, {"module": name}


def _file(error: _Error) -> _Answer:
    path, mount = error.path, error.mount
    what = say("a file that the program opens does not exist in the pod")
    if path:
        what = say("{path} does not exist in the pod", path=path)
    if mount is None:
        below = "" if path is not None else say("; a relative path is one below `environment.workdir`")
        fix = say(
            "put it into the image, mount the volume that has it (`storage.workdirs`), or correct the path{below}",
            below=below,
        )
    elif mount.source == "hostPath":
        fix = say(
            "check that it is in {path} on {node}: each node has its own; a claim (`pvc`) is shared by all",
            path=mount.detail.get("path"),
            node=error.end.node,
        )
    else:
        fix = say(
            "check that it is in the volume mounted at {path}; if not, put it there, or correct the path",
            path=mount.path,
        )
    return what, fix, {"path": path}


def _hub(error: _Error) -> _Answer:
    host, node = _first(_HOST, error.line), error.end.node
    fix = say(
        "check that {node} reaches it, with a proxy if needed (`HTTPS_PROXY` in `environment.env`); without Internet "
        "set `HF_ENDPOINT` to a mirror, or mount the model and name its path",
        node=node,
    )
    where = host or say("a host that the program loads from")
    return say("{host} cannot be reached", host=where), fix, {"host": host, "node": node}


def _address(error: _Error) -> _Answer:
    port = _first(_PORT, error.line)
    what = say("port {port} is taken", port=port) if port else say("a port that the program listens on is taken")
    fix = say("start one server for each port in the pod, or give one of them another port")
    if error.pod["spec"].get("hostNetwork"):
        fix = say(
            "choose another port: the pod uses the network of {node} (hostNetwork), whose ports pods share",
            node=error.end.node,
        )
    return what, fix, {"port": int(port) if port else None}


def _rendezvous(error: _Error) -> _Answer:
    fix = say(
        "start all nodes with the `MASTER_ADDR`, `MASTER_PORT` and number of nodes that are set for them; check that "
        "the first pod (rank 0) runs and listens on all addresses"
    )
    return say("the processes of the training did not find each other"), fix, {"node": error.end.node}


_KINDS: dict[str, Callable[[_Error], _Answer]] = {
    "kv-cache-too-small": _kv_cache,
    "gpu-unsupported": _unsupported,
    "disk-full": _disk_full,
    "permission-denied": _permission,
    "module-missing": _module,
    "file-missing": _file,
    "hub-unreachable": _hub,
    "address-in-use": _address,
    "rendezvous-failed": _rendezvous,
}


def _first(pattern: re.Pattern[str], line: str) -> str | None:
    match = pattern.search(line)
    return next((text for text in match.groups() if text), None) if match else None


def _mounts(pod: Object, container: str) -> Iterator[Mount]:
    spec = pod["spec"]
    volumes = {item["name"]: item for item in spec.get("volumes") or []}
    for mount in next(
        (item.get("volumeMounts") or [] for item in containers_of(spec) if item["name"] == container), []
    ):
        volume = volumes.get(mount["name"]) or {}
        source = next((key for key in volume if key != "name"), "emptyDir")
        yield Mount(mount["mountPath"], mount["name"], source, volume.get(source) or {})


def _is_below(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory.rstrip('/')}/")
