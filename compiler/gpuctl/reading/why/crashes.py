"""Rules for containers that ended: the cause from kubelet's reason, events, the exit code, and the end of the log."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuctl.capacity.snapshot.pod_requests import container_limits
from gpuctl.language.display_text import count_text
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.workload_state import condition, find_condition
from gpuctl.reading.jobs.event_rows import event_time
from gpuctl.reading.jobs.job_objects import INDEX
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.logs.log_streams import select_container as container_of_log
from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.container_exits import ContainerExit, container_exits
from gpuctl.reading.why.containers import gpu_driver, no_command
from gpuctl.reading.why.event_proofs import container_of, event_proof, object_title
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof, most_urgent, repeated
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


@dataclass(frozen=True)
class _Crash:
    """A container that ended, with what is known of it.

    ``said``: the cause in its log. ``numbers`` and ``sources`` are those of every finding about it. ``again``: text
    about its restarts; "" without any.
    """

    evidence: Evidence
    pod: Object
    end: ContainerExit
    said: log.LogDiagnosis
    numbers: dict[str, object]
    sources: tuple[Proof, ...]
    again: str

    @property
    def where(self) -> str:
        """Return the container and its pod, as in messages."""
        return f"{'init container' if self.end.init else 'container'} {self.end.container} of pod {self.end.pod}"

    @property
    def container(self) -> Object:
        """Return the container's spec; empty if the pod has none of its name."""
        spec = self.pod["spec"]
        every = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
        return next((item for item in every if item["name"] == self.end.container), {})

    @property
    def volumes(self) -> list[Object]:
        """Return the pod's volumes."""
        return self.pod["spec"].get("volumes") or []

    def finding(self, cause: str, message: str, fix: str, **numbers: object) -> Finding:
        """Return a finding about the crash; ``again`` is added to the message."""
        return Finding(cause, message + self.again, {**self.numbers, **numbers}, fix, self.sources, self.end.pod)


def _finding(evidence: Evidence, end: ContainerExit) -> Finding:
    pod = next(item for item in evidence.pods if item["metadata"]["name"] == end.pod)
    said = log.diagnose(evidence.logs.get((end.pod, end.container)) or log.lines_of(end.message))
    numbers: dict[str, object] = {"exitCode": end.code, "container": end.container, "restarts": end.restarts}
    sources = tuple(_sources(evidence, end, said, pod))
    return _diagnose(_Crash(evidence, pod, end, said, numbers, sources, _again(evidence, end)))


def _diagnose(crash: _Crash) -> Finding:
    end, said, where = crash.end, crash.said, crash.where
    line = f": {said.line}" if said.line else ""
    if end.reason in ("StartError", "ContainerCannotRun"):
        return _not_started(crash)
    if end.code in (126, 127):
        what = "was not found" if end.code == 127 else "cannot be executed"
        message = f"a command {what} (exit code {end.code}) in {where}{line}"
        fix = "correct `environment.command` or the script that it runs, or use an image that has it"
        return crash.finding("command-not-found", message, fix)
    if end.reason == "OOMKilled":
        return _out_of_memory(crash)
    probe = _probe(crash.evidence, end, crash.pod)
    if probe is not None:
        return probe
    if said.cause in _BY_LOG:
        return _BY_LOG[said.cause](crash)
    if said.cause in PROGRAM_CAUSES and end.code not in (0, _KILL, _TERM):
        what, fix, more = program_error(said.cause, crash.pod, end, said.line)
        message = f"{what}: {said.line} (pod {end.pod}, exit code {end.code})"
        return crash.finding(said.cause, message, fix, **more)
    if said.cause == "shm-exhausted" or end.code == _BUS:
        return _shared_memory(crash)
    if end.code in _SIGNALS:
        name = _SIGNALS[end.code]
        message = f"the program crashed with {name} (exit code {end.code}) in {where}"
        fix = "set `PYTHONFAULTHANDLER=1` in `environment.env` to see where; often it is a native library"
        return crash.finding("segmentation-fault", message, fix, signal=name)
    described = command("describe job", crash.evidence)
    if end.code == _KILL:
        message = f"{where} was killed (SIGKILL), and kubelet reports no reason"
        fix = (
            "look for what killed it: its node ran out of memory or was shut down, or it did not end within its grace "
            f"period; {described} shows the events"
        )
        return crash.finding("killed", message, fix)
    if end.code == _TERM:
        fix = f"look for what terminated it: {described} shows the events"
        return crash.finding("terminated", f"{where} was terminated (SIGTERM)", fix)
    if end.code == 0:
        message = f"the program in {where} exits without an error, but a service has to keep running"
        fix = "let `environment.command` stay in the foreground, or write it as `kind: training`"
        return crash.finding("application-error", message, fix)
    message = f"the program ended with exit code {end.code} in {where}{line}"
    return crash.finding("application-error", message, _its_log(crash))


def _its_log(crash: _Crash) -> str:
    """Return how to see what the container wrote until this exit."""
    evidence, end = crash.evidence, crash.end
    if not evidence.may_read_logs:
        return "ask a user who may read logs for its output"
    flags = [f"--pod {end.pod}"] if len(evidence.job.pods) > 1 else []
    if end.container != container_of_log(crash.pod, None):
        flags.append(f"-c {end.container}")
    shown = command("logs", evidence, *flags, *(["--previous"] if end.previous else [])) + " shows what it wrote"
    workload = evidence.job.workload
    return f"{shown}; then {how_to_run_again(evidence)}" if workload is not None and is_array(workload) else shown


def _not_started(crash: _Crash) -> Finding:
    text = one_line(crash.end.message)
    if log.diagnose([text]).cause == "gpu-driver-error":
        return gpu_driver(crash.pod, log.printable(text), crash.numbers, crash.sources, crash.again)
    found = no_command(text, crash.end.container, crash.sources, crash.end.pod)
    return replace(found, numbers={**found.numbers, **crash.numbers})


def _hardware(crash: _Crash) -> Finding:
    node = crash.end.node
    message = f"a GPU of {node} reported a hardware error to pod {crash.end.pod}: {crash.said.line}"
    fix = (
        f"ask the administrators to look at {node}, and to keep other jobs away (`kubectl cordon {node}`); "
        f"then {how_to_run_again(crash.evidence)}"
    )
    return crash.finding("gpu-hardware-error", message, fix, node=node)


def _driver(crash: _Crash) -> Finding:
    return gpu_driver(crash.pod, crash.said.line, crash.numbers, crash.sources, crash.again)


def _communication(crash: _Crash) -> Finding:
    end = crash.end
    message = (
        f"communication between its GPUs failed in pod {end.pod} on {end.node} (exit code {end.code}): "
        f"{crash.said.line}"
    )
    fix = (
        "set `NCCL_DEBUG=INFO` in `environment.env` to see which link failed; check the network between its nodes, "
        f"`NCCL_SOCKET_IFNAME`, and `resources.shm`; {_its_log(crash)}"
    )
    return crash.finding("nccl-error", message, fix, node=end.node)


def _out_of_memory(crash: _Crash) -> Finding:
    limit = container_limits(crash.container).get("memory")
    text = format_amount("memory", limit) if limit else None
    of = f"its limit of {text} memory" if text else "the memory that its node had (it has no limit)"
    message = f"container {crash.end.container} of pod {crash.end.pod} used more than {of}, and was killed"
    fix = f"raise `resources.memory` above {text}" if text else "set `resources.memory`"
    shared = any((volume.get("emptyDir") or {}).get("medium") == "Memory" for volume in crash.volumes)
    also = " (files in /dev/shm count too)" if shared else ""
    fix += f", or use less: smaller batches, fewer data loader workers{also}"
    return crash.finding("out-of-memory", message, fix, limitBytes=int(limit) if limit else None, limit=text)


def _gpu_memory(crash: _Crash) -> Finding:
    said, end = crash.said.numbers, crash.end
    parts = []
    if "tried" in said:
        parts.append(f"it tried to allocate {said['tried']}")
    if "free" in said:
        parts.append(f"{said['free']} of {said.get('total', 'the card')} were free")
    detail = f": {', '.join(parts)}" if parts else ""
    message = f"the memory of the GPU was not enough{detail} (pod {end.pod}, exit code {end.code})"
    fix = "a smaller batch or context, gradient checkpointing, more GPUs, or a `resources.gpu-type` with more memory"
    return crash.finding("cuda-out-of-memory", message, fix, **said)


def _shared_memory(crash: _Crash) -> Finding:
    size = None
    mounts = crash.container.get("volumeMounts") or []
    name = next((mount["name"] for mount in mounts if mount.get("mountPath") == "/dev/shm"), None)  # noqa: S108
    for volume in crash.volumes:
        if volume["name"] == name:
            size = (volume.get("emptyDir") or {}).get("sizeLimit")
    has = str(size) if size else "64Mi, the runtime's default"
    message = f"shared memory (/dev/shm, {has}) was too small"
    if not crash.said.cause:
        message = f"a bus error, mostly a sign that shared memory (/dev/shm, {has}) is too small"
    message += f" (pod {crash.end.pod}, exit code {crash.end.code})"
    fix = f"raise `resources.shm` above {size or '64Mi'}, or use fewer data loader workers"
    return crash.finding("shm-exhausted", message, fix, shm=size)


_BY_LOG = {
    "cuda-out-of-memory": _gpu_memory,
    "gpu-hardware-error": _hardware,
    "gpu-driver-error": _driver,
    "nccl-error": _communication,
}
"""Cause in the log -> its rule."""


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
    item = find_condition(workload, "Failed")
    if item:
        text = f"Failed: {item.get('reason')}: {one_line(item.get('message'))}"
        yield Proof("condition", object_title(workload), text, item.get("lastTransitionTime"))


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
    return condition(pod, "Ready") is not None
