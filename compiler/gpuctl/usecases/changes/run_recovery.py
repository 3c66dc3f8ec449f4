"""`recover`: show what killed runs left, confirm, and finish it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuctl.api.recovery_answers import Recoveries, recoveries
from gpuctl.apply.plan.plan import Declined, Plan
from gpuctl.apply.run import recovery
from gpuctl.apply.run.recovery import Recovery
from gpuctl.apply.run.recovery_plan import RecoveryPlan, plan_recovery
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.workflow import LEASE_WAIT
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records, records


@dataclass(frozen=True)
class UnfinishedRecovery:
    """The journals of killed runs: ``outlook`` is what recovery will do, ``result`` what it did or could not do."""

    outlook: RecoveryPlan
    keys: Records
    result: Recovery

    @property
    def plan(self) -> Plan:
        """Return the recovery as a plan that the user confirms."""
        return Plan(recovery=self.outlook.steps)

    @property
    def answer(self) -> Recoveries:
        """Return the answer that commands print and the service sends."""
        return recoveries(self.outlook, self.result, self.plan.questions, self.keys)


def read_unfinished(session: Session, namespace: str | None, settings: Settings) -> UnfinishedRecovery:
    """Return what killed runs left in a namespace, or in all that may be read. Only reads."""
    keys = records(settings)
    outlook = plan_recovery(session, keys, recovery.find_journals(session, keys, namespace))
    return UnfinishedRecovery(outlook, keys, Recovery(problems=outlook.problems))


def recover(
    session: Session,
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    found: UnfinishedRecovery | None = None,
) -> UnfinishedRecovery:
    """Finish what killed runs left, each namespace on its own. The creation of objects has to be confirmed.

    :param found: an earlier result that was shown; None: read it now.
    :raises Declined: the user did not confirm.
    :raises ConfirmationMissing: the user cannot be asked.
    """
    if found is None:
        with session.within(run.timeout):
            found = read_unfinished(session, namespace, settings)
    result = found.result
    if found.outlook.journals:
        if found.plan.questions and not callbacks.confirm(found.plan):
            raise Declined(say("not confirmed"), found.plan)
        result = recovery.recover(
            session, found.keys, found.outlook, timeout=run.timeout, wait=LEASE_WAIT, tell=callbacks.on_wait
        )
    with session.within(run.timeout):
        recovery.delete_abandoned_leases(session, namespace)
    return UnfinishedRecovery(found.outlook, found.keys, result)
