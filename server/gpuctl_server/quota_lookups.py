"""Which quotas somebody sees: what may not be seen is not there."""

from __future__ import annotations

from gpuctl.kube.not_found import no_such
from gpuctl.reading.quota_rows import QuotaState, chosen
from gpuctl.usecases.quota_queries import list_quotas
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.service_context import Service


def visible_quotas(service: Service, caller: Caller) -> list[QuotaState]:
    """The quotas of the namespaces that somebody sees."""
    with service.read_context(caller) as reader:
        found = list_quotas(reader)
    return [quota for quota in found if caller.may(AccessRequest("get", "quotas", quota.namespace)).allowed]


def find_quotas(service: Service, caller: Caller, name: str) -> list[QuotaState]:
    """Those of a user, else those of a quota's document.

    :raises NotThere: there is none of the name.
    """
    there = visible_quotas(service, caller)
    found = chosen(there, name)
    if not found:
        raise no_such("quota", name, {quota.namespace for quota in there} | {quota.name for quota in there})
    return found
