"""``/recoveries``: the work of interrupted runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from gpuctl.api.base_models import LEGAL_NAMESPACE
from gpuctl.api.recovery_answers import Recoveries
from gpuctl.apply.run.run_options import RunOptions
from gpuctl_server.access.caller import Caller
from gpuctl_server.changes import job_changes
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.routes.dependencies import ServiceOf, allowed, change_of, only_confirmed
from gpuctl_server.routes.query_parameters import EMPTY_IS_NONE, Timeout
from gpuctl_server.routes.routers import api_router, write_router

router = write_router()
previews = api_router()
RecoveryNamespace = Annotated[
    str | None,
    Query(max_length=63, description="Only this namespace. Default: all that the caller may see."),
    LEGAL_NAMESPACE,
    EMPTY_IS_NONE,
]


@previews.get("/recoveries", response_model=Recoveries)
def look_at_recoveries(
    service: ServiceOf,
    caller: Annotated[Caller, Depends(allowed("get", "recoveries"))],
    namespace: RecoveryNamespace = None,
) -> Recoveries:
    """List the unfinished work of interrupted runs, and what a recovery would do."""
    return job_changes.list_unfinished(service, caller, namespace)


@router.post("/recoveries", response_model=Recoveries)
def recover(
    change: Annotated[ChangeRequest, Depends(change_of("create", "recoveries", only_confirmed))],
    namespace: RecoveryNamespace = None,
    timeout: Timeout = RunOptions.timeout,
) -> Recoveries:
    """Finish the work of interrupted runs. Creating objects must be confirmed."""
    return job_changes.finish_unfinished(change, namespace, change.run_options(timeout))
