"""Findings when no rule has found a cause: the job is starting, or nothing explains its state."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.capacity.snapshot.snapshot_entries import SCHEDULER
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.workload_state import find_condition, has_ended, other_controller
from gpuctl.reading.jobs.events_of_jobs import event_time
from gpuctl.reading.jobs.status import job_status, one_line, pod_status
from gpuctl.reading.why.event_proofs import event_proof, is_outdated, known_proofs, object_title
from gpuctl.reading.why.evidence import Evidence, is_unscheduled
from gpuctl.reading.why.finding import Finding, Proof
from gpuctl.reading.why.image_pulls import open_pull
from gpuctl.reading.why.pending_pods import scheduler_of
from gpuctl.reading.why.stopped_jobs import command

YOUNG = 60.0
"""Seconds for which missing reports mean nothing: controllers and the scheduler need a moment, kubelet longer."""
LOADING = 300.0
_SHOWN = 4


def starting(evidence: Evidence) -> Finding | None:
    """The job is new, and no step has taken unusually long."""
    workload, pods = evidence.job.workload, evidence.pods
    if not pods:
        age = None if workload is None else evidence.seconds_since(workload["metadata"].get("creationTimestamp"))
        if age is None or age > YOUNG or other_controller(evidence.job.workload or {}):
            return None
        message = say(
            "it was created {duration} ago; its controller has not created its pods yet", duration=rough_duration(age)
        )
        proofs = known_proofs(*_told(evidence))
        return Finding("starting", message, {"pods": 0, "seconds": int(age)}, say("wait a moment"), proofs)
    found = [(pod, how) for pod in pods for how in [_progress(evidence, pod)] if how]
    if not found:
        return None
    pod, how = found[0]
    up = sum(pod_status(item).phase == "running" for item in pods)
    numbers = {"pods": evidence.wanted, "runningPods": up, "startingPods": len(found)}
    many = say("{pods:pod} of {total} starting: ", pods=len(found), total=evidence.wanted)
    name = pod["metadata"]["name"]
    told = (
        Proof("status", f"pod/{name}", pod_status(pod).word),
        *(event_proof(event) for event in _events(evidence, pod)[-1:]),
    )
    message = say("{many}pod {pod} {progress}", many=many if evidence.wanted > 1 else "", pod=name, progress=how)
    return Finding("starting", message, numbers, say("wait a moment"), told, name, len(found))


def _progress(evidence: Evidence, pod: Object) -> Sentence | None:
    """Return what a pod is doing; None if that takes too long."""
    status, name = pod.get("status") or {}, (pod.get("spec") or {}).get("nodeName")
    age = evidence.seconds_since(pod["metadata"].get("creationTimestamp")) or 0
    if has_ended(pod):
        return None
    if is_unscheduled(pod):
        if not _is_silent(pod) or age > YOUNG or scheduler_of(pod) != SCHEDULER:
            return None
        return say("was created {duration} ago; the scheduler has not tried it yet", duration=rough_duration(age))
    if status.get("phase") == "Pending":
        pull = open_pull(evidence, pod)
        if pull is not None:
            images = one_line(pull.get("message")).split('"')
            image = images[1] if len(images) > 1 else say("its image")
            since = evidence.since(event_time(pull))
            return say("has been pulling {image} on {node} for {duration}", image=image, node=name, duration=since)
        placed = evidence.seconds_since(
            status.get("startTime") or find_condition(pod, "PodScheduled").get("lastTransitionTime")
        )
        is_late = (age if placed is None else placed) > LOADING and not _runs_init_container(pod)
        if is_late or _warned(evidence, pod):
            return None
        return say(
            "has been in setup on {node} for {duration} ({status})",
            node=name,
            duration=evidence.since(status.get("startTime")),
            status=pod_status(pod).word,
        )
    containers = status.get("containerStatuses") or []
    if status.get("phase") == "Running" and any(not item.get("ready") for item in containers):
        begun = [(item.get("state") or {}).get("running", {}).get("startedAt") for item in containers]
        first = min((time for time in begun if time), default=None)
        seconds = evidence.seconds_since(first)
        if seconds is not None and seconds < _startup(pod) and not _warned(evidence, pod):
            return say(
                "has been running on {node} for {duration} and is not ready yet",
                node=name,
                duration=rough_duration(seconds),
            )
    return None


def _runs_init_container(pod: Object) -> bool:
    """Return True if an init container runs that has to end: it may load for hours."""
    ending = {item["name"] for item in pod["spec"].get("initContainers") or [] if item.get("restartPolicy") != "Always"}
    statuses = pod["status"].get("initContainerStatuses") or []
    return any(item["name"] in ending and "running" in (item.get("state") or {}) for item in statuses)


def _startup(pod: Object) -> float:
    """Return how many seconds a start may take by the pod's startup probe."""
    probes = [item.get("startupProbe") for item in pod["spec"].get("containers") or []]
    allowed = [float(probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3)) for probe in probes if probe]
    return max([YOUNG, *allowed])


def _events(evidence: Evidence, pod: Object) -> list[Object]:
    about = evidence.events_about(pod)
    return [event for event in about if not is_outdated(event, pod, about)]


def _warned(evidence: Evidence, pod: Object) -> bool:
    return any(
        event.get("type") == "Warning" and event.get("reason") != "FailedScheduling" for event in _events(evidence, pod)
    )


def unknown(evidence: Evidence) -> Finding:
    """Return the finding for an unexplained state, with the facts and without a guess."""
    workload, pods = evidence.job.workload, evidence.pods
    told = tuple(_told(evidence))
    numbers = {"pods": evidence.wanted, "presentPods": len(pods)}
    fix = say("{command} shows everything that can be seen", command=command("describe job", evidence))
    silent = next((pod for pod in pods if is_unscheduled(pod) and _is_silent(pod)), None)
    if silent is not None and scheduler_of(silent) != SCHEDULER:
        name = scheduler_of(silent)
        age = evidence.since(silent["metadata"].get("creationTimestamp"))
        pod = silent["metadata"]["name"]
        message = say(
            "pod {pod} waits for the scheduler {name}, which has reported nothing for {duration}",
            pod=pod,
            name=name,
            duration=age,
        )
        fix = say(
            "check that {name} is installed and runs; without `schedulerName` the default scheduler places the pod",
            name=name,
        )
        spec = Proof("spec", object_title(silent), f"schedulerName: {name}")
        return Finding("unknown", message, {**numbers, "schedulerName": name}, fix, (spec, *told))
    if silent is not None:
        age = evidence.since(silent["metadata"].get("creationTimestamp"))
        pod = silent["metadata"]["name"]
        message = say(
            "the scheduler has reported nothing about the pod {pod} for {duration}; check that it runs",
            pod=pod,
            duration=age,
        )
        return Finding("unknown", message, numbers, fix, told)
    who = other_controller(workload) if workload is not None else ""
    if not pods and workload is not None and who:
        spec = Proof("spec", object_title(workload), f"managedBy: {who}")
        message = say(
            "the controller {name} has to create its pods (spec.managedBy), and reports none that is ready", name=who
        )
        return Finding(
            "unknown", message, {**numbers, "managedBy": who}, say("does {name} run?", name=who), (spec, *told)
        )
    leaving = evidence.job.pods[-1] if evidence.job.pods and not pods else None
    if leaving is not None:
        since = evidence.seconds_since(leaving["metadata"]["deletionTimestamp"]) or 0
        message = say(
            "its pod {pod} is still being deleted{late}, and no other has been created",
            pod=leaving["metadata"]["name"],
            late=say(", {duration} past its grace period", duration=rough_duration(since)) if since > 0 else "",
        )
        about = f"deletionTimestamp {leaving['metadata']['deletionTimestamp']}"
        stated = Proof("status", object_title(leaving), about)
        return Finding("unknown", message, numbers, fix, (stated, *told), leaving["metadata"]["name"])
    if not pods:
        message = say(
            "its pods have not been created ({pods} are wanted), and nothing reports why{unread}",
            pods=evidence.wanted,
            unread=say("; events may not be read") if evidence.events is None else "",
        )
        return Finding("unknown", message, numbers, fix, told)
    status = job_status(workload, evidence.job.pods, evidence.keys) if workload is not None else pod_status(pods[-1])
    message = say(
        "its status is {status}{reason}; no known cause explains it",
        status=status.word,
        reason=say(": {text}", text=status.reason) if status.reason else "",
    )
    return Finding("unknown", message, numbers, fix, told)


def _is_silent(pod: Object) -> bool:
    """Return True if the scheduler has not written to a pod."""
    return not find_condition(pod, "PodScheduled")


def _told(evidence: Evidence) -> Iterator[Proof]:
    """Yield conditions that are not True and have a message, then the newest warnings; without warnings other
    events.
    """
    for pod in evidence.pods[:_SHOWN]:
        for item in (pod.get("status") or {}).get("conditions") or []:
            if item.get("status") != "True" and item.get("message"):
                text = f"{item['type']}={item['status']}: {one_line(item['message'])}"
                yield Proof("condition", object_title(pod), text, item.get("lastTransitionTime"))
    events = evidence.events or []
    warnings = [event for event in events if event.get("type") == "Warning"]
    for event in (warnings or events)[-_SHOWN:]:
        yield event_proof(event)
