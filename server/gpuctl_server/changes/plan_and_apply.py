"""Planning, applying and deleting the documents of one or several files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.api.change_models import ChangesBody
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.frontend.document_variant import Variant
from gpuctl.kube.session import Session
from gpuctl.usecases.changes.applying import preview_request
from gpuctl.usecases.changes.deleting import delete_compiled
from gpuctl.usecases.documents.service_documents import platform_message
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.document_access import require_document_access
from gpuctl_server.changes.job_changes import apply_submission
from gpuctl_server.changes.plan_responses import plan_answer
from gpuctl_server.changes.plan_runs import PlanRun
from gpuctl_server.changes.submissions import Submission, compile_documents
from gpuctl_server.http.heavy_requests import simulation_slot
from gpuctl_server.http.request_bodies import sources_of
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.mirror.shared_lists import READ_ONLY_AGE, MaxListAge
from gpuctl_server.service_context import Service


class CompileOptions(NamedTuple):
    """Options of the compiler: ``namespace`` is for jobs that name none; ``strict`` makes warnings errors; ``profile``
    is merged into documents that have profiles.
    """

    namespace: str | None = None
    strict: bool = False
    profile: str | None = None


def plan_documents(
    service: Service,
    caller: Caller,
    documents: ChangesBody,
    compiling: CompileOptions,
    planning: PlanOptions,
    *,
    checkpoint: bool,
    with_objects: bool,
) -> PlanAnswer:
    """Return what applying documents would do. Write nothing.

    :param with_objects: include each object before and after the change.
    :raises Problem: 400, 403.
    """
    with service.live_session(caller, MaxListAge(READ_ONLY_AGE)) as session:
        submission = _compiled(service, caller, session, documents, compiling, planning)
        require_document_access(caller, "create", submission.documents, jobs="plans")
        with simulation_slot(service):
            plan = preview_request(session, submission.wanted, RunCallbacks(), checkpoint=checkpoint)
    messages = _messages(service, documents)
    keys = submission.wanted.request.keys if with_objects else None
    return plan_answer(plan, keys, messages=messages, warnings=submission.warnings)


def apply_documents(
    change: ChangeRequest, documents: ChangesBody, compiling: CompileOptions, planning: PlanOptions, run: RunOptions
) -> PlanAnswer:
    """Create and update what documents describe.

    :raises Problem: 400, 403, 409, 503.
    """
    actions: Sequence[Action] = ("create",) if planning.create_only else ("create", "update")
    with change.session() as session:
        submission = _compiled(change.service, change.caller, session, documents, compiling, planning)
        change.touched.extend(submission.titles)
        messages = _messages(change.service, documents)
        return apply_submission(change, session, submission, actions, run, messages)


def delete_documents(
    change: ChangeRequest, documents: ChangesBody, compiling: CompileOptions, run: RunOptions, *, keep_labels: bool
) -> PlanAnswer:
    """Delete what documents describe.

    :raises Problem: 400, 403, 409, 503.
    """
    with change.session() as session:
        submission = _compiled(change.service, change.caller, session, documents, compiling, PlanOptions())
        change.touched.extend(submission.titles)
        require_document_access(change.caller, "delete", submission.documents)
        compilation = submission.wanted.compilation
        return PlanRun(change, _messages(change.service, documents)).execute(
            session,
            lambda callbacks: delete_compiled(session, compilation, run, callbacks, keep_labels=keep_labels),
            warnings=submission.warnings,
        )


def _compiled(
    service: Service,
    caller: Caller,
    session: Session,
    documents: ChangesBody,
    compiling: CompileOptions,
    planning: PlanOptions,
) -> Submission:
    if planning.create_namespace:
        require_access(caller, AccessRequest("create", "namespaces", compiling.namespace))
    return compile_documents(
        service,
        caller,
        session,
        "",
        namespace=compiling.namespace,
        planning=planning,
        sources=sources_of(documents),
        strict=compiling.strict,
        variant=Variant(compiling.profile, tuple(documents.overrides)),
    )


def _messages(service: Service, documents: ChangesBody) -> list[str]:
    beside = documents.platform
    message = "" if beside is None else platform_message(beside.value, beside.name, service.platform)
    return [message] if message else []
