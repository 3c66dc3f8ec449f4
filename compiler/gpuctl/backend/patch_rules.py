"""The rules of ``podPatch``: what a patch may not set, and policies of the platform that the merged pod keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuctl.backend.device_claims import GPU_CLAIM
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.pod_merge import key_of
from gpuctl.backend.pod_problems import PodProblem, strings_at, values_at
from gpuctl.frontend.command_advice import advise_args, advise_command
from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.frontend.document import Document
from gpuctl.frontend.exec_limits import LONG_ARGUMENT, LONG_VARIABLE, too_long
from gpuctl.frontend.platform_restrictions import (
    MODEL_ENV,
    disallowed_image,
    reserved_variables,
    visible_devices_problem,
)
from gpuctl.language.environment_block import Environment
from gpuctl.language.gpu_cards import CARDS
from gpuctl.language.helper_block import HelperContainer
from gpuctl.language.kinds import Job
from gpuctl.language.names import MAIN_CONTAINER
from gpuctl.language.sentences import Sentence, Template, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.list_keys import LIST_KEYS

SHARES = frozenset(
    name
    for chips in (CARDS["hami"]["nvidia"], CARDS["volcano"]["nvidia"])
    for card in chips.values()
    if card.share is not None
    for name in (card.share.number, *card.share.parts)
) - {"nvidia.com/gpu"}
"""Extended resources of HAMi and Volcano that ``gpu-share`` sets on NVIDIA cards."""

_NVIDIA_DOMAINS = ("nvidia.com/", "volcano.sh/vgpu")
FORBIDDEN_FIELDS = {
    "hostname": Template("the pod's host name belongs to its controller"),
    "hostnameOverride": Template("the pod's host name belongs to its controller"),
    "setHostnameAsFQDN": Template("the pod's host name belongs to its controller"),
    "subdomain": Template("the pod's subdomain is set by gpuctl"),
    "priorityClassName": Template("the priority is `job.priority`"),
    "priority": Template("the priority is `job.priority`"),
    "preemptionPolicy": Template("the priority is `job.priority`; preemption is set in the platform's `priorities`"),
    "overhead": Template("the overhead of a pod is set by its RuntimeClass"),
    "nodeName": Template("placing a pod on a node by name bypasses the scheduler; use a pool, or nodeSelector"),
    "ephemeralContainers": Template("they are added to running pods by `kubectl debug` only"),
}
"""Field of a pod that no patch may set -> the reason."""
_ARGUMENTS = (
    *("command[]", "args[]", "lifecycle.postStart.exec.command[]", "lifecycle.preStop.exec.command[]"),
    *(f"{probe}.exec.command[]" for probe in ("startupProbe", "readinessProbe", "livenessProbe")),
)


def has_step(value: Any, step: str | int) -> bool:
    """Return True if a value has the next part of a path."""
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


def policy_problems(context: Context, model: Job, pod: Object) -> Iterator[PodProblem]:
    """Yield violations of the platform's policies for pods: registries of images, argument sizes, and visible cards."""
    yield from foreign_images(context, model, pod)
    yield from _too_long(model, pod)
    if "nvidia" not in context.settings.used_vendors:
        return
    for field in ("containers", "initContainers"):
        for index, container in enumerate(pod.get(field, [])):
            for position, variable in enumerate(container.get("env", [])):
                shown = visible_devices_problem(variable["name"], variable.get("value"), has_gpu=has_nvidia(container))
                if shown is not None:
                    yield PodProblem((field, index, "env", position), *shown, code="GPU220")


def foreign_images(context: Context, model: Job, spec: Object) -> Iterator[PodProblem]:
    """Yield images in a pod's spec, or a part of it, that the platform disallows, except the document's own."""
    registries = context.settings.platform.image.registries
    own = {model.environment.image, *(helper.image for _, helper in model.helpers)}
    if model.code is not None:
        own.add(context.settings.platform.code.image)
    own |= {artifact.image for artifact in model.storage.models}
    for pattern in ("containers[].image", "initContainers[].image", "volumes[].image.reference"):
        for place, image in strings_at(spec, pattern):
            foreign = disallowed_image(image, registries)
            if foreign is not None and image not in own:
                yield PodProblem(place, *foreign, code="GPU602")


def _too_long(model: Job, pod: Object) -> Iterator[PodProblem]:
    """Yield arguments and variables that are too long, except the document's own, which its checks report."""
    containers: list[Environment | HelperContainer] = [model.environment, *(helper for _, helper in model.helpers)]
    own: set[str | None] = {text for container in containers for text in (*container.command, *container.args)}
    own |= {variable.value for container in containers for variable in container.variables}
    for field in ("containers", "initContainers"):
        for pattern in _ARGUMENTS:
            for place, text in values_at(pod, f"{field}[].{pattern}"):
                long = too_long(LONG_ARGUMENT, text) if text not in own else None
                if long is not None:
                    yield PodProblem(place, *long, code="GPU222")
        for place, variable in values_at(pod, f"{field}[].env[]"):
            value = variable.get("value") or ""
            long = too_long(LONG_VARIABLE, f"{variable['name']}={value}") if value not in own else None
            if long is not None:
                yield PodProblem(place, *long, code="GPU222")


def has_nvidia(container: Object) -> bool:
    """Return True if a device plugin gives the container NVIDIA cards or shares, and names them in a variable."""
    return any(name.startswith(_NVIDIA_DOMAINS) for name in container.get("resources", {}).get("limits", {}))


def patch_problems(
    context: Context, document: Document, model: Job, pod: Object, patch: Object
) -> Iterator[PodProblem]:
    """Yield the problems of a patch. ``pod``: the result of the patches before it."""
    found = list(problems_without_pod(context, document, model, patch))
    yield from found
    if any(not problem.path or problem.path[0] in ("containers", "initContainers") for problem in found):
        return
    for field in ("containers", "initContainers"):
        present = {container["name"] for container in pod.get(field, [])}
        for index, container in enumerate(patch.get(field, [])):
            name = container.get("name")
            is_ours = name == MAIN_CONTAINER and field == "containers"
            if not is_ours and "image" not in container and name not in present:
                message = say("the container `{name}` has no image; no init container exists yet", name=name)
                if present:
                    message = say(
                        "the container `{name}` has no image; only {names:and} {number:exists/exist} already",
                        name=name,
                        names=[f"`{other}`" for other in sorted(present)],
                        number=len(present),
                    )
                yield PodProblem((field, index), message)


def problems_without_pod(context: Context, document: Document, model: Job, patch: Object) -> Iterator[PodProblem]:
    """Yield the problems of a patch that do not depend on the pod."""
    if context.check_pod_spec is not None:
        invalid = [
            PodProblem(path, message, hint or _as_list(document, patch, path))
            for path, message, hint in context.check_pod_spec(patch, partial=True)
        ]
        yield from invalid
        wrong = {problem.path[0] if problem.path else "" for problem in invalid}
        if "" in wrong:
            return
        patch = {field: value for field, value in patch.items() if field not in wrong}
    for field, reason in FORBIDDEN_FIELDS.items():
        if field in patch:
            yield PodProblem((field,), say("`{field}` cannot be patched: {reason}", field=field, reason=say(reason)))
    if model.kind == "training":
        for field, instead in (("restartPolicy", "job.retries"), ("activeDeadlineSeconds", "job.max_runtime")):
            if field in patch:
                yield PodProblem(
                    (field,), say("`{field}` cannot be patched: use `{instead}`", field=field, instead=instead)
                )
    else:
        if patch.get("restartPolicy", "Always") != "Always":
            yield PodProblem(("restartPolicy",), say("the pods of a service are always restarted"))
        if "activeDeadlineSeconds" in patch:
            yield PodProblem(("activeDeadlineSeconds",), say("the pods of a service have no deadline"))
    for key in patch.get("nodeSelector", {}):
        if key in (context.label("pool"), context.label("gpu-type")):
            message = say("`{key}` is the platform's own label: use resources.pool and resources.gpu-type", key=key)
            yield PodProblem(("nodeSelector", key), message)
    for index, claim in enumerate(patch.get("resourceClaims", [])):
        if claim.get("name") == GPU_CLAIM and context.settings.device_class_of(model.resources) is not None:
            message = say("the claim `{name}` has the cards of resources.gpu", name=GPU_CLAIM)
            yield PodProblem(("resourceClaims", index, "name"), message, say("give this claim another name"))
    yield from _unkeyed(patch, ())
    for index, container in enumerate(patch.get("containers", [])):
        if container.get("name") == MAIN_CONTAINER:
            for problem in _main_container_problems(context, model, container):
                yield problem._replace(path=("containers", index, *problem.path))


def _as_list(document: Document, patch: Object, path: FieldPath) -> Sentence | None:
    """Return the hint for a command or arguments that are one text."""
    value: Any = patch
    for step in path:
        if not has_step(value, step):
            return None
        parent, value = value, value[step]
    if not isinstance(value, str) or path[-1] not in ("command", "args"):
        return None
    indent = document.column(("podPatch", *path))
    other = parent.get("args" if path[-1] == "command" else "command")
    words = [word for word in other if isinstance(word, str)] if isinstance(other, list) else []
    return (
        advise_command(value, args=words, indent=indent)
        if path[-1] == "command"
        else advise_args(value, words, indent=indent)
    )


def _main_container_problems(context: Context, model: Job, container: Object) -> Iterator[PodProblem]:
    """Yield fields of the main container that a patch may not set."""
    reserved = set(reserved_variables(model))
    if model.kind == "inference" and model.model is not None:
        reserved |= {name for name, source in MODEL_ENV.items() if getattr(model.model, source) is not None}
    for position, variable in enumerate(container.get("env", [])):
        if variable.get("name") in reserved:
            yield PodProblem(
                ("env", position), say("the variable `{name}` is reserved: gpuctl sets it", name=variable["name"])
            )
    gpus = context.settings.card_resources | context.settings.share_resources.keys() | SHARES
    if model.resources.gpu_profile is not None:
        gpus |= context.settings.gpu_resources
    for kind in ("limits", "requests"):
        for resource in container.get("resources", {}).get(kind, {}):
            if resource in gpus:
                message = say(
                    "`{resource}` cannot be patched: pool, quota and placement follow resources.gpu", resource=resource
                )
                yield PodProblem(
                    ("resources", kind, resource), message, say("use resources.gpu, gpu-vendor and gpu-share")
                )


def _unkeyed(parent: Any, path: FieldPath) -> Iterator[PodProblem]:
    """Yield list entries without their merge key, or with one that occurs twice."""
    if isinstance(parent, list):
        for index, item in enumerate(parent):
            yield from _unkeyed(item, (*path, index))
        return
    for field, value in parent.items() if isinstance(parent, dict) else ():
        if field in LIST_KEYS and isinstance(value, list) and all(isinstance(item, dict) for item in value):
            seen: set[Any] = set()
            for index, item in enumerate(value):
                key = key_of(field, item)
                if key is None:
                    needed = LIST_KEYS[field][0]
                    yield PodProblem(
                        (*path, field, index),
                        say("an entry of {field} needs `{key}`, by which it is merged", field=field, key=needed),
                    )
                elif key in seen:
                    yield PodProblem(
                        (*path, field, index), say("`{key}` is listed twice in {field}", key=key[0], field=field)
                    )
                seen.add(key)
        yield from _unkeyed(value, (*path, field))
