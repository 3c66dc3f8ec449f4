"""Changes through a service. The user confirms here; the confirmation is sent with the request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from gpuctl.api.change_answers import PausedJobAnswer, PausedJobs
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.reading.jobs.document_history import parsed_name
from gpuctl.usecases.changes.named_trainings import TrainingChange
from gpuctl.usecases.changes.service_requests import ServiceChange, flag, planning_query, response_timeout, run_query
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.service_documents import gather_documents, refuse_options
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.queries.service_waits import wait_until_running_by_service
from gpuctl.usecases.service.service_client import ServiceClient, ServiceRefusal

_AT_A_TIME = 100
"""Number of jobs that one request pauses or resumes, one after another. Their results are known after the request."""


def apply_by_service(
    service: ServiceClient,
    documents: DocumentOptions,
    planning: PlanOptions,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    preview: bool = False,
) -> Plan:
    """Apply documents through a service; ``preview`` only plans.

    :raises NeedsKubeconfig: an option works only with a cluster.
    :raises InvalidDocuments: the documents have errors.
    """
    refuse_options({"--rollback": run.rollback})
    found = gather_documents(documents, planning)
    query = {**found.query, **planning_query(planning)}
    if preview:
        query |= {"checkpoint": "" if run.checkpoint else "false", "show": "objects"}
        return ServiceChange(service, "/plan", query, found.body, found=found).plan(callbacks)
    query |= run_query(run)
    plan = ServiceChange(service, "/apply", query, found.body, response_timeout(run), found).carry_out(callbacks)
    _wait(service, plan, run, callbacks)
    return plan


def delete_by_service(
    service: ServiceClient,
    documents: DocumentOptions,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    keep_labels: bool = False,
) -> Plan:
    """Delete through a service what documents describe.

    :raises NeedsKubeconfig: an option works only with a cluster.
    :raises InvalidDocuments: the documents have errors.
    """
    found = gather_documents(documents)
    query = {**found.query, **run_query(run), "keepLabels": flag(keep_labels)}
    return ServiceChange(service, "/delete", query, found.body, response_timeout(run), found).carry_out(callbacks)


def delete_named_by_service(
    service: ServiceClient,
    kind: Literal["job", "pool", "quota"],
    names: Sequence[str],
    namespace: str | None,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    keep_labels: bool = False,
) -> Plan:
    """Delete jobs, pools or quotas by name through a service."""
    query = run_query(run) if kind == "job" else {"timeout": run_query(run)["timeout"]}
    query |= {"namespace": (namespace or "") if kind == "job" else "", "keepLabels": flag(keep_labels)}
    return ServiceChange(service, f"/{kind}s/delete", query, {"names": list(names)}, response_timeout(run)).carry_out(
        callbacks
    )


def change_trainings_by_service(
    service: ServiceClient,
    change: TrainingChange,
    names: Sequence[str],
    namespace: str | None,
    run: RunOptions,
    callbacks: RunCallbacks,
) -> Plan:
    """Carry out a change of named trainings through a service, as ``change_trainings``."""
    query = {**change.query, "namespace": namespace or "", "queue": flag(run.queue), **run_query(run)}
    within = response_timeout(run, checkpoints=len(names) if change.saves_checkpoints else 0)
    path, body = f"/jobs/{change.name}", {"names": list(names)}
    return ServiceChange(service, path, query, body, within).carry_out(callbacks)


def roll_back_by_service(
    service: ServiceClient,
    callbacks: RunCallbacks,
    job: str,
    namespace: str | None,
    to: int | None,
    planning: PlanOptions,
    run: RunOptions,
    *,
    preview: bool = False,
) -> Plan:
    """Apply an earlier document of a job through a service; ``preview`` only plans.

    :param to: the revision; None for the newest with another document.
    :raises NeedsKubeconfig: an option works only with a cluster.
    """
    refuse_options({"--adopt": planning.adopt})
    _, name = parsed_name(job)
    query = {"namespace": namespace or "", "to": str(to or ""), **planning_query(planning), **run_query(run)}
    change = ServiceChange(service, f"/jobs/{name}/rollback", query, {}, response_timeout(run), part="plan")
    if preview:
        return change.preview(callbacks)
    plan = change.carry_out(callbacks)
    _wait(service, plan, run, callbacks)
    return plan


def pause_by_service(reader: ReadContext, names: Sequence[str], *, checkpoint: bool) -> Iterator[PausedJobAnswer]:
    """Pause jobs through a service, one after another."""
    run = RunOptions(checkpoint=checkpoint)
    query = {"checkpoint": "" if checkpoint else "false"}
    within = response_timeout(run, checkpoints=min(len(names), _AT_A_TIME))
    return _suspended(reader, "/jobs/pause", names, query, within)


def resume_by_service(reader: ReadContext, names: Sequence[str], *, confirmed: bool) -> Iterator[PausedJobAnswer]:
    """Resume paused jobs through a service, one after another.

    :param confirmed: other jobs may be evicted.
    """
    return _suspended(reader, "/jobs/resume", names, {"confirm": flag(confirmed)}, response_timeout(RunOptions(), 0))


def _suspended(
    reader: ReadContext, path: str, names: Sequence[str], query: Mapping[str, str], within: float
) -> Iterator[PausedJobAnswer]:
    assert reader.service is not None
    where = {"namespace": reader.scope.namespace or "", **query}
    for begin in range(0, len(names), _AT_A_TIME):
        body, refusal = {"names": list(names[begin : begin + _AT_A_TIME])}, None
        with reader.service.reading():
            try:
                value = reader.service.request("POST", path, body, query=where, within=within)
            except ServiceRefusal as error:
                refusal, value = error, {"items": error.answer.get("items") or []}
            jobs = PausedJobs.model_validate(value).items
        yield from jobs
        if refusal is not None:
            raise refusal


def _wait(service: ServiceClient, plan: Plan, run: RunOptions, callbacks: RunCallbacks) -> None:
    """Wait until the applied workloads run, if requested and if every step succeeded."""
    if run.wait and plan.is_done:
        wait_until_running_by_service(service, plan, run.timeout, callbacks.on_wait)
