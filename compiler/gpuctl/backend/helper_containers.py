"""Lowers ``init`` and ``sidecars`` to init containers, and lifts them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuctl.backend.code_container import CODE_VOLUME
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.variables import env_variable, lift_variables
from gpuctl.backend.visible_devices import no_visible_devices
from gpuctl.frontend.platform_restrictions import VISIBLE_DEVICES
from gpuctl.language.helper_block import HelperContainer
from gpuctl.language.kinds import Job
from gpuctl.language.names import ACTIVITY_CONTAINER, CODE_CONTAINER
from gpuctl.objects.api_resources import Object

Data = dict[str, Any]

_FIXED = {"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "FallbackToLogsOnError"}
_SIDECAR = "Always"
_SHM_VOLUME = "dshm"
_SHARED_VOLUMES = ("workdir-", "mount-", "model-", CODE_VOLUME)


def init_containers(context: Context, model: Job, mounts: Sequence[Object]) -> list[Object]:
    """Return the init containers of a pod: first those of ``init``, then the sidecars.

    :param mounts: the mounts of the program, which they share; shared memory is the program's own.
    """
    shared = [mount for mount in mounts if mount["name"] != _SHM_VOLUME]
    return [_container(context, model, field, helper, shared) for (field, _), helper in model.helpers]


def _container(context: Context, model: Job, field: str, helper: HelperContainer, mounts: Sequence[Object]) -> Object:
    image = helper.image or model.environment.image
    container: Object = {"name": helper.name, "image": image, "imagePullPolicy": _FIXED["imagePullPolicy"]}
    if field == "sidecars":
        container["restartPolicy"] = _SIDECAR
    if helper.command:
        container["command"] = list(helper.command)
    if helper.args:
        container["args"] = list(helper.args)
    hidden = no_visible_devices(context, {variable.name for variable in helper.variables})
    variables = hidden + [env_variable(variable) for variable in helper.variables]
    if variables:
        container["env"] = variables
    amounts = helper.resources.model_dump(exclude_none=True)
    if amounts:
        container["resources"] = {"requests": amounts, "limits": dict(amounts)}
    if mounts:
        container["volumeMounts"] = [dict(mount) for mount in mounts]
    container["terminationMessagePolicy"] = _FIXED["terminationMessagePolicy"]
    return container


def lift_helpers(pod: Object, main: Object, *, has_code: bool) -> Data:
    """Return ``init`` and ``sidecars`` of a pod, without those that only a podPatch can create.

    :param has_code: the pod has a container that fetches code.
    """
    found: dict[str, list[Data]] = {}
    for container in _ours(pod, main, has_code=has_code):
        field = "sidecars" if container.get("restartPolicy") == _SIDECAR else "init"
        if field == "init" and "sidecars" in found:
            break
        data: Data = {"name": container["name"]}
        if container["image"] != main["image"]:
            data["image"] = container["image"]
        data |= {key: container[key] for key in ("command", "args") if key in container}
        variables = lift_variables(container.get("env", []))
        if variables and (variables[0]["name"], variables[0].get("value")) == (VISIBLE_DEVICES, "void"):
            del variables[0]
        if variables:
            data["env"] = variables
        limits, requests = (container.get("resources", {}).get(kind, {}) for kind in ("limits", "requests"))
        amounts = {name: limits[name] for name in ("cpu", "memory") if limits.get(name, "") == requests.get(name)}
        if amounts:
            data["resources"] = amounts
        found.setdefault(field, []).append(data)
    return dict(found)


def _ours(pod: Object, main: Object, *, has_code: bool) -> Iterator[Object]:
    """Yield the init containers with the fields that lowering sets, up to the first without them."""
    mounts = [mount for mount in main.get("volumeMounts", []) if mount["name"].startswith(_SHARED_VOLUMES)]
    for container in pod.get("initContainers", []):
        if (container["name"] == CODE_CONTAINER and has_code) or container["name"] == ACTIVITY_CONTAINER:
            continue
        own = container.get("volumeMounts", [])
        if any(container.get(key) != value for key, value in _FIXED.items()) or any(item not in own for item in mounts):
            return
        yield container
