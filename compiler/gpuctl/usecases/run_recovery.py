"""``recover``: what killed runs left is looked at, confirmed and finished."""

from __future__ import annotations

from dataclasses import dataclass

from gpuctl.apply.plan.plan import Declined, Plan
from gpuctl.apply.run import recovery
from gpuctl.apply.run.recovery import Recovery
from gpuctl.apply.run.recovery_plan import RecoveryPlan, plan_recovery
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.workflow import LEASE_WAIT
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records, records


@dataclass(frozen=True)
class Unfinished:
    """What killed runs left: ``outlook`` is what will be done about it, ``result`` what was, and what could not be."""

    outlook: RecoveryPlan
    keys: Records
    result: Recovery

    @property
    def plan(self) -> Plan:
        """It as a plan, for whoever has to confirm it."""
        return Plan(recovery=self.outlook.steps)


def look_at_unfinished(session: Session, namespace: str | None, settings: Settings) -> Unfinished:
    """What killed runs left in a namespace, or in all that may be read. Reads only."""
    keys = records(settings)
    outlook = plan_recovery(session, keys, recovery.find_journals(session, keys, namespace))
    return Unfinished(outlook, keys, Recovery(problems=outlook.problems))


def recover(
    session: Session,
    namespace: str | None,
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    found: Unfinished | None = None,
) -> Unfinished:
    """Finish what killed runs left, each namespace by itself; the creation of objects has to be confirmed.

    :param found: what was looked at and shown, by default what there is now.
    :raises Declined: somebody said no.
    :raises ConfirmationMissing: nobody can be asked.
    """
    if found is None:
        with session.within(run.timeout):
            found = look_at_unfinished(session, namespace, settings)
    result = found.result
    if found.outlook.journals:
        if found.plan.questions and not callbacks.confirm(found.plan):
            raise Declined("not confirmed", found.plan)
        result = recovery.recover(
            session, found.keys, found.outlook, timeout=run.timeout, wait=LEASE_WAIT, tell=callbacks.on_wait
        )
    with session.within(run.timeout):
        recovery.delete_abandoned_leases(session, namespace)
    return Unfinished(found.outlook, found.keys, result)
