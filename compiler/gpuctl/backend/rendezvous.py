"""The rendezvous of a training's pods: variables, host names, the hostfile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata, selector
from gpuctl.backend.variables import env_value
from gpuctl.frontend.command_checks import HOSTFILE_DIRECTORY, llama_factory_words, uses_deepspeed
from gpuctl.frontend.document import Document
from gpuctl.language.names import RENDEZVOUS
from gpuctl.language.role_block import Role
from gpuctl.language.training_document import TrainingDocument
from gpuctl.objects.api_resources import Object
from gpuctl.objects.companion_names import hostfile_name
from gpuctl.objects.elastic_jobs import format_range
from gpuctl.objects.role_jobs import ROLE_VARIABLE

REPLICATED_JOB = "node"
JOB_NAME = "GPUCTL_JOB_NAME"
"""Variable with the name of the Job that a pod belongs to. The CronJob controller chooses it at each run."""
JOB_NAME_LABEL = "metadata.labels['batch.kubernetes.io/job-name']"
_HOSTFILE = "hostfile"
INDEX_ANNOTATION = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def host_name(context: Context, model: TrainingDocument, name: str, index: int, job: str = REPLICATED_JOB) -> str:
    """Return the DNS name of a pod of a training on several nodes.

    The namespace is omitted: DNS completes the pod's own, also if an overlay has changed it.

    :param name: name of its main object.
    :param job: name of the pod's role; without roles, of the JobSet's only Job.
    """
    prefix = name if model.schedule is None else f"$({JOB_NAME})"
    is_jobset = model.is_jobset(context.settings.platform.training.backend)
    pod = f"{name}-{job}-0-{index}" if is_jobset else f"{prefix}-{index}"
    return f"{pod}.{name}"


def role_environment(context: Context, model: TrainingDocument, name: str, role: Role) -> list[Object]:
    """Return the variables by which the pods of a role know their own role and reach all roles."""
    variables = [env_value(ROLE_VARIABLE, role.name)]
    for other in model.roles:
        hosts = [host_name(context, model, name, index, other.name) for index in range(other.nodes)]
        values = (hosts[0], str(other.nodes), ",".join(hosts))
        variables += [env_value(key, value) for key, value in zip(other.variable_names, values, strict=False)]
    return variables


def environment(
    context: Context, document: Document, model: TrainingDocument, name: str, job: str = REPLICATED_JOB
) -> list[Object]:
    """Return the variables of a training's pods that precede the user's own. ``name``: name of its main object.

    PET_* are torchrun's options as variables (torch.distributed.run, ``env`` actions), so that ``torchrun train.py``
    works without options. torchrun sets WORLD_SIZE, RANK and LOCAL_RANK itself. For an elastic training the number of
    nodes is a range, as torchrun's ``--nnodes`` takes it.
    """
    nodes, gpus, bounds = model.resources.max_nodes, model.resources.gpu, model.resources.node_range
    count = nodes if bounds is None else format_range(bounds.min, bounds.max)
    cards = max(gpus, 1)
    address = host_name(context, model, name, 0, job) if nodes > 1 else "127.0.0.1"
    index = {"valueFrom": {"fieldRef": {"fieldPath": INDEX_ANNOTATION}}}
    rank: Object = index if nodes > 1 else {"value": "0"}
    variables = [
        env_value("GPUCTL_JOB", model.job.name),
        env_value("GPUCTL_KIND", document.kind),
        env_value("GPUCTL_NODES", count),
        env_value("GPUCTL_GPUS_PER_NODE", gpus),
    ]
    if model.schedule is not None:
        variables.append({"name": JOB_NAME, "valueFrom": {"fieldRef": {"fieldPath": JOB_NAME_LABEL}}})
    if (array := model.array_block) is not None:
        variables.append({"name": "GPUCTL_ARRAY_INDEX", **index})
        variables.append(env_value("GPUCTL_ARRAY_SIZE", array.size))
    if model.job.epochs is not None:
        variables.append(env_value("GPUCTL_EPOCHS", model.job.epochs))
    if model.job.batch_size is not None:
        variables.append(env_value("GPUCTL_BATCH_SIZE", model.job.batch_size))
        if bounds is None:
            variables.append(env_value("GPUCTL_GLOBAL_BATCH_SIZE", model.job.batch_size * cards * nodes))
    variables += [
        env_value("MASTER_ADDR", address),
        env_value("MASTER_PORT", model.job.master_port),
        env_value("NNODES", count),
        {"name": "NODE_RANK", **rank},
        env_value("NPROC_PER_NODE", cards),
        env_value("PET_NNODES", count),
    ]
    if bounds is None:
        variables += [
            {"name": "PET_NODE_RANK", **rank},
            env_value("PET_NPROC_PER_NODE", cards),
            env_value("PET_MASTER_ADDR", address),
            env_value("PET_MASTER_PORT", model.job.master_port),
        ]
    else:
        # Pod 0 has the store of the rendezvous: a smaller number of nodes ends the pods with the greatest indexes.
        variables += [
            env_value("PET_NPROC_PER_NODE", cards),
            env_value("PET_RDZV_BACKEND", "c10d"),
            env_value("PET_RDZV_ENDPOINT", f"{address}:{model.job.master_port}"),
            env_value("PET_RDZV_ID", model.job.name),
            env_value("PET_MAX_RESTARTS", model.job.retries),
        ]
    if needs_torchrun(model):
        variables.append(env_value("FORCE_TORCHRUN", "1"))
    return variables


def needs_torchrun(model: TrainingDocument) -> bool:
    """Return True if LLaMA-Factory must launch torchrun: for several cards or nodes, and for DeepSpeed."""
    words = llama_factory_words(model.environment.argv)
    if words is None or any(variable.name == "FORCE_TORCHRUN" for variable in model.environment.variables):
        return False
    deepspeed = any(word.partition("=")[0] == "--deepspeed" for word in words)
    return model.resources.gpu > 1 or model.resources.max_nodes > 1 or deepspeed


def has_torchrun(variables: Sequence[Object]) -> bool:
    """Return True if a container's variables have FORCE_TORCHRUN where :func:`environment` adds it: last of its own."""
    before = {later["name"]: item["name"] for item, later in pairwise(variables)}
    return before.get("FORCE_TORCHRUN") in ("PET_MASTER_PORT", "PET_MAX_RESTARTS")


def headless_service(context: Context, document: Document, model: TrainingDocument, name: str) -> Object:
    """Return the headless Service. Its DNS names exist before the pods are ready, because they connect before that."""
    port = model.job.master_port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, document.namespace, identity_labels(context, document, model)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(context, document, model),
            "ports": [{"name": RENDEZVOUS, "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def needs_hostfile(model: TrainingDocument) -> bool:
    """Return True if DeepSpeed's launcher needs a list of hosts. ``model``: of one role, if there are any."""
    return model.resources.max_nodes > 1 and uses_deepspeed(model.environment.argv)


def hostfile(context: Context, document: Document, model: TrainingDocument, name: str) -> Object:
    """Return the ConfigMap with DeepSpeed's hostfile, or that of each role: one line ``HOST slots=N`` per node."""
    data = {}
    for job, part in parts_by_job(model):
        if needs_hostfile(part):
            slots = max(part.resources.gpu, 1)
            hosts = [host_name(context, part, name, index, job) for index in range(part.resources.max_nodes)]
            data[job if model.roles else _HOSTFILE] = "".join(f"{host} slots={slots}\n" for host in hosts)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(hostfile_name(name), document.namespace, identity_labels(context, document, model)),
        "data": data,
    }


def parts_by_job(model: TrainingDocument) -> Iterable[tuple[str, TrainingDocument]]:
    """Return the names of a JobSet's Jobs, each with the training as its pods run it."""
    return zip([role.name for role in model.roles] or [REPLICATED_JOB], model.parts, strict=True)


def hostfile_volume(name: str, role: str | None = None) -> tuple[list[Object], list[Object]]:
    """Return the volume and the mount of the hostfile, at DeepSpeed's default path /job/hostfile.

    :param role: the role of the pods, whose hostfile it is; None for a training without roles.
    """
    source: Object = {"name": hostfile_name(name)}
    if role is not None:
        source["items"] = [{"key": role, "path": _HOSTFILE}]
    volume = {"name": "hostfile", "configMap": source}
    return [volume], [{"name": "hostfile", "mountPath": HOSTFILE_DIRECTORY, "readOnly": True}]
