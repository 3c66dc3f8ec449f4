"""The journals of killed runs that concern a plan: entries that the plan handles, recovers first, or drops."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpuctl.apply.plan.apply_request import SetOptions
from gpuctl.apply.plan.plan import WRITING, Plan, Refused, Step
from gpuctl.apply.run import journal as journals
from gpuctl.apply.run import recovery
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.recovery import Recovery
from gpuctl.apply.run.recovery_plan import RecoveryExclusions, RecoveryPlan, is_untouched, plan_recovery
from gpuctl.apply.state.live_state import read_objects
from gpuctl.hints import JobHint, RecoverHint, Surface, surface
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import WORKLOADS, Key, Object, forms_of, labels_of
from gpuctl.objects.ownership_metadata import PART_OF, Records
from gpuctl.objects.recreated_objects import carried_over

RECENT = 300.0
"""Seconds for which the next run reuses a checkpoint of a killed run."""


class RecoveryIncomplete(Refused):
    """A killed run cannot be recovered, or not yet; the plan was not started."""

    def __init__(self, message: str, plan: Plan | None = None, hint: str | None = None) -> None:
        super().__init__(message, plan)
        self.hint = hint


@dataclass
class UnfinishedRuns:
    """The journals that concern a plan, and the plan of their recovery."""

    journals: list[Journal]
    recovery_plan: RecoveryPlan = field(default_factory=RecoveryPlan)
    is_done: bool = False

    @classmethod
    def read(cls, session: Session, keys: Records, namespaces: Iterable[str]) -> UnfinishedRuns:
        """Read the journals in namespaces."""
        return cls(journals.find(session, keys, set(namespaces) - {""}))

    @property
    def entries(self) -> list[JournalEntry]:
        """Return the entries of workloads and of replaced Services, without companions."""
        return [entry for item in self.journals for entry in item.entries if entry.companion_of is None]

    @property
    def deleted(self) -> set[Key]:
        """Return the objects that the runs may have deleted, and those that were to take their place, in all forms."""
        return {key for entry in self.entries for key in (entry.key, *forms_of(entry.successor))}

    def just_saved(self, session: Session) -> dict[str, frozenset[str]]:
        """Return the pods whose checkpoint ran right before a run was killed, by the uid of their workload.

        Checkpoints older than :data:`RECENT` do not count: the pods have made progress since.
        """
        found = [item for item in self.journals if item.saved]
        if not found:
            return {}
        now = session.server_time()
        recent = [item for item in found if now - item.created < RECENT]
        return {uid: pods for item in recent for uid, pods in item.saved.items()}

    @property
    def has_journals_to_finish(self) -> bool:
        """Return True if a journal stays until the plan has created its objects."""
        return any(map(self.recovery_plan.exclusions.keeps_journal, self.recovery_plan.journals))

    @property
    def advice(self) -> str:
        """Return how to recover without the plan."""
        where = sorted({item.namespace for item in self.recovery_plan.journals})
        return say(
            "an earlier apply was interrupted, and may have left jobs deleted: {commands:and} restores them",
            commands=[*map(RecoverHint, where)],
        )

    def add_recovery_to(self, session: Session, plan: Plan, keys: Records, unwanted: dict[Key, str]) -> None:
        """Add to a plan the recovery that comes before it.

        Objects that the plan creates or changes are left to it; those that it creates inherit the lasting fields of the
        deleted object. Objects in ``unwanted`` (key -> reason), and those that it prunes, are not created again.
        """
        if not self.journals:
            return
        made = {step.key: step for step in plan.steps if step.action in WRITING - {"delete", "prune"}}
        unwanted = {**unwanted, **{step.key: step.reason for step in plan.steps if step.action == "prune"}}
        replaced = set(made)
        for entry in self.entries:
            step = next((made[key] for key in forms_of(entry.successor) if key in made), None)
            if step is not None and step.key != entry.successor:
                # Both forms of the job would run.
                replaced.add(entry.successor)
                unwanted[entry.successor] = say("{object} takes its place", object=step.key)
            if step is not None and step.action == "create" and step.desired is not None and entry.new is not None:
                if step.key.kind in WORKLOADS:
                    step.desired = carried_over(step.desired, entry.new, keys)
            else:
                self._refuse_another(plan, entry, made)
        if self.is_done:
            return
        exclusions = RecoveryExclusions(frozenset(replaced), unwanted)
        self.recovery_plan = plan_recovery(session, keys, self.journals, exclusions)
        plan.recovery = self.recovery_plan.steps
        if not plan.recovery:
            plan.notes.append(say("an interrupted run left its journal, which is removed"))
        plan.notes += self.recovery_plan.runs_in_progress()
        for problem in self.recovery_plan.problems:
            text = problem.message + (f"; {problem.hint}" if problem.hint else "")
            plan.errors.append(text)

    def _refuse_another(self, plan: Plan, entry: JournalEntry, made: dict[Key, Step]) -> None:
        """Add an error if the plan creates a job of another kind with the name of one that is to be restored."""
        for kind in WORKLOADS:
            other = Key(kind, entry.key.namespace, entry.successor.name)
            if other in made and entry.key.kind in WORKLOADS and other not in forms_of(entry.successor):
                plan.errors.append(
                    say(
                        "{job}: an interrupted apply had deleted {object}, and a job of another kind cannot have its "
                        "name; {command} first",
                        job=other,
                        object=entry.key,
                        command=JobHint("delete", entry.successor.name, entry.key.namespace),
                    )
                )

    def gone_steps(self, session: Session, name: str, kind: str, keys: Records) -> list[Step]:
        """Return the steps of a deletion for a job that a killed run had deleted.

        :param kind: the kind of the job; "" for any.
        """
        entries = [item for item in self.entries if name in (item.key.name, item.successor.name)]
        entries = [item for item in entries if kind in ("", labels_of(item.new or item.old).get(keys.job_type))]
        entries = [entry for entry in entries if entry.key.kind in WORKLOADS]
        live: dict[Key, Object] = read_objects(session, [entry.key for entry in entries])
        return [
            Step("skip", entry.key, say("an interrupted apply had deleted it; it is not restored"))
            for entry in entries
            if not is_untouched(entry, live.get(entry.key))
        ]


def recovery_of_job(
    session: Session, keys: Records, namespace: str | None, means: Callable[[JournalEntry], bool]
) -> str | None:
    """Return that a killed run had deleted a job, and the command that creates it; None if no journal names the job.

    Journals that the user may not read are skipped. A service reads none: its rights are not those of its callers.

    :param namespace: where to search; None for all namespaces that the user may read.
    :param means: return True for the entry of the job.
    """
    if surface() is not Surface.COMMAND_LINE:
        return None
    with contextlib.suppress(ClusterError):
        found = plan_recovery(session, keys, recovery.find_journals(session, keys, namespace))
        entries = (entry for item in found.journals for entry in item.entries if entry.successor in found.created)
        where = {entry.key.namespace for entry in entries if means(entry)}
        if where:
            commands = [*map(RecoverHint, sorted(where))]
            text = say("an interrupted apply had deleted it: {commands:and} creates it again", commands=commands)
            return clauses(text, *found.runs_in_progress(where))
    return None


def pruned_entries(pending: UnfinishedRuns, plan: Plan, pruned: SetOptions) -> dict[Key, str]:
    """Return set members that would be restored and are no longer wanted (key -> reason)."""
    wanted = {step.key for step in plan.steps}
    return {
        entry.successor: say("no longer in the set {set}", set=pruned.name)
        for entry in pending.entries
        if entry.new is not None
        and labels_of(entry.new).get(PART_OF) == pruned.id
        and wanted.isdisjoint({entry.key, entry.successor})
    }


def raise_unrecovered(result: Recovery, plan: Plan) -> None:
    """Raise an error if killed runs could not be recovered, before the plan is started.

    :raises RecoveryIncomplete: there are failures or problems.
    """
    for item in result.failed:
        raise RecoveryIncomplete(
            say("an earlier apply could not be finished: {object}: {message}", object=item.key, message=item.message),
            plan,
            say("{command} finishes it when the cause is removed", command=RecoverHint()),
        )
    for problem in result.problems:
        raise RecoveryIncomplete(problem.message, plan, problem.hint)


def remove_finished_journals(
    session: Session, keys: Records, pending: UnfinishedRuns, plan: Plan, timeout: float, wait: float
) -> None:
    """Remove the journals whose objects the plan has created itself."""
    left = journals.find(session, keys, {item.namespace for item in pending.journals})
    left = [item for item in left if item.id in {mine.id for mine in pending.journals}]
    if not left:
        return
    exclusions = RecoveryExclusions(unwanted=pending.recovery_plan.exclusions.unwanted)
    recovery_plan = plan_recovery(session, keys, left, exclusions)
    if not recovery_plan.created and not recovery_plan.problems:
        result = recovery.recover(session, keys, recovery_plan, timeout=timeout, wait=wait, tell=lambda text: None)
        if not result.failed and not result.problems:
            return
    plan.unfinished = True
    plan.notes.append(say("an earlier apply is not fully recovered: {command} finishes it", command=RecoverHint()))
