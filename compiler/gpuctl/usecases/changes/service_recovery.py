"""`recover` through a service: show and confirm here, finish there."""

from __future__ import annotations

from gpuctl.api.plan_steps import step_of
from gpuctl.api.recovery_answers import Recoveries
from gpuctl.apply.plan.plan import Declined
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.usecases.changes.service_plans import ServicePlan
from gpuctl.usecases.changes.service_requests import changed_error, response_timeout, run_query
from gpuctl.usecases.service.service_client import ServiceClient, ServiceRefusal


def unfinished_of_service(service: ServiceClient, namespace: str | None) -> Recoveries:
    """Return what killed runs left in a namespace, or in all visible ones."""
    with service.reading() as get:
        return Recoveries.model_validate(get("/recoveries", namespace=namespace or ""))


def recover_by_service(
    service: ServiceClient, namespace: str | None, run: RunOptions, callbacks: RunCallbacks, found: Recoveries
) -> Recoveries:
    """Finish what killed runs left. The creation of objects has to be confirmed.

    :raises Declined: the user did not confirm.
    :raises ConfirmationMissing: the user cannot be asked.
    """
    plan = ServicePlan(recovery=list(map(step_of, found.planned)), asked=found.questions)
    if found.questions and not callbacks.confirm(plan):
        raise Declined("not confirmed", plan)
    callbacks.on_wait("the service is recovering ...")
    query, within = {"namespace": namespace or "", **run_query(run)}, response_timeout(run, checkpoints=0)
    try:
        with service.reading():
            body = {"confirmed": found.questions}
            return Recoveries.model_validate(service.request("POST", "/recoveries", body, query=query, within=within))
    except ServiceRefusal as error:
        if error.name == "NotConfirmed":
            raise changed_error("more has to be recovered than what was confirmed") from None
        raise
