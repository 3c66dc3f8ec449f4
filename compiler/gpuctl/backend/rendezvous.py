"""The rendezvous of a training's pods: variables, host names, the hostfile."""

from __future__ import annotations

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import identity_labels, metadata, selector
from gpuctl.backend.variables import env_value
from gpuctl.frontend.command_checks import HOSTFILE_DIRECTORY, llama_factory_words, uses_deepspeed
from gpuctl.frontend.document import Document
from gpuctl.language.training_document import TrainingDocument
from gpuctl.objects.api_resources import Object
from gpuctl.objects.companion_names import hostfile_name

RENDEZVOUS = "rendezvous"
REPLICATED_JOB = "node"
JOB_NAME = "GPUCTL_JOB_NAME"
"""Variable with the name of the Job that a pod belongs to. The CronJob controller chooses it at each run."""
JOB_NAME_LABEL = "metadata.labels['batch.kubernetes.io/job-name']"
INDEX_ANNOTATION = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def is_jobset(context: Context, model: TrainingDocument) -> bool:
    """Return True if a training becomes a JobSet: several nodes, and ``training.backend: jobset``."""
    return model.resources.nodes > 1 and context.settings.training_backend == "jobset"


def host_name(context: Context, model: TrainingDocument, name: str, index: int) -> str:
    """Return the DNS name of a pod of a multi-node training. ``name``: name of its main object.

    The namespace is omitted: DNS completes the pod's own, also if an overlay has changed it.
    """
    job = name if model.schedule is None else f"$({JOB_NAME})"
    pod = f"{name}-{REPLICATED_JOB}-0-{index}" if is_jobset(context, model) else f"{job}-{index}"
    return f"{pod}.{name}"


def environment(context: Context, document: Document, model: TrainingDocument, name: str) -> list[Object]:
    """Return the variables of a training's pods that precede the user's own. ``name``: name of its main object.

    PET_* are torchrun's options as variables (torch.distributed.run, ``env`` actions), so that ``torchrun train.py``
    works without options. torchrun sets WORLD_SIZE, RANK and LOCAL_RANK itself.
    """
    nodes, gpus = model.resources.nodes, model.resources.gpu
    cards = max(gpus, 1)
    address = host_name(context, model, name, 0) if nodes > 1 else "127.0.0.1"
    index = {"valueFrom": {"fieldRef": {"fieldPath": INDEX_ANNOTATION}}}
    rank: Object = index if nodes > 1 else {"value": "0"}
    variables = [
        env_value("GPUCTL_JOB", model.job.name),
        env_value("GPUCTL_KIND", document.kind),
        env_value("GPUCTL_NODES", nodes),
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
        variables.append(env_value("GPUCTL_GLOBAL_BATCH_SIZE", model.job.batch_size * cards * nodes))
    variables += [
        env_value("MASTER_ADDR", address),
        env_value("MASTER_PORT", model.job.master_port),
        env_value("NNODES", nodes),
        {"name": "NODE_RANK", **rank},
        env_value("NPROC_PER_NODE", cards),
        env_value("PET_NNODES", nodes),
        {"name": "PET_NODE_RANK", **rank},
        env_value("PET_NPROC_PER_NODE", cards),
        env_value("PET_MASTER_ADDR", address),
        env_value("PET_MASTER_PORT", model.job.master_port),
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
    return model.resources.gpu > 1 or model.resources.nodes > 1 or deepspeed


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
    """Return True if DeepSpeed's launcher needs a list of hosts."""
    return model.resources.nodes > 1 and uses_deepspeed(model.environment.argv)


def hostfile(context: Context, document: Document, model: TrainingDocument, name: str) -> Object:
    """Return the ConfigMap with DeepSpeed's hostfile: one line ``HOST slots=N`` per node."""
    slots = max(model.resources.gpu, 1)
    hosts = [host_name(context, model, name, index) for index in range(model.resources.nodes)]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(hostfile_name(name), document.namespace, identity_labels(context, document, model)),
        "data": {"hostfile": "".join(f"{host} slots={slots}\n" for host in hosts)},
    }


def hostfile_volume(name: str) -> tuple[list[Object], list[Object]]:
    """Return the volume and the mount of the hostfile, at DeepSpeed's default path /job/hostfile."""
    volume = {"name": "hostfile", "configMap": {"name": hostfile_name(name)}}
    return [volume], [{"name": "hostfile", "mountPath": HOSTFILE_DIRECTORY, "readOnly": True}]
