"""Checkpoints: what runs is let save its progress before gpuctl ends it.

What a live workload says counts, in the annotation that lowering wrote, and in its own pods alone: whoever can write
that annotation can run anything there anyway. Nothing passes through a shell that the annotation does not name.

All pods of a job save at the same time, because a checkpoint of several processes may wait for all of them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuctl.apply.plan.plan import Plan, Refused
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.backend.pod import SHARED_PROCESSES
from gpuctl.hints import CHECKPOINT_LESS
from gpuctl.kube.api_errors import Changed, ClusterError
from gpuctl.kube.pod_exec import Command, ExecAbandoned, ExecStreams, NotStarted, execute
from gpuctl.kube.session import Session
from gpuctl.language.checkpoint_block import Checkpoint, parse_checkpoint
from gpuctl.language.display_text import first_few, shorten, visible
from gpuctl.language.masking import redact
from gpuctl.language.names import MAIN_CONTAINER
from gpuctl.objects.api_resources import RESOURCES, Key, Object, annotations_of, key_of, labels_of
from gpuctl.objects.durations import format_duration
from gpuctl.objects.hashed_names import unhashed_name
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.workload_state import is_pod_of, pod_labels

_MOST_AT_ONCE = 256
"""Pods whose commands run at the same time: each has a connection and a thread here. A training is never divided."""
_KEPT = 64 * 1024
"""Bytes of a command's output that are kept: what is masked in it has to be seen whole."""
_SHOWN = 300
_TICK = 0.5
_LOOK = 2.0
_LATE = 3.0
"""Seconds by which a pod's status is behind what has become of its processes."""
_KILLED = (137, 143)
"""Exit codes of a command that ended with its container, perhaps."""
_MISSING = (126, 127)
"""Exit codes of runtimes, and of shells, for a program that is not there or cannot be run."""


class CheckpointTarget(NamedTuple):
    """A workload that is about to be ended. ``saved`` are the uids of pods that have just saved, in an earlier run."""

    title: str
    live: Object
    saved: frozenset[str] = frozenset()


def checkpoint_target(workload: Object, keys: Records, saved: frozenset[str] = frozenset()) -> CheckpointTarget:
    """A live workload as one that is about to be ended; ``saved`` as there."""
    key = key_of(workload)
    title = f"{labels_of(workload).get(keys.job_type, key.kind)}/{unhashed_name(workload)} in {key.namespace}"
    return CheckpointTarget(title, workload, saved)


class CheckpointFailed(Refused):
    """What runs could not save its progress, and nobody agreed to losing it; nothing was ended."""

    def __init__(self, problems: Iterable[str], plan: Plan | None = None) -> None:
        super().__init__("; ".join(problems), plan)
        self.hint = f"nothing was ended; {CHECKPOINT_LESS} it is ended all the same, and its progress is lost"


class _Task(NamedTuple):
    target: CheckpointTarget
    checkpoint: Checkpoint
    pod: Object

    @property
    def key(self) -> Key:
        return key_of(self.pod)


def run_checkpoints(
    session: Session,
    targets: Sequence[CheckpointTarget],
    keys: Records,
    callbacks: RunCallbacks,
    plan: Plan | None = None,
) -> dict[str, list[str]]:
    """Let the running pods of workloads save their progress: the uids of those that have, by their workload's. An
    exception, such as that of Ctrl-C, breaks it off.

    :param plan: what they are to end by, for the error.
    :raises Changed: a workload has another checkpoint than the plan saw; nothing was run.
    :raises CheckpointFailed: one failed, and nobody agreed to losing what it would have saved; or the process ends.
    """
    problems: list[str] = []
    saved: dict[str, list[str]] = {}
    jobs = session.each(lambda target: _tasks(session, target, keys, problems), targets)
    for tasks in _batches(jobs):
        outcomes = _CheckpointRun(session, tasks, callbacks).outcomes()
        problems.extend(_problem_messages(outcomes))
        for task, why in outcomes:
            if not why:
                saved.setdefault(task.target.live["metadata"]["uid"], []).append(task.pod["metadata"]["uid"])
    if problems and not callbacks.accept_lost_progress(problems):
        raise CheckpointFailed(problems, plan)
    for target in targets:
        pods = len(saved.get(target.live["metadata"]["uid"], ()))
        if pods:
            callbacks.on_message(f"checkpoint of {target.title} has run in {pods} pod{'' if pods == 1 else 's'}")
    return saved


def _tasks(session: Session, target: CheckpointTarget, keys: Records, problems: list[str]) -> list[_Task]:
    """The pods of a workload that run now, and what is to be run in them."""
    text = annotations_of(target.live).get(keys.checkpoint)
    if text is None:
        return []
    key = key_of(target.live)
    try:
        live = _current(session, target.live)
        if live is None:
            return []
        if annotations_of(live).get(keys.checkpoint) != text:
            raise Changed(f"the checkpoint of {key} was changed meanwhile", "look at it, and run again")
        checkpoint = parse_checkpoint(text)
        pods, _ = session.list_objects(RESOURCES["Pod"], key.namespace, labels=pod_labels(live))
    except Changed:
        raise
    except ClusterError as error:
        problems.append(f"checkpoint of {target.title} failed: {error.message}")
        return []
    running = [pod for pod in pods if is_pod_of(pod, live) and _is_running(pod)]
    running = [pod for pod in running if pod["metadata"]["uid"] not in target.saved]
    if checkpoint is None and running:
        problems.append(f"checkpoint of {target.title} failed: its annotation {keys.checkpoint} says none")
    return [] if checkpoint is None else [_Task(target, checkpoint, pod) for pod in running]


def _current(session: Session, seen: Object) -> Object | None:
    """An object as it is now; None when it has gone. It is listed: not everybody who ends jobs may get single ones."""
    key = key_of(seen)
    found, _ = session.list_objects(key.resource, key.namespace, fields=f"metadata.name={key.name}")
    return next((obj for obj in found if obj["metadata"]["uid"] == seen["metadata"]["uid"]), None)


def _is_running(pod: Object) -> bool:
    """Whether there is a process in a pod that could save. Those of a pod that is being deleted were told to end."""
    return not pod["metadata"].get("deletionTimestamp") and "running" in _state(pod)


def _state(pod: Object) -> Object:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    found: Object = next((item.get("state") or {} for item in statuses if item["name"] == MAIN_CONTAINER), {})
    return found


def _batches(jobs: Iterable[list[_Task]]) -> Iterator[list[_Task]]:
    """The tasks of whole jobs, as many as may run at the same time. Replicas of a service wait for no others."""
    group: list[_Task] = []
    parts: list[list[_Task]] = []
    for job in jobs:
        alone = bool(job) and job[0].target.live["kind"] == "Deployment"
        size = _MOST_AT_ONCE if alone else max(1, len(job))
        parts += [job[start : start + size] for start in range(0, len(job), size)]
    for tasks in parts:
        if group and len(group) + len(tasks) > _MOST_AT_ONCE:
            yield group
            group = []
        group += tasks
    if group:
        yield group


def _problem_messages(outcomes: Iterable[tuple[_Task, str]]) -> Iterator[str]:
    """What went wrong, once for all pods of a job in which it was the same."""
    pods: dict[tuple[str, str], list[str]] = {}
    for task, why in outcomes:
        if why:
            pods.setdefault((task.target.title, why), []).append(task.key.name)
    for (title, why), names in sorted(pods.items()):
        where = f"pod{'s' if len(names) > 1 else ''} {first_few(sorted(names))}"
        yield f"checkpoint of {title} failed in {where}: {why}"


class _OutputTail:
    """The end of what a command writes, for a message."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        self._data += data
        del self._data[:-_KEPT]

    def __str__(self) -> str:
        lines = redact(self._data.decode("utf-8", "replace")).splitlines()
        said = [visible(line.strip()) for line in lines if line.strip()]
        return shorten(said[-1], _SHOWN) if said else ""


class _CheckpointRun:
    """Checkpoints that are under way, one thread a pod: none may wait for another's turn."""

    def __init__(self, session: Session, tasks: list[_Task], callbacks: RunCallbacks) -> None:
        self._session = session
        self._tasks = tasks
        self._callbacks = callbacks
        self._over = threading.Event()
        self._results: queue.Queue[tuple[_Task, str]] = queue.Queue()

    def outcomes(self) -> list[tuple[_Task, str]]:
        """Each pod, and why it could not save: "" when it has."""
        for task in self._tasks:
            threading.Thread(target=self._work, args=(task,), daemon=True, name="gpuctl-checkpoint").start()
        found: list[tuple[_Task, str]] = []
        titles = ", ".join(dict.fromkeys(task.target.title for task in self._tasks))
        most = format_duration(int(max(self._seconds(task) for task in self._tasks)))
        try:
            while len(found) < len(self._tasks):
                self._callbacks.on_wait(
                    f"checkpoint of {titles}: {len(found)} of {len(self._tasks)} pods, at most {most}"
                )
                try:
                    found.append(self._results.get(timeout=_TICK))
                except queue.Empty:
                    if self._callbacks.should_stop():
                        raise CheckpointFailed([f"checkpoint of {titles} was broken off: the process ends"]) from None
        finally:
            self._over.set()
        return found

    def _seconds(self, task: _Task) -> float:
        return min(task.checkpoint.seconds, self._callbacks.longest_checkpoint)

    def _work(self, task: _Task) -> None:
        try:
            why = self._attempt(task)
        except ClusterError as error:
            why = error.message
        except Exception as error:
            # A mistake of ours must not look like a checkpoint.
            why = f"internal error: {type(error).__name__}: {error}"
        self._results.put((task, why))

    def _attempt(self, task: _Task) -> str:
        deadline = time.monotonic() + self._seconds(task)
        if task.checkpoint.signal is not None:
            why = self._signal(task, task.checkpoint.signal, deadline)
            return why or self._await_end(task, deadline)
        try:
            code, said = self._execute(task, task.checkpoint.command, deadline)
        except ExecAbandoned:
            return f"it has not ended within {format_duration(int(self._seconds(task)))}"
        except ClusterError as error:
            return self._unless_over(task, error.message)
        why = f"exit code {code}" + (f": {said}" if said else "")
        return "" if code == 0 else self._unless_over(task, why) if code in _KILLED else why

    def _execute(self, task: _Task, arguments: Sequence[str], deadline: float) -> tuple[int, str]:
        out, err = _OutputTail(), _OutputTail()

        def is_over() -> bool:
            return self._over.is_set() or time.monotonic() >= deadline

        ends = ExecStreams(None, out.write, err.write, is_over=is_over)
        code = execute(self._session, task.key, Command(arguments, MAIN_CONTAINER), ends)
        return code, str(err) or str(out)

    def _signal(self, task: _Task, name: str, deadline: float) -> str:
        """Send a signal to process 1, by a program or, as shells have it built in, by a shell; why that failed."""
        spec = task.pod["spec"]
        for shared in SHARED_PROCESSES:
            if spec.get(shared):
                return f"with {shared} process 1 is not the container's: use `checkpoint.command`"
        refusal = ""
        # The name is one of a closed list.
        for arguments in (("kill", "-s", name, "1"), ("sh", "-c", f"kill -s {name} 1")):
            try:
                code, said = self._execute(task, arguments, deadline)
            except ExecAbandoned:
                return "the signal could not be sent in time"
            except NotStarted as error:
                refusal = refusal or error.message
                continue
            except ClusterError as error:
                return self._unless_over(task, error.message)
            if code not in _MISSING:
                return "" if code == 0 else f"the signal was not sent: {said or f'exit code {code}'}"
            refusal = refusal or said or f"exit code {code}"
        return f"the signal needs `kill` or `sh` in the image ({refusal}): use `checkpoint.command` with what it has"

    def _await_end(self, task: _Task, deadline: float) -> str:
        """Wait until a container that got its signal has ended, or its time is over: nothing else tells."""
        while not self._over.is_set() and time.monotonic() < deadline:
            now = _current(self._session, task.pod)
            if now is None or not _same_run(now, task.pod):
                return self._after(task, now, killed_only=True)
            self._over.wait(max(_TICK, min(_LOOK, deadline - time.monotonic())))
        return ""

    def _unless_over(self, task: _Task, why: str) -> str:
        """Why a checkpoint failed, unless its pod has come to its end by itself meanwhile: then there is nothing left
        to save."""
        until = time.monotonic() + _LATE
        while (now := _current(self._session, task.pod)) is not None and _same_run(now, task.pod):
            if time.monotonic() >= until or self._over.wait(_TICK):
                return why
        return self._after(task, now)

    def _after(self, task: _Task, now: Object | None, *, killed_only: bool = False) -> str:
        """What is wrong with how a container has ended; a pod that was deleted is somebody else's doing."""
        if now is None or now["metadata"].get("deletionTimestamp"):
            return ""
        status = now.get("status") or {}
        last = _ended(now)
        code, reason = last.get("exitCode"), last.get("reason") or status.get("reason") or "no reason given"
        if code == 0 or status.get("phase") == "Succeeded":
            return ""
        if killed_only and code is not None and reason != "OOMKilled":
            return ""
        said = f"exit code {code}, " if code is not None else ""
        return f"its container ended meanwhile ({said}{visible(str(reason))[:_SHOWN]})"


def _same_run(now: Object, before: Object) -> bool:
    """Whether the container of a pod is the one that ran before, and still runs."""
    return _is_running(now) and _state(now) == _state(before)


def _ended(pod: Object) -> Object:
    """How the container of a pod ended last."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    for item in statuses:
        if item["name"] == MAIN_CONTAINER:
            states = ((item.get(name) or {}).get("terminated") for name in ("state", "lastState"))
            return next(filter(None, states), {})
    return {}
