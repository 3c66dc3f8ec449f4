"""The pod template of every workload: container, variables, limits."""

from __future__ import annotations

import re
from collections.abc import Collection

from gpuctl.backend.code_container import code_container
from gpuctl.backend.device_claims import pod_claims
from gpuctl.backend.gpu_resources import gpu_amounts, gpu_annotations
from gpuctl.backend.helper_containers import init_containers
from gpuctl.backend.lowering_context import Context
from gpuctl.backend.notebook_activity import activity_container
from gpuctl.backend.object_metadata import job_labels
from gpuctl.backend.pod_network import add_network, rdma_amounts, rdma_variables
from gpuctl.backend.pod_patches import apply_pod_patches
from gpuctl.backend.pod_placement import pod_placement
from gpuctl.backend.pod_security import container_security, pod_security
from gpuctl.backend.pod_topology import topology_annotations
from gpuctl.backend.pod_volumes import MODEL_CACHE, volumes_and_mounts
from gpuctl.backend.policy_checks import check_policy
from gpuctl.backend.service_objects import container_extras, container_ports, drain_seconds
from gpuctl.backend.variables import env_source, env_value, env_variable
from gpuctl.backend.visible_devices import no_visible_devices
from gpuctl.frontend.document import Document, service_of
from gpuctl.frontend.platform_restrictions import MODEL_ENV
from gpuctl.language.environment_block import EnvVar
from gpuctl.language.kinds import Job
from gpuctl.language.names import MAIN_CONTAINER
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import parse_duration

SHARED_PROCESSES = ("hostPID", "shareProcessNamespace")
"""Fields of a pod with which a container's process 1 is not its own program."""
DEFAULT_GRACE = 30
"""Kubernetes' default of a pod's grace period, seconds."""
_REFERENCE = r"(?<!\$)\$\(([^()]*)\)"
"""Matches a reference to a variable in a value; ``$$(NAME)`` is text."""


def pod_template(
    context: Context,
    document: Document,
    model: Job,
    *,
    env: list[Object] | None = None,
    ports: list[Object] | None = None,
    volumes: list[Object] | None = None,
    mounts: list[Object] | None = None,
    spec: Object | None = None,
    name: str | None = None,
) -> Object:
    """Return a PodTemplateSpec.

    :param env: variables before the user's own.
    :param ports: ports of the container besides those of the service block.
    :param volumes: volumes after the document's; ``mounts`` likewise.
    :param spec: further fields of the pod's spec that the kind needs.
    :param name: the workload's name, if it is not the job's.
    """
    pod_volumes, pod_mounts = volumes_and_mounts(context, document, model)
    resources = container_resources(context, model)
    claims = pod_claims(context, document, model, name or model.job.name)
    if claims:
        resources["claims"] = [{"name": claim["name"]} for claim in claims]
    helpers = init_containers(context, model, pod_mounts)
    if model.code is not None:
        helpers.insert(0, code_container(context, document, model, resources.get("limits", {})))
    pod_volumes += volumes or []
    pod_mounts += mounts or []
    container = _main_container(context, model, env or [], ports or [], resources, pod_mounts)
    if model.kind == "notebook" and model.notebook is not None and model.notebook.stop_after is not None:
        helpers.append(activity_container(context, model, container))

    pod: Object = {**({"initContainers": helpers} if helpers else {}), "containers": [container]}
    if claims:
        pod["resourceClaims"] = claims
    if pod_volumes:
        pod["volumes"] = pod_volumes
    pod.update(spec or {})
    if (grace := _grace_seconds(model)) is not None:
        pod["terminationGracePeriodSeconds"] = grace
    if shared := pod_security(model):
        pod["securityContext"] = shared
    annotations = {**topology_annotations(context, model), **gpu_annotations(context, model), **model.job.annotations}
    add_network(context, model, pod, annotations)
    pod.update(pod_placement(context, document, model))
    pod["priorityClassName"] = context.settings.priorities[model.job.priority].class_name
    pull_secrets = model.environment.pull_secrets
    if not pull_secrets and context.settings.platform.image.pullSecret is not None:
        pull_secrets = [context.settings.platform.image.pullSecret]
    if pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in pull_secrets]
    if apply_pod_patches(context, document, model, pod):
        check_policy(context, document, model, pod)
    _check_signal(context, document, model, pod)

    template: Object = {"labels": job_labels(context, document, model)}
    if annotations:
        template["annotations"] = annotations
    return {"metadata": template, "spec": pod}


def _grace_seconds(model: Job) -> int | None:
    """Return the seconds that a pod has to end: `job.grace` or `service.timeout`, and the time of `drain`'s hook, which
    counts. None: the default of Kubernetes.
    """
    block = service_of(model)
    stated = model.job.grace or (block.timeout if block is not None else None)
    seconds = parse_duration(stated) if stated is not None else None
    drain = drain_seconds(block) if block is not None else None
    return seconds if drain is None else drain + (DEFAULT_GRACE if seconds is None else seconds)


def _main_container(
    context: Context, model: Job, env: list[Object], ports: list[Object], resources: Object, mounts: list[Object]
) -> Object:
    """Return the container of the job's program."""
    container: Object = {"name": MAIN_CONTAINER, "image": model.environment.image, "imagePullPolicy": "IfNotPresent"}
    if model.environment.command:
        container["command"] = list(model.environment.command)
    if model.environment.args:
        container["args"] = list(model.environment.args)
    if model.environment.workdir is not None:
        container["workingDir"] = model.environment.workdir
    elif model.code is not None:
        container["workingDir"] = model.code.directory
    block = service_of(model)
    if block is not None:
        ports = [*ports, *container_ports(block)]
    if ports:
        container["ports"] = ports
    if model.environment.envFrom:
        container["envFrom"] = [env_source(source) for source in model.environment.envFrom]
    variables = _env(context, model, env)
    if variables:
        container["env"] = variables
    if resources:
        container["resources"] = resources
    if mounts:
        container["volumeMounts"] = mounts
    if block is not None:
        container.update(container_extras(block))
    if model.job.on is not None and model.job.on.stop:
        container["lifecycle"] = {"preStop": {"exec": {"command": list(model.job.on.stop)}}}
    if model.security is not None and (own := container_security(model.security)):
        container["securityContext"] = own
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return container


def _check_signal(context: Context, document: Document, model: Job, pod: Object) -> None:
    """Report a checkpoint signal if process 1 of the container is not the job's program."""
    if model.job.checkpoint is None or model.job.checkpoint.signal is None:
        return
    for field in SHARED_PROCESSES:
        if pod.get(field):
            context.report(
                document,
                "GPU213",
                say(
                    "the checkpoint's signal goes to process 1, which is not the job's program if `{field}` is set",
                    field=field,
                ),
                ("job", "checkpoint", "signal"),
                say("use `command`, which can find the process that saves"),
            )


def _in_order(variables: list[EnvVar], defaults: Collection[str]) -> list[EnvVar]:
    """Return variables with those defaults first that other variables refer to.

    Kubernetes expands ``$(NAME)`` only for variables defined earlier. Defaults are last in a document; unreferenced
    ones stay there.
    """
    place = len(variables)
    while place and variables[place - 1].name in defaults:
        place -= 1
    own, added = variables[:place], {variable.name: variable for variable in variables[place:]}
    needed: set[str] = set()
    waiting = list(own) if added else []
    while waiting:
        for name in re.findall(_REFERENCE, waiting.pop().value or ""):
            if name in added and name not in needed:
                needed.add(name)
                waiting.append(added[name])
    first = [variable for name, variable in added.items() if name in needed]
    return [*first, *own, *(variable for name, variable in added.items() if name not in needed)]


def _env(context: Context, model: Job, before: list[Object]) -> list[Object]:
    variables = [*before, *rdma_variables(context, model)]
    defaults = (context.settings.defaults_of(model.kind).get("environment") or {}).get("env") or {}
    filled_in = {item if isinstance(item, str) else item["name"] for item in defaults}
    own = _in_order(model.environment.variables, filled_in)
    names = {variable.name for variable in own}
    if model.kind == "inference" and model.model is not None:
        for name, field in MODEL_ENV.items():
            value = getattr(model.model, field)
            if value is not None:
                variables.append(env_value(name, value))
        if model.model.cache and "HF_HOME" not in names:
            variables.append(env_value("HF_HOME", MODEL_CACHE))
    if model.resources.gpu == 0:
        variables += no_visible_devices(context, names)
    return variables + [env_variable(variable) for variable in own]


def container_resources(context: Context, model: Job) -> Object:
    """Return the container's resources. Requests equal limits, so that scheduler and kubelet count the same amounts."""
    amounts: dict[str, str] = {}
    resources = model.resources
    if resources.cpu is not None:
        amounts["cpu"] = resources.cpu
    if resources.memory is not None:
        amounts["memory"] = resources.memory
    gpu = context.settings.gpu_of(resources)
    if resources.gpu > 0 and gpu is not None and not context.settings.claims_devices:
        amounts.update(gpu_amounts(context, model, gpu))
    amounts.update(rdma_amounts(context, model))
    return {"requests": amounts, "limits": dict(amounts)} if amounts else {}
