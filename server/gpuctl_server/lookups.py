"""Which job is meant by a path, and by whom: what somebody may not see is not there."""

from __future__ import annotations

from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Action, Wish
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.problems import Problem, forbidden, not_found
from gpuctl_server.service import Service


def demand(caller: Caller, wish: Wish) -> None:
    """See that somebody may do something.

    :raises Problem: 403.
    """
    decision = caller.may(wish)
    if not decision.allowed:
        raise forbidden(decision.message)


def find_job(
    service: Service, caller: Caller, action: Action, resource: str, text: str, namespace: str | None = None
) -> ListedJob:
    """The job that a path means: by its id, its name, or the name of one of its pods.

    :param namespace: where it has to be, as far as that was said.
    :raises Problem: 403 for a namespace, or a pool, that is not theirs; 404 for what is not there, or not to be seen;
        409 where several are meant.
    """
    demand(caller, Wish(action, resource, namespace))

    def takes(item: ListedJob) -> bool:
        where = item.row.identity.namespace
        return caller.sees(where) and namespace in (None, where)

    found = service.board.now().find(text, takes)
    if not found:
        raise not_found(f"there is no job {text}" + (f" in the namespace {namespace}" if namespace else ""))
    if len(found) > 1:
        listed = [
            {"jobId": item.id, "namespace": item.row.identity.namespace, "kind": item.row.identity.kind}
            for item in found
        ]
        where = ", ".join(f"{item['jobId']} in {item['namespace']}" for item in listed)
        raise Problem(
            409, f"{text} means several jobs: {where}; name one by its jobId", error="SeveralFound", details=listed
        )
    (job,) = found
    demand(caller, Wish(action, resource, job.row.identity.namespace, job.row.pool))
    return job
