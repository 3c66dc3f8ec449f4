"""Queries about quotas and namespaces."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

from gpuctl.hints import NAMED_NAMESPACE, ListHint
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.not_found import no_such
from gpuctl.kube.quota_lists import list_quota_objects
from gpuctl.kube.scope import Scope
from gpuctl.language.names import is_dns_label
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.reading.jobs.job_rows import PlatformKeys, gpus_of_pod, platform_keys, with_gpus_of_pods
from gpuctl.reading.nodes.inventory import UNFINISHED
from gpuctl.reading.nodes.node_rows import PodOnNode, pod_on_node
from gpuctl.reading.queues.namespace_rows import (
    Namespace,
    NamespaceRow,
    read_contents,
    read_namespaces,
)
from gpuctl.reading.queues.quota_rows import QuotaState, read_quotas, select_quotas
from gpuctl.usecases.queries.read_context import ReadContext, check_names
from gpuctl.usecases.service.service_client import ServiceRefusal
from gpuctl.usecases.service.service_names import names_of_service
from gpuctl.usecases.service.service_quotas import namespace_of_service, namespaces_of_service, quotas_of_service

if TYPE_CHECKING:
    from gpuctl.api.namespace_answers import NamespaceDetail, NamespaceItem
    from gpuctl.api.node_answers import HoldingPod
    from gpuctl.api.quota_answers import Quota

AnyQuota = TypeVar("AnyQuota", "QuotaState", "Quota")


def list_quotas(reader: ReadContext, names: Sequence[str] = ()) -> Sequence[QuotaState | Quota]:
    """Return the quotas of users (namespaces) or quota documents; all without names.

    :raises NotThere: a name has no quota.
    :raises ClusterError: quotas may not be listed.
    """
    if reader.service is not None:
        return _named_quotas(quotas_of_service(reader.service, reader.scope.namespace), names)
    label = reader.settings.label("quota")
    try:
        if names and reader.scope.namespace is None:
            # If not all quotas may be listed, names are namespaces and become parts of URLs: they must be valid.
            users = list(filter(is_dns_label, names))
            found = list_quota_objects(reader.scope.session, users, label)
        else:
            kinds = ("ResourceQuota", "LimitRange", "ClusterQueue")
            found = dict(zip(kinds, reader.scope.lists(kinds, labels=label), strict=True))
    except ApiError as error:
        if not error.lacks_permission or names or reader.scope.namespace is not None:
            raise
        raise ClusterError(
            error.message, say("name a user whose quota you may read, or a namespace {how}", how=NAMED_NAMESPACE)
        ) from None
    quotas, ranges, queues = (found[kind] for kind in ("ResourceQuota", "LimitRange", "ClusterQueue"))
    if reader.settings.has_quota_queues and not queues:
        reader.scope.note(
            say("the limits of Kueue are missing: there is no ClusterQueue of a quota, or none may be listed")
        )
    there = read_quotas(quotas, ranges, reader.settings, queues=queues)
    within = reader.scope.namespace
    return _named_quotas([quota for quota in there if within in (None, quota.namespace)], names)


def _named_quotas(there: list[AnyQuota], names: Sequence[str]) -> list[AnyQuota]:
    """Return the quotas of users or of quota documents with these names; all without names.

    :raises NotThere: a name has no quota.
    """
    if not names:
        return there
    found: list[AnyQuota] = []
    for name in names:
        own = select_quotas(there, name)
        if not own:
            known = {quota.namespace for quota in there} | {quota.name for quota in there}
            raise no_such("quota", name, known)
        found += [quota for quota in own if quota not in found]
    return found


def quota_holders(reader: ReadContext, namespace: str) -> Sequence[PodOnNode | HoldingPod] | None:
    """Return the pods that a namespace's quota counts; None if they may not be read."""
    if reader.service is not None:
        try:
            found = namespace_of_service(reader.service, namespace)
            return [*found.running_jobs, *found.waiting_jobs]
        except ServiceRefusal as error:
            if error.status != 403:
                raise
            return None
    pods = Scope(reader.scope.session, namespace).all_if_allowed("Pod", fields=UNFINISHED)
    if pods is None:
        return None
    counted = _gpu_keys(reader, pods)
    return [pod_on_node(pod, gpus_of_pod(pod, counted), reader.keys) for pod in pods]


def _gpu_keys(reader: ReadContext, pods: Collection[Object]) -> PlatformKeys:
    return with_gpus_of_pods(platform_keys(reader.settings, reader.keys), reader.scope, pods)


def list_namespaces(
    reader: ReadContext, names: Sequence[str] = (), *, everything: bool = False
) -> Sequence[NamespaceRow | NamespaceItem]:
    """Return the namespaces that gpuctl created or that have its jobs or quotas, or only those with the given names.

    :param everything: return all namespaces.
    :raises NotThere: one of the names does not exist.
    :raises ApiError: a named namespace, or without names that of the context, may not be read.
    """
    rows: Sequence[NamespaceRow | NamespaceItem]
    if reader.service is not None:
        rows = namespaces_of_service(reader.service, everything=everything or bool(names))
    else:
        rows = _rows_of_cluster(reader, names, everything=everything)
    check_names("namespace", names, [item.name for item in rows])
    return [item for item in rows if not names or item.name in names]


def _rows_of_cluster(reader: ReadContext, names: Sequence[str], *, everything: bool) -> list[NamespaceRow]:
    """Return the rows of all namespaces that may be listed, and of those named, which may be readable one by one."""
    scope = Scope(reader.scope.session, reader.scope.namespace)
    try:
        found = read_contents(scope, reader.keys)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        if names:
            return [_namespace(reader, name).row for name in dict.fromkeys(names)]
        how = ListHint("namespaces", "NAME")
        error.hint = say("name a namespace that you may read: {command}", command=how)
        raise
    reader.scope.take_notes(scope)
    shown = read_namespaces(found, reader.settings, _gpu_keys(reader, found.pods))
    if found.assumed or scope.is_confined:
        there = {item.name for item in shown}
        shown += [_namespace(reader, name) for name in dict.fromkeys(names) if name not in there]
    return [item.row for item in shown if names or everything or item.is_of_interest or item.name in found.assumed]


def namespace_names(reader: ReadContext) -> list[str]:
    """Return the names of all namespaces that the user may see; [] if namespaces may not be listed."""
    if reader.service is not None:
        return names_of_service(reader.service, "namespace", None)
    return reader.scope.session.names(RESOURCES["Namespace"])


def describe_namespace(reader: ReadContext, name: str) -> Namespace | NamespaceDetail:
    """Return one namespace with its quotas and pods.

    :raises NotThere: it does not exist.
    """
    if reader.service is not None and is_dns_label(name):
        return namespace_of_service(reader.service, name)
    if reader.service is not None:
        raise no_such("namespace", name, namespace_names(reader))
    return _namespace(reader, name)


def _namespace(reader: ReadContext, name: str) -> Namespace:
    """Return one namespace of the cluster.

    :raises NotThere: it does not exist.
    """
    found: list[Namespace] = []
    if is_dns_label(name):
        scope = Scope(reader.scope.session, name)
        contents = read_contents(scope, reader.keys)
        found = read_namespaces(contents, reader.settings, _gpu_keys(reader, contents.pods))
        reader.scope.take_notes(scope)
    if not found:
        raise no_such("namespace", name, reader.scope.session.names(RESOURCES["Namespace"]))
    return found[0]
