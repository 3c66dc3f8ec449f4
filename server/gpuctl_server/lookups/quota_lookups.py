"""The quotas that a caller may see. All others are treated as if they did not exist."""

from __future__ import annotations

from gpuctl.api.quota_answers import Quota
from gpuctl.kube.not_found import no_such
from gpuctl.reading.queues.quota_rows import QuotaState, select_quotas
from gpuctl.usecases.queries.quota_queries import list_quotas
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.service_context import Service


def visible_quotas(service: Service, caller: Caller) -> list[QuotaState | Quota]:
    """Return the quotas of the namespaces that the caller may see."""
    with service.read_context(caller) as reader:
        found = list_quotas(reader)
    return [quota for quota in found if caller.may(AccessRequest("get", "quotas", quota.namespace)).allowed]


def find_quotas(service: Service, caller: Caller, name: str) -> list[QuotaState | Quota]:
    """Return the quota of a user, else the quotas of a document with this name.

    :raises NotThere: the caller sees no quota with the name.
    """
    there = visible_quotas(service, caller)
    found = select_quotas(there, name)
    if not found:
        raise no_such("quota", name, {quota.namespace for quota in there} | {quota.name for quota in there})
    return found
