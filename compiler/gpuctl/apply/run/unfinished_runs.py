"""What killed runs left, seen beside a plan: what the plan does itself, what it recovers first, what it leaves gone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuctl.apply.plan.plan import WRITING, Plan, Refused, Step
from gpuctl.apply.run import journal as journals
from gpuctl.apply.run import recovery
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.recovery import Recovery
from gpuctl.apply.run.recovery_plan import RecoveryExclusions, RecoveryPlan, is_untouched, plan_recovery
from gpuctl.apply.state.live_state import read_objects
from gpuctl.hints import JobHint, RecoverHint
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import TRAININGS, WORKLOADS, Key, Object, labels_of
from gpuctl.objects.ownership_metadata import PART_OF, Records
from gpuctl.objects.workload_state import carried_over

RECENT = 300.0
"""Seconds for which a checkpoint of a run that was killed counts for the next one."""


class RecoveryIncomplete(Refused):
    """What a killed run left cannot be finished, or not yet; the plan was not begun."""

    def __init__(self, message: str, plan: Plan | None = None, hint: str | None = None) -> None:
        super().__init__(message, plan)
        self.hint = hint


@dataclass
class UnfinishedRuns:
    """The journals that concern a plan. ``recovery_plan`` is what is to be done about them: the plan's ``recovery``."""

    journals: list[Journal]
    recovery_plan: RecoveryPlan = field(default_factory=RecoveryPlan)
    is_done: bool = False

    @classmethod
    def read(cls, session: Session, keys: Records, namespaces: Iterable[str]) -> UnfinishedRuns:
        """The journals in namespaces."""
        return cls(journals.find(session, keys, set(namespaces) - {""}))

    @property
    def entries(self) -> list[JournalEntry]:
        """The workloads that are remembered, and Services that are replaced."""
        return [entry for item in self.journals for entry in item.entries if entry.companion_of is None]

    def just_saved(self, session: Session) -> dict[str, frozenset[str]]:
        """The pods that had saved their progress right before a run was killed, by the uid of their workload.

        What is older than :data:`RECENT` does not count: they have gone on since.
        """
        found = [item for item in self.journals if item.saved]
        if not found:
            return {}
        now = time.time() + session.clock_ahead()
        recent = [item for item in found if now - item.created < RECENT]
        return {uid: pods for item in recent for uid, pods in item.saved.items()}

    @property
    def is_left(self) -> bool:
        """Whether a journal stays until the plan has brought its objects about."""
        return any(map(self.recovery_plan.spared.holds_back, self.recovery_plan.journals))

    @property
    def advice(self) -> str:
        """What to do about it without the plan."""
        where = sorted({item.namespace for item in self.recovery_plan.journals})
        commands = " and ".join(str(RecoverHint(namespace)) for namespace in where)
        return f"an earlier apply did not finish, and may have left jobs deleted: {commands} brings them back"

    def join(self, session: Session, plan: Plan, keys: Records, unwanted: dict[Key, str]) -> None:
        """Add to a plan what is to be recovered before it.

        What the plan itself creates or changes is left to it; what it creates takes over what it would have from the
        object that is gone. ``unwanted`` (key -> why) and what it prunes are not created again.
        """
        if not self.journals:
            return
        made = {step.key: step for step in plan.steps if step.action in WRITING - {"delete", "prune"}}
        unwanted = {**unwanted, **{step.key: step.reason for step in plan.steps if step.action == "prune"}}
        for entry in self.entries:
            step = made.get(entry.successor)
            if step is not None and step.action == "create" and step.desired is not None and entry.new is not None:
                if step.key.kind in WORKLOADS:
                    step.desired = carried_over(step.desired, entry.new, keys)
            else:
                self._refuse_another(plan, entry, made)
        if self.is_done:
            return
        spared = RecoveryExclusions(frozenset(made), unwanted)
        self.recovery_plan = plan_recovery(session, keys, self.journals, spared)
        plan.recovery = self.recovery_plan.steps
        if not plan.recovery:
            plan.notes.append("a run that did not finish left its journal, which is taken away")
        for namespace, who in self.recovery_plan.working.items():
            plan.notes.append(
                f"{who} may be applying in {namespace} at this moment: what is said here of recovering is then its work"
            )
        for problem in self.recovery_plan.problems:
            text = problem.message + (f"; {problem.hint}" if problem.hint else "")
            plan.errors.append(text)

    def _refuse_another(self, plan: Plan, entry: JournalEntry, made: dict[Key, Step]) -> None:
        """A job of another kind cannot have the name of one that is to come back."""
        for kind in WORKLOADS:
            other = Key(kind, entry.key.namespace, entry.successor.name)
            same = kind == entry.successor.kind or {kind, entry.successor.kind} == TRAININGS
            if other in made and entry.key.kind in WORKLOADS and not same:
                plan.errors.append(
                    f"{other}: an apply that did not finish had deleted {entry.key}, and a job of another kind cannot "
                    f"have its name; {JobHint('delete', entry.successor.name, entry.key.namespace)} first"
                )

    def gone(self, session: Session, name: str) -> list[Step]:
        """What a deletion says of a job that was there when a run was killed, and is not now."""
        entries = [item for item in self.entries if name in (item.key.name, item.successor.name)]
        entries = [entry for entry in entries if entry.key.kind in WORKLOADS]
        live: dict[Key, Object] = read_objects(session, [entry.key for entry in entries])
        return [
            Step("skip", entry.key, "an apply that did not finish had deleted it; it does not come back")
            for entry in entries
            if not is_untouched(entry, live.get(entry.key))
        ]


def pruned_entries(pending: UnfinishedRuns, plan: Plan, part_of: str, set_name: str) -> dict[Key, str]:
    """Members of a set that would come back and are no longer wanted (key -> why)."""
    wanted = {step.key for step in plan.steps}
    return {
        entry.successor: f"no longer in the set {set_name}"
        for entry in pending.entries
        if entry.new is not None
        and labels_of(entry.new).get(PART_OF) == part_of
        and wanted.isdisjoint({entry.key, entry.successor})
    }


def raise_unrecovered(result: Recovery, plan: Plan) -> None:
    """End a plan before it begins, when what a killed run left could not be finished.

    :raises RecoveryIncomplete: why.
    """
    for item in result.failed:
        raise RecoveryIncomplete(
            f"an earlier apply could not be finished: {item.key}: {item.message}",
            plan,
            f"{RecoverHint()} finishes it when the cause is removed",
        )
    for problem in result.problems:
        raise RecoveryIncomplete(problem.message, plan, problem.hint)


def remove_finished_journals(
    session: Session, keys: Records, pending: UnfinishedRuns, plan: Plan, timeout: float, wait: float
) -> None:
    """Take away the journals whose objects the plan has brought about itself."""
    left = journals.find(session, keys, {item.namespace for item in pending.journals})
    left = [item for item in left if item.id in {mine.id for mine in pending.journals}]
    if not left:
        return
    recovery_plan = plan_recovery(session, keys, left)
    if not recovery_plan.created and not recovery_plan.problems:
        result = recovery.recover(session, keys, recovery_plan, timeout=timeout, wait=wait, tell=lambda text: None)
        if not result.failed and not result.problems:
            return
    plan.unfinished = True
    plan.notes.append(f"not all that an earlier apply left is finished: {RecoverHint()} does it")
