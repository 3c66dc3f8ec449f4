"""The flags of Arena: their fields, and why some have none."""

from __future__ import annotations

import re

_RENAMED = {
    "a": "annotation",
    "d": "data",
    "e": "env",
    "l": "label",
    "n": "namespace",
    "p": "priority",
    "image-pull-secrets": "image-pull-secret",
    "log-dir": "logdir",
    "service-port": "port",
    "serving-name": "name",
    "serving-version": "version",
    "tensorboard-logdir": "logdir",
}
"""Letters and old names -> name."""
SWITCHES = frozenset(
    {
        "allow-metrics",
        "chief",
        "enable-autoscaling",
        "enable-istio",
        "enable-prometheus",
        "evaluator",
        "expose-service",
        "dry-run",
        "gang",
        "gputopology",
        "helm-binary",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "mounts-on-launcher",
        "pprof",
        "queue",
        "rdma",
        "shutdown-after-finished",
        "spot-instance",
        "suspend",
        "tensorboard",
        "trace",
    }
)
FLAGS = {
    "cpu": "resources.cpu",
    "gpus": "resources.gpu",
    "image": "environment.image",
    "memory": "resources.memory",
    "namespace": "job.namespace",
    "running-timeout": "job.max_runtime",
    "share-memory": "resources.shm",
    "ttl-after-finished": "job.ttl",
    "working-dir": "environment.workdir",
}
SERVICE_FLAGS = {
    "model-name": "model.name",
    "replicas": "service.replicas",
    "version": "model.version",
}
TFJOB_FLAGS = {
    "worker-cpu": "resources.cpu",
    "worker-image": "environment.image",
    "worker-memory": "resources.memory",
}
"""Flags of `arena serve` and of `arena submit tfjob` alone."""
COPIED_DATA = "data comes from `storage.workdirs`, or an `init` container copies it"
_BOARD = "run TensorBoard as a document of kind `compute`"
_CODE = "name a commit: `code: {git: URL, ref: COMMIT}`; Arena takes the newest of a branch"
_PLATFORM = "it is a setting of the platform"
_SSH = "pods are not reached by ssh: use torchrun"
_ROLES = "each kind of pods is a role: `roles`"
_PROBE = "use `service.health_check` and `service.liveness`"
_SUBPATH = "a directory of a claim is `storage.workdirs: [{path: /data, pvc: {claim: NAME, subPath: DIR}}]`"
_SELECTOR = "nodes are selected by `resources.pool`: add --pool"
_ISTIO = "use `service.route`"
OTHER_JOBS = {
    "spark": "has a driver that starts its executors as pods: keep the SparkApplication and its operator",
    "volcano": "has tasks and a queue of Volcano: write `roles`, and name a queue of Kueue in `resources.queue`",
    "ray": "has a head and workers: write them as `roles`, whose programs are `ray start --head` and `ray start "
    "--address`",
}
"""Type of a job, without `job` at its end -> how it differs, and what to use."""
CLIENT = frozenset({"arena-namespace", "config", "dry-run", "helm-binary", "loglevel", "pprof", "trace"})
"""Options of the client, which do not change the job."""
DROPPED = {
    **dict.fromkeys(("tensorboard", "tensorboard-image", "logdir"), _BOARD),
    **dict.fromkeys(("sync-mode", "sync-source", "sync-image"), _CODE),
    **dict.fromkeys(("enable-istio", "expose-service"), _ISTIO),
    **dict.fromkeys(("toleration", "scheduler"), _PLATFORM),
    **dict.fromkeys(("ssh-port", "ssh-secret"), _SSH),
    **dict.fromkeys(("data-subpath-expr", "temp-dir-subpath-expr"), _SUBPATH),
    **dict.fromkeys(("enable-autoscaling", "max-workers", "min-workers"), "the number of nodes is fixed"),
    **dict.fromkeys(("chief", "evaluator", "ps"), "chief, evaluator and parameter servers are roles: `roles`"),
    **dict.fromkeys(("job-restart-policy", "worker-restart-policy"), "`job.retries` starts a failed job again"),
    **dict.fromkeys(("job-backoff-limit", "retry"), "`job.retries` is a number of further attempts"),
    "env-from-secret": "a variable from a Secret is `environment.env: [{name: NAME, secret: SECRET, key: KEY}]`",
    "gputopology": "`resources.topology` keeps the nodes of a job close",
    "starting-timeout": "`gpuctl why NAME` reports why a job waits",
    "success-policy": "`primary` names the roles whose end is the end of the job",
    "suspend": "`gpuctl pause NAME` holds a job",
    "temp-dir": "it is not NAME:PATH: write `storage.workdirs: [{path: /scratch, emptyDir: {}}]`",
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
    "label": "documents cannot set this label",
    "nproc-per-node": "torchrun starts a process for each GPU: add its option `--nproc-per-node`",
    "priority": "`job.priority` is high, medium or low",
    "queue": "`resources.queue` is the name of a Kueue queue",
    "selector": _SELECTOR,
    "shell": "the shell is a part of `environment.command`",
}
DROPPED_PATTERNS = {
    r"(?:ps|chief|evaluator|launcher|worker|leader|head)-.*selector\Z": _SELECTOR,
    r"(?:liveness|readiness|startup)-probe": _PROBE,
    r"(?:ps|chief|evaluator|launcher|leader|head|worker)-": _ROLES,
    r"task-": _ROLES,
    r"model-|implementation|version-policy|batch-size|storage-uri|load-model|.*config-file": "it is an option "
    "of the server: write it into `environment.command`",
    r"slots-per-worker|mounts-on-launcher": "every pod runs the program: no launcher starts it on the others",
    r"autoscaler-": "the number of nodes is fixed",
    r"canary-|max-surge|max-unavailable": "a rollout replaces pods one by one",
    r"": "it has no equal in a document",
}
"""Start of a flag's name -> why it has no field; the first that matches."""


def flag_name(written: str) -> str:
    """Return the name of a flag that is written as a letter, or by an old name such as ``workingDir``."""
    is_old = len(written) > 1 and written not in SWITCHES
    name = re.sub(r"(?<=[a-z])[A-Z]", r"-\g<0>", written).lower() if is_old else written
    return _RENAMED.get(name, name)
