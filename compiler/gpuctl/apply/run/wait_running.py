"""Waiting until the applied workloads run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.prerequisite_release import Releaser, WaitingTraining
from gpuctl.apply.state.live_state import OURS
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from gpuctl.language.display_text import first_few
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import prerequisites_of
from gpuctl.objects.workload_start import has_started
from gpuctl.objects.workload_state import condition, end_state

_TICK = 0.5
_LEAVING = frozenset({"prune", "delete", "skip"})


class NotRunning(ClusterError):
    """A workload failed, or did not start in time; it was applied anyway.

    ``late`` has the reason for each workload that does not run, if all were waited for.
    """

    def __init__(
        self, message: str, plan: Plan, hint: str | None = None, late: Mapping[Key, str] | None = None
    ) -> None:
        super().__init__(message, hint)
        self.plan = plan
        self.late = late or {}


def wait_until_running(
    session: Session,
    plan: Plan,
    keys: Records,
    timeout: float,
    tell: Callable[[str], None],
    explain: Callable[[Key], str] = lambda key: "",
    *,
    each: bool = False,
) -> None:
    """Wait until every workload of a plan runs, has finished, or is suspended on purpose (not by Kueue). Release the
    trainings whose prerequisites are met.

    ``explain`` returns why a workload failed or does not start; "" if unknown. With ``each`` the wait continues for the
    others after a failure.

    :raises NotRunning: one failed, or did not start within ``timeout`` seconds.
    """
    with session.within(max(timeout, _TICK)):
        _wait(session, plan, keys, _WaitLimit(time.monotonic() + timeout, timeout, each), tell, explain)


class _WaitLimit(NamedTuple):
    """The end of the wait by the monotonic clock, its length in seconds, and whether all workloads are waited for."""

    deadline: float
    timeout: float
    each: bool


def awaited(plan: Plan) -> list[Key]:
    """Return the workloads of a plan that are waited for."""
    there = (step for step in plan.steps if step.action not in _LEAVING and not step.expired)
    return [step.key for step in there if step.key.kind in WORKLOADS]


def _wait(
    session: Session,
    plan: Plan,
    keys: Records,
    limit: _WaitLimit,
    tell: Callable[[str], None],
    explain: Callable[[Key], str],
) -> None:
    waiting = dict.fromkeys(awaited(plan))
    behind: dict[Key, str] = {}
    releaser = Releaser(session, keys, _namespaces_with_prerequisites(plan, keys))
    lists = {WatchedList(key.kind, key.namespace, OURS) for key in waiting} | releaser.watched
    unread = len(lists)
    seen: dict[Key, Object] = {}
    reflector = Reflector(session, lists)
    reflector.start()
    try:
        for event in reflector.events(_TICK) if waiting else ():
            is_listed = event is not None and event.type == "LISTED"
            if event is not None and not is_listed:
                releaser.note(event)
            if is_listed:
                unread -= 1
            held = {} if unread else releaser.release(waiting)
            due = _due(event, waiting, seen)
            # A prerequisite may have ended long ago, or end without an event of the training that waits for it.
            due += [key for key, training in held.items() if training.unmet and key not in due]
            for key in due if not unread else ():
                try:
                    has_come = _is_done(session, key, seen.get(key), held.get(key), keys, plan, explain)
                except NotRunning as error:
                    if not limit.each:
                        raise
                    behind[key], has_come = error.message, True
                if has_come:
                    del waiting[key]
            if waiting and time.monotonic() > limit.deadline:
                behind.update(_late_reasons(list(waiting), plan, limit, explain))
                waiting.clear()
            if not waiting:
                break
            if not unread:
                left = sorted({name for training in held.values() for name in training.left})
                tell(waiting_for(list(waiting)) + (f", after {first_few(left)}" if left else ""))
    finally:
        reflector.stop()
    if behind:
        raise NotRunning("\n".join(behind.values()), plan, late=behind)


def _due(event: Event | None, waiting: Mapping[Key, None], seen: dict[Key, Object]) -> list[Key]:
    """Return the awaited workloads that an event concerns, and keep its object in ``seen``."""
    if event is None:
        # An object without gpuctl's label is not in the list, so it is read by itself.
        return [key for key in waiting if key not in seen]
    if event.type == "LISTED":
        return list(waiting)
    key = key_of(event.object)
    if key not in waiting:
        return []
    seen.pop(key, None)
    if event.type != "DELETED":
        seen[key] = event.object
    return [key]


def _late_reasons(waiting: list[Key], plan: Plan, limit: _WaitLimit, explain: Callable[[Key], str]) -> dict[Key, str]:
    """Return why each workload did not start in time.

    :raises NotRunning: not all are waited for: the first explains all.
    """
    if not limit.each:
        raise late(waiting, plan, limit.timeout, explain(waiting[0]))
    return {key: late([key], plan, limit.timeout, explain(key)).message for key in waiting}


def _namespaces_with_prerequisites(plan: Plan, keys: Records) -> set[str]:
    objects = [obj for step in plan.steps for obj in (step.desired, step.live) if obj is not None and "kind" in obj]
    return {obj["metadata"]["namespace"] for obj in objects if prerequisites_of(obj, keys.after)}


def _is_done(
    session: Session,
    key: Key,
    obj: Object | None,
    held: WaitingTraining | None,
    keys: Records,
    plan: Plan,
    explain: Callable[[Key], str],
) -> bool:
    """Return True if a workload no longer needs to be waited for.

    :raises NotRunning: it failed or was deleted, or waits for jobs that have ended otherwise.
    """
    if held is not None and held.unmet:
        raise NotRunning(
            say("{object} cannot start: {reason}", object=key, reason=held.unmet),
            plan,
            say("{command} shows what to do", command=_why_command(key)),
        )
    # An object that left the list may still exist without gpuctl's label.
    obj = obj or session.get(key)
    if obj is None:
        raise deleted(key, plan)
    if end_state(obj) == "failed":
        why = condition(obj, "Failed") or {}
        said = explain(key) or why.get("message") or why.get("reason") or say("its controller gives no reason")
        raise failed(key, plan, said)
    return has_started(obj, keys)


def waiting_for(waiting: list[Key]) -> str:
    """Return the message that names the awaited workloads."""
    return say("waiting until running: {objects:few}", objects=waiting)


def deleted(key: Key, plan: Plan) -> NotRunning:
    """Return the error for a workload that was deleted during the wait."""
    return NotRunning(say("{object} was deleted during the wait", object=key), plan)


def failed(key: Key, plan: Plan, why: str) -> NotRunning:
    """Return the error for a workload that has failed."""
    return NotRunning(f"{key} failed: {why}", plan, say("{command} shows why", command=_why_command(key)))


def late(waiting: list[Key], plan: Plan, timeout: float, why: str) -> NotRunning:
    """Return the error for workloads that did not start in time.

    :param why: what the first one waits for, "" if unknown.
    """
    text = say(
        "{objects:few} did not start within {timeout} s{reason}",
        objects=waiting,
        timeout=f"{timeout:.0f}",
        reason=say(": {text}", text=why) if why else "",
    )
    return NotRunning(
        text,
        plan,
        say(
            "it stays in the cluster and may still start; {command} shows what it waits for",
            command=_why_command(waiting[0]),
        ),
    )


def _why_command(key: Key) -> str:
    return str(JobHint("why", key.name, key.namespace))
