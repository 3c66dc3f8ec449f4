"""Limits of callers on documents: their pods, their Services, nodes of pools, names of hidden jobs."""

from __future__ import annotations

from gpuctl.compilation import Compilation
from gpuctl.language.pool_document import PoolDocument
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, key_of
from gpuctl.objects.ownership_metadata import is_controlled, is_ours
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.creation_limits import PodTerms, ServiceTerms
from gpuctl_server.changes.document_access import qualified_title
from gpuctl_server.http.http_problems import Problem, forbidden
from gpuctl_server.lookups.node_lookups import pool_filter
from gpuctl_server.service_context import Service


def confine(service: Service, caller: Caller, compilation: Compilation) -> None:
    """Check the objects of documents against the limits of a caller. Does not read from the cluster.

    :raises Problem: 403, or 409 for the name of a hidden job.
    """
    if not caller.is_confined:
        return
    _confine_pods(service, caller, compilation)
    _confine_services(service, caller, compilation)
    _confine_nodes(service, caller, compilation)
    _reject_taken_names(service, caller, compilation)


def _confine_pods(service: Service, caller: Caller, compilation: Compilation) -> None:
    """Check that no pod exceeds the limits of the caller.

    :raises Problem: 403, with all violations.
    """
    settings = service.settings
    terms = PodTerms(settings.pod_security, settings.host_paths, settings.service_accounts)
    found: dict[str, list[str]] = {}
    for document in compilation.documents:
        own = (item.object for item in compilation.lowered if item.document is document)
        found[qualified_title(document)] = terms.breaches(own)
    details = [{"document": title, "message": text} for title, texts in found.items() for text in texts]
    if details:
        first = f"{details[0]['document']}: {details[0]['message']}"
        more = say(", and {number} more", number=len(details) - 1) if len(details) > 1 else ""
        raise Problem(
            403,
            say(
                "{name} may not create such pods: Pod Security {level}, and the allowed service accounts, do not "
                "permit {first}{more}",
                name=caller.name,
                level=settings.pod_security,
                first=first,
                more=more,
            ),
            error="PodSecurity",
            details=details,
            hint=say(
                "use pvc or nfs in `storage.workdirs` instead of host paths; the settings `pod_security`, "
                "`host_paths` and `service_accounts` of the service define what is allowed"
            ),
        )


def _confine_services(service: Service, caller: Caller, compilation: Compilation) -> None:
    """Check that no Service exceeds the limits for tokens with limits.

    :raises Problem: 403.
    """
    settings = service.settings
    terms = ServiceTerms(settings.service_types, settings.fixed_node_ports)
    found = terms.breaches(item.object for item in compilation.lowered)
    if found:
        raise Problem(
            403,
            say("{name} may not create {objects}", name=caller.name, objects=found),
            error="ServiceNotAllowed",
            details=[{"message": text} for text in found],
            hint=say("the settings `service_types` and `fixed_node_ports` define what tokens with limits may create"),
        )


def _confine_nodes(service: Service, caller: Caller, compilation: Compilation) -> None:
    """Check that a pool takes no nodes from pools that the caller may not change. Missing nodes get the same error.

    :raises Problem: 403.
    """
    named = [
        name for item in compilation.documents if isinstance(item.model, PoolDocument) for name in item.model.nodes
    ]
    if not named:
        # Reading the fleet would count GPUs, which may need a request for DeviceClasses.
        return
    takes, there = pool_filter(caller, "update", "pools"), service.fleet.now().nodes
    for name in named:
        if name not in there or not takes(there[name].pool):
            raise forbidden(
                say(
                    "{name} may not put node {node} into a pool: the node is not in a pool of this token",
                    name=caller.name,
                    node=name,
                )
            )


def _reject_taken_names(service: Service, caller: Caller, compilation: Compilation) -> None:
    """Reject a job with the name of a hidden job. If that is of another kind, the API server would accept both.

    :raises Problem: 409.
    """
    visibility, kept = service.visibility(caller), dict(service.mirror.kinds())
    objects = [item.object for item in compilation.lowered if item.object["kind"] in WORKLOADS]
    # A job that the caller may not create is refused without a look at others.
    for main in (key_of(obj) for obj in objects if visibility.sees(obj)):
        for other in (main._replace(kind=kind) for kind in WORKLOADS if kind in kept):
            found = service.mirror.find(other)
            if found is not None and is_ours(found) and not is_controlled(found) and not visibility.sees(found):
                raise Problem(
                    409,
                    say(
                        "the name {name} in {namespace} is used by another job",
                        name=main.name,
                        namespace=main.namespace,
                    ),
                    error="AlreadyExists",
                    hint=say("rename one; nothing was changed by this request"),
                )
