"""Rules for pods that claim devices by dynamic resource allocation (DRA) which gpuctl cannot count, or whose claim is
missing.
"""

from __future__ import annotations

from dataclasses import replace

from gpuctl.capacity.admission.quota_charges import parse_exceeded
from gpuctl.capacity.fit.shortage import eligible_nodes
from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import format_amount
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.event_proofs import event_proof
from gpuctl.reading.why.evidence import named_device_claims
from gpuctl.reading.why.finding import Finding
from gpuctl.reading.why.pending_pods import PendingPods


def unknown_room(pending: PendingPods) -> Finding | None:
    """Nodes may have room that they do not report; only the scheduler's message says why the pod waits."""
    claims = [item["name"] for item in pending.pod["spec"].get("resourceClaims") or []]
    lacks_room = (
        bool(pending.unreported_room)
        and not pending.nodes_with_room
        and bool(eligible_nodes(pending.incoming, pending.selected_nodes))
    )
    if not (lacks_room or (claims and pending.fitting_nodes)):
        return None
    assert pending.demand is not None
    claimed = say("its pods claim devices (resourceClaims: {claims})", claims=claims)
    why = pending.unreported_room or clauses(claimed, *pending.demand.unknown_reasons)
    said = ", ".join(f"{number} {text}" if number else text for text, number in pending.reason_counts.items())
    message = say(
        "{prefix}the scheduler found no node ({text}); {why}",
        prefix=pending.prefix,
        text=said or pending.message,
        why=why,
    )
    fix = say(
        "{command} shows the devices and who has them",
        command=kubectl_line("get resourceslices,resourceclaims -n", pending.evidence.job.identity.namespace),
    )
    return pending.finding("unknown", message, {"resourceClaims": claims, "nodes": dict(pending.reason_counts)}, fix)


def missing_claim(pending: PendingPods) -> Finding | None:
    """A ResourceClaim or ResourceClaimTemplate that the pod names does not exist, or cannot be used."""
    namespace = pending.evidence.job.identity.namespace
    absent = [
        key for key in named_device_claims(pending.pod["spec"]) if pending.evidence.device_claims.get(key, key) is None
    ]
    if absent:
        kind, name = absent[0]
        others = say(" (nor {names:few})", names=[other for _, other in absent[1:]]) if len(absent) > 1 else ""
        known = {"kind": kind, "name": name, "namespace": namespace}
        message = say(
            "{prefix}there is no {kind} {name} in {namespace}{others}, which its devices come from",
            prefix=pending.prefix,
            others=others,
            **known,
        )
        fix = say("create the {kind} {name} in {namespace}, or name another in `podPatch.resourceClaims`", **known)
        told = tuple(event_proof(event) for event in _failures(pending)[-1:])
        found = pending.finding("resource-claim-missing", message, {"kind": kind, "name": name}, fix)
        return replace(found, sources=(*found.sources, *told))
    made = {item.get("name") for item in (pending.pod.get("status") or {}).get("resourceClaimStatuses") or []}
    waits = [item["name"] for item in pending.pod["spec"].get("resourceClaims") or [] if item["name"] not in made]
    failed = [event for event in _failures(pending) if any(f" {name}: " in str(event.get("message")) for name in waits)]
    if not failed:
        return None
    text = one_line(failed[-1].get("message"))
    why = text.partition(": ")[2] or text
    message = say(
        "{prefix}a ResourceClaim of the pod {pod} cannot be created: {text}",
        prefix=pending.prefix,
        pod=pending.name,
        text=why,
    )
    fix = say("correct what the message names; the controller tries again by itself")
    found = pending.finding("resource-claim-missing", message, {"kind": "ResourceClaim", "name": None}, fix)
    if short := parse_exceeded(why):
        limits = [
            say(
                "{total} of {hard} {resource}",
                total=format_amount(item.resource, item.total),
                hard=format_amount(item.resource, item.hard),
                resource=item.resource,
            )
            for item in short
        ]
        quota = short[0].quota
        message = say(
            "{prefix}quota {quota} has no room for the devices of the pod {pod}: {limits}",
            prefix=pending.prefix,
            quota=quota,
            pod=pending.name,
            limits=limits,
        )
        fix = say(
            "wait until other jobs of {namespace} end, ask for less in `resources.gpu`, or raise quota {quota}",
            namespace=namespace,
            quota=quota,
        )
        found = pending.finding("quota-exceeded", message, {"quota": quota}, fix)
    return replace(found, sources=(*found.sources, event_proof(failed[-1])))


def _failures(pending: PendingPods) -> list[Object]:
    return pending.evidence.events_with("FailedResourceClaimCreation", pod=pending.pod)
