"""Reasons why a snapshot does not determine where pods would be placed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuctl.capacity.admission.pod_admission import runtime_of
from gpuctl.capacity.scheduler.pod_claims import find_claim, volume_of
from gpuctl.capacity.scheduler.scheduler_model import units
from gpuctl.capacity.scheduler.volume_binding import NEEDED_LISTS, ephemeral_claim, is_binding_delayed, storage_class_of
from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.capacity.snapshot.snapshot_entries import SCHEDULER
from gpuctl.language.gpu_cards import TITLES, every_share
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import mounted_claims

_SYSTEMS = {
    name: TITLES[system]
    for system, share in reversed([*every_share()])
    for name in (*share.parts, *({share.number} & {"volcano.sh/vgpu-number"}))
}
"""Resource of shares that nodes need not report -> the system that hands it out."""


def unknown_reasons(
    spec: Object, namespace: str, snapshot: Snapshot, classes: Mapping[str, Object], reported: frozenset[str]
) -> Iterator[str]:
    """Yield why a snapshot does not determine where a pod would be placed."""
    for resource in units(pod_requests(spec)):
        if resource not in reported:
            yield say(
                "no node reports {resource} as allocatable{system}", resource=resource, system=_handed_out(resource)
            )
    scheduler = spec.get("schedulerName") or SCHEDULER
    if scheduler != SCHEDULER:
        yield say("its pods use the scheduler {scheduler}, whose rules gpuctl does not know", scheduler=scheduler)
    if spec.get("schedulingGates"):
        yield say("its pods have scheduling gates, which have to be removed first")
    if spec.get("schedulingGroup"):
        yield say("its pods are scheduled as a group (schedulingGroup)")
    name = spec.get("priorityClassName")
    if name and name not in classes and not name.startswith("system-"):
        yield say("PriorityClass {name} was not found", name=name)
    if spec.get("runtimeClassName") and runtime_of(spec, snapshot) is None:
        yield say("RuntimeClass {name} was not found", name=spec["runtimeClassName"])
    yield from _doubts_of_volumes(spec, namespace, snapshot)


def _handed_out(resource: str) -> str:
    """Return which scheduler allocates shares of a card: nodes need not report such a resource."""
    whose = _SYSTEMS.get(resource)
    return say(": the scheduler of {system} allocates it", system=whose) if whose else ""


def _doubts_of_volumes(spec: Object, namespace: str, snapshot: Snapshot) -> Iterator[str]:
    for name in mounted_claims(spec):
        claim = find_claim(name, namespace, snapshot)
        if claim is None:
            is_known = "claims" not in snapshot.unreadable
            why = (
                say("was not found in {namespace}", namespace=namespace)
                if is_known
                else say("is unknown: claims could not be read")
            )
            yield say("claim {claim} {why}", claim=name, why=why)
        elif volume_of(claim, snapshot) is None:
            yield from _unbound(claim, say("claim {name}", name=name), snapshot)
    for volume in spec.get("volumes") or []:
        if volume.get("ephemeral"):
            title = say("ephemeral volume {name}", name=volume["name"])
            yield from _unbound(ephemeral_claim(volume, namespace), title, snapshot)


def _unbound(claim: Object, title: str, snapshot: Snapshot) -> Iterator[str]:
    storage = storage_class_of(claim, snapshot)
    if claim.get("phase") != "Pending" or storage is None:
        yield say("{volume} is not bound to a known volume", volume=title)
    elif not is_binding_delayed(claim, snapshot):
        yield say(
            "{volume} is not bound to a volume yet (storage class {storage_class})",
            volume=title,
            storage_class=storage["name"],
        )
    elif lacking := snapshot.lacks(*NEEDED_LISTS):
        where = say(
            "is bound when its first pod is scheduled (storage class {storage_class})", storage_class=storage["name"]
        )
        yield say("{volume} {where}, and {lists} could not be read", volume=title, where=where, lists=lacking)
