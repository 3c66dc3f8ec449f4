"""Checkpoints: running pods save their progress before gpuctl ends them.

The command is that of the live workload's annotation, written by lowering, and it runs only in the workload's own pods:
any user who can write that annotation can run anything there. No shell is involved unless the annotation names one. All
pods of a job run their checkpoints at the same time, because a checkpoint of several processes may wait for all of
them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextvars import copy_context
from typing import NamedTuple

from gpuctl.apply.plan.plan import Plan, Refused
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.apply.state.live_state import read_version
from gpuctl.backend.pod import SHARED_PROCESSES
from gpuctl.hints import CHECKPOINT_LESS
from gpuctl.kube.api_errors import Changed, ClusterError
from gpuctl.kube.pod_exec import Command, ExecAbandoned, ExecStreams, NotStarted, execute
from gpuctl.kube.session import Session
from gpuctl.language.checkpoint_block import Checkpoint, parse_checkpoint
from gpuctl.language.display_text import shorten, visible
from gpuctl.language.masking import redact
from gpuctl.language.names import MAIN_CONTAINER
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import RESOURCES, Key, Object, annotations_of, key_of
from gpuctl.objects.durations import format_duration
from gpuctl.objects.ownership_metadata import Records, main_title
from gpuctl.objects.workload_state import is_pod_of, pod_labels

_MOST_AT_ONCE = 256
"""Maximum number of pods whose commands run at the same time: each needs a connection and a thread. A training is never
divided.
"""
_KEPT = 64 * 1024
"""Bytes of a command's output that are kept: masking needs whole secrets."""
_SHOWN = 300
_TICK = 0.5
_LOOK = 2.0
_LATE = 3.0
"""Maximum delay in seconds between the end of a process and the update of its pod's status."""
_KILLED = (137, 143)
"""Exit codes of a command that may have ended together with its container."""
_MISSING = (126, 127)
"""Exit codes of container runtimes and shells if a program does not exist or cannot be run."""


class CheckpointTarget(NamedTuple):
    """A workload that is about to be ended. ``saved`` are the uids of pods that an earlier run has just saved."""

    title: str
    live: Object
    saved: frozenset[str] = frozenset()


def checkpoint_target(workload: Object, keys: Records, saved: frozenset[str] = frozenset()) -> CheckpointTarget:
    """Return the checkpoint target for a live workload."""
    namespace = workload["metadata"]["namespace"]
    title = say("{job} in {namespace}", job=main_title(workload, keys), namespace=namespace)
    return CheckpointTarget(title, workload, saved)


class CheckpointFailed(Refused):
    """A checkpoint failed, and the user did not accept the loss of progress; nothing was ended."""

    def __init__(self, problems: Iterable[str], plan: Plan | None = None) -> None:
        super().__init__(clauses(*problems), plan)
        self.hint = say("nothing was ended; {how} it is ended anyway, and its progress is lost", how=CHECKPOINT_LESS)


class _Task(NamedTuple):
    target: CheckpointTarget
    checkpoint: Checkpoint
    pod: Object

    @property
    def key(self) -> Key:
        return key_of(self.pod)

    def read_pod(self, session: Session) -> Object | None:
        return read_version(session, self.key, self.pod["metadata"]["uid"])


def run_checkpoints(
    session: Session,
    targets: Sequence[CheckpointTarget],
    keys: Records,
    callbacks: RunCallbacks,
    plan: Plan | None = None,
) -> dict[str, list[str]]:
    """Run the checkpoints of workloads in their running pods.

    Return the uids of the saved pods by the uid of their workload. An exception, such as that of Ctrl-C, aborts them.

    :param plan: the plan that ends the workloads, for the error.
    :raises Changed: a workload's checkpoint differs from the plan's; nothing was run.
    :raises CheckpointFailed: one failed, and the user did not accept the loss; or the process ends.
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
            callbacks.on_message(say("checkpoint of {job} has run in {pods:pod}", job=target.title, pods=pods))
    return saved


def _tasks(session: Session, target: CheckpointTarget, keys: Records, problems: list[str]) -> list[_Task]:
    """Return the running pods of a workload with the checkpoint to run in each."""
    text = annotations_of(target.live).get(keys.checkpoint)
    if text is None:
        return []
    key = key_of(target.live)
    try:
        live = read_version(session, key, target.live["metadata"]["uid"])
        if live is None:
            return []
        if annotations_of(live).get(keys.checkpoint) != text:
            raise Changed(say("the checkpoint of {object} was changed", object=key), say("check it, and run again"))
        checkpoint = parse_checkpoint(text)
        pods, _ = session.list_objects(RESOURCES["Pod"], key.namespace, labels=pod_labels(live))
    except Changed:
        raise
    except ClusterError as error:
        problems.append(say("checkpoint of {job} failed: {error}", job=target.title, error=error.message))
        return []
    running = [pod for pod in pods if is_pod_of(pod, live) and _is_running(pod)]
    running = [pod for pod in running if pod["metadata"]["uid"] not in target.saved]
    if checkpoint is None and running:
        problems.append(
            say("checkpoint of {job} failed: its annotation {key} is invalid", job=target.title, key=keys.checkpoint)
        )
    return [] if checkpoint is None else [_Task(target, checkpoint, pod) for pod in running]


def _is_running(pod: Object) -> bool:
    """Return True if a pod's main container runs. Processes of a pod that is being deleted have received SIGTERM."""
    return not pod["metadata"].get("deletionTimestamp") and "running" in _state(pod)


def _state(pod: Object) -> Object:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    found: Object = next((item.get("state") or {} for item in statuses if item["name"] == MAIN_CONTAINER), {})
    return found


def _batches(jobs: Iterable[list[_Task]]) -> Iterator[list[_Task]]:
    """Yield the tasks of whole jobs in groups that may run at the same time. Replicas of a service are independent."""
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
    """Yield one message for all pods of a job that failed for the same reason."""
    pods: dict[tuple[str, str], list[str]] = {}
    for task, why in outcomes:
        if why:
            pods.setdefault((task.target.title, why), []).append(task.key.name)
    for (title, why), names in sorted(pods.items()):
        yield say(
            "checkpoint of {job} failed in {number:pod/pods} {names:few}: {reason}",
            job=title,
            number=len(names),
            names=sorted(names),
            reason=why,
        )


class _OutputTail:
    """The end of a command's output, for a message."""

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
    """Checkpoints in progress, one thread for each pod: none may wait for another."""

    def __init__(self, session: Session, tasks: list[_Task], callbacks: RunCallbacks) -> None:
        self._session = session
        self._tasks = tasks
        self._callbacks = callbacks
        self._over = threading.Event()
        self._results: queue.Queue[tuple[_Task, str]] = queue.Queue()

    def outcomes(self) -> list[tuple[_Task, str]]:
        """Run all tasks, and return each with the reason of its failure; "" on success."""
        for task in self._tasks:
            # Its reasons are in the language of the request.
            run = copy_context().run
            threading.Thread(target=run, args=(self._work, task), daemon=True, name="gpuctl-checkpoint").start()
        found: list[tuple[_Task, str]] = []
        titles = list(dict.fromkeys(task.target.title for task in self._tasks))
        most = format_duration(int(max(self._seconds(task) for task in self._tasks)))
        try:
            while len(found) < len(self._tasks):
                self._callbacks.on_wait(
                    say(
                        "checkpoint of {jobs}: {done} of {all} pods, at most {duration}",
                        jobs=titles,
                        done=len(found),
                        all=len(self._tasks),
                        duration=most,
                    )
                )
                try:
                    found.append(self._results.get(timeout=_TICK))
                except queue.Empty:
                    if self._callbacks.should_stop():
                        raise CheckpointFailed(
                            [say("checkpoint of {jobs} was interrupted: gpuctl is stopping", jobs=titles)]
                        ) from None
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
            # A bug of gpuctl must not count as a successful checkpoint.
            why = say("internal error: {kind}: {error}", kind=type(error).__name__, error=error)
        self._results.put((task, why))

    def _attempt(self, task: _Task) -> str:
        deadline = time.monotonic() + self._seconds(task)
        if task.checkpoint.signal is not None:
            why = self._signal(task, task.checkpoint.signal, deadline)
            return why or self._await_end(task, deadline)
        try:
            code, said = self._execute(task, task.checkpoint.command, deadline)
        except ExecAbandoned:
            return say("it has not ended within {duration}", duration=format_duration(int(self._seconds(task))))
        except ClusterError as error:
            return self._unless_over(task, error.message)
        why = say("exit code {code}: {output}", code=code, output=said) if said else say("exit code {code}", code=code)
        return "" if code == 0 else self._unless_over(task, why) if code in _KILLED else why

    def _execute(self, task: _Task, arguments: Sequence[str], deadline: float) -> tuple[int, str]:
        out, err = _OutputTail(), _OutputTail()

        def is_over() -> bool:
            return self._over.is_set() or time.monotonic() >= deadline

        ends = ExecStreams(None, out.write, err.write, is_over=is_over)
        code = execute(self._session, task.key, Command(arguments, MAIN_CONTAINER), ends)
        return code, str(err) or str(out)

    def _signal(self, task: _Task, name: str, deadline: float) -> str:
        """Send a signal to process 1, by `kill` or a shell's built-in `kill`. Return the error; "" on success."""
        spec = task.pod["spec"]
        for shared in SHARED_PROCESSES:
            if spec.get(shared):
                return say("with {shared} process 1 is not the container's: use `checkpoint.command`", shared=shared)
        refusal = ""
        # The name is one of a fixed list, so it needs no quoting.
        for arguments in (("kill", "-s", name, "1"), ("sh", "-c", f"kill -s {name} 1")):
            try:
                code, said = self._execute(task, arguments, deadline)
            except ExecAbandoned:
                return say("the signal could not be sent in time")
            except NotStarted as error:
                refusal = refusal or error.message
                continue
            except ClusterError as error:
                return self._unless_over(task, error.message)
            if code == 0:
                return ""
            reason = said or say("exit code {code}", code=code)
            if code not in _MISSING:
                return say("the signal was not sent: {reason}", reason=reason)
            refusal = refusal or reason
        return say(
            "the signal needs `kill` or `sh` in the image ({reason}): use `checkpoint.command` with a program of the "
            "image",
            reason=refusal,
        )

    def _await_end(self, task: _Task, deadline: float) -> str:
        """Wait until the signalled container ends, or its time is over: no other event shows that progress is saved."""
        while not self._over.is_set() and time.monotonic() < deadline:
            now = task.read_pod(self._session)
            if now is None or not _same_run(now, task.pod):
                return self._after(task, now, killed_only=True)
            self._over.wait(max(_TICK, min(_LOOK, deadline - time.monotonic())))
        return ""

    def _unless_over(self, task: _Task, why: str) -> str:
        """Return why a checkpoint failed; "" if its pod has ended successfully, so that nothing is left to save."""
        until = time.monotonic() + _LATE
        while (now := task.read_pod(self._session)) is not None and _same_run(now, task.pod):
            if time.monotonic() >= until or self._over.wait(_TICK):
                return why
        return self._after(task, now)

    def _after(self, task: _Task, now: Object | None, *, killed_only: bool = False) -> str:
        """Return what is wrong with the end of a container; "" if its pod was deleted by another client."""
        if now is None or now["metadata"].get("deletionTimestamp"):
            return ""
        status = now.get("status") or {}
        last = _ended(now)
        code, reason = last.get("exitCode"), last.get("reason") or status.get("reason") or say("no reason given")
        if code == 0 or status.get("phase") == "Succeeded":
            return ""
        if killed_only and code is not None and reason != "OOMKilled":
            return ""
        said = say("exit code {code}, ", code=code) if code is not None else ""
        return say(
            "its container ended during the checkpoint ({said}{reason})",
            said=said,
            reason=visible(str(reason))[:_SHOWN],
        )


def _same_run(now: Object, before: Object) -> bool:
    """Return True if the container that ran before still runs."""
    return _is_running(now) and _state(now) == _state(before)


def _ended(pod: Object) -> Object:
    """Return the last ``terminated`` state of a pod's main container."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    for item in statuses:
        if item["name"] == MAIN_CONTAINER:
            states = ((item.get(name) or {}).get("terminated") for name in ("state", "lastState"))
            return next(filter(None, states), {})
    return {}
