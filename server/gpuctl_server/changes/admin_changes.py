"""Creation, change and deletion of pools and quotas through the REST API, by plans of their documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from gpuctl.api.admin_models import Administered, ChangedPool, CreatedQuota
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.plan import WRITING, AlreadyExists, Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.plan.pool_labels import known_pools
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.kube.not_found import no_such
from gpuctl.kube.session import Session
from gpuctl.language.masking import redact
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.quota_document import QuotaDocument
from gpuctl.language.sentences import say, verb_of
from gpuctl.usecases.changes.applying import apply_request
from gpuctl.usecases.changes.deletion_by_name import delete_pools, delete_quotas
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.changes.admin_documents import AdminBody, pool_document, quota_document
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.document_access import require_document_access
from gpuctl_server.changes.plan_responses import (
    VALIDATED,
    done_message,
    plan_answer,
    pool_created,
    require_all_done,
    unchanged_message,
)
from gpuctl_server.changes.plan_runs import PlanRun, await_seen
from gpuctl_server.changes.submissions import Submission, compile_documents
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.service_context import Service

_DONE = {"create": "created", "update": "updated", "replace": "updated"}
Resource = Literal["pools", "quotas"]


def create_pool(change: ChangeRequest, body: AdminBody) -> Administered:
    """Create a pool.

    :raises Problem: 400, 403, 409.
    """
    with change.session() as session:
        name, plan = _apply_pool(change, session, body, None)
    said = done_message(f"pool/{name}", "created", dry_run=True) if change.dry_run else pool_created(name)
    return _administered(change, name, "created", said, plan)


def change_pool(change: ChangeRequest, name: str, body: AdminBody) -> ChangedPool:
    """Change an existing pool.

    :raises Problem: 400, 403, 404, 409.
    """
    require_access(change.caller, AccessRequest("update", "pools", pool=name))
    with change.session() as session:
        _, plan = _apply_pool(change, session, body, name)
    done = next((_DONE[step.action] for step in plan.steps if step.action in _DONE), "unchanged")
    status = "unchanged" if done == "unchanged" else "updated"
    return ChangedPool(
        name=name,
        status=VALIDATED if change.dry_run else status,
        message=done_message(f"pool/{name}", status, dry_run=change.dry_run),
        notes=_notes(plan),
        plan=plan_answer(plan),
    )


def delete_pool(change: ChangeRequest, name: str) -> Administered:
    """Delete a pool. Its jobs continue to run.

    :raises NotThere: the pool does not exist.
    :raises Problem: 403, 409.
    """
    plan = _delete(change, "pools", name)
    nodes = sum(step.key.kind == "Node" for step in plan.steps)
    said = (
        unchanged_message(say("pool/{name} would be deleted; {nodes:node} would leave it", name=name, nodes=nodes))
        if change.dry_run
        else say("pool/{name} is deleted; {nodes:node} left it", name=name, nodes=nodes)
    )
    return _administered(change, name, "deleted", said, plan)


def create_quota(change: ChangeRequest, body: AdminBody) -> CreatedQuota:
    """Create quotas of users.

    :raises Problem: 400, 403, 409.
    """
    text = body.text if body.quota is None else quota_document(body.quota)
    with change.session() as session:
        submission = _compiled(change, session, text or "", "quota", PlanOptions(create_only=True))
        require_document_access(change.caller, "create", submission.documents)
        plan = _applied(change, session, submission)
    model = submission.documents[0].model
    assert isinstance(model, QuotaDocument)
    name, users = model.header.name, list(model.entries)
    said = say("quota/{name} {be} created for {users}", name=name, be=verb_of(dry_run=change.dry_run), users=users)
    if change.dry_run:
        said = unchanged_message(said)
    found = _administered(change, name, "created", said, plan)
    return CreatedQuota(**found.model_dump(exclude_unset=True), users=users)


def delete_quota(change: ChangeRequest, name: str) -> Administered:
    """Delete the quota of a user. The namespace and its content stay.

    :raises NotThere: the quota does not exist.
    :raises Problem: 403, 409.
    """
    plan = _delete(change, "quotas", name)
    said = done_message(f"quota/{name}", "deleted", dry_run=change.dry_run)
    return _administered(change, name, "deleted", said, plan)


def delete_named(
    change: ChangeRequest, resource: Resource, names: Sequence[str], run: RunOptions, *, keep_labels: bool = False
) -> PlanAnswer:
    """Delete pools or quotas by name. The jobs of a pool continue to run; the namespace of a quota stays.

    :raises NotThere: a name does not exist.
    :raises Problem: 403, 409, 503.
    """
    delete = _deletion(change, resource, names, run, keep_labels=keep_labels)
    with change.session() as session:
        return PlanRun(change).execute(session, lambda callbacks: delete(session, callbacks))


def _delete(change: ChangeRequest, resource: Resource, name: str) -> Plan:
    delete = _deletion(change, resource, [name], change.run_options())
    with change.session() as session:
        plan = delete(session, PlanRun(change).callbacks)
        _require_done(change, session, plan)
    return plan


def _deletion(
    change: ChangeRequest, resource: Resource, names: Sequence[str], run: RunOptions, *, keep_labels: bool = False
) -> Callable[[Session, RunCallbacks], Plan]:
    """Return the function that deletes pools or quotas, after checking that the caller may do so.

    :raises Problem: 403.
    """
    for name in names:
        where = {"pool": name} if resource == "pools" else {"namespace": name}
        require_access(change.caller, AccessRequest("delete", resource, **where))
    change.touched.extend(f"{resource.removesuffix('s')}/{name}" for name in names)
    delete = partial(delete_pools, keep_labels=keep_labels) if resource == "pools" else delete_quotas
    return lambda session, callbacks: delete(session, names, change.service.platform, run, callbacks)


def _administered(change: ChangeRequest, name: str, status: str, said: str, plan: Plan) -> Administered:
    """Return the answer.

    :param said: what was done, or would be.
    """
    if not change.dry_run:
        return Administered(name=name, status=status, message=said, notes=_notes(plan))
    value = plan_answer(plan)
    return Administered(name=name, status=VALIDATED, message=said, notes=_notes(plan), plan=value)


def _apply_pool(change: ChangeRequest, session: Session, body: AdminBody, name: str | None) -> tuple[str, Plan]:
    """Apply the document of a pool: create it, or update the pool called ``name``."""
    service = change.service
    text = body.text if body.pool is None else pool_document(service, session, body.pool, name)
    planning = PlanOptions(create_only=name is None)
    submission = _compiled(change, session, text or "", "pool", planning)
    found = submission.documents[0].name
    if name is not None and found != name:
        raise Problem(
            400,
            say("the document must describe pool/{name}, not pool/{found}", name=name, found=found),
            error="AnotherPool",
        )
    if found == DEFAULT_POOL:
        raise Problem(
            400, say("the pool {pool} cannot be defined: it has the nodes that are in no other pool", pool=DEFAULT_POOL)
        )
    require_document_access(change.caller, "create" if name is None else "update", submission.documents)
    if name is not None:
        _require_existing_pool(service, session, name)
    return found, _applied(change, session, submission)


def _require_existing_pool(service: Service, session: Session, name: str) -> None:
    there = known_pools(session, service.platform, service.keys)
    if name not in there:
        raise no_such("pool", name, there)


def _compiled(change: ChangeRequest, session: Session, text: str, kind: str, planning: PlanOptions) -> Submission:
    submission = compile_documents(change.service, change.caller, session, text, planning=planning)
    change.touched.extend(submission.titles)
    kinds = [document.kind for document in submission.documents]
    if kinds != [kind]:
        raise Problem(
            400, say("expected one document of kind {kind}, got {kinds}", kind=kind, kinds=kinds), error="WrongKind"
        )
    return submission


def _applied(change: ChangeRequest, session: Session, submission: Submission) -> Plan:
    try:
        plan = apply_request(session, submission.wanted, change.run_options(), PlanRun(change).callbacks)
    except AlreadyExists as error:
        raise Problem(
            409,
            say("{names} exists already: {error}", names=submission.titles, error=error.message),
            error="AlreadyExists",
            hint=error.hint,
        ) from None
    _require_done(change, session, plan)
    return plan


def _require_done(change: ChangeRequest, session: Session, plan: Plan) -> None:
    """Check that a plan was carried out, and wait until the mirror has its objects. Do nothing after a dry run.

    :raises Problem: 409, 503.
    """
    if not change.dry_run:
        require_all_done(plan)
        await_seen(change.service, session, [step.key for step in plan.steps if step.action in WRITING])


def _notes(plan: Plan) -> list[str]:
    return [redact(note) for note in plan.notes]
