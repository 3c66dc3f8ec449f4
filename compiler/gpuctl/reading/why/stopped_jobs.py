"""Rules for jobs that should have no pods, or that have ended, and for jobs that run."""

from __future__ import annotations

from gpuctl.hints import JobHint
from gpuctl.language.display_text import count_text
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.array_jobs import array_progress, is_array
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.elastic_jobs import node_bounds, node_count
from gpuctl.objects.queueing import is_held, queue_of
from gpuctl.objects.scheduled_jobs import is_run, is_scheduled
from gpuctl.objects.workload_state import condition, end_state
from gpuctl.reading.jobs.event_rows import event_time
from gpuctl.reading.jobs.schedule_status import run_times
from gpuctl.reading.jobs.status import is_ready, job_status, one_line, pod_status
from gpuctl.reading.why.event_proofs import condition_proof, event_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof

# Finalizers that the API server and controllers set while they delete.
_OWN_FINALIZERS = ("foregroundDeletion", "orphan", "kubernetes", "batch.kubernetes.io/job-tracking")


def command(verb: str, evidence: Evidence, *flags: str) -> str:
    """Return a command about the job in backquotes."""
    identity = evidence.job.identity
    return "`" + " ".join((f"gpuctl {verb} {identity.name} -n {identity.namespace}", *flags)) + "`"


def how_to_run_again(evidence: Evidence) -> str:
    """Return what makes the job's pods run again."""
    workload = evidence.job.workload
    if workload is None:
        return "no controller creates its pods: apply its document"
    if end_state(workload) == "failed":
        return _rerun(evidence)
    progress = array_progress(workload)
    if progress is not None and progress.failed:
        return f"{_rerun(evidence)} when the array has ended"
    return "its controller replaces the pod"


def _rerun(evidence: Evidence) -> str:
    """Return the command that runs the job again; of an array only the indexes that have not succeeded."""
    workload = evidence.job.workload
    if workload is not None and is_run(workload):
        return command("run", evidence)
    return command("rerun", evidence, *(["--failed"] if workload is not None and is_array(workload) else []))


def succeeded(evidence: Evidence) -> Finding | None:
    """The workload has completed."""
    workload = evidence.job.workload
    if workload is None:
        pods = evidence.pods
        through = bool(pods) and all((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods)
        return Finding("succeeded", "nothing is wrong: its pods have finished") if through else None
    if end_state(workload) != "finished":
        return None
    status = workload.get("status") or {}
    numbers = {"succeededPods": status.get("succeeded"), "failedPods": status.get("failed") or 0}
    said = condition_proof(workload, "Complete") or condition_proof(workload, "Completed")
    ago = f" {evidence.since(status['completionTime'])} ago" if status.get("completionTime") else ""
    return Finding("succeeded", f"nothing is wrong: it has finished{ago}", numbers, sources=known_proofs(said))


def terminating(evidence: Evidence) -> Finding | None:
    """The workload, or the last of its pods, is being deleted; the message names what holds it."""
    workload = evidence.job.workload
    gone = workload if workload is not None else (evidence.job.pods[-1] if evidence.job.pods else None)
    if gone is None or not gone["metadata"].get("deletionTimestamp"):
        return None
    since = evidence.since(gone["metadata"]["deletionTimestamp"])
    held = [name for name in gone["metadata"].get("finalizers") or [] if name not in _OWN_FINALIZERS]
    leaving = [pod for pod in evidence.job.pods if pod["metadata"].get("deletionTimestamp")]
    numbers = {"finalizers": held, "pods": len(leaving)}
    about = f"{gone['kind'].lower()}/{gone['metadata']['name']}"
    told = (Proof("status", about, f"deletionTimestamp {gone['metadata']['deletionTimestamp']}"),)
    if held:
        named = " and ".join(held)
        namespace = evidence.job.identity.namespace
        shown = f"`kubectl get {about} -n {namespace} -o yaml` shows all"
        fix = f"the controller that set the finalizer has to remove it; {shown}"
        return Finding("terminating", f"it is being deleted, and the finalizer {named} holds it", numbers, fix, told)
    for pod in leaving:
        stuck = [name for name in pod["metadata"].get("finalizers") or [] if name not in _OWN_FINALIZERS]
        if stuck:
            name = pod["metadata"]["name"]
            message = f"it is being deleted; the finalizer {' and '.join(stuck)} holds its pod {name}"
            fix = "the controller that set the finalizer has to remove it"
            return Finding("terminating", message, {**numbers, "finalizers": stuck}, fix, told, name)
    if leaving:
        last = str(leaving[0]["metadata"]["name"])
        node = (leaving[0].get("spec") or {}).get("nodeName")
        late = evidence.seconds_since(leaving[0]["metadata"]["deletionTimestamp"]) or 0
        where = f" on {node}" if node else ""
        waits = f", {rough_duration(late)} past its grace period" if late > 0 else ""
        message = f"it is being deleted; {count_text(len(leaving), 'pod')} still to stop ({last}{where}{waits})"
        forced = (
            f"{command('delete job', evidence, '--force')} deletes it without waiting (its processes may still run and "
            "hold GPUs)"
        )
        return Finding("terminating", message, numbers, forced if late > 0 else None, told, last)
    return Finding("terminating", f"it is being deleted, since {since}", numbers, None, told)


def paused(evidence: Evidence) -> Finding | None:
    """``gpuctl pause`` stopped the job."""
    workload = evidence.job.workload
    if workload is None or job_status(workload, evidence.job.pods, evidence.keys).word != "Paused":
        return None
    told = Proof("spec", workload["kind"].lower(), f"annotation {evidence.keys.paused}")
    replicas = annotations_of(workload).get(evidence.keys.paused, "")
    numbers = {"replicas": int(replicas)} if replicas.isdigit() else {}
    reason = one_line(annotations_of(workload).get(evidence.keys.pause_reason))
    message = f"it was paused: {reason}" if reason else "it was stopped by gpuctl pause"
    return Finding("paused", message, numbers, command("resume", evidence), (told,))


def scheduled(evidence: Evidence) -> Finding | None:
    """No run of a scheduled training is unfinished, and its last one has not failed."""
    workload = evidence.job.workload
    if workload is None or not is_scheduled(workload) or workload["spec"].get("suspend"):
        return None
    times = run_times(workload, evidence.now)
    parts = ["nothing is wrong"]
    parts += [f"its last run was due {evidence.since(times.last)} ago"] if times.last is not None else []
    parts += [f"the next run is at {times.next}"] if times.next is not None else []
    skipped = evidence.events_with("JobAlreadyActive", "MissSchedule")
    if skipped:
        why = one_line(skipped[-1].get("message"))
        parts.append(f"a run was skipped {evidence.since(event_time(skipped[-1]))} ago ({why})")
    about = f"cronjob/{workload['metadata']['name']}"
    stated = Proof("spec", about, f"schedule: {workload['spec']['schedule']}")
    told = known_proofs(*(event_proof(event) for event in skipped[-1:]), stated)
    message = f"{parts[0]}: {'; '.join(parts[1:])}" if parts[1:] else parts[0]
    return Finding("scheduled", message, sources=told)


def suspended(evidence: Evidence) -> Finding | None:
    """``spec.suspend`` or 0 replicas was set, but not by gpuctl."""
    workload = evidence.job.workload
    if workload is None:
        return None
    word = job_status(workload, evidence.job.pods, evidence.keys).word
    about = f"{workload['kind'].lower()}/{workload['metadata']['name']}"
    if word == "Suspended":
        said = condition_proof(workload, "Suspended")
        told = known_proofs(Proof("spec", about, "suspend: true"), said)
        message = "spec.suspend is set, and not by gpuctl pause"
        if is_held(workload):
            message = f"it is kept out of Kueue's queue {queue_of(workload)}: gpuctl created it again after its end"
        return Finding("suspended", message, fix=command("resume", evidence), sources=told)
    if word == "ScaledToZero" and evidence.keys.scales_to_zero in annotations_of(workload):
        message = "its autoscaler has scaled it to 0, as `minReplicas: 0` in its document allows"
        fix = "it starts when its metric asks for pods"
        return Finding("suspended", message, {"replicas": 0}, fix, (Proof("spec", about, "replicas: 0"),))
    if word == "ScaledToZero":
        message = "spec.replicas is 0, and not by gpuctl pause"
        if evidence.scaler is not None:
            message += "; its autoscaler does nothing at 0"
        fix = f"`kubectl scale {about} -n {evidence.job.identity.namespace} --replicas=1`, or apply its document again"
        return Finding("suspended", message, {"replicas": 0}, fix, (Proof("spec", about, "replicas: 0"),))
    return None


def deadline_exceeded(evidence: Evidence) -> Finding | None:
    """The ``activeDeadlineSeconds`` of the Job or of its pods have passed."""
    workload = evidence.job.workload
    failed = condition(workload, "Failed") or condition(workload, "FailureTarget") if workload is not None else None
    if workload is not None and failed and failed.get("reason") == "DeadlineExceeded":
        seconds = (workload.get("spec") or {}).get("activeDeadlineSeconds")
        limit = f" ({rough_duration(seconds)})" if seconds else ""
        message = f"it ran for longer than its deadline{limit}, and was stopped"
        told = known_proofs(condition_proof(workload, "Failed") or condition_proof(workload, "FailureTarget"))
        fix = "raise `job.max_runtime`, or the Job's activeDeadlineSeconds if something else set it, and apply again; "
        fix += f"to run it again unchanged: {_rerun(evidence)}"
        return Finding("deadline-exceeded", message, {"deadlineSeconds": seconds}, fix, told)
    for pod in reversed(evidence.pods):
        if (pod.get("status") or {}).get("reason") == "DeadlineExceeded" and not _goes_on(evidence):
            seconds, name = pod["spec"].get("activeDeadlineSeconds"), pod["metadata"]["name"]
            limit = f" of {rough_duration(seconds)}" if seconds else ""
            message = f"pod {name} ran for longer than its max_runtime{limit}, and was stopped"
            told = (Proof("status", f"pod/{name}", f"DeadlineExceeded: {one_line(pod['status'].get('message'))}"),)
            fix = "raise `job.max_runtime` and apply again"
            fix += (
                f", or run it again unchanged: {how_to_run_again(evidence)}"
                if workload and end_state(workload) == "failed"
                else ""
            )
            return Finding("deadline-exceeded", message, {"deadlineSeconds": seconds}, fix, told, name)
    return None


def _goes_on(evidence: Evidence) -> bool:
    return any((pod.get("status") or {}).get("phase") in ("Pending", "Running") for pod in evidence.pods)


def backoff_limit(evidence: Evidence) -> Finding | None:
    """The Job gave up. Other rules explain the failed pod while it exists."""
    workload = evidence.job.workload
    if workload is None or end_state(workload) != "failed":
        return None
    failed = condition(workload, "Failed") or condition(workload, "FailureTarget") or {}
    if failed.get("reason") == "DeadlineExceeded":
        return None
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    limit, count = spec.get("backoffLimitPerIndex", spec.get("backoffLimit")), status.get("failed")
    said = one_line(failed.get("message")) or failed.get("reason") or "it failed"
    numbers = {"failedPods": count, "backoffLimit": limit}
    told = known_proofs(
        condition_proof(workload, "Failed") or condition_proof(workload, "FailureTarget"),
        *(event_proof(event) for event in evidence.events_with("BackOff", "Failed", "Evicted", "Killing")[-2:]),
    )
    left = f"; {count_text(count, 'pod')} failed, and its job.retries is {limit}" if count and limit is not None else ""
    if is_array(workload):
        left = f"; indexes {status.get('failedIndexes')} failed, and its array.retries is {limit}"
        numbers = {**numbers, "failedIndexes": status.get("failedIndexes")}
    return Finding("backoff-limit", f"{said}{left}", numbers, _rerun(evidence), told)


def running(evidence: Evidence) -> Finding | None:
    """All pods run."""
    workload, pods = evidence.job.workload, evidence.pods
    if workload is None:
        # Only pods are left, or a user created them by hand.
        works = bool(pods) and all(pod_status(pod).word == "Running" and is_ready(pod) for pod in pods)
    else:
        works = not end_state(workload) and job_status(workload, evidence.job.pods, evidence.keys).word == "Running"
    if not works:
        return None
    ready = sum(map(is_ready, pods))
    numbers = {"pods": evidence.wanted, "readyPods": ready}
    # Ended pods may stay beside the pods that replaced them.
    at_work = [pod for pod in pods if pod_status(pod).phase == "running"]
    told = tuple(Proof("status", f"pod/{pod['metadata']['name']}", _how(pod, evidence)) for pod in at_work[:3])
    message = f"nothing is wrong: {count_text(evidence.wanted, 'pod')} run" + ("s" if evidence.wanted == 1 else "")
    fix = None
    if workload is not None and (size := running_size(evidence)):
        message, fix = f"nothing is wrong: it runs {size}", _growth(workload, evidence)
    if workload is not None and (workload.get("spec") or {}).get("paused"):
        message += "; its rollout is paused (spec.paused), so changes of its pods wait until it is resumed"
    return Finding("running", message, numbers, fix, told)


def running_size(evidence: Evidence) -> str:
    """Return with how many nodes an elastic training runs, such as ``with 3 of 2-4 nodes``; "" if with all, and for
    other jobs.
    """
    workload = evidence.job.workload
    if workload is None or node_bounds(workload) is None or end_state(workload):
        return ""
    status = job_status(workload, evidence.job.pods, evidence.keys)
    return status.reason if status.word == "Running" else ""


def _growth(workload: Object, evidence: Evidence) -> str:
    """Return how a training that runs with fewer nodes than the document allows gets more; "" if its controller adds
    the missing ones.
    """
    bounds, identity = node_bounds(workload), evidence.job.identity
    hints = {action: JobHint(action, identity.name, identity.namespace) for action in ("pause", "resume", "scale")}
    assert bounds is not None
    if node_count(workload) >= bounds.most:
        return ""
    if queue_of(workload):
        return (
            f"Kueue adds no nodes while it runs: {hints['pause']} and then {hints['resume']} have it admitted with as "
            "many as there is quota for"
        )
    return f"{hints['scale']._replace(options=(('nodes', str(bounds.most)),))} adds nodes"


def _how(pod: dict[str, object], evidence: Evidence) -> str:
    status = pod.get("status") or {}
    assert isinstance(status, dict)
    containers = status.get("containerStatuses") or []
    restarts = sum(int(item.get("restartCount") or 0) for item in containers)
    again = f", {count_text(restarts, 'restart')}" if restarts else ""
    begun = [((item.get("state") or {}).get("running") or {}).get("startedAt") for item in containers]
    since = min((time for time in begun if time), default=None)
    return f"Running for {evidence.since(since)}{again}" if since else str(status.get("phase"))
