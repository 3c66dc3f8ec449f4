"""The flags of Arena: their fields, and why some have none."""

from __future__ import annotations

LETTERS = {
    "a": "annotation",
    "d": "data",
    "e": "env",
    "l": "label",
    "n": "namespace",
    "p": "priority",
    "workingDir": "working-dir",
    "dataDir": "data-dir",
    "servingName": "name",
    "syncMode": "sync-mode",
    "servingVersion": "version",
    "syncSource": "sync-source",
    "imagePullPolicy": "image-pull-policy",
    "exposeService": "expose-service",
    "enableIstio": "enable-istio",
    "servicePort": "port",
    "logDir": "logdir",
}
"""Letters and old names -> name."""
SWITCHES = frozenset(
    {
        "enable-istio",
        "expose-service",
        "gang",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "queue",
        "rdma",
        "tensorboard",
        "trace",
    }
)
FLAGS = {
    "cpu": "resources.cpu",
    "gpus": "resources.gpu",
    "image": "environment.image",
    "image-pull-secret": "environment.imagePullSecret",
    "memory": "resources.memory",
    "model-name": "model.name",
    "namespace": "job.namespace",
    "port": "service.port",
    "replicas": "service.replicas",
    "retry": "job.retries",
    "running-timeout": "job.max_runtime",
    "share-memory": "resources.shm",
    "ttl-after-finished": "job.ttl",
    "version": "model.version",
    "working-dir": "environment.workdir",
}
_BOARD = "run TensorBoard as a document of kind `compute`"
_CODE = "name a commit: `code: {git: URL, ref: COMMIT}`; Arena takes the newest of a branch"
_PLATFORM = "it is a setting of the platform"
_ISTIO = "use `service.route`"
DROPPED = {
    **dict.fromkeys(("tensorboard", "tensorboard-image", "logdir"), _BOARD),
    **dict.fromkeys(("sync-mode", "sync-source", "sync-image"), _CODE),
    **dict.fromkeys(("enable-istio", "expose-service"), _ISTIO),
    **dict.fromkeys(("toleration", "scheduler"), _PLATFORM),
    "annotation": "documents cannot set this annotation",
    "clean-task-policy": "pods of a finished job stay until `job.ttl`",
    "config-file": "make a ConfigMap, and mount it: `storage.mounts: [{path: /etc/train, configMap: NAME}]`",
    "data": "it is not CLAIM:PATH: write `storage.workdirs`",
    "data-dir": "it is not an absolute path: write `storage.workdirs`",
    "device": "`resources.gpu-vendor` and `resources.gpu` name other devices",
    "env": "it is not NAME=VALUE, or the value is not known: write it into `environment.env`",
    "gang": "a queue starts all pods together: `resources.queue`",
    "gpucore": "`resources.gpu-share` is a part of the memory, or of a card",
    "gpumemory": "`resources.gpu-share` is a part of the memory, or of a card",
    "image-pull-policy": "gpuctl sets it by the image's tag",
    "label": "documents cannot set this label",
    "nproc-per-node": "torchrun starts a process for each GPU: add its option `--nproc-per-node`",
    "priority": "`job.priority` is high, medium or low",
    "ps": "parameter servers are a role: `roles`",
    "queue": "`resources.queue` is the name of a Kueue queue",
    "restful-port": "further ports are `service.ports`",
    "metrics-port": "further ports are `service.ports`",
    "selector": "nodes are selected by `resources.pool`: add --pool",
    "shell": "the shell is a part of `environment.command`",
}
