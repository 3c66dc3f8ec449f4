"""Recovery of interrupted runs: afterwards each object in a journal exists in its old or its new version.

:func:`plan_recovery` makes the plan and changes nothing; :func:`recover` carries it out, each namespace by itself.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection
from concurrent import futures
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuctl.apply.run import journal as journals
from gpuctl.apply.run.create_with_quota_retry import create_unless_exists
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.lease import NAMESPACE_LEASE, LeaseHeld, abandoned_leases, hold_leases
from gpuctl.apply.run.recovery_plan import (
    RecoveryPlan,
    RecoveryProblem,
    finished_outcome,
    name_conflict,
    read_live,
    stays_with,
)
from gpuctl.apply.run.terminating_namespaces import terminating_message
from gpuctl.hints import IN_NAMESPACE
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records, is_ours

_POLL = 0.2
_QUOTA_POLL = 1.0
_HEARING = 0.5
"""Maximum seconds until a signal is processed: one that arrives just before Python waits for a lock does not end that
wait.
"""
_LAST_REQUESTS = 5.0
"""Seconds that an interrupted recovery waits for its requests in progress."""


class RecoveryOutcome(NamedTuple):
    """The result for one object: ``outcome`` is ``new``, ``old`` (kept or created again), ``gone`` or ``failed``."""

    key: Key
    outcome: str
    message: str


@dataclass
class Recovery:
    """The results for the objects of journals, and the problems."""

    results: list[RecoveryOutcome] = field(default_factory=list)
    problems: list[RecoveryProblem] = field(default_factory=list)

    @property
    def failed(self) -> list[RecoveryOutcome]:
        """Return the objects that exist neither in the old nor in the new version."""
        return [result for result in self.results if result.outcome == "failed"]


class _Interrupted(ClusterError):
    """The recovery was interrupted."""


class _Work:
    """The deadline for deletions and delayed quotas, the interrupt, and the keys that may be created."""

    def __init__(self, recovery_plan: RecoveryPlan, keys: Records, timeout: float, tell: Callable[[str], None]) -> None:
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.keys = keys
        self.tell = tell
        self.exclusions = recovery_plan.exclusions
        self.created = recovery_plan.created
        self.interrupted = threading.Event()
        self.all_submitted = threading.Event()

    def await_others(self) -> None:
        """Wait until all tasks are submitted, so that an interrupt in between reaches them too.

        :raises _Interrupted: the recovery is to end.
        """
        self.all_submitted.wait()
        self.pause(0)

    def pause(self, seconds: float) -> None:
        """Wait some seconds.

        :raises _Interrupted: the recovery is to end.
        """
        if self.interrupted.wait(seconds):
            raise _Interrupted("interrupted")


def find_journals(session: Session, keys: Records, namespace: str | None) -> list[Journal]:
    """Return the journals of a namespace, or of all; if that is forbidden, of the context's namespace."""
    for where in dict.fromkeys((namespace, namespace or session.namespace)):
        try:
            return journals.find(session, keys, None if where is None else {where}, strict=True)
        except ApiError as error:
            if namespace is not None or not error.lacks_permission:
                raise
            refusal = error
    raise ClusterError(refusal.message, say("say where {how}", how=IN_NAMESPACE))


def await_other_runs(
    session: Session, keys: Records, found: Collection[Journal], wait: float, tell: Callable[[str], None]
) -> list[Journal]:
    """Wait for the runs in progress, and return the journals that are left after them.

    :raises LeaseHeld: one is still in progress after ``wait`` seconds.
    """
    if not found:
        return []
    namespaces = {journal.namespace for journal in found}
    leases = {Key("Lease", namespace, NAMESPACE_LEASE) for namespace in namespaces}
    with hold_leases(session, leases, wait, tell) as held, held.interrupts.let_through():
        return journals.find(session, keys, namespaces)


def recover(
    session: Session,
    keys: Records,
    recovery_plan: RecoveryPlan,
    *,
    timeout: float,
    wait: float,
    tell: Callable[[str], None],
) -> Recovery:
    """Carry out a recovery plan: complete what can be completed, else restore; then remove the journals.

    Nothing is created that the plan does not name. The journal of a run in progress is not touched: its lease is waited
    for, ``wait`` seconds in all. A failure in one namespace does not affect others.
    """
    recovery = Recovery(problems=list(recovery_plan.problems))
    session.patience = max(session.patience, min(timeout, 120.0))
    work = _Work(recovery_plan, keys, timeout, tell)
    namespaces: dict[str, list[Journal]] = {}
    for journal in recovery_plan.journals:
        namespaces.setdefault(journal.namespace, []).append(journal)
    until = time.monotonic() + wait
    # The wait for one lease counts for the others too. Namespaces without a holder come first.
    for namespace in sorted(namespaces, key=lambda namespace: (namespace in recovery_plan.working, namespace)):
        lease = Key("Lease", namespace, NAMESPACE_LEASE)
        begun = time.monotonic()
        if namespace in recovery_plan.terminating:
            recovery.results += _lost_objects(namespace, namespaces[namespace])
            continue
        try:
            with (
                session.within(timeout),
                hold_leases(session, {lease}, max(0.0, until - begun), tell, observer=recovery_plan.observer) as held,
                held.interrupts.let_through(),
            ):
                work.deadline += time.monotonic() - begun
                session.count_from_now(work.deadline - time.monotonic())
                _recover_namespace(session, namespaces[namespace], work, recovery)
        except ClusterError as error:
            if isinstance(error, ApiError) and error.namespace_terminates:
                recovery.results += _lost_objects(namespace, namespaces[namespace])
                continue
            recovery.problems.append(
                RecoveryProblem(namespace, error.message, error.hint, isinstance(error, LeaseHeld))
            )
    return recovery


def _lost_objects(namespace: str, mine: list[Journal]) -> list[RecoveryOutcome]:
    return [
        RecoveryOutcome(entry.successor, "gone", terminating_message(namespace))
        for journal in mine
        for entry in journal.entries
    ]


def _recover_namespace(session: Session, mine: list[Journal], work: _Work, recovery: Recovery) -> None:
    # A run may have finished, and removed its journal, during the wait for its lease.
    now = {item.id: item for item in journals.find(session, work.keys, {mine[0].namespace})}
    for journal in mine:
        current = now.get(journal.id)
        if current is None:
            continue
        if current.state != journal.state:
            raise ClusterError(
                say(
                    "the journal {journal} in {namespace} was changed", journal=journal.id, namespace=journal.namespace
                ),
                say("run again"),
            )
        results = _recover_journal(session, journal, work)
        recovery.results += results
        if any(result.outcome == "failed" for result in results) or work.exclusions.keeps_journal(journal):
            continue
        if journal.id not in {problem.journal for problem in recovery.problems}:
            journals.remove(session, journal)


def _recover_journal(session: Session, journal: Journal, work: _Work) -> list[RecoveryOutcome]:
    mine = [entry for entry in journal.entries if not work.exclusions.excludes(entry)]
    main = [entry for entry in mine if entry.companion_of is None]
    tasks: list[futures.Future[RecoveryOutcome]] = []
    work.all_submitted.clear()
    try:
        for entry in main:
            tasks.append(session.executor.submit(_recover_entry, session, entry, work))
        work.all_submitted.set()
        while futures.wait(tasks, _HEARING).not_done:
            pass
        results = [task.result() for task in tasks]
    except BaseException:
        # No task may continue after the lease is released.
        work.interrupted.set()
        work.all_submitted.set()
        for task in tasks:
            task.cancel()
        futures.wait(tasks, _LAST_REQUESTS)
        raise
    outcomes = {entry.successor: result.outcome for entry, result in zip(main, results, strict=True)}
    for entry in mine:
        if entry.companion_of is not None:
            results.append(_recover_companion(session, entry, outcomes.get(entry.companion_of), work))
    return results


def _recover_entry(session: Session, entry: JournalEntry, work: _Work) -> RecoveryOutcome:
    key = entry.successor
    assert entry.new is not None
    try:
        work.await_others()
        live = read_live(session, [entry])
        taken = name_conflict(entry, live)
        if taken is not None:
            return RecoveryOutcome(key, "failed", taken)
        ended = finished_outcome(entry, live, work.keys)
        if ended is not None:
            return RecoveryOutcome(key, *ended)
        old = live.get(entry.key)
        if old is not None and not old["metadata"].get("deletionTimestamp"):
            return RecoveryOutcome(key, "old", say("was not deleted yet"))
        _wait_until_gone(session, entry, work)
        refusal = work.exclusions.refusal_of(entry)
        if refusal is not None:
            return RecoveryOutcome(key, "gone", say("is not created again: {reason}", reason=refusal))
        # Another client may have waited for the name, too.
        taken = name_conflict(entry, read_live(session, [entry]))
        if taken is not None:
            return RecoveryOutcome(key, "failed", taken)
        return _create(session, entry, entry.new, key, work)
    except ClusterError as error:
        return RecoveryOutcome(key, "failed", error.message)


def _create(session: Session, entry: JournalEntry, new: Object, key: Key, work: _Work) -> RecoveryOutcome:
    if key not in work.created:
        raise ClusterError(
            say("{object} was deleted during the recovery, and its creation was not confirmed: run again", object=key)
        )
    try:
        _create_with_retry(session, new, work, apply=entry.method == "apply")
    except _Interrupted:
        raise
    except ClusterError as error:
        _create_with_retry(session, entry.old, work)
        return RecoveryOutcome(
            key,
            "old",
            say("the old object was created again, because the new one is refused: {error}", error=error.message),
        )
    return RecoveryOutcome(key, "new", say("the new object was created"))


def _create_with_retry(session: Session, obj: Object, work: _Work, *, apply: bool = False) -> None:
    """Create an object, and retry while a quota still counts deleted ones."""

    def wait() -> bool:
        if time.monotonic() > work.deadline:
            return False
        work.pause(_QUOTA_POLL)
        return True

    if not create_unless_exists(session, obj, apply=apply, wait=wait):
        live = session.get(key_of(obj))
        if live is not None and not is_ours(live):
            raise ClusterError(say("{object} exists now and is not gpuctl's", object=key_of(obj)))


def _wait_until_gone(session: Session, entry: JournalEntry, work: _Work) -> None:
    told = False
    while True:
        live = session.get(entry.key)
        if live is None or live["metadata"]["uid"] != entry.uid:
            return
        if time.monotonic() > work.deadline:
            finalizers = live["metadata"].get("finalizers") or say("none")
            raise ClusterError(
                say(
                    "{object} still exists after {timeout} s; its finalizers: {finalizers}",
                    object=entry.key,
                    timeout=f"{work.timeout:.0f}",
                    finalizers=finalizers,
                )
            )
        if not told:
            told = True
            work.tell(say("waiting until {object} is gone", object=entry.key))
        work.pause(_POLL)


def _recover_companion(session: Session, entry: JournalEntry, main: str | None, work: _Work) -> RecoveryOutcome:
    """Restore a companion if its old workload exists or is restored."""
    try:
        live = session.get(entry.key)
        taken = name_conflict(entry, {} if live is None else {entry.key: live})
        if taken is not None:
            return RecoveryOutcome(entry.key, "failed", taken)
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            return RecoveryOutcome(entry.key, "old", say("was not deleted yet"))
        workload = session.get(entry.companion_of) if main is None and entry.companion_of is not None else None
        stays = workload is not None and stays_with(entry, {key_of(workload): workload}, work.keys)
        if main != "old" and not stays:
            return RecoveryOutcome(entry.key, "gone", say("was deleted by the change, as planned"))
        refusal = work.exclusions.refusal_of(entry)
        if refusal is not None:
            return RecoveryOutcome(entry.key, "gone", say("is not created again: {reason}", reason=refusal))
        _wait_until_gone(session, entry, work)
        _create_with_retry(session, entry.old, work)
        return RecoveryOutcome(entry.key, "old", say("was created again with its workload"))
    except ClusterError as error:
        return RecoveryOutcome(entry.key, "failed", error.message)


def delete_abandoned_leases(session: Session, namespace: str | None) -> None:
    """Delete the leases of killed runs if allowed, so that later runs need not wait for their expiry."""
    try:
        leases = abandoned_leases(session, namespace)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        leases = abandoned_leases(session, session.namespace) if namespace is None else []
    for lease in leases:
        version = lease["metadata"]["resourceVersion"]
        with contextlib.suppress(ApiError):
            session.delete(key_of(lease), lease["metadata"]["uid"], version=version, foreground=False)
