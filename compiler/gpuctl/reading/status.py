"""One word for how a pod, or a job, is doing: the same in tables, JSON and the REST API.

Of a pod it is the phase, unless its containers or the scheduler have something more telling to say, as kubectl's
STATUS column has it (k8s.io/kubernetes, ``pkg/printers/internalversion/printers.go``, printPod). Of a job it is what
``3-architecture`` says (Succeeded, Failed, Running, Partially Running, Pending), after the workload's own conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from gpuctl.hints import JobHint
from gpuctl.language.display_text import visible
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_templates import replicas
from gpuctl.objects.queueing import is_held, is_queued, queue_of
from gpuctl.objects.workload_state import condition, finished

# Kubernetes' own messages are of at most 1,024 characters, but for those that list many objects.
_LONGEST = 4096
_PENDING, _RUNNING, _SUCCEEDED, _FAILED = "pending", "running", "succeeded", "failed"
_PAUSED, _TERMINATING, _UNKNOWN = "paused", "terminating", "unknown"
PHASES = (_PENDING, _RUNNING, _SUCCEEDED, _FAILED, _PAUSED, _TERMINATING, _UNKNOWN)
"""What ``--status`` takes beside the words themselves."""
WORDS = frozenset(
    {
        *("Partially Running", "Queued", "Suspended", "ScaledToZero", "QuotaExceeded", "FailedCreate"),
        *("ContainerCreating", "PodInitializing", "Unschedulable", "SchedulingGated", "NodeLost", "Evicted"),
        *("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"),
        *(
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
            "StartError",
            "PostStartHookError",
        ),
        *("OOMKilled", "Error", "Completed", "DeadlineExceeded", "ContainerCannotRun", "ContainerStatusUnknown"),
        *("UnexpectedAdmissionError", "NodeAffinity", "OutOfcpu", "OutOfmemory", "OutOfpods", "Preempting"),
    }
)
"""Words of jobs and pods; Kubernetes may have further ones. Source: ``pkg/kubelet`` (``images``, ``kuberuntime``)."""


class Status(NamedTuple):
    """``word`` is shown, ``phase`` (one of :data:`PHASES`) is what it counts as, ``reason`` says more, if anything."""

    word: str
    phase: str
    reason: str = ""

    def matches(self, text: str) -> bool:
        """Whether a user's ``--status`` means it: its word or its phase, in any case."""
        wanted = text.replace(" ", "").lower()
        return wanted in (self.word.replace(" ", "").lower(), self.phase)


def pod_status(pod: Object) -> Status:
    """How a pod is doing."""
    found = _before_deletion(pod)
    if pod["metadata"].get("deletionTimestamp") and found.phase not in (_SUCCEEDED, _FAILED):
        if (pod.get("status") or {}).get("reason") == "NodeLost":
            return Status("Unknown", _UNKNOWN, "its node does not answer")
        return Status("Terminating", _TERMINATING, found.reason)
    return found


def _before_deletion(pod: Object) -> Status:
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    message = one_line(status.get("message"))
    if phase == "Succeeded":
        return Status("Succeeded", _SUCCEEDED)
    if phase == "Failed":
        if status.get("reason"):
            return Status(status["reason"], _FAILED, message)
        return _ended(pod) or Status("Failed", _FAILED, message)
    if phase == "Unknown":
        return Status("Unknown", _UNKNOWN, message or "its node does not answer")
    waiting = _initialising(pod) or _waiting(pod)
    if waiting is not None:
        return waiting
    if phase == "Running":
        return Status("Running", _RUNNING)
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        if scheduled.get("reason") == "SchedulingGated":
            return Status("SchedulingGated", _PENDING, one_line(scheduled.get("message")))
        reason = scheduled.get("reason") or "Unschedulable"
        # What preemption would not help is of no use to anybody who reads a table.
        said = re.sub(r"\s*(no new claims to deallocate, )?preemption: .*", "", one_line(scheduled.get("message")))
        return Status("Pending", _PENDING, f"{reason}: {said}".rstrip(": "))
    return Status("Pending", _PENDING, one_line(status.get("reason")))


def _initialising(pod: Object) -> Status | None:
    """What the init containers are at, when they are not through."""
    spec = pod.get("spec") or {}
    restarting = {item["name"] for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"}
    found = (pod.get("status") or {}).get("initContainerStatuses") or []
    for number, item in enumerate(found):
        state = item.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if item["name"] in restarting and item.get("started"):
            continue
        if ended is not None:
            return Status(f"Init:{ended.get('reason') or 'Error'}", _PENDING, _exit(ended))
        waiting = state.get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return Status(f"Init:{waiting['reason']}", _PENDING, _held(pod, item, waiting))
        if pod["status"].get("phase") == "Pending" and (pod.get("spec") or {}).get("nodeName"):
            return Status(f"Init:{number}/{len(found)}", _PENDING)
    return None


def _waiting(pod: Object) -> Status | None:
    """A container that does not run and says why; one that ended in a pod that goes on."""
    for item in (pod.get("status") or {}).get("containerStatuses") or []:
        waiting = (item.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return Status(waiting["reason"], _PENDING, _held(pod, item, waiting))
    for item in (pod.get("status") or {}).get("containerStatuses") or []:
        ended = (item.get("state") or {}).get("terminated")
        if ended is not None and pod["status"].get("phase") == "Running" and ended.get("exitCode") != 0:
            return Status(ended.get("reason") or "Error", _FAILED, _exit(ended))
    return None


def _held(pod: Object, item: Object, waiting: Object) -> str:
    """Why a container waits. Of a crash loop kubelet only says for how long: how the last run ended says more."""
    last = (item.get("lastState") or {}).get("terminated")
    if waiting["reason"] != "CrashLoopBackOff" or last is None:
        return one_line(waiting.get("message"))
    if last.get("reason") != "OOMKilled":
        return _exit(last)
    spec = pod.get("spec") or {}
    every = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    limits = next((one.get("resources") or {} for one in every if one["name"] == item["name"]), {}).get("limits") or {}
    return f"out of memory (limit {limits['memory']})" if "memory" in limits else "out of memory"


def _ended(pod: Object) -> Status | None:
    """The container that made its pod fail."""
    status = pod.get("status") or {}
    for item in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        ended = (item.get("state") or {}).get("terminated")
        if ended is not None and ended.get("exitCode") != 0:
            reason = ended.get("reason") or "Error"
            return Status("Failed" if reason == "Error" else reason, _FAILED, _exit(ended))
    return None


def _exit(ended: Object) -> str:
    said = f"signal {ended['signal']}" if ended.get("signal") else f"exit code {ended.get('exitCode')}"
    return f"{said}: {one_line(ended['message'])}" if ended.get("message") else said


def ready_containers(pod: Object) -> str:
    """``ready/total`` of a pod's containers, sidecars included, as kubectl counts."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {item["name"] for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"}
    states = list(status.get("containerStatuses") or [])
    states += [item for item in status.get("initContainerStatuses") or [] if item["name"] in sidecars]
    return f"{sum(bool(item.get('ready')) for item in states)}/{len(spec.get('containers') or []) + len(sidecars)}"


def is_ready(pod: Object) -> bool:
    """Whether a pod serves: its Ready condition holds and it is not leaving."""
    return _condition(pod, "Ready").get("status") == "True" and not pod["metadata"].get("deletionTimestamp")


def job_status(workload: Object, pods: Iterable[Object], keys: Records, refusal: str = "") -> Status:
    """How a job is doing as a whole. ``refusal`` is why its controller could not make pods (FailedCreate), if so."""
    pods = list(pods)
    if workload["metadata"].get("deletionTimestamp"):
        return Status("Terminating", _TERMINATING)
    ended = finished(workload)
    if ended:
        return _finished(workload, ended)
    idle = _idle(workload, keys)
    if idle is not None:
        return idle
    current = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    if refusal and not current:
        return refused_status(refusal)
    return _at_work(workload, current, refusal)


def _finished(workload: Object, ended: str) -> Status:
    if ended == "finished":
        return Status("Succeeded", _SUCCEEDED)
    why = condition(workload, "Failed") or condition(workload, "FailureTarget") or {}
    return Status(
        "Failed", _FAILED, ": ".join(part for part in (why.get("reason"), one_line(why.get("message"))) if part)
    )


def _idle(workload: Object, keys: Records) -> Status | None:
    """A job that is to have no pods: paused by us, held back by a queue or by somebody, scaled to nothing."""
    spec = workload.get("spec") or {}
    suspended = bool(spec.get("suspend"))
    stopped = workload["kind"] in ("Deployment", "StatefulSet") and spec.get("replicas", 1) == 0
    if keys.paused in annotations_of(workload) and (suspended or stopped):
        return Status("Paused", _PAUSED, f"{JobHint('resume')} goes on with it")
    if is_queued(workload, keys):
        return Status("Queued", _PENDING, f"waits in Kueue's queue {queue_of(workload)}")
    if suspended and is_held(workload):
        return Status("Suspended", _PAUSED, f"it is kept out of Kueue's queue {queue_of(workload)} until it is resumed")
    if suspended:
        return Status("Suspended", _PAUSED, "spec.suspend is set, not by `gpuctl pause`")
    if stopped:
        return Status("ScaledToZero", _PAUSED, "spec.replicas is 0, not by `gpuctl pause`")
    return None


def refused_status(message: str) -> Status:
    """The status of a job whose pods may not be made."""
    word = "QuotaExceeded" if "exceeded quota" in message else "FailedCreate"
    return Status(word, _PENDING, one_line(message))


def _at_work(workload: Object, pods: list[Object], refusal: str) -> Status:
    wanted = max(1, replicas(workload))
    phases = [_before_deletion(pod).phase for pod in pods]
    # A training's pod works as soon as it runs, and those that have finished have done their part.
    at_work = phases.count(_RUNNING) + phases.count(_SUCCEEDED)
    up = at_work if workload["kind"] in ("Job", "JobSet") else sum(map(is_ready, pods))
    if up >= wanted:
        return Status("Running", _RUNNING)
    if up:
        worst = _worst(pods)
        said = f"{up} of {wanted} pods run" + (f"; {refusal}" if refusal else f"; {worst.word}" if worst else "")
        return Status("Partially Running", _RUNNING, said)
    worst = _worst(pods)
    if worst is not None:
        return worst
    if _RUNNING in phases:
        return Status("Pending", _PENDING, f"0 of {wanted} pods are ready")
    return Status("Pending", _PENDING, one_line(refusal) if refusal else "" if pods else "its pods are not made yet")


def _worst(pods: Iterable[Object]) -> Status | None:
    """What keeps the pods that neither run nor have finished; when all have failed, that of the newest."""
    newest = sorted(pods, key=lambda pod: pod["metadata"].get("creationTimestamp") or "", reverse=True)
    statuses = [_before_deletion(pod) for pod in newest]
    for status in statuses:
        if status.phase in (_PENDING, _UNKNOWN):
            return status
    for status in statuses:
        if status.phase == _FAILED:
            why = f"a pod failed ({': '.join(part for part in (status.word, status.reason) if part)})"
            return Status("Pending", _PENDING, f"{why}; its controller makes another")
    return None


def one_line(message: str | None) -> str:
    """A message of the API on one line, of printable characters: whoever may create an event chooses its words."""
    text = visible(" ".join((message or "")[:_LONGEST].split()))
    return text if len(message or "") <= _LONGEST else f"{text}…"


def _condition(obj: Object, kind: str) -> dict[str, Any]:
    for item in (obj.get("status") or {}).get("conditions") or []:
        if item.get("type") == kind:
            return dict(item)
    return {}
