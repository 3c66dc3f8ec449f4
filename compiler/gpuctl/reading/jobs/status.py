"""One-word status of pods and jobs, the same in tables, JSON and the REST API.

A pod's word is its phase, unless its containers or the scheduler report something more specific, as in kubectl's STATUS
column (k8s.io/kubernetes, ``pkg/printers/internalversion/printers.go``, printPod). A job's word is one of Succeeded,
Failed, Running, Partially Running and Pending, after the workload's own conditions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuctl.hints import RESUMER, STARTER
from gpuctl.language.display_text import visible
from gpuctl.language.prerequisite_text import describe_prerequisite
from gpuctl.language.sentences import Template, clauses, say
from gpuctl.objects.api_resources import SERVICES, TRAININGS, Object, annotations_of
from gpuctl.objects.array_jobs import array_progress
from gpuctl.objects.elastic_jobs import node_bounds
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_specs import containers_of, sidecars_of
from gpuctl.objects.pod_templates import pods_left, replicas
from gpuctl.objects.prerequisites import Prerequisite, is_waiting, prerequisites_of
from gpuctl.objects.queueing import is_gated, is_held, is_queued, queue_of
from gpuctl.objects.workload_start import pods_up
from gpuctl.objects.workload_state import (
    condition,
    end_state,
    failure_condition,
    find_condition,
    gets_requests,
    has_ended,
    other_controller,
)

# Messages of Kubernetes have at most 1,024 characters, except those that list many objects.
_LONGEST = 4096
_PENDING, _RUNNING, _SUCCEEDED, _FAILED = "pending", "running", "succeeded", "failed"
_NOT_CREATED = Template("its pods are not created yet")
_PAUSED, _TERMINATING, _UNKNOWN = "paused", "terminating", "unknown"
DEPENDENCY_FAILED = "DependencyFailed"
"""Status of a job that waits for the success of a job that has failed, or the other way round."""
SCHEDULED = "scheduled"
"""Phase of a job that runs at its next scheduled time."""
PHASES = (_PENDING, _RUNNING, _SUCCEEDED, _FAILED, _PAUSED, SCHEDULED, _TERMINATING, _UNKNOWN)
"""Phases that ``--status`` accepts in addition to status words."""
WORDS = frozenset(
    {
        *(
            "Partially Running",
            "Waiting",
            "DependencyFailed",
            "Queued",
            "Suspended",
            "Scheduled",
            "ScaledToZero",
            "QuotaExceeded",
            "FailedCreate",
        ),
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
"""Known status words; Kubernetes may report further ones. Source: ``pkg/kubelet`` (``images``, ``kuberuntime``)."""


class Status(NamedTuple):
    """A status: ``word`` is shown, ``phase`` is one of :data:`PHASES`, ``reason`` gives details or is ""."""

    word: str
    phase: str
    reason: str = ""

    def matches(self, text: str) -> bool:
        """Return True if ``--status`` TEXT selects it, by word or phase, ignoring case."""
        wanted = text.replace(" ", "").lower()
        return wanted in (self.word.replace(" ", "").lower(), self.phase)

    @property
    def described(self) -> str:
        """Return the word with the reason, if there is one."""
        return say("{word}: {reason}", word=self.word, reason=self.reason) if self.reason else self.word


def pod_status(pod: Object) -> Status:
    """Return the status of a pod."""
    found = _before_deletion(pod)
    if pod["metadata"].get("deletionTimestamp") and found.phase not in (_SUCCEEDED, _FAILED):
        if (pod.get("status") or {}).get("reason") == "NodeLost":
            return Status("Unknown", _UNKNOWN, say("its node does not answer"))
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
        return Status("Unknown", _UNKNOWN, message or say("its node does not answer"))
    waiting = _initialising(pod) or _waiting(pod)
    if waiting is not None:
        return waiting
    if phase == "Running":
        return Status("Running", _RUNNING)
    scheduled = find_condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        if is_gated(pod):
            # The label of a StatefulSet's pod comes later than its gate.
            where = say("in Kueue's queue {queue}", queue=queue_of(pod)) if queue_of(pod) else say("for Kueue")
            return Status("Queued", _PENDING, say("waits {where}", where=where))
        if scheduled.get("reason") == "SchedulingGated":
            return Status("SchedulingGated", _PENDING, one_line(scheduled.get("message")))
        reason = scheduled.get("reason") or "Unschedulable"
        # Why preemption would not help is omitted: too long for a table.
        said = re.sub(r"\s*(no new claims to deallocate, )?preemption: .*", "", one_line(scheduled.get("message")))
        return Status("Pending", _PENDING, f"{reason}: {said}".rstrip(": "))
    return Status("Pending", _PENDING, one_line(status.get("reason")))


def _initialising(pod: Object) -> Status | None:
    """Return the status of init containers that have not completed; None if all have."""
    restarting = {item["name"] for item in sidecars_of(pod.get("spec") or {})}
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
    """Return the status of a waiting container, or of one that ended in a running pod; None if all run."""
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
    """Return why a container waits. In a crash loop that is how the last run ended; kubelet's message only gives the
    back-off.
    """
    last = (item.get("lastState") or {}).get("terminated")
    if waiting["reason"] != "CrashLoopBackOff" or last is None:
        return one_line(waiting.get("message"))
    if last.get("reason") != "OOMKilled":
        return _exit(last)
    every = containers_of(pod.get("spec") or {})
    limits = next((one.get("resources") or {} for one in every if one["name"] == item["name"]), {}).get("limits") or {}
    return say("out of memory (limit {limit})", limit=limits["memory"]) if "memory" in limits else say("out of memory")


def _ended(pod: Object) -> Status | None:
    """Return the status of the container that made its pod fail."""
    status = pod.get("status") or {}
    sidecars = {item["name"] for item in sidecars_of(pod.get("spec") or {})}
    found = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    # Kubelet stops sidecars when the program has ended: their exit codes come last.
    for item in sorted(found, key=lambda item: item["name"] in sidecars):
        ended = (item.get("state") or {}).get("terminated")
        if ended is not None and ended.get("exitCode") != 0:
            reason = ended.get("reason") or "Error"
            return Status("Failed" if reason == "Error" else reason, _FAILED, _exit(ended))
    return None


def _exit(ended: Object) -> str:
    said = (
        say("signal {signal}", signal=ended["signal"])
        if ended.get("signal")
        else say("exit code {code}", code=ended.get("exitCode"))
    )
    return f"{said}: {one_line(ended['message'])}" if ended.get("message") else said


def ready_containers(pod: Object) -> str:
    """Return ``ready/total`` of a pod's containers, including sidecars, as kubectl counts."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {item["name"] for item in sidecars_of(spec)}
    states = list(status.get("containerStatuses") or [])
    states += [item for item in status.get("initContainerStatuses") or [] if item["name"] in sidecars]
    return f"{sum(bool(item.get('ready')) for item in states)}/{len(spec.get('containers') or []) + len(sidecars)}"


def is_ready(pod: Object) -> bool:
    """Return True if a pod's Ready condition is True and it is not being deleted."""
    return condition(pod, "Ready") is not None and not pod["metadata"].get("deletionTimestamp")


def job_status(
    workload: Object,
    pods: Iterable[Object],
    keys: Records,
    refusal: str = "",
    prerequisites: Sequence[Prerequisite] = (),
) -> Status:
    """Return the status of a job as a whole.

    :param refusal: why its controller could not create pods (FailedCreate); "" if it could.
    :param prerequisites: the jobs that it waits for, while it waits.
    """
    pods = list(pods)
    if workload["metadata"].get("deletionTimestamp"):
        return Status("Terminating", _TERMINATING)
    ended = end_state(workload)
    if ended:
        return _finished(workload, ended)
    idle = _idle(workload, keys, prerequisites)
    if idle is not None:
        return idle
    current = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    if refusal and not current:
        return refused_status(refusal)
    status = _at_work(workload, current, refusal)
    if not current and pods and status.reason == say(_NOT_CREATED):
        status = status._replace(reason=say("{pods:pod} {pods:is/are} still being deleted", pods=len(pods)))
    return status


def _finished(workload: Object, ended: str) -> Status:
    if ended == "finished":
        return Status("Succeeded", _SUCCEEDED)
    why = failure_condition(workload)
    failed = (workload.get("status") or {}).get("failedIndexes")
    parts = (
        why.get("reason"),
        one_line(why.get("message")),
        say("indexes {indexes}", indexes=failed) if failed else "",
    )
    return Status("Failed", _FAILED, one_line(": ".join(part for part in parts if part)))


def _idle(workload: Object, keys: Records, prerequisites: Sequence[Prerequisite]) -> Status | None:
    """Return the status of a job that should have no pods (paused, waiting, queued, suspended, scaled to 0) or None."""
    spec = workload.get("spec") or {}
    suspended = bool(spec.get("suspend"))
    stopped = workload["kind"] in SERVICES and spec.get("replicas", 1) == 0
    if keys.paused in annotations_of(workload) and (suspended or stopped):
        why = one_line(annotations_of(workload).get(keys.pause_reason))
        return Status(
            "Paused",
            _PAUSED,
            clauses(why, say("{command}", command=RESUMER)),
        )
    if is_waiting(workload, keys):
        return _waits(workload, keys, prerequisites)
    if is_queued(workload, keys):
        return Status("Queued", _PENDING, say("waits in Kueue's queue {queue}", queue=queue_of(workload)))
    if suspended and is_held(workload):
        return Status(
            "Suspended",
            _PAUSED,
            say("it is kept out of Kueue's queue {queue} until it is resumed", queue=queue_of(workload)),
        )
    if suspended:
        return Status("Suspended", _PAUSED, say("spec.suspend is set, not by `gpuctl pause`"))
    if stopped and keys.scales_to_zero in annotations_of(workload):
        return Status("ScaledToZero", _PAUSED, say("its autoscaler has scaled it to 0; it starts when there is load"))
    if stopped:
        return Status("ScaledToZero", _PAUSED, say("spec.replicas is 0, not by `gpuctl pause`"))
    return None


def _waits(workload: Object, keys: Records, prerequisites: Sequence[Prerequisite]) -> Status:
    """Return the status of a job that waits for other jobs."""
    unmet = [describe_prerequisite(one) for one in prerequisites if one.state == "unmet"]
    if unmet:
        return Status(DEPENDENCY_FAILED, _FAILED, clauses(*unmet))
    missing = [describe_prerequisite(one) for one in prerequisites if one.state == "missing"]
    if missing:
        return Status("Waiting", _PENDING, say("{missing:;}, and this job waits for it", missing=missing))
    if prerequisites and all(one.state == "met" for one in prerequisites):
        return Status("Waiting", _PENDING, say("its prerequisites are met; {starter}", starter=STARTER))
    left = [one.name for one in prerequisites if one.state != "met"] or list(prerequisites_of(workload, keys.after))
    return Status("Waiting", _PENDING, say("waits for {names:few}", names=left))


def refused_status(message: str) -> Status:
    """Return the status of a job whose pods the API server rejects."""
    word = "QuotaExceeded" if "exceeded quota" in message else "FailedCreate"
    return Status(word, _PENDING, one_line(message))


def nodes_at_work(pods: Iterable[Object]) -> int:
    """Return how many pods of a training run or have succeeded, of those that are not being deleted."""
    current = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    return sum(_before_deletion(pod).phase in (_RUNNING, _SUCCEEDED) for pod in current)


def _at_work(workload: Object, pods: list[Object], refusal: str) -> Status:
    wanted, controller = max(1, replicas(workload)), other_controller(workload)
    if controller and not pods:
        up = pods_up(workload)
        word, phase = ("Running" if up >= wanted else "Partially Running", _RUNNING) if up else ("Pending", _PENDING)
        return Status(
            word,
            phase,
            say("{controller} runs it: {up} of {pods} pods are ready", controller=controller, up=up, pods=wanted),
        )
    phases = [_before_deletion(pod).phase for pod in pods]
    up = nodes_at_work(pods) if workload["kind"] in TRAININGS else sum(map(is_ready, pods))
    if workload["kind"] == "LeaderWorkerSet" and not any(is_ready(pod) and gets_requests(pod) for pod in pods):
        # Workers are ready when they run, and serve nothing without their leader.
        return _worst(pods) or Status("Pending", _PENDING, say("no leader is ready") if pods else say(_NOT_CREATED))
    progress = array_progress(workload)
    if progress is not None:
        # Its pods come and go: it runs while one does.
        running = phases.count(_RUNNING)
        said = say(
            "{progress} succeeded, {running} of {pods} pods run",
            progress=progress,
            running=running,
            pods=pods_left(workload),
        )
        return Status("Running", _RUNNING, said) if running else _worst(pods) or Status("Pending", _PENDING, said)
    bounds = node_bounds(workload)
    if bounds is not None and bounds.least <= up < bounds.most:
        return Status("Running", _RUNNING, say("with {up} of {bounds} nodes", up=up, bounds=bounds))
    if up >= wanted:
        return Status("Running", _RUNNING)
    if up:
        worst = _worst(pods)
        said = clauses(say("{up} of {pods} pods run", up=up, pods=wanted), refusal or (worst.word if worst else ""))
        return Status("Partially Running", _RUNNING, said)
    worst = _worst(pods)
    if worst is not None:
        return worst
    if _RUNNING in phases:
        return Status("Pending", _PENDING, say("0 of {pods} pods are ready", pods=wanted))
    return Status("Pending", _PENDING, one_line(refusal) if refusal else "" if pods else say(_NOT_CREATED))


def _worst(pods: Iterable[Object]) -> Status | None:
    """Return why pods neither run nor have succeeded; if all have failed, the reason of the newest. None without such
    pods.
    """
    newest = sorted(pods, key=lambda pod: pod["metadata"].get("creationTimestamp") or "", reverse=True)
    statuses = [_before_deletion(pod) for pod in newest]
    for status in statuses:
        if status.phase in (_PENDING, _UNKNOWN):
            return status
    for pod, status in zip(newest, statuses, strict=True):
        if status.phase == _FAILED:
            why = ": ".join(part for part in (status.word, status.reason) if part)
            said = say("a pod failed ({why}); its controller creates another", why=why)
            if not has_ended(pod):
                said = say("a container failed ({why}), and its pod has not ended", why=why)
            return Status("Pending", _PENDING, said)
    return None


def one_line(message: str | None) -> str:
    """Return an API message as one line of printable characters. Events may contain text that a user wrote."""
    text = visible(" ".join((message or "")[:_LONGEST].split()))
    return text if len(message or "") <= _LONGEST else f"{text}…"
