"""The result of a rule, and the closed list of causes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.hidden_names import OTHERS, is_hidden

CAUSES: dict[str, str] = {
    "running": "nothing is wrong",
    "succeeded": "it has finished",
    "paused": "`gpuctl pause` stopped it",
    "scheduled": "its next run has not begun",
    "suspended": "it was suspended, or scaled to 0, by other means",
    "waiting-for-jobs": "the jobs that it waits for have not ended",
    "dependency-missing": "a job that it waits for does not exist",
    "dependency-failed": "a job that it waits for has ended in the wrong way",
    "queued": "it waits in a queue of Kueue",
    "queue-unusable": "its queue of Kueue does not exist, is stopped, or can never admit it",
    "terminating": "it is being deleted",
    "deadline-exceeded": "it ran for longer than its limit",
    "quota-exceeded": "a quota has no room for its pods",
    "quota-unspecified": "a quota requires an amount that its pods do not set",
    "limit-range": "its pods ask for more, or less, than a LimitRange allows",
    "priority-class-missing": "its PriorityClass does not exist",
    "pod-security": "the namespace's Pod Security level refuses its pods",
    "admission-refused": "a webhook, a policy or the API server refuses its pods",
    "rollout-paused": "its rollout is paused, so a change of its pods waits",
    "scheduling-gated": "its pods have scheduling gates that have not been removed",
    "preempting": "room is being made for it: the evicted pods have not ended yet",
    "rollout-deadlock": "its new pods wait for what its own old pods hold",
    "gpu-shortage": "no node has enough free GPUs",
    "cpu-shortage": "no node has enough free cpu",
    "memory-shortage": "no node has enough free memory",
    "resource-shortage": "no node has enough of another resource",
    "too-many-pods": "every node that it may use runs as many pods as it can",
    "unknown-pool": "no node is in its pool",
    "node-selector": "no node has the labels that it selects, such as its GPU type",
    "cordoned": "the nodes that it may use are cordoned",
    "taint": "the nodes that it may use have taints that it does not tolerate",
    "nodes-not-ready": "the nodes that it may use are not ready",
    "affinity": "its pod affinity, or that of other pods, excludes every node",
    "topology-spread": "its topology spread constraints exclude every node",
    "host-port": "the host ports that it uses are taken",
    "claim-missing": "a PersistentVolumeClaim that it mounts does not exist",
    "claim-unbound": "a PersistentVolumeClaim that it mounts has no volume yet",
    "resource-claim-missing": "a ResourceClaim that it needs does not exist, or cannot be created",
    "volume-node": "its volume cannot be used on the nodes that it may use",
    "node-lost": "the node of its pod is gone, or does not answer",
    "node-refused": "its node refused the pod after it had been scheduled",
    "sandbox-failed": "its node cannot set up the pod's network or runtime",
    "mount-failed": "a volume cannot be mounted",
    "image-name-invalid": "the image's name is not valid",
    "image-not-found": "the registry has no such image",
    "image-unauthorised": "the registry denies access to the image",
    "image-platform": "the image is not built for the node's platform",
    "image-unreachable": "the registry does not answer, or limits pulls",
    "image-pull-failed": "the image cannot be pulled for another reason",
    "image-slow": "pulling the image takes long",
    "config-missing": "a Secret or ConfigMap that its variables use, or a key of it, does not exist",
    "config-invalid": "the container cannot be created as its pod specifies it",
    "command-not-found": "its command does not exist in the image, or cannot be executed",
    "out-of-memory": "it used more memory than its limit",
    "cuda-out-of-memory": "the memory of the GPU was not enough",
    "shm-exhausted": "shared memory (/dev/shm) was too small",
    "gpu-hardware-error": "the GPU reported a hardware error (Xid, ECC)",
    "gpu-driver-error": "the GPU driver is missing, or does not fit the program",
    "evicted": "it was evicted by its node, by a drain, or for a pod of higher priority",
    "probe-failed": "its health check fails",
    "segmentation-fault": "its program crashed (SIGSEGV, SIGABRT ...)",
    "gpu-not-requested": "its program needs a GPU, but its pod requests none",
    "gpu-unsupported": "its program has no code for the GPU of the node",
    "kv-cache-too-small": "the GPU memory that is left for the KV cache is too small for the model's context",
    "disk-full": "what it writes to has no space left",
    "permission-denied": "it may not read or write a file or directory",
    "file-missing": "a file that it opens does not exist in its pod",
    "module-missing": "a Python module or a library that it loads is not in the image",
    "hub-unreachable": "a model hub, or another host that it loads from, cannot be reached",
    "address-in-use": "a port that it listens on is taken",
    "rendezvous-failed": "the processes of the training did not find each other",
    "nccl-error": "communication between its GPUs failed (NCCL)",
    "application-error": "its program ended with an error of its own, or a service's program ended",
    "killed": "it was killed from outside (SIGKILL)",
    "terminated": "it was terminated (SIGTERM)",
    "backoff-limit": "its pods failed too often, and none is left to show why",
    "service-missing": "its pods are ready, but its Service does not exist",
    "service-empty": "its pods are ready, but its Service does not lead to them",
    "autoscaler-failing": "its autoscaler cannot scale it",
    "sidecar-running": "its program has ended, and another container keeps its pod, and the GPUs, alive",
    "starting": "it is starting",
    "unknown": "nothing that could be read explains it",
}
"""Cause -> meaning, ordered by what to fix first. Programs rely on the codes; do not change them."""

_RANKS = {cause: rank for rank, cause in enumerate(CAUSES)}


class Proof(NamedTuple):
    """A proof of a finding.

    :param kind: event, condition, status, log, spec or quota.
    :param about: the object.
    :param at: time, RFC 3339.
    """

    kind: str
    about: str
    text: str
    at: str | None = None


@dataclass(frozen=True)
class Finding:
    """A cause of :data:`CAUSES` with its message, numbers (units in their names), proofs and fix.

    :param pod: name of the pod it is about.
    :param weight: order within one cause: the largest comes first.
    :param is_past: another pod has replaced the pod; findings about the present come first.
    """

    cause: str
    message: Sentence
    numbers: Mapping[str, Any] = field(default_factory=dict)
    fix: Sentence | None = None
    sources: tuple[Proof, ...] = ()
    pod: str | None = None
    weight: float = 0
    is_past: bool = False

    @property
    def rank(self) -> tuple[bool, int, float]:
        """Sort key: the smallest has to be fixed first."""
        return self.is_past, _RANKS[self.cause], -self.weight


def in_namespace(name: str, namespace: str) -> str:
    """Return a job and its namespace, or :data:`~gpuctl.objects.hidden_names.OTHERS` if both are hidden."""
    if is_hidden(name) and is_hidden(namespace):
        return OTHERS
    return say("{job} in {namespace}", job=name, namespace=namespace)


def most_urgent(findings: Iterable[Finding | None]) -> Finding | None:
    """Return the finding to fix first; None without findings."""
    return min((item for item in findings if item is not None), key=lambda item: item.rank, default=None)


def repeated(number: int) -> Sentence:
    """Return ``once``, ``twice``, ``3 times``."""
    if number == 1:
        return say("once")
    return say("twice") if number == 2 else say("{number} times", number=number)
