"""``podPatch``: a partial PodSpec merged into the pod last, as Kubernetes' strategic merge does it.

Lists that have a merge key (containers, env, volumes ...) are merged by it; tolerations are added to ours; other
lists are replaced. Required node affinity is narrowed, never widened: the pool's terms stay. What a patch may not
touch is an error, because commands find and select pods by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuctl.backend.context import Context, Object
from gpuctl.frontend.checks import MODEL_ENV, RESERVED_ENV
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job

Path = tuple[str | int, ...]

# patchMergeKey of each list of core/v1 that has one.
MERGE_KEYS: dict[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}
_ADDED = frozenset({"tolerations", "envFrom", "schedulingGates"})
_SOURCES = frozenset(
    {
        *(
            "hostPath",
            "emptyDir",
            "persistentVolumeClaim",
            "nfs",
            "configMap",
            "secret",
            "csi",
            "ephemeral",
            "projected",
        ),
        *("value", "valueFrom"),
    }
)
_FORBIDDEN = {
    "hostname": "the pod's host name belongs to its controller",
    "subdomain": "the pod's subdomain is set by gpuctl",
    "priorityClassName": "the priority is `job.priority`",
    "priority": "the priority is `job.priority`",
    "nodeName": "placing a pod on a node by name goes around the scheduler; use a pool, or nodeSelector",
    "ephemeralContainers": "they are added to running pods by `kubectl debug` only",
}


def apply_pod_patches(context: Context, document: Document, model: Job, pod: Object) -> None:
    """Merge the pool's patch from the platform and then the document's own into the pod's spec, in place."""
    external = context.settings.external_pools.get(model.resources.pool)
    if external is not None and external.podPatch is not None:
        _apply(context, document, model, pod, external.podPatch, ("resources", "pool"), of_pool=True)
    if model.podPatch is not None:
        _apply(context, document, model, pod, model.podPatch, ("podPatch",), of_pool=False)


def _apply(
    context: Context, document: Document, model: Job, pod: Object, patch: Object, where: Path, *, of_pool: bool
) -> None:
    problems = list(_problems(context, model, patch))
    for path, message in problems:
        if of_pool:
            text = ".".join(str(part) for part in path)
            message = f"the platform's podPatch for pool `{model.resources.pool}` is wrong at {text}: {message}"
        hint = "see the Kubernetes reference of PodSpec" if not of_pool else "correct it in the platform file"
        context.report(document, "GPU219", message, where if of_pool else (*where, *path), hint, key=True)
    if not problems:
        merge_spec(pod, patch)


def _problems(context: Context, model: Job, patch: Object) -> Iterator[tuple[Path, str]]:
    invalid = list(context.check_pod_spec(patch)) if context.check_pod_spec is not None else []
    yield from invalid
    if invalid:
        return
    for field, reason in _FORBIDDEN.items():
        if field in patch:
            yield (field,), f"`{field}` cannot be patched: {reason}"
    if model.kind == "training":
        for field, instead in (("restartPolicy", "job.retries"), ("activeDeadlineSeconds", "job.max_runtime")):
            if field in patch:
                yield (field,), f"`{field}` cannot be patched: use `{instead}`"
    elif patch.get("restartPolicy", "Always") != "Always":
        yield ("restartPolicy",), "the pods of a service are always restarted"
    for key in patch.get("nodeSelector", {}):
        if key in (context.label("pool"), context.label("gpu-type")):
            yield (
                ("nodeSelector", key),
                f"`{key}` is the platform's own label: use resources.pool and resources.gpu-type",
            )
    for field, key in MERGE_KEYS.items():
        yield from _unkeyed(patch, field, key, ())
    reserved = set(RESERVED_ENV) if model.kind == "training" else set()
    if model.kind == "inference" and model.model is not None:
        reserved |= {name for name, source in MODEL_ENV.items() if getattr(model.model, source) is not None}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(patch.get(field, [])):
            for inner in ("env", "volumeMounts", "ports"):
                yield from _unkeyed(container, inner, MERGE_KEYS[inner], (field, index))
            if container.get("name") != "main" or field != "containers":
                if "image" not in container:
                    yield (
                        (field, index),
                        f"the container `{container.get('name')}` has no image; only `main` exists already",
                    )
                continue
            for position, variable in enumerate(container.get("env", [])):
                if variable.get("name") in reserved:
                    yield (
                        (field, index, "env", position),
                        f"the variable `{variable['name']}` is reserved: gpuctl sets it",
                    )


def _unkeyed(parent: Object, field: str, key: str, path: Path) -> Iterator[tuple[Path, str]]:
    seen: set[Any] = set()
    for index, item in enumerate(parent.get(field, [])):
        if key not in item:
            yield (*path, field, index), f"an entry of {field} needs `{key}`, by which it is merged"
        elif field != "topologySpreadConstraints" and item[key] in seen:
            yield (*path, field, index), f"`{item[key]}` stands twice in {field}"
        else:
            seen.add(item[key])


def merge_spec(base: Object, patch: Object) -> None:
    """Merge a partial PodSpec into another, in place."""
    for key, value in patch.items():
        if key not in base:
            base[key] = _copy(value)
        elif key == "requiredDuringSchedulingIgnoredDuringExecution" and "nodeSelectorTerms" in value:
            base[key] = {"nodeSelectorTerms": _narrowed(base[key]["nodeSelectorTerms"], value["nodeSelectorTerms"])}
        elif isinstance(value, dict) and isinstance(base[key], dict):
            merge_spec(base[key], value)
        elif isinstance(value, list) and key in MERGE_KEYS:
            _merge_list(base[key], value, MERGE_KEYS[key])
        elif isinstance(value, list) and key in _ADDED:
            base[key] = [*base[key], *(_copy(item) for item in value if item not in base[key])]
        else:
            base[key] = _copy(value)


def _merge_list(base: list[Object], patch: list[Object], key: str) -> None:
    by_key = {item[key]: item for item in base if key in item}
    for item in patch:
        own = by_key.get(item[key])
        if own is None:
            base.append(_copy(item))
        elif _has_one_source(own) and _has_one_source(item):
            # A volume has one source and a variable one value: the patch's takes the place of ours.
            own.clear()
            own.update(_copy(item))
        else:
            merge_spec(own, item)


def _has_one_source(item: Object) -> bool:
    """Whether it is a volume or a variable, of whose fields beside the name only one may be set."""
    return not _SOURCES.isdisjoint(item)


def _narrowed(ours: list[Object], theirs: list[Object]) -> list[Object]:
    """Terms that hold where one of ours and one of theirs holds: terms are alternatives, their expressions all hold."""
    terms = []
    for own in ours:
        for other in theirs:
            term: Object = {}
            for part in ("matchExpressions", "matchFields"):
                joined = [*own.get(part, []), *(item for item in other.get(part, []) if item not in own.get(part, []))]
                if joined:
                    term[part] = _copy(joined)
            terms.append(term)
    return terms


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def diff_spec(base: Object, target: Object) -> Object:
    """The patch that turns ``base`` into ``target`` by :func:`merge_spec`; it removes nothing."""
    patch: Object = {}
    for key, value in target.items():
        own = base.get(key)
        if own == value:
            continue
        if own is None:
            patch[key] = _copy(value)
        elif key == "requiredDuringSchedulingIgnoredDuringExecution":
            patch[key] = {"nodeSelectorTerms": _widened(own["nodeSelectorTerms"], value["nodeSelectorTerms"])}
        elif isinstance(value, dict) and isinstance(own, dict):
            inner = diff_spec(own, value)
            if inner:
                patch[key] = inner
        elif isinstance(value, list) and key in MERGE_KEYS:
            items = _diff_list(own, value, MERGE_KEYS[key])
            if items:
                patch[key] = items
        elif isinstance(value, list) and key in _ADDED:
            patch[key] = [_copy(item) for item in value if item not in own]
        else:
            patch[key] = _copy(value)
    return patch


def _diff_list(base: list[Object], target: list[Object], key: str) -> list[Object]:
    by_key = {item[key]: item for item in base if key in item}
    items = []
    for item in target:
        own = by_key.get(item.get(key))
        if own is None or (_has_one_source(own) and own != item):
            if own != item:
                items.append(_copy(item))
            continue
        inner = diff_spec(own, item)
        if inner:
            items.append({key: item[key], **inner})
    return items


def _widened(ours: list[Object], narrowed: list[Object]) -> list[Object]:
    """The terms that :func:`_narrowed` joined to ours: those of our first term, without its own expressions."""
    others = []
    for term in narrowed[: max(1, len(narrowed) // max(1, len(ours)))]:
        other: Object = {}
        for part in ("matchExpressions", "matchFields"):
            rest = [item for item in term.get(part, []) if item not in ours[0].get(part, [])]
            if rest:
                other[part] = _copy(rest)
        others.append(other)
    return others
