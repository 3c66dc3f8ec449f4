"""Checks of mounts: mounts inside mounts, and data on the disks of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity
from gpuctl.frontend.document import Document, service_of
from gpuctl.frontend.platform_restrictions import forbidden_host_path, is_device, is_system_path
from gpuctl.language.display_text import shorten
from gpuctl.language.kinds import Job, nodes_of
from gpuctl.language.path_fields import normal_path
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.language.settings import Settings
from gpuctl.language.storage_block import ONE_NODE_ACCESS

_ONE_NODE = Template("the claim `{name}` is created with `{access}`, which lets one node mount it: {several}")
_ONE_POD = Template("the claim `{name}` is created with `{access}`, which lets one pod mount it: {several}")
_SeveralPods = Literal["nodes", "array", "autoscaling", "replicas"]
_MANY_PODS: dict[_SeveralPods, Template] = {
    "nodes": Template("the job runs on {number} nodes"),
    "array": Template("the runs of the array may be on several nodes"),
    "autoscaling": Template("the job has up to {number} replicas"),
    "replicas": Template("the job has {number} replicas"),
}
_OWN_DISKS: dict[_SeveralPods, Template] = {
    "nodes": Template("each of the {number} nodes has its own"),
    "array": Template("the runs of the array may be on several nodes"),
    "autoscaling": Template("replicas on other nodes do not have it"),
    "replicas": Template("each of the {number} replicas sees the disk of its own node"),
}


def check_storage(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report mounts that hide each other, paths that a job may not mount, and data that exists on one node only."""
    yield from _nested_mounts(document, model)
    yield from _below_read_only(document, model)
    if model.storage.models and not settings.serves_image_volumes:
        message = say(
            "`storage.models` needs Kubernetes 1.35 or newer; the platform's is {version}",
            version=settings.kubernetes_version,
        )
        hint = say("have the platform set `kubernetes.version` to the cluster's, if that is newer")
        yield document.diagnostic(Severity.ERROR, "GPU213", message, ("storage", "models"), hint, key=True)
    for index, workdir in enumerate(model.storage.workdirs):
        path: FieldPath = ("storage", "workdirs", index, "path")
        if settings.is_on_node(workdir):
            forbidden = forbidden_host_path(workdir.path, settings)
            # Mounts in the platform's defaults are the platform's decision.
            if forbidden is not None and document.is_written(path):
                yield document.diagnostic(Severity.ERROR, "GPU423", forbidden[0], path, forbidden[1])
    yield from _one_node(document, model, settings)
    yield from _claims_of_one_node(document, model)


def _nested_mounts(document: Document, model: Job) -> Iterator[Diagnostic]:
    workdirs = model.storage.workdirs
    for index, outer_index in _nested([workdir.target for workdir in workdirs]):
        inner, outer = workdirs[index], workdirs[outer_index]
        options = ("readOnly", "pvc", "nfs", "emptyDir")
        different = [name for name in options if getattr(inner, name) != getattr(outer, name)]
        if different:
            yield document.diagnostic(
                Severity.WARNING,
                "GPU411",
                say(
                    "`{inner}` lies below the workdir `{outer}` and has another {option}",
                    inner=inner.target,
                    outer=outer.target,
                    option=different[0],
                ),
                ("storage", "workdirs", index, "path"),
                say("mounts hide what is below them: give both the same options, or mount them apart"),
                related=(
                    Related(say("the workdir around it"), document.span(("storage", "workdirs", outer_index, "path"))),
                ),
            )
    if model.kind == "inference" and model.model is not None and model.model.cache:
        for target, noun, place in model.storage.targets:
            if target == "/cache/model":
                message = say(
                    "`model.cache` mounts scratch space at /cache/model, where a {noun} is mounted too", noun=noun
                )
                yield document.diagnostic(
                    Severity.ERROR, "GPU218", message, ("storage", *place, "path"), say("remove one")
                )


def _below_read_only(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report mounts below models and files of a ConfigMap or Secret, and what is not a workdir below a read-only one.

    The container runtime creates the directory to mount at, which it cannot do in a read-only volume.
    """
    storage = model.storage
    targets = storage.targets
    read_only = [workdir.readOnly for workdir in storage.workdirs]
    read_only += [mount.emptyDir is None for mount in storage.mounts]
    read_only += [True] * len(storage.models)
    for index, outer_index in _nested([target for target, _, _ in targets]):
        (inner, _, place), (outer, noun, around) = targets[index], targets[outer_index]
        if read_only[outer_index] and (place[0], around[0]) != ("workdirs", "workdirs"):
            yield document.diagnostic(
                Severity.WARNING,
                "GPU411",
                say(
                    "`{inner}` lies below the {noun} `{outer}`, which is read-only: no directory can be created there",
                    inner=inner,
                    noun=noun,
                    outer=outer,
                ),
                ("storage", *place, "path"),
                say("mount them apart, unless the directory exists in the volume"),
                related=(Related(say("the {noun} around it", noun=noun), document.span(("storage", *around, "path"))),),
            )


def _nested(paths: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the index of each path that is below another one, with the index of the nearest enclosing path."""
    # Sorted with a final slash, everything below a path directly follows it.
    around: list[tuple[str, int]] = []
    for path, index in sorted((path.rstrip("/") + "/", index) for index, path in enumerate(paths)):
        while around and not path.startswith(around[-1][0]):
            around.pop()
        if around and around[-1][0] != path:
            yield index, around[-1][1]
        around.append((path, index))


def _one_node(document: Document, model: Job, settings: Settings) -> Iterator[Diagnostic]:
    """Report data on a node's disk in a job whose pods run on several nodes, or move."""
    patch: dict[str, Any] = model.podPatch if isinstance(model.podPatch, dict) else {}
    selector = patch.get("nodeSelector")
    if isinstance(selector, dict) and "kubernetes.io/hostname" in selector:
        return
    found: list[tuple[str, FieldPath]] = [
        (workdir.path, ("storage", "workdirs", index, "path"))
        for index, workdir in enumerate(model.storage.workdirs)
        if workdir.type is None and settings.is_on_node(workdir) and _is_data(workdir.path)
    ]
    found += list(_patched(patch))
    reason = _pods(model) if found else None
    if reason is None:
        return
    what, hint = reason
    message = say(
        "{paths:few} {number:is/are} on the disk of a node: {what}",
        paths=[f"`{shorten(path)}`" for path, _ in found],
        number=len(found),
        what=what,
    )
    yield document.diagnostic(Severity.WARNING, "GPU422", message, found[0][1], hint)


def _claims_of_one_node(document: Document, model: Job) -> Iterator[Diagnostic]:
    """Report claims that a job creates for one node or pod, and mounts on several."""
    several = _several_pods(model)
    if several is None:
        return
    why, number = several
    pods = say(_MANY_PODS[why], number=number)
    for name, (create, index) in model.storage.new_claims.items():
        if create.access not in ONE_NODE_ACCESS:
            continue
        template = _ONE_NODE if create.access == "ReadWriteOnce" else _ONE_POD
        given = document.is_written(path := ("storage", "workdirs", index, "pvc", "create", "access"))
        yield document.diagnostic(
            Severity.WARNING,
            "GPU520",
            say(template, name=name, access=create.access, several=pods),
            path if given else path[:-1],
            say("write `access: ReadWriteMany`, and a `class` that supports it"),
            key=not given,
        )


def _several_pods(model: Job) -> tuple[_SeveralPods, int] | None:
    """Return why several pods of a job run at a time, and their number; None for one. The number of an array's runs at
    a time is not known.
    """
    nodes = model.total_nodes if model.kind == "training" else nodes_of(model)
    if nodes > 1:
        return "nodes", nodes
    if model.kind == "training":
        return None if model.array is None else ("array", 0)
    if model.kind == "inference" and model.autoscaling is not None and model.autoscaling.enabled:
        most = model.autoscaling.maxReplicas or 1
        return ("autoscaling", most) if most > 1 else None
    service = service_of(model)
    return None if service is None or service.replicas < 2 else ("replicas", service.replicas)


def _is_data(path: str) -> bool:
    """Return True unless a path of the node is a device or part of its system."""
    path = normal_path(path)
    return not is_system_path(path) and not is_device(path)


def _patched(patch: dict[str, Any]) -> Iterator[tuple[str, FieldPath]]:
    """Yield the directories of nodes that a podPatch mounts for data. Devices, sockets and volumes with a `type` are
    left out.
    """
    volumes = patch.get("volumes")
    for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        source = volume.get("hostPath") if isinstance(volume, dict) else None
        if not isinstance(source, dict) or source.get("type"):
            continue
        path = source.get("path")
        if isinstance(path, str) and path.startswith("/") and _is_data(path):
            yield path, ("podPatch", "volumes", index, "hostPath", "path")


def _pods(model: Job) -> tuple[Sentence, Sentence] | None:
    """Return why data on a node's disk is not enough, and the hint; None for a single pod that is never moved."""
    everywhere = say(
        "mount a claim: `pvc: {{claim: NAME}}`; if every node has the same data there, write `type: Directory`"
    )
    several = _several_pods(model)
    if several is not None:
        why, number = several
        return say(_OWN_DISKS[why], number=number), everywhere
    if model.kind == "notebook":
        return (
            say("it stays there when the notebook starts on another node"),
            say("mount a claim: `pvc: {{claim: NAME}}`, or write its `type` to accept that"),
        )
    return None
