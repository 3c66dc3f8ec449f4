"""Carrying out a plan: stage by stage, sixteen requests at once, every delete remembered until its successor stands."""

from __future__ import annotations

import contextlib
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gpuctl.apply.plan import pool_labels as nodes
from gpuctl.apply.plan.plan import WRITING, Plan, Step
from gpuctl.apply.plan.trackers import tracking_marks
from gpuctl.apply.run import journal as journals
from gpuctl.apply.run.departures import Departures
from gpuctl.apply.run.entries import entries_of
from gpuctl.apply.run.interrupts import ending_signals
from gpuctl.apply.run.lease import NAMESPACE_LEASE, Leases
from gpuctl.apply.state.compare import spec_changes
from gpuctl.apply.state.records import Records
from gpuctl.apply.state.workload import is_pod_of, pod_labels, recreatable
from gpuctl.backend.api_resources import RESOURCES, WORKLOADS, Key, Object, annotations_of, key_of
from gpuctl.backend.order import RANKS
from gpuctl.kube.api_errors import ApiError, Changed, ClusterError, ConnectionFailed
from gpuctl.kube.connection import PATIENCE, Connection

_QUOTA_PAUSE = 0.2
_SLOWEST_PAUSE = 5.0
_LOOK = 10.0
_ATTEMPTS = 5
_LATE = 2.0
"""Seconds for which a late quota is waited for after the time is over: what was deleted must have its chance."""
_MEANWHILE = "{} was changed by somebody else meanwhile"


@dataclass
class How:
    """The manner of carrying out.

    ``timeout`` in seconds is how long deletions and late quotas are waited for in all; ``force`` ends pods without
    grace; ``done`` hears of each finished step, ``tell`` of what is waited for, ``warn`` of what has to be known.
    """

    keys: Records
    timeout: float = 300.0
    force: bool = False
    done: Callable[[Step], None] = lambda step: None
    tell: Callable[[str], None] = lambda text: None
    warn: Callable[[str], None] = lambda text: None


@dataclass
class _Stage:
    """Steps that may be carried out at the same time."""

    steps: list[Step]
    waiting: dict[Key, Step] = field(default_factory=dict)
    busy: int = 0


class Execution:
    """One run of a plan. ``interrupted`` asks it to begin nothing new and to finish what it has taken apart."""

    def __init__(self, connection: Connection, plan: Plan, how: How) -> None:
        self.connection = connection
        self.plan = plan
        self.how = how
        self.interrupted = False
        self._told = False
        self._next_look = time.monotonic() + _LOOK
        self._events: queue.Queue[tuple[str, Key, Any]] = queue.Queue()
        self._leases: Leases | None = None
        self._journals: list[journals.Journal] = []
        # Of any stage: what vanishes before its turn has no second event.
        self._gone: set[Key] = set()
        self._deadline = float("inf")
        leaving = [step.live for step in plan.steps if step.deletes and step.live is not None]
        self._departures = Departures(connection, leaving, self._report_gone)

    def lease_keys(self) -> set[Key]:
        """The namespaces in which nobody else may apply meanwhile."""
        return {Key("Lease", step.key.namespace, NAMESPACE_LEASE) for step in self.plan.steps if step.deletes}

    def run(self, leases: Leases | None = None) -> None:
        """Carry the plan out; each step's ``result`` and ``error`` tell how it went.

        :raises Changed: an object that would be deleted is no longer what the plan saw; nothing has been done.
        """
        self._leases = leases
        self.connection.patience = max(self.connection.patience, min(self.how.timeout, 120.0))
        deleting = [step for step in self.plan.steps if step.deletes]
        try:
            with self._interruptible():
                if deleting:
                    self._look_afresh(deleting, self._departures.start())
                    self._journals = journals.write(
                        self.connection, entries_of(self.plan.steps, self.how.keys), self.how.keys
                    )
                self._stages()
                self._close_journals()
        finally:
            self._departures.stop()

    def _close_journals(self) -> None:
        """Away with the journals, unless something still depends on them."""
        if any(step.result == "failed" and step.is_remembered for step in self.plan.steps):
            self.plan.unfinished = bool(self._journals)
            return
        for journal in self._journals:
            journals.remove(self.connection, journal)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """From here on a signal must not break in between a delete and its create: the first one is only noted."""

        def note(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            self.plan.interrupted = number

        before = {number: signal.signal(number, note) for number in ending_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _look_afresh(self, deleting: list[Step], now: list[Object]) -> None:
        """Time has passed since the plan was made, perhaps with a question to a person in it."""
        current = {obj["metadata"]["uid"]: obj for obj in now}
        for step in deleting:
            assert step.live is not None
            obj = current.get(step.live["metadata"]["uid"])
            if obj is None or not _is_same(step.live, obj, self.how.keys):
                raise Changed(
                    f"{key_of(step.live)} was changed by somebody else meanwhile", "look at it, and run again"
                )

    def _stages(self) -> None:
        """What others need first, then the workloads, then what scales them, then what is pruned."""
        self._deadline = time.monotonic() + self.how.timeout
        writing = [step for step in self.plan.steps if step.action in WRITING]
        for step in self.plan.steps:
            if step.action not in WRITING:
                step.result = "done"
                self.how.done(step)
        failed = False
        for group in _grouped(writing):
            if failed or self.interrupted:
                for step in group:
                    step.result = "not-run"
                    self.how.done(step)
                continue
            self._carry_out(group)
            failed = any(step.result in ("failed", "restored", "not-run") for step in group)

    def _carry_out(self, steps: list[Step]) -> None:
        stage = _Stage(steps)
        by_key = {step.key: step for step in steps}
        by_key.update({key_of(step.live): step for step in steps if step.deletes and step.live is not None})
        # Interrupted before its turn, a workload stays: its companions must not have left before it.
        for step in sorted(steps, key=lambda step: step.companion_of is not None):
            self._submit(stage, step, self._take_away if step.deletes else self._bring_about)
        while stage.busy or stage.waiting:
            self._next_event(stage, by_key)
            if self.interrupted and not self._told:
                self._told = True
                self.how.warn("interrupted: finishing what is under way; once more leaves it to `gpuctl recover`")
        self._restore_companions(steps)

    def _next_event(self, stage: _Stage, by_key: dict[Key, Step]) -> None:
        try:
            kind, key, value = self._events.get(timeout=min(0.5, max(0.05, self._deadline - time.monotonic())))
        except queue.Empty:
            if stage.waiting and time.monotonic() >= self._deadline:
                self._give_up(stage)
            elif stage.waiting:
                self._tell_waiting(stage)
                self._look_again()
            return
        if kind == "gone":
            self._gone.add(key)
            waiting = stage.waiting.pop(key, None)
            if waiting is not None:
                self._is_gone(stage, waiting)
            return
        step = by_key[key]
        stage.busy -= 1
        if isinstance(value, BaseException):
            self._fail(step, value)
        elif value in ("deleted", "gone"):
            live = key_of(step.live) if step.live is not None else key
            if value == "gone" or live in self._gone:
                self._is_gone(stage, step)
            else:
                stage.waiting[live] = step
        else:
            step.result = value
            self.how.done(step)

    def _is_gone(self, stage: _Stage, step: Step) -> None:
        if step.action == "replace":
            self._submit(stage, step, self._succeed)
        else:
            step.result = "done"
            self.how.done(step)

    def _submit(self, stage: _Stage, step: Step, task: Callable[[Step], str]) -> None:
        stage.busy += 1
        future = self.connection.executor.submit(task, step)

        def finished(future: Any) -> None:
            error = future.exception()
            self._events.put(("result", step.key, error if error is not None else future.result()))

        future.add_done_callback(finished)

    def _report_gone(self, key: Key) -> None:
        self._events.put(("gone", key, None))

    def _take_away(self, step: Step) -> str:
        """Delete the live object; it is waited for elsewhere, unless it is gone already."""
        assert step.live is not None
        lost = self._leases.check() if self._leases is not None else None
        if lost:
            step.error = lost
            return "not-run"
        if self.interrupted:
            return "not-run"
        if time.monotonic() >= self._deadline:
            step.error = f"the time of {self.how.timeout:.0f} s was over"
            return "not-run"
        live = key_of(step.live)
        uid = step.live["metadata"]["uid"]
        if not self.connection.delete(live, uid, grace=0 if self.how.force else None):
            return "gone"
        if self.how.force:
            try:
                self._end_pods(step.live)
            except ClusterError as error:
                # What is deleted already is waited for and succeeded all the same.
                self.how.warn(f"warning: the pods of {live} may take their grace period: {error.message}")
        return "deleted"

    def _end_pods(self, live: Object) -> None:
        """Grace 0 on a Job or Deployment is not handed on to its pods: each is deleted with it."""
        if live["kind"] not in WORKLOADS:
            return
        labels = pod_labels(live)
        if not labels:
            return
        pods, _ = self.connection.list_objects(RESOURCES["Pod"], live["metadata"]["namespace"], labels=labels)
        for pod in pods:
            if is_pod_of(pod, live):
                self.connection.delete(key_of(pod), pod["metadata"]["uid"], grace=0, foreground=False)

    def _bring_about(self, step: Step) -> str:
        """A create or an update in place."""
        if self.interrupted:
            return "not-run"
        assert step.desired is not None
        if step.method == "post":
            self._create(step.desired)
        elif step.method == "apply":
            _, created = self.connection.apply(step.desired, force=step.adopt)
            if step.action == "create" and not created:
                step.reason = "somebody else created it meanwhile; it is as wanted now"
        elif step.method == "labels":
            node, _ = self.connection.apply(step.desired, manager=nodes.POOLS_MANAGER, force=step.adopt)
            gone = [change.path[len("metadata.labels[") : -1] for change in step.changes if change.new is None]
            step.reason = "; ".join([step.reason, *nodes.released(node, gone)])
        elif step.method == "patch":
            self.connection.patch(step.key, step.desired)
        elif step.method == "put":
            self._roll(step)
        if step.action == "update" and step.live is not None:
            self._untrack(step.key, step.live)
        return "done"

    def _untrack(self, key: Key, live: Object) -> None:
        """What was taken over from a GitOps controller loses its marks; no apply of ours removes what it never set."""
        marks = tracking_marks(live)
        if marks:
            self.connection.patch(key, {"metadata": {part: dict.fromkeys(names) for part, names in marks.items()}})

    def _roll(self, step: Step) -> None:
        """A rolling update, of the version that is there: status moves it all the time."""
        assert step.desired is not None
        assert step.live is not None
        was, wanted = (annotations_of(obj).get(self.how.keys.hash) for obj in (step.live, step.desired))
        for _ in range(_ATTEMPTS):
            live = self.connection.get(step.key)
            if live is None:
                break
            if not _is_same(step.live, live, self.how.keys):
                if was == wanted or annotations_of(live).get(self.how.keys.hash) != wanted:
                    break
                step.reason = "somebody else did the same meanwhile; it is as wanted now"
                return
            try:
                self.connection.replace(_rolled(step, live))
                return
            except ApiError as error:
                if not error.is_conflict:
                    raise
        raise Changed(_MEANWHILE.format(step.key), "look at it, and run again")

    def _succeed(self, step: Step) -> str:
        """Create the new object where the old one was; if that cannot be, the old one again."""
        assert step.desired is not None
        assert step.live is not None
        try:
            self._create(step.desired, apply=step.method == "apply")
        except ClusterError as error:
            old = recreatable(step.live)
            step.error = f"{step.key} could not be created: {error.message}"
            try:
                self._create(old)
            except ClusterError as second:
                self.plan.outage = self.plan.outage or _is_outage(second)
                step.error += f"; nor could the old one again: {second.message}"
                raise ClusterError(step.error, "`gpuctl recover` creates it when the cause is removed") from None
            suspended = (old.get("spec") or {}).get("suspend") and not (step.live.get("spec") or {}).get("suspend")
            step.error += "; the old one was created again" + (
                ", suspended because it had finished" if suspended else ""
            )
            return "restored"
        return "done"

    def _create(self, obj: Object, *, apply: bool = False) -> None:
        """Create; a quota that still counts what was just deleted is waited for."""
        deadline = max(self._deadline, time.monotonic() + _LATE)
        pause = _QUOTA_PAUSE
        # Right after our own delete, or our own change of a quota, its numbers lag behind.
        lagging = bool(self._journals) or any(step.key.kind == "ResourceQuota" for step in self.plan.steps)
        while True:
            try:
                if apply:
                    self.connection.apply(obj)
                else:
                    self.connection.create(obj)
                return
            except ApiError as error:
                if error.exists_already and self._is_there(obj):
                    return
                if not error.exceeds_quota or not lagging or time.monotonic() + pause > deadline:
                    raise
            self.how.tell(f"waiting until the quota in {obj['metadata'].get('namespace')} has room again")
            time.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_PAUSE)

    def _is_there(self, obj: Object) -> bool:
        """Whether another run created the very same object meanwhile."""
        live = self.connection.get(key_of(obj))
        mine = annotations_of(obj).get(self.how.keys.hash)
        return live is not None and mine is not None and annotations_of(live).get(self.how.keys.hash) == mine

    def _fail(self, step: Step, error: BaseException) -> None:
        step.result = "failed"
        self.plan.outage = self.plan.outage or _is_outage(error)
        if isinstance(error, ClusterError):
            step.error = error.message if error.message.startswith(str(step.key)) else f"{step.key}: {error.message}"
            if error.hint:
                step.error += f" ({error.hint})"
        else:
            # A mistake of ours must not keep the other steps from being put together.
            step.error = f"{step.key}: internal error: {type(error).__name__}: {error}"
        self.how.done(step)

    def _look_again(self) -> None:
        """A watch over a network that swallows packets says nothing: now and then the objects are listed."""
        if time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + _LOOK
            with contextlib.suppress(ClusterError):
                self._departures.look()

    def _tell_waiting(self, stage: _Stage) -> None:
        names = ", ".join(str(key) for key in list(stage.waiting)[:3])
        more = f" and {len(stage.waiting) - 3} more" if len(stage.waiting) > 3 else ""
        self.how.tell(f"waiting until gone: {names}{more}")

    def _give_up(self, stage: _Stage) -> None:
        """The time is over for what is still there; what has gone without a watch saying so goes on."""
        # Nor is there time left to wait for a server that is away.
        self.connection.patience = min(self.connection.patience, PATIENCE)
        unknown = ""
        try:
            there = self._departures.look()
        except ClusterError as error:
            self.plan.outage = self.plan.outage or _is_outage(error)
            unknown = error.message
            there = set(stage.waiting)
        for key in list(stage.waiting):
            step = stage.waiting.pop(key)
            if key not in there:
                self._gone.add(key)
                self._is_gone(stage, step)
                continue
            step.result = "failed"
            if unknown:
                step.error = f"{key}: whether it is gone is unknown: {unknown}"
            else:
                step.error = f"{key} is still there after {self.how.timeout:.0f} s{self._held_by(key)}"
            if step.action == "replace":
                step.error += "; the new one is created by `gpuctl recover` or the next apply once it is gone"
            self.how.done(step)

    def _held_by(self, key: Key) -> str:
        """Which finalizer, or whose pods, keep an object from going."""
        try:
            live = self.connection.get(key)
        except ClusterError:
            return ""
        if live is None:
            return ""
        finalizers = [name for name in live["metadata"].get("finalizers") or [] if name != "foregroundDeletion"]
        if finalizers:
            return f": finalizer {', '.join(finalizers)} holds it"
        selector = ((live.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
        if key.kind in WORKLOADS and selector:
            labels = ",".join(f"{name}={value}" for name, value in selector.items())
            try:
                pods, _ = self.connection.list_objects(RESOURCES["Pod"], key.namespace, labels=labels)
            except ClusterError:
                return ""
            held = [pod["metadata"]["name"] for pod in pods[:3]]
            keeping = sorted({name for pod in pods for name in pod["metadata"].get("finalizers") or []})
            if held:
                why = f" (finalizer {', '.join(keeping)})" if keeping else ""
                return f": its pods are still ending: {', '.join(held)}{why}"
        return ""

    def _restore_companions(self, steps: Iterable[Step]) -> None:
        """A companion whose workload is the old one again, or still, comes back with it."""
        mains = {step.key: step for step in self.plan.steps}
        for step in steps:
            main = mains.get(step.companion_of) if step.companion_of is not None else None
            if main is None or main.result == "done" or step.result != "done" or step.live is None:
                continue
            try:
                self._create(recreatable(step.live))
            except ClusterError as error:
                step.result, step.error = "failed", f"{step.key}: {error.message}"
            else:
                step.result = "restored"
                step.error = f"{step.key} was created again with {step.companion_of}"
                if main.result == "not-run":
                    # Nobody is to blame when it was asked for; a lease that was lost is what to tell.
                    step.result, step.error = "not-run", main.error or step.error
            self.how.done(step)


def _is_outage(error: BaseException) -> bool:
    """Whether it is the cluster, or the way to it, that fails, or does not allow it."""
    return isinstance(error, ConnectionFailed) or (
        isinstance(error, ApiError) and (error.is_outage or error.lacks_permission)
    )


def _rolled(step: Step, live: Object) -> Object:
    """The object to send: as planned, but for what moves meanwhile: the version, metadata of others, free replicas."""
    assert step.desired is not None
    assert step.live is not None
    spec = dict(step.desired["spec"])
    if "replicas" in live["spec"] and not any(change.path == "spec.replicas" for change in step.changes):
        spec["replicas"] = live["spec"]["replicas"]
    metadata = {**live["metadata"]}
    for part in ("labels", "annotations"):
        planned, was = step.desired["metadata"].get(part) or {}, step.live["metadata"].get(part) or {}
        now = {key: value for key, value in (metadata.get(part) or {}).items() if key in planned or key not in was}
        metadata[part] = {**now, **{key: value for key, value in planned.items() if was.get(key) != value}}
    return {**live, "metadata": metadata, "spec": spec}


def _grouped(steps: list[Step]) -> list[list[Step]]:
    """Steps by stage. Workloads of all kinds go together, with the companions that leave with them; prunes are last."""

    def stage(step: Step) -> int:
        if step.action == "prune":
            return 1000
        if step.companion_of is not None or step.key.kind in WORKLOADS:
            return RANKS["Job"]
        rank = RANKS.get(step.key.kind, 100)
        return rank if rank < RANKS["ResourceQuota"] else rank // 10 * 10

    groups: dict[int, list[Step]] = {}
    for step in steps:
        groups.setdefault(stage(step), []).append(step)
    return [groups[number] for number in sorted(groups)]


def _is_same(planned: Object, now: Object, keys: Records) -> bool:
    """Whether an object is what the plan saw: same incarnation, generation, hash and spec."""
    one, two = planned["metadata"], now["metadata"]
    if one["uid"] != two["uid"] or one.get("generation") != two.get("generation"):
        return False
    if annotations_of(planned).get(keys.hash) != annotations_of(now).get(keys.hash):
        return False
    return not spec_changes(planned["kind"], planned, now)
