"""Rules for containers that ended: the cause from kubelet's reason, events, the exit code, and the end of the log."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuctl.capacity.snapshot.pod_requests import container_limits
from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.pod_specs import containers_of
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.role_jobs import REPLICATED_JOB_LABEL
from gpuctl.objects.workload_state import find_condition
from gpuctl.reading.jobs.job_objects import INDEX
from gpuctl.reading.jobs.pod_selection import select_container
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.container_exits import ContainerExit, container_exits
from gpuctl.reading.why.containers import gpu_driver, no_command
from gpuctl.reading.why.errors_in_logs import program_error
from gpuctl.reading.why.event_proofs import event_proof, object_title
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof, most_urgent, repeated
from gpuctl.reading.why.log_patterns import PROGRAM_CAUSES
from gpuctl.reading.why.probes import failed_probe
from gpuctl.reading.why.stopped_jobs import command, how_to_run_again

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
    """Return the pods of the last attempt, one for each index of each role."""
    workload = evidence.job.workload
    single = workload is not None and workload["kind"] == "Job" and workload["spec"].get("parallelism", 1) == 1
    found: dict[tuple[str, str], Object] = {}
    for pod in evidence.pods:
        if (pod.get("status") or {}).get("reason") not in _NOT_ITS_OWN:
            labels = labels_of(pod)
            index = labels.get(INDEX) or ("" if single else pod["metadata"]["name"])
            found[labels.get(REPLICATED_JOB_LABEL, ""), index] = pod
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
    def where(self) -> Sentence:
        """Return the container and its pod, as in messages."""
        names = {"container": self.end.container, "pod": self.end.pod}
        if self.end.init:
            return say("init container {container} of pod {pod}", **names)
        return say("container {container} of pod {pod}", **names)

    @property
    def container(self) -> Object:
        """Return the container's spec; empty if the pod has none of its name."""
        return next((item for item in containers_of(self.pod["spec"]) if item["name"] == self.end.container), {})

    @property
    def volumes(self) -> list[Object]:
        """Return the pod's volumes."""
        return self.pod["spec"].get("volumes") or []

    @property
    def is_sidecar(self) -> bool:
        """Return True for a native sidecar, which kubelet restarts whatever its exit code."""
        return self.end.init and self.container.get("restartPolicy") == "Always"

    @property
    def memory_field(self) -> str:
        """Return the field of the document that sets the container's memory."""
        if self.end.init:
            return "sidecars[].resources.memory" if self.is_sidecar else "init[].resources.memory"
        return "resources.memory" if self.end.container == select_container(self.pod, None) else "podPatch"

    def finding(self, cause: str, message: Sentence, fix: Sentence, **numbers: object) -> Finding:
        """Return a finding about the crash; ``again`` is added to the message."""
        whole = Sentence(message + self.again)
        return Finding(cause, whole, {**self.numbers, **numbers}, fix, self.sources, self.end.pod)


def _finding(evidence: Evidence, end: ContainerExit) -> Finding:
    pod = next(item for item in evidence.pods if item["metadata"]["name"] == end.pod)
    said = log.diagnose(evidence.logs.get((end.pod, end.container)) or log.lines_of(end.message))
    numbers: dict[str, object] = {"exitCode": end.code, "container": end.container, "restarts": end.restarts}
    sources = tuple(_sources(evidence, end, said, pod))
    return _diagnose(_Crash(evidence, pod, end, said, numbers, sources, _again(evidence, end)))


def _diagnose(crash: _Crash) -> Finding:
    end, said, where = crash.end, crash.said, crash.where
    ended = {"code": end.code, "where": where, "line": say(": {text}", text=said.line) if said.line else ""}
    if end.reason in ("StartError", "ContainerCannotRun"):
        return _not_started(crash)
    if end.code in (126, 127):
        message = say("a command cannot be executed (exit code {code}) in {where}{line}", **ended)
        if end.code == 127:
            message = say("a command was not found (exit code {code}) in {where}{line}", **ended)
        fix = say("correct `environment.command` or the script that it runs, or use an image that has it")
        return crash.finding("command-not-found", message, fix)
    if end.reason == "OOMKilled":
        return _out_of_memory(crash)
    probe = failed_probe(crash.evidence, end, crash.pod, crash.again)
    if probe is not None:
        return probe
    if said.cause in _BY_LOG:
        return _BY_LOG[said.cause](crash)
    if said.cause in PROGRAM_CAUSES and end.code not in (0, _KILL, _TERM):
        what, fix, more = program_error(said.cause, crash.pod, end, said.line)
        message = say(
            "{what}: {line} (pod {pod}, exit code {code})", what=what, line=said.line, pod=end.pod, code=end.code
        )
        return crash.finding(said.cause, message, fix, **more)
    if said.cause == "shm-exhausted" or end.code == _BUS:
        return _shared_memory(crash)
    if end.code in _SIGNALS:
        name = _SIGNALS[end.code]
        message = say("the program crashed with {signal} (exit code {code}) in {where}", signal=name, **ended)
        fix = say("set `PYTHONFAULTHANDLER=1` in `environment.env` to see where; often it is a native library")
        return crash.finding("segmentation-fault", message, fix, signal=name)
    described = command("describe job", crash.evidence)
    if end.code == _KILL:
        message = say("{where} was killed (SIGKILL), and kubelet reports no reason", where=where)
        fix = say(
            "look for what killed it: its node ran out of memory or was shut down, or it did not end within its grace "
            "period; {command} shows the events",
            command=described,
        )
        return crash.finding("killed", message, fix)
    if end.code == _TERM:
        fix = say("look for what terminated it: {command} shows the events", command=described)
        return crash.finding("terminated", say("{where} was terminated (SIGTERM)", where=where), fix)
    if end.code == 0 and crash.is_sidecar:
        message = say("{where} exits without an error, but a sidecar has to keep running", where=where)
        fix = say("let its command stay in the foreground, or write it in `init` if it only prepares the program")
        return crash.finding("application-error", message, fix)
    if end.code == 0:
        message = say("the program in {where} exits without an error, but a service has to keep running", where=where)
        fix = say("let `environment.command` stay in the foreground, or write it as `kind: training`")
        return crash.finding("application-error", message, fix)
    message = say("the program ended with exit code {code} in {where}{line}", **ended)
    return crash.finding("application-error", message, _its_log(crash))


def _its_log(crash: _Crash) -> Sentence:
    """Return how to see what the container wrote until this exit."""
    evidence, end = crash.evidence, crash.end
    if not evidence.may_read_logs:
        return say("ask a user who may read logs for its output")
    flags = [f"--pod {end.pod}"] if len(evidence.job.pods) > 1 else []
    if end.container != select_container(crash.pod, None):
        flags.append(f"-c {end.container}")
    logs = command("logs", evidence, *flags, *(["--previous"] if end.previous else []))
    workload = evidence.job.workload
    if workload is None or not is_array(workload):
        return say("{command} shows what it wrote", command=logs)
    return say("{command} shows what it wrote; then {again}", command=logs, again=how_to_run_again(evidence))


def _not_started(crash: _Crash) -> Finding:
    text = one_line(crash.end.message)
    if log.diagnose([text]).cause == "gpu-driver-error":
        return gpu_driver(crash.pod, log.masked_excerpt(text), crash.numbers, crash.sources, crash.again)
    found = no_command(text, crash.end.container, crash.sources, crash.end.pod)
    return replace(found, numbers={**found.numbers, **crash.numbers})


def _hardware(crash: _Crash) -> Finding:
    node = crash.end.node
    message = say(
        "a GPU of {node} reported a hardware error to pod {pod}: {line}",
        node=node,
        pod=crash.end.pod,
        line=crash.said.line,
    )
    fix = say(
        "ask the administrators to look at {node}, and to keep other jobs away ({command}); then {again}",
        node=node,
        command=kubectl_line("cordon", str(node)),
        again=how_to_run_again(crash.evidence),
    )
    return crash.finding("gpu-hardware-error", message, fix, node=node)


def _driver(crash: _Crash) -> Finding:
    return gpu_driver(crash.pod, crash.said.line, crash.numbers, crash.sources, crash.again)


def _communication(crash: _Crash) -> Finding:
    end = crash.end
    message = say(
        "communication between its GPUs failed in pod {pod} on {node} (exit code {code}): {line}",
        pod=end.pod,
        node=end.node,
        code=end.code,
        line=crash.said.line,
    )
    fix = say(
        "set `NCCL_DEBUG=INFO` in `environment.env` to see which link failed; check the network between its nodes, "
        "`NCCL_SOCKET_IFNAME`, and `resources.shm`; {log}",
        log=_its_log(crash),
    )
    return crash.finding("nccl-error", message, fix, node=end.node)


def _out_of_memory(crash: _Crash) -> Finding:
    limit = container_limits(crash.container).get("memory")
    text = format_amount("memory", limit) if limit else None
    names = {"container": crash.end.container, "pod": crash.end.pod}
    message = say(
        "container {container} of pod {pod} used more than the memory that its node had (it has no limit), and was "
        "killed",
        **names,
    )
    field = crash.memory_field
    change = say("set `{field}`", field=field)
    if text:
        message = say(
            "container {container} of pod {pod} used more than its limit of {limit} memory, and was killed",
            limit=text,
            **names,
        )
        change = say("raise `{field}` above {limit}", field=field, limit=text)
    shared = any((volume.get("emptyDir") or {}).get("medium") == "Memory" for volume in crash.volumes)
    also = say(" (files in /dev/shm count too)") if shared else ""
    fix = say("{change}, or use less{also}", change=change, also=also)
    if field == "resources.memory":
        fix = say("{change}, or use less: smaller batches, fewer data loader workers{also}", change=change, also=also)
    return crash.finding("out-of-memory", message, fix, limitBytes=int(limit) if limit else None, limit=text)


def _gpu_memory(crash: _Crash) -> Finding:
    said, end = crash.said.numbers, crash.end
    parts = []
    if "tried" in said:
        parts.append(say("it tried to allocate {size}", size=said["tried"]))
    if "free" in said:
        total = said.get("total") or say("the card")
        parts.append(say("{free} of {total} were free", free=said["free"], total=total))
    detail = say(": {text}", text=parts) if parts else ""
    message = say(
        "the memory of the GPU was not enough{detail} (pod {pod}, exit code {code})",
        detail=detail,
        pod=end.pod,
        code=end.code,
    )
    fix = say(
        "a smaller batch or context, gradient checkpointing, more GPUs, or a `resources.gpu-type` with more memory"
    )
    return crash.finding("cuda-out-of-memory", message, fix, **said)


def _shared_memory(crash: _Crash) -> Finding:
    size = None
    mounts = crash.container.get("volumeMounts") or []
    name = next((mount["name"] for mount in mounts if mount.get("mountPath") == "/dev/shm"), None)  # noqa: S108
    for volume in crash.volumes:
        if volume["name"] == name:
            size = (volume.get("emptyDir") or {}).get("sizeLimit")
    has = str(size) if size else say("64Mi, the runtime's default")
    ended = {"size": has, "pod": crash.end.pod, "code": crash.end.code}
    message = say("shared memory (/dev/shm, {size}) was too small (pod {pod}, exit code {code})", **ended)
    if not crash.said.cause:
        message = say(
            "a bus error, mostly a sign that shared memory (/dev/shm, {size}) is too small (pod {pod}, exit code "
            "{code})",
            **ended,
        )
    fix = say("raise `resources.shm` above {size}, or use fewer data loader workers", size=size or "64Mi")
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
    tried = repeated(end.restarts)
    if not end.running:
        return say("; restarted {tried}, waits to start again", tried=tried)
    return say("; restarted {tried}, running again for {duration}", tried=tried, duration=evidence.since(end.since))


def _sources(evidence: Evidence, end: ContainerExit, said: log.LogDiagnosis, pod: Object) -> Iterator[Proof]:
    reason = say("{reason}, ", reason=end.reason) if end.reason else ""
    yield Proof(
        "status",
        f"pod/{end.pod}",
        say(
            "container {container} ended: {reason}exit code {code}",
            container=end.container,
            reason=reason,
            code=end.code,
        ),
        end.finished,
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
