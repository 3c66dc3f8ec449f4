"""Devices that drivers hand out by dynamic resource allocation (DRA): gpuctl does not count them."""

from __future__ import annotations

from dataclasses import replace

from gpuctl.capacity.shortage import eligible_nodes
from gpuctl.language.display_text import first_few
from gpuctl.objects.api_resources import Object
from gpuctl.reading.status import sentence
from gpuctl.reading.why.evidence import named_device_claims
from gpuctl.reading.why.finding import Finding
from gpuctl.reading.why.pending_pods import Case
from gpuctl.reading.why.proofs import source


def unknown_room(case: Case) -> Finding | None:
    """Nodes may have room that they do not report: what keeps the pod waiting is the scheduler's to say."""
    claims = [item["name"] for item in case.pod["spec"].get("resourceClaims") or []]
    lacks_room = bool(case.uncounted) and not case.roomy and bool(eligible_nodes(case.incoming, case.selected))
    if not (lacks_room or (claims and case.fitting)):
        return None
    why = case.uncounted or f"its pods claim devices (resourceClaims: {', '.join(claims)}), which gpuctl does not count"
    said = ", ".join(f"{number} {text}" if number else text for text, number in case.words.items())
    message = f"{case.whose}the scheduler found no node ({said or case.message}); {why}"
    namespace = case.evidence.job.identity.namespace
    fix = f"`kubectl get resourceslices,resourceclaims -n {namespace}` shows the devices and who has them"
    return case.finding("unknown", message, {"resourceClaims": claims, "nodes": dict(case.words)}, fix)


def missing_claim(case: Case) -> Finding | None:
    """A ResourceClaim or ResourceClaimTemplate that it names does not exist, or cannot be used."""
    namespace = case.evidence.job.identity.namespace
    absent = [key for key in named_device_claims(case.pod["spec"]) if case.evidence.device_claims.get(key, key) is None]
    if absent:
        kind, name = absent[0]
        others = f" (nor {first_few(other for _, other in absent[1:])})" if len(absent) > 1 else ""
        message = f"{case.whose}there is no {kind} {name} in {namespace}{others}, which its devices come from"
        fix = f"create the {kind} {name} in {namespace}, or name another in `podPatch.resourceClaims`"
        told = tuple(source(event) for event in _failures(case)[-1:])
        found = case.finding("resource-claim-missing", message, {"kind": kind, "name": name}, fix)
        return replace(found, sources=(*found.sources, *told))
    made = {item.get("name") for item in (case.pod.get("status") or {}).get("resourceClaimStatuses") or []}
    waits = [item["name"] for item in case.pod["spec"].get("resourceClaims") or [] if item["name"] not in made]
    failed = [event for event in _failures(case) if any(f" {name}: " in str(event.get("message")) for name in waits)]
    if not failed:
        return None
    text = sentence(failed[-1].get("message"))
    message = f"{case.whose}a ResourceClaim of the pod {case.name} cannot be created: {text.partition(': ')[2] or text}"
    fix = "correct what the message names; the controller tries again by itself"
    found = case.finding("resource-claim-missing", message, {"kind": "ResourceClaim", "name": None}, fix)
    return replace(found, sources=(*found.sources, source(failed[-1])))


def _failures(case: Case) -> list[Object]:
    return case.evidence.told("FailedResourceClaimCreation", pod=case.pod)
