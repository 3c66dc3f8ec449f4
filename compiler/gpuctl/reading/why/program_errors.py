"""Findings for program errors in a log that have a cause of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuctl.objects.api_resources import Object
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


_Answer = tuple[str, str, dict[str, object]]


def program_error(cause: str, pod: Object, end: ContainerExit, line: str) -> tuple[str, str, dict[str, object]]:
    """Return what went wrong, the fix and the numbers for a cause of
    :data:`~gpuctl.reading.why.log_patterns.PROGRAM_CAUSES`.

    :param line: the line of the log that shows it.
    """
    return _KINDS[cause](_Error(pod, end, line))


def _kv_cache(error: _Error) -> _Answer:
    most = _first(_CONTEXT, error.line)
    option = f"`--max-model-len {most}`" if most else "a shorter context (vLLM: `--max-model-len`)"
    fix = (
        f"{option}, a larger share of the GPU (`--gpu-memory-utilization 0.95`), or more GPUs for each replica "
        "(`resources.gpu` with `--tensor-parallel-size`)"
    )
    what = "the GPU memory that is left for the KV cache is too small for the model's context"
    return what, fix, {"maximumContext": int(most) if most else None}


def _unsupported(error: _Error) -> _Answer:
    fix = (
        "use an image whose PyTorch or CUDA is built for this GPU (a newer one for newer GPUs), or another "
        "`resources.gpu-type`: `gpuctl get gpu-types` shows what there is"
    )
    return f"the program has no code for the GPU of {error.end.node}", fix, {"node": error.end.node}


def _disk_full(error: _Error) -> _Answer:
    mount = error.mount
    if mount is None:
        where, fix = (
            "the disk of the container",
            "write to a mounted volume (`storage.workdirs`), not into the container",
        )
    elif mount.source == "persistentVolumeClaim":
        where = f"the claim {mount.detail.get('claimName')}"
        fix = f"delete what is not needed in {mount.path}, or enlarge {where}"
    elif mount.source == "hostPath":
        where = f"the disk of {error.end.node}"
        fix = f"delete what is not needed in {mount.detail.get('path')} on {error.end.node}, or use a claim (`pvc`)"
    else:
        where, fix = f"the volume {mount.name}", f"write less to {mount.path}, or enlarge the volume"
    return f"{where} has no space left", fix, {"path": error.path}


def _permission(error: _Error) -> _Answer:
    mount, path = error.mount, error.path
    what = f"the program may not use {path}" if path else "the program lacks a permission"
    numbers: dict[str, object] = {"path": path, "volume": mount.name if mount else None}
    if "read-only" in error.line.casefold():
        return f"{what}, which is mounted read-only", "remove `readOnly` of the workdir, or write to another", numbers
    if mount is not None and mount.source == "hostPath":
        fix = (
            f"on {error.end.node} let the user of the image own {mount.detail.get('path')} (what kubelet has "
            "created belongs to root), use a claim (`pvc`), or run as root: "
            "`podPatch: {securityContext: {runAsUser: 0}}`"
        )
    elif mount is not None:
        fix = (
            "let the volume belong to a group of the image's user, here with the number 1000: "
            "`podPatch: {securityContext: {fsGroup: 1000}}`"
        )
    else:
        fix = "write to a directory of `storage.workdirs`, or let the user of the image own this one in the image"
    return what, fix, numbers


def _module(error: _Error) -> _Answer:
    name = _first(_MODULE, error.line)
    if name is not None and ".so" in name:
        return f"the library {name} is not in the image", "install its package in the image", {"library": name}
    what = f"the Python module {name} is not in the image" if name else "a Python module is not in the image"
    fix = "install it in the image; for code of your own set `PYTHONPATH`, or `environment.workdir`, to its directory"
    return what, fix, {"module": name}


def _file(error: _Error) -> _Answer:
    path, mount = error.path, error.mount
    what = f"{path} does not exist in the pod" if path else "a file that the program opens does not exist in the pod"
    if mount is None:
        fix = "put it into the image, mount the volume that has it (`storage.workdirs`), or correct the path"
        if path is None:
            fix += "; a relative path is one below `environment.workdir`"
    elif mount.source == "hostPath":
        host = mount.detail.get("path")
        fix = f"check that it is in {host} on {error.end.node}: each node has its own; a claim (`pvc`) is shared by all"
    else:
        fix = f"check that it is in the volume mounted at {mount.path}; if not, put it there, or correct the path"
    return what, fix, {"path": path}


def _hub(error: _Error) -> _Answer:
    host, node = _first(_HOST, error.line), error.end.node
    fix = (
        f"check that {node} reaches it, with a proxy if needed (`HTTPS_PROXY` in `environment.env`); without Internet "
        "set `HF_ENDPOINT` to a mirror, or mount the model and name its path"
    )
    return f"{host or 'a host that the program loads from'} cannot be reached", fix, {"host": host, "node": node}


def _address(error: _Error) -> _Answer:
    port = _first(_PORT, error.line)
    what = f"port {port} is taken" if port else "a port that the program listens on is taken"
    fix = "start one server for each port in the pod, or give one of them another port"
    if error.pod["spec"].get("hostNetwork"):
        fix = f"choose another port: the pod uses the network of {error.end.node} (hostNetwork), whose ports pods share"
    return what, fix, {"port": int(port) if port else None}


def _rendezvous(error: _Error) -> _Answer:
    fix = (
        "start all nodes with the `MASTER_ADDR`, `MASTER_PORT` and number of nodes that are set for them; check that "
        "the first pod (rank 0) runs and listens on all addresses"
    )
    return "the processes of the training did not find each other", fix, {"node": error.end.node}


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
    every = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    for mount in next((item.get("volumeMounts") or [] for item in every if item["name"] == container), []):
        volume = volumes.get(mount["name"]) or {}
        source = next((key for key in volume if key != "name"), "emptyDir")
        yield Mount(mount["mountPath"], mount["name"], source, volume.get(source) or {})


def _is_below(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory.rstrip('/')}/")
