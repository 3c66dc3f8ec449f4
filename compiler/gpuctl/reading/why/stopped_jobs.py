"""Rules for jobs that should have no pods, or that have ended, and for jobs that run."""

from __future__ import annotations

from gpuctl.hints import JobHint, command_line, kubectl_line
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.array_jobs import array_progress, is_array
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.elastic_jobs import node_bounds, node_count
from gpuctl.objects.quantities import whole_number
from gpuctl.objects.queueing import is_held, queue_of
from gpuctl.objects.scheduled_jobs import is_run, is_scheduled
from gpuctl.objects.workload_state import FAILURE_CONDITIONS, end_state, failure_condition
from gpuctl.reading.jobs.events_of_jobs import event_time
from gpuctl.reading.jobs.schedule_status import run_times
from gpuctl.reading.jobs.status import is_ready, job_status, nodes_at_work, one_line, pod_status
from gpuctl.reading.why.event_proofs import condition_proof, event_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof

# Finalizers that the API server and controllers set while they delete.
_OWN_FINALIZERS = ("foregroundDeletion", "orphan", "kubernetes", "batch.kubernetes.io/job-tracking")


def command(verb: str, evidence: Evidence, *flags: str, job: str = "") -> Sentence:
    """Return a command in backquotes about the job, or another one of its namespace."""
    identity = evidence.job.identity
    return Sentence(command_line(verb, job or identity.name, f"-n {identity.namespace}", *flags))


def how_to_run_again(evidence: Evidence) -> Sentence:
    """Return what makes the job's pods run again."""
    workload = evidence.job.workload
    if workload is None:
        return say("no controller creates its pods: apply its document")
    if end_state(workload) == "failed":
        return _rerun(evidence)
    progress = array_progress(workload)
    if progress is not None and progress.failed:
        return say("{command} when the array has ended", command=_rerun(evidence))
    return say("its controller replaces the pod")


def forced_deletion(evidence: Evidence, pod: Object) -> Sentence:
    """Return the command that deletes the job, or a pod that is left of it, without waiting for its end."""
    if evidence.job.workload is not None:
        return command("delete job", evidence, "--force")
    return Sentence(
        kubectl_line("delete pod", pod["metadata"]["name"], "-n", evidence.job.identity.namespace, "--force")
    )


def _rerun(evidence: Evidence) -> Sentence:
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
        return Finding("succeeded", say("nothing is wrong: its pods have finished")) if through else None
    if end_state(workload) != "finished":
        return None
    status = workload.get("status") or {}
    numbers = {"succeededPods": status.get("succeeded"), "failedPods": status.get("failed") or 0}
    said = condition_proof(workload, "Complete") or condition_proof(workload, "Completed")
    message = say("nothing is wrong: it has finished")
    if status.get("completionTime"):
        since = evidence.since(status["completionTime"])
        message = say("nothing is wrong: it has finished {duration} ago", duration=since)
    return Finding("succeeded", message, numbers, sources=known_proofs(said))


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
        fix = say(
            "the controller that set the finalizer has to remove it; {command} shows all",
            command=kubectl_line("get", about, "-n", evidence.job.identity.namespace, "-o yaml"),
        )
        message = say("it is being deleted, and the finalizer {names:and} holds it", names=held)
        return Finding("terminating", message, numbers, fix, told)
    for pod in leaving:
        stuck = [name for name in pod["metadata"].get("finalizers") or [] if name not in _OWN_FINALIZERS]
        if stuck:
            name = pod["metadata"]["name"]
            message = say("it is being deleted; the finalizer {names:and} holds its pod {pod}", names=stuck, pod=name)
            fix = say("the controller that set the finalizer has to remove it")
            return Finding("terminating", message, {**numbers, "finalizers": stuck}, fix, told, name)
    if leaving:
        last = str(leaving[0]["metadata"]["name"])
        node = (leaving[0].get("spec") or {}).get("nodeName")
        late = evidence.seconds_since(leaving[0]["metadata"]["deletionTimestamp"]) or 0
        where = say(" on {node}", node=node) if node else ""
        waits = say(", {duration} past its grace period", duration=rough_duration(late)) if late > 0 else ""
        message = say(
            "it is being deleted; {pods:pod} still to stop ({pod}{where}{waits})",
            pods=len(leaving),
            pod=last,
            where=where,
            waits=waits,
        )
        forced = say(
            "{command} deletes it without waiting (its processes may still run and hold GPUs)",
            command=forced_deletion(evidence, leaving[0]),
        )
        return Finding("terminating", message, numbers, forced if late > 0 else None, told, last)
    return Finding("terminating", say("it is being deleted, since {duration}", duration=since), numbers, None, told)


def paused(evidence: Evidence) -> Finding | None:
    """``gpuctl pause`` stopped the job."""
    workload = evidence.job.workload
    if workload is None or job_status(workload, evidence.job.pods, evidence.keys).word != "Paused":
        return None
    told = Proof("spec", workload["kind"].lower(), f"annotation {evidence.keys.paused}")
    replicas = whole_number(annotations_of(workload).get(evidence.keys.paused, ""))
    numbers = {} if replicas is None else {"replicas": replicas}
    reason = one_line(annotations_of(workload).get(evidence.keys.pause_reason))
    message = say("it was paused: {text}", text=reason) if reason else say("it was stopped by gpuctl pause")
    return Finding("paused", message, numbers, command("resume", evidence), (told,))


def scheduled(evidence: Evidence) -> Finding | None:
    """No run of a scheduled training is unfinished, and its last one has not failed."""
    workload = evidence.job.workload
    if workload is None or not is_scheduled(workload) or workload["spec"].get("suspend"):
        return None
    times = run_times(workload, evidence.now.timestamp())
    parts = []
    if times.last is not None:
        parts.append(say("its last run was due {duration} ago", duration=evidence.since(times.last)))
    if times.next is not None:
        parts.append(say("the next run is at {time}", time=times.next))
    skipped = evidence.events_with("JobAlreadyActive", "MissSchedule")
    if skipped:
        why = one_line(skipped[-1].get("message"))
        ago = evidence.since(event_time(skipped[-1]))
        parts.append(say("a run was skipped {duration} ago ({text})", duration=ago, text=why))
    about = f"cronjob/{workload['metadata']['name']}"
    stated = Proof("spec", about, f"schedule: {workload['spec']['schedule']}")
    told = known_proofs(*(event_proof(event) for event in skipped[-1:]), stated)
    if times.problem:
        return Finding("scheduled", clauses(times.problem, *parts), fix=times.fix, sources=told)
    message = say("nothing is wrong: {parts:;}", parts=parts) if parts else say("nothing is wrong")
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
        message = say("spec.suspend is set, and not by gpuctl pause")
        if is_held(workload):
            message = say(
                "it is kept out of Kueue's queue {queue}: gpuctl created it again after its end",
                queue=queue_of(workload),
            )
        return Finding("suspended", message, fix=command("resume", evidence), sources=told)
    if word == "ScaledToZero" and evidence.keys.scales_to_zero in annotations_of(workload):
        message = say("its autoscaler has scaled it to 0, as `minReplicas: 0` in its document allows")
        fix = say("it starts when its metric asks for pods")
        return Finding("suspended", message, {"replicas": 0}, fix, (Proof("spec", about, "replicas: 0"),))
    if word == "ScaledToZero":
        message = say("spec.replicas is 0, and not by gpuctl pause")
        if evidence.scaler is not None:
            message = say("spec.replicas is 0, and not by gpuctl pause; its autoscaler does nothing at 0")
        fix = say(
            "{command}, or apply its document again",
            command=kubectl_line("scale", about, "-n", evidence.job.identity.namespace, "--replicas=1"),
        )
        return Finding("suspended", message, {"replicas": 0}, fix, (Proof("spec", about, "replicas: 0"),))
    return None


def deadline_exceeded(evidence: Evidence) -> Finding | None:
    """The ``activeDeadlineSeconds`` of the Job or of its pods have passed."""
    workload = evidence.job.workload
    failed = failure_condition(workload) if workload is not None else {}
    if workload is not None and failed and failed.get("reason") == "DeadlineExceeded":
        seconds = (workload.get("spec") or {}).get("activeDeadlineSeconds")
        limit = f" ({rough_duration(seconds)})" if seconds else ""
        message = say("it ran for longer than its deadline{limit}, and was stopped", limit=limit)
        told = known_proofs(_failure_proof(workload))
        fix = say(
            "raise `job.max_runtime`, or the Job's activeDeadlineSeconds if something else set it, and apply again; "
            "to run it again unchanged: {command}",
            command=_rerun(evidence),
        )
        return Finding("deadline-exceeded", message, {"deadlineSeconds": seconds}, fix, told)
    for pod in reversed(evidence.pods):
        if (pod.get("status") or {}).get("reason") == "DeadlineExceeded" and not _goes_on(evidence):
            seconds, name = pod["spec"].get("activeDeadlineSeconds"), pod["metadata"]["name"]
            limit = say(" of {duration}", duration=rough_duration(seconds)) if seconds else ""
            message = say(
                "pod {pod} ran for longer than its max_runtime{limit}, and was stopped", pod=name, limit=limit
            )
            told = (Proof("status", f"pod/{name}", f"DeadlineExceeded: {one_line(pod['status'].get('message'))}"),)
            fix = say("raise `job.max_runtime` and apply again")
            if workload and end_state(workload) == "failed":
                again = how_to_run_again(evidence)
                fix = say("raise `job.max_runtime` and apply again, or run it again unchanged: {again}", again=again)
            return Finding("deadline-exceeded", message, {"deadlineSeconds": seconds}, fix, told, name)
    return None


def _failure_proof(workload: Object) -> Proof | None:
    return next(filter(None, (condition_proof(workload, kind) for kind in FAILURE_CONDITIONS)), None)


def _goes_on(evidence: Evidence) -> bool:
    return any((pod.get("status") or {}).get("phase") in ("Pending", "Running") for pod in evidence.pods)


def backoff_limit(evidence: Evidence) -> Finding | None:
    """The Job gave up. Other rules explain the failed pod while it exists."""
    workload = evidence.job.workload
    if workload is None or end_state(workload) != "failed":
        return None
    failed = failure_condition(workload)
    if failed.get("reason") == "DeadlineExceeded":
        return None
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    limit, count = spec.get("backoffLimitPerIndex", spec.get("backoffLimit")), status.get("failed")
    said = one_line(failed.get("message")) or failed.get("reason") or say("it failed")
    numbers = {"failedPods": count, "backoffLimit": limit}
    told = known_proofs(
        _failure_proof(workload),
        *(event_proof(event) for event in evidence.events_with("BackOff", "Failed", "Evicted", "Killing")[-2:]),
    )
    left = ""
    if count and limit is not None:
        left = say("; {pods:pod} failed, and its job.retries is {limit}", pods=count, limit=limit)
    if is_array(workload):
        left = say(
            "; indexes {indexes} failed, and its array.retries is {limit}",
            indexes=status.get("failedIndexes"),
            limit=limit,
        )
        numbers = {**numbers, "failedIndexes": status.get("failedIndexes")}
    return Finding("backoff-limit", Sentence(f"{said}{left}"), numbers, _rerun(evidence), told)


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
    message = say("nothing is wrong: {pods:pod} {pods:runs/run}", pods=evidence.wanted)
    fix = None
    if workload is not None and (size := running_size(evidence)):
        message, fix = say("nothing is wrong: it runs {size}", size=size), _growth(workload, evidence)
    if workload is not None and (workload.get("spec") or {}).get("paused"):
        message = say(
            "{message}; its rollout is paused (spec.paused), so changes of its pods wait until it is resumed",
            message=message,
        )
    return Finding("running", message, numbers, fix, told)


def running_size(evidence: Evidence) -> Sentence:
    """Return with how many nodes an elastic training runs, such as ``with 3 of 2-4 nodes``; "" if with all, and for
    other jobs.
    """
    workload, pods = evidence.job.workload, evidence.job.pods
    bounds = None if workload is None else node_bounds(workload)
    if workload is None or bounds is None or end_state(workload):
        return Sentence("")
    status = job_status(workload, pods, evidence.keys)
    if status.word != "Running" or not status.reason:
        return Sentence("")
    return say("with {up} of {bounds} nodes", up=nodes_at_work(pods), bounds=bounds)


def _growth(workload: Object, evidence: Evidence) -> Sentence:
    """Return how a training that runs with fewer nodes than the document allows gets more; "" if its controller adds
    the missing ones.
    """
    bounds, identity = node_bounds(workload), evidence.job.identity
    hints = {action: JobHint(action, identity.name, identity.namespace) for action in ("pause", "resume", "scale")}
    assert bounds is not None
    if node_count(workload) >= bounds.most:
        return Sentence("")
    if queue_of(workload):
        return say(
            "Kueue adds no nodes while it runs: {pause} and then {resume} have it admitted with as many as there is "
            "quota for",
            pause=hints["pause"],
            resume=hints["resume"],
        )
    scale = hints["scale"]._replace(options=(("nodes", str(bounds.most)),))
    return say("{command} adds nodes", command=scale)


def _how(pod: dict[str, object], evidence: Evidence) -> str:
    status = pod.get("status") or {}
    assert isinstance(status, dict)
    containers = status.get("containerStatuses") or []
    restarts = sum(int(item.get("restartCount") or 0) for item in containers)
    again = say(", {restarts:restart}", restarts=restarts) if restarts else ""
    begun = [((item.get("state") or {}).get("running") or {}).get("startedAt") for item in containers]
    since = min((time for time in begun if time), default=None)
    return (
        say("Running for {time}{restarts}", time=evidence.since(since), restarts=again)
        if since
        else str(status.get("phase"))
    )
