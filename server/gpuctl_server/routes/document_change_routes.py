"""``/plan``, ``/apply`` and ``/delete``: changes by documents."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query

from gpuctl.api.change_models import ChangesBody
from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl_server.access.caller import Caller
from gpuctl_server.changes import plan_and_apply
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.plan_and_apply import CompileOptions
from gpuctl_server.http.request_bodies import body_of, changes_of
from gpuctl_server.routes.dependencies import ServiceOf, allowed, change_of
from gpuctl_server.routes.query_parameters import (
    Checkpoint,
    Force,
    KeepLabels,
    NamespaceOfDocuments,
    NoProbe,
    Profile,
    Queue,
    ServiceStrategy,
    Timeout,
)
from gpuctl_server.routes.routers import api_router, write_router

router = write_router()
previews = api_router()
Documents = Annotated[ChangesBody, Depends(changes_of)]
_DOCUMENTS = body_of(ChangesBody, "The documents themselves.")


async def compiling_of(
    namespace: NamespaceOfDocuments = None,
    strict: Annotated[bool, Query(description="Reject documents with warnings.")] = False,
    profile: Profile = None,
) -> CompileOptions:
    """Return the options of the compiler, as a dependency."""
    return CompileOptions(namespace, strict, profile)


async def planning_of(
    queue: Queue = False,
    strategy: ServiceStrategy = None,
    relower: Annotated[
        bool, Query(description="Also update objects that differ only because a newer gpuctl generates other objects.")
    ] = False,
    no_probe: NoProbe = False,
    create_namespace: Annotated[
        bool, Query(alias="createNamespace", description="Create the namespace of the request if it does not exist.")
    ] = False,
    create_only: Annotated[
        bool, Query(alias="createOnly", description="Reject documents whose objects already exist.")
    ] = False,
) -> PlanOptions:
    """Return the options of a plan, as a dependency."""
    return PlanOptions(
        strategy=strategy,
        relower=relower,
        no_probe=no_probe,
        create_namespace=create_namespace,
        create_only=create_only,
        queue=queue,
    )


Compile = Annotated[CompileOptions, Depends(compiling_of)]
Planning = Annotated[PlanOptions, Depends(planning_of)]


@previews.post("/plan", response_model=PlanAnswer, openapi_extra=_DOCUMENTS)
def plan(
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("create", "plans"))],
    body: Documents,
    compiling: Compile,
    planning: Planning,
    checkpoint: Checkpoint = True,
    show: Annotated[
        Literal["", "objects"],
        Query(description="`objects`: include each object before and after the change, with secrets masked."),
    ] = "",
) -> PlanAnswer:
    """Return what applying documents would do. Writes nothing."""
    return plan_and_apply.plan_documents(
        service, caller, body, compiling, planning, checkpoint=checkpoint, with_objects=show == "objects"
    )


@router.post("/apply", response_model=PlanAnswer, openapi_extra=_DOCUMENTS)
def apply(
    change: Annotated[ChangeRequest, Depends(change_of("create", "jobs", changes_of))],
    body: Documents,
    compiling: Compile,
    planning: Planning,
    checkpoint: Checkpoint = True,
    force: Force = False,
    timeout: Timeout = RunOptions.timeout,
) -> PlanAnswer:
    """Create and update what documents describe. A change that ends running work must be confirmed."""
    run = change.run_options(timeout, force=force, checkpoint=checkpoint)
    return plan_and_apply.apply_documents(change, body, compiling, planning, run)


@router.post("/delete", response_model=PlanAnswer, openapi_extra=_DOCUMENTS)
def delete(
    change: Annotated[ChangeRequest, Depends(change_of("delete", "jobs", changes_of))],
    body: Documents,
    compiling: Compile,
    checkpoint: Checkpoint = True,
    force: Force = False,
    timeout: Timeout = RunOptions.timeout,
    keep_labels: KeepLabels = False,
) -> PlanAnswer:
    """Delete what documents describe, and wait until it is gone."""
    run = change.run_options(timeout, force=force, checkpoint=checkpoint)
    return plan_and_apply.delete_documents(change, body, compiling, run, keep_labels=keep_labels)
