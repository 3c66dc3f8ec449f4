"""Rules for containers that ended: the cause from kubelet's reason, events, the exit code, and the end of the log."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import replace

from gpuctl.capacity.pod_requests import container_limits
from gpuctl.capacity.quota_charges import format_amount
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.reading.event_rows import event_time
from gpuctl.reading.job_rows import INDEX
from gpuctl.reading.log_streams import select_container as container_of_log
from gpuctl.reading.status import one_line
from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.container_exits import ContainerExit, container_exits
from gpuctl.reading.why.containers import gpu_driver, no_command
from gpuctl.reading.why.event_proofs import container_of, event_proof, object_title
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof, count_text, most_urgent, repeated
from gpuctl.reading.why.log_patterns import PROGRAM_CAUSES
from gpuctl.reading.why.program_errors import program_error
from gpuctl.reading.why.stopped_jobs import command, how_to_run_again

_PROBE = re.compile(r"Container (?P<container>\S+) failed (?P<probe>liveness|startup) probe")
# Reasons set by the kubelet or the scheduler; other rules handle them.
_NOT_ITS_OWN = frozenset(
    {"Evicted", "DeadlineExceeded", "UnexpectedAdmissionError", "NodeLost", "Terminated", "NodeShutdown", "Preempting"}
)
_BROKEN = frozenset({"nccl-error", "rendezvous-failed"})
_SIGNALS = {132: "SIGILL", 134: "SIGABRT", 136: "SIGFPE", 139: "SIGSEGV"}
_BUS, _KILL, _TERM = 128 + signal.SIGBUS, 128 + signal.SIGKILL, 128 + signal.SIGTERM


def crashed(evidence: Evidence) -> Finding | None:
    """A container crashed. Of several exits the most specific counts, and of equal ones the first, which ended the
    others.
    """
    found = container_exits(_latest(evidence), evidence.now)
    findings = [(end, _finding(evidence, end)) for end in found]
    # A rank that ends for a cause of its own breaks the connections of the other ranks, which end later.
    others = [end.finished for end, item in findings if item.cause not in _BROKEN]
    kept = [item for end, item in findings if item.cause not in _BROKEN or end.finished <= min(others, default="~")]
    return most_urgent(replace(item, weight=-number) for number, item in enumerate(kept))


def _latest(evidence: Evidence) -> list[Object]:
    """Return the pods of the last attempt, one for each index."""
    workload = evidence.job.workload
    single = workload is not None and workload["kind"] == "Job" and workload["spec"].get("parallelism", 1) == 1
    found: dict[str, Object] = {}
    for pod in evidence.pods:
        if (pod.get("status") or {}).get("reason") not in _NOT_ITS_OWN:
            found[labels_of(pod).get(INDEX) or ("" if single else pod["metadata"]["name"])] = pod
    return list(found.values())


def _finding(evidence: Evidence, end: ContainerExit) -> Finding:
    pod = next(item for item in evidence.pods if item["metadata"]["name"] == end.pod)
    lines = evidence.logs.get((end.pod, end.container)) or log.lines_of(end.message)
    said = log.diagnose(lines)
    told = tuple(_sources(evidence, end, said, pod))
    numbers = {"exitCode": end.code, "container": end.container, "restarts": end.restarts}
    where = f"{'init container' if end.init else 'container'} {end.container} of pod {end.pod}"
    again = _again(evidence, end)
    if (
        end.reason in ("StartError", "ContainerCannotRun")
        and log.diagnose([one_line(end.message)]).cause == "gpu-driver-error"
    ):
        return gpu_driver(pod, log.printable(one_line(end.message)), numbers, told, again)
    if end.reason in ("StartError", "ContainerCannotRun"):
        found = no_command(one_line(end.message), end.container, told, end.pod)
        return replace(found, numbers={**found.numbers, **numbers})
    if end.code in (126, 127):
        what = "was not found" if end.code == 127 else "cannot be executed"
        line = f": {said.line}" if said.line else ""
        message = f"a command {what} (exit code {end.code}) in {where}{line}{again}"
        fix = "correct `environment.command` or the script that it runs, or use an image that has it"
        return Finding("command-not-found", message, numbers, fix, told, end.pod)
    if end.reason == "OOMKilled":
        return _out_of_memory(pod, end, numbers, told, again)
    probe = _probe(evidence, end, pod)
    if probe is not None:
        return probe
    if said.cause == "cuda-out-of-memory":
        return _gpu_memory(end, said, numbers, told, again)
    if said.cause in _OF_GPUS:
        return _OF_GPUS[said.cause](evidence, pod, end, said, numbers, told, again)
    if said.cause in PROGRAM_CAUSES and end.code not in (0, _KILL, _TERM):
        return program_error(said.cause, pod, end, said, numbers, told, again)
    if said.cause == "shm-exhausted" or end.code == _BUS:
        return _shared_memory(pod, end, numbers, told, again, is_said=bool(said.cause))
    line = f": {said.line}" if said.line else ""
    if end.code in _SIGNALS:
        name = _SIGNALS[end.code]
        message = f"the program crashed with {name} (exit code {end.code}) in {where}{again}"
        fix = "set `PYTHONFAULTHANDLER=1` in `environment.env` to see where; often it is a native library"
        return Finding("segmentation-fault", message, {**numbers, "signal": name}, fix, told, end.pod)
    if end.code == _KILL:
        message = f"{where} was killed (SIGKILL), and kubelet reports no reason{again}"
        fix = (
            "look for what killed it: its node ran out of memory or was shut down, or it did not end within its grace "
            f"period; {command('describe job', evidence)} shows the events"
        )
        return Finding("killed", message, numbers, fix, told, end.pod)
    if end.code == _TERM:
        message = f"{where} was terminated (SIGTERM){again}"
        fix = f"look for what terminated it: {command('describe job', evidence)} shows the events"
        return Finding("terminated", message, numbers, fix, told, end.pod)
    if end.code == 0:
        message = f"the program in {where} exits without an error, but a service has to keep running{again}"
        fix = "let `environment.command` stay in the foreground, or write it as `kind: training`"
        return Finding("application-error", message, numbers, fix, told, end.pod)
    message = f"the program ended with exit code {end.code} in {where}{line}{again}"
    fix = _its_log(evidence, end, pod)
    return Finding("application-error", message, numbers, fix, told, end.pod)


def _its_log(evidence: Evidence, end: ContainerExit, pod: Object) -> str:
    """Return how to see what the container wrote until this exit."""
    if not evidence.may_read_logs:
        return "ask a user who may read logs for its output"
    flags = [f"--pod {end.pod}"] if len(evidence.job.pods) > 1 else []
    if end.container != container_of_log(pod, None):
        flags.append(f"-c {end.container}")
    shown = command("logs", evidence, *flags, *(["--previous"] if end.previous else [])) + " shows what it wrote"
    workload = evidence.job.workload
    return f"{shown}; then {how_to_run_again(evidence)}" if workload is not None and is_array(workload) else shown


def _hardware(
    evidence: Evidence,
    pod: Object,
    end: ContainerExit,
    said: log.LogDiagnosis,
    numbers: dict[str, object],
    told: Told,
    run: str,
) -> Finding:
    message = f"a GPU of {end.node} reported a hardware error to pod {end.pod}: {said.line}{run}"
    fix = (
        f"ask the administrators to look at {end.node}, and to keep other jobs away (`kubectl cordon {end.node}`); "
        f"then {how_to_run_again(evidence)}"
    )
    return Finding("gpu-hardware-error", message, {**numbers, "node": end.node}, fix, told, end.pod)


def _driver(
    evidence: Evidence,
    pod: Object,
    end: ContainerExit,
    said: log.LogDiagnosis,
    numbers: dict[str, object],
    told: Told,
    run: str,
) -> Finding:
    return gpu_driver(pod, said.line, numbers, told, run)


def _communication(
    evidence: Evidence,
    pod: Object,
    end: ContainerExit,
    said: log.LogDiagnosis,
    numbers: dict[str, object],
    told: Told,
    run: str,
) -> Finding:
    message = (
        f"communication between its GPUs failed in pod {end.pod} on {end.node} (exit code {end.code}): {said.line}{run}"
    )
    fix = (
        "set `NCCL_DEBUG=INFO` in `environment.env` to see which link failed; check the network between its nodes, "
        f"`NCCL_SOCKET_IFNAME`, and `resources.shm`; {_its_log(evidence, end, pod)}"
    )
    return Finding("nccl-error", message, {**numbers, "node": end.node}, fix, told, end.pod)


Told = tuple[Proof, ...]
_OF_GPUS = {"gpu-hardware-error": _hardware, "gpu-driver-error": _driver, "nccl-error": _communication}


def _again(evidence: Evidence, end: ContainerExit) -> str:
    if not end.restarts:
        return ""
    tried = f"; restarted {repeated(end.restarts)}"
    return (
        f"{tried}, running again for {evidence.since(end.since)}" if end.running else f"{tried}, waits to start again"
    )


def _sources(evidence: Evidence, end: ContainerExit, said: log.LogDiagnosis, pod: Object) -> Iterator[Proof]:
    reason = f"{end.reason}, " if end.reason else ""
    yield Proof(
        "status", f"pod/{end.pod}", f"container {end.container} ended: {reason}exit code {end.code}", end.finished
    )
    if said.line and end.reason != "OOMKilled":
        yield Proof("log", f"pod/{end.pod}", said.line)
    for event in evidence.events_with("Killing", "Unhealthy", pod=pod)[-2:]:
        yield event_proof(event)
    workload = evidence.job.workload
    if workload is None:
        return
    failed = [item for item in (workload.get("status") or {}).get("conditions") or [] if item.get("type") == "Failed"]
    for item in failed:
        text = f"Failed: {item.get('reason')}: {one_line(item.get('message'))}"
        yield Proof("condition", object_title(workload), text, item.get("lastTransitionTime"))


def _out_of_memory(
    pod: Object, end: ContainerExit, numbers: dict[str, object], told: tuple[Proof, ...], again: str
) -> Finding:
    limit = container_limits(_container(pod, end.container)).get("memory")
    text = format_amount("memory", limit) if limit else None
    of = f"its limit of {text} memory" if text else "the memory that its node had (it has no limit)"
    message = f"container {end.container} of pod {end.pod} used more than {of}, and was killed{again}"
    fix = f"raise `resources.memory` above {text}" if text else "set `resources.memory`"
    shared = any(
        (volume.get("emptyDir") or {}).get("medium") == "Memory" for volume in pod["spec"].get("volumes") or []
    )
    also = " (files in /dev/shm count too)" if shared else ""
    fix += f", or use less: smaller batches, fewer data loader workers{also}"
    amount = int(limit) if limit else None
    return Finding("out-of-memory", message, {**numbers, "limitBytes": amount, "limit": text}, fix, told, end.pod)


def _gpu_memory(
    end: ContainerExit, said: log.LogDiagnosis, numbers: dict[str, object], told: tuple[Proof, ...], again: str
) -> Finding:
    parts = []
    if "tried" in said.numbers:
        parts.append(f"it tried to allocate {said.numbers['tried']}")
    if "free" in said.numbers:
        parts.append(f"{said.numbers['free']} of {said.numbers.get('total', 'the card')} were free")
    detail = f": {', '.join(parts)}" if parts else ""
    message = f"the memory of the GPU was not enough{detail} (pod {end.pod}, exit code {end.code}){again}"
    fix = "a smaller batch or context, gradient checkpointing, more GPUs, or a `resources.gpu-type` with more memory"
    return Finding("cuda-out-of-memory", message, {**numbers, **said.numbers}, fix, told, end.pod)


def _shared_memory(
    pod: Object, end: ContainerExit, numbers: dict[str, object], told: tuple[Proof, ...], again: str, *, is_said: bool
) -> Finding:
    size = None
    mounts = _container(pod, end.container).get("volumeMounts") or []
    name = next((mount["name"] for mount in mounts if mount.get("mountPath") == "/dev/shm"), None)  # noqa: S108
    for volume in pod["spec"].get("volumes") or []:
        if volume["name"] == name:
            size = (volume.get("emptyDir") or {}).get("sizeLimit")
    has = str(size) if size else "64Mi, the runtime's default"
    where = f"(pod {end.pod}, exit code {end.code}){again}"
    message = f"shared memory (/dev/shm, {has}) was too small {where}"
    if not is_said:
        message = f"a bus error, mostly a sign that shared memory (/dev/shm, {has}) is too small {where}"
    fix = f"raise `resources.shm` above {size or '64Mi'}, or use fewer data loader workers"
    return Finding("shm-exhausted", message, {**numbers, "shm": size}, fix, told, end.pod)


def _container(pod: Object, name: str) -> Object:
    spec = pod["spec"]
    every = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    return next((item for item in every if item["name"] == name), {})


def _probe(evidence: Evidence, end: ContainerExit, pod: Object) -> Finding | None:
    """kubelet killed the container because a probe failed. Events older than this run are ignored."""
    for event in reversed(evidence.events_with("Killing", pod=pod)):
        match = _PROBE.search(event.get("message") or "")
        if match is None or match["container"] != end.container or event_time(event)[:19] < end.started[:19]:
            continue
        unhealthy = [
            item
            for item in evidence.events_with("Unhealthy", pod=pod)
            if match["probe"] in (item.get("message") or "").lower()
        ]
        why = one_line(unhealthy[-1].get("message")) if unhealthy else ""
        said = f": {why.partition(': ')[2] or why}" if why else ""
        stopped = f"kubelet stopped container {end.container} of pod {end.pod}"
        message = f"its {match['probe']} probe fails{said}; {stopped}{_again(evidence, end)}"
        fix = _probe_fix(match["probe"])
        numbers = {"probe": match["probe"], "exitCode": end.code, "restarts": end.restarts}
        told = tuple(event_proof(item) for item in (*unhealthy[-1:], event))
        return Finding("probe-failed", message, numbers, fix, told, end.pod)
    return None


def _probe_fix(probe: str) -> str:
    if probe == "startup":
        return "raise `service.startup_timeout` if it only takes long to load; otherwise correct `service.health_check`"
    return "look in its log for why it does not answer; `service.health_check` names the path, `service.port` the port"


def unready(evidence: Evidence) -> Finding | None:
    """Containers run, but their readiness or startup probe fails."""
    for pod in evidence.pods:
        status = pod.get("status") or {}
        if status.get("phase") != "Running" or container_exits([pod], evidence.now):
            continue
        unready = [item for item in status.get("containerStatuses") or [] if not item.get("ready")]
        told = [(item, _unhealthy(evidence, pod, item)) for item in unready]
        waiting = [item for item, events in told if events]
        unhealthy = [event for _, events in told for event in events]
        if not waiting:
            continue
        text = one_line(unhealthy[-1].get("message"))
        probe = text.partition(" ")[0].lower()
        name = pod["metadata"]["name"]
        since = evidence.since((waiting[0].get("state") or {}).get("running", {}).get("startedAt"))
        count = int(unhealthy[-1].get("count") or 1)
        numbers = {"probe": probe, "container": waiting[0]["name"], "failures": count}
        why = text.partition(": ")[2] or text
        unreadies = sum(not _is_up(item) for item in evidence.pods)
        many = f"{count_text(unreadies, 'pod')} of {evidence.wanted} not ready: " if evidence.wanted > 1 else ""
        message = f"{many}pod {name} has been running for {since}, but its {probe} probe fails: {why}"
        return Finding("probe-failed", message, numbers, _probe_fix(probe), (event_proof(unhealthy[-1]),), name)
    return None


def _unhealthy(evidence: Evidence, pod: Object, container: Object) -> list[Object]:
    """Return the failed probes of a container's current run."""
    begun = ((container.get("state") or {}).get("running") or {}).get("startedAt")
    if not begun:
        return []
    events = [item for item in evidence.events_with("Unhealthy", pod=pod) if event_time(item)[:19] >= begun[:19]]
    return [item for item in events if container_of(item) in (None, container["name"])]


def _is_up(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
