"""Reasons why a queue of Kueue cannot admit a job without a change."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import ZERO
from gpuctl.capacity.kueue.queue_messages import (
    missing_cluster_queue,
    missing_queue,
    never_fits,
    stopped_queue,
    uncovered,
)
from gpuctl.capacity.snapshot.kueue_entries import REFUSED_CLAIM, RETRIED, cluster_queue_entry
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.array_jobs import is_array
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.role_jobs import has_several_roles
from gpuctl.objects.workload_state import find_condition
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.queues.queue_position import (
    KueueLists,
    QueuePosition,
    is_stopped,
)
from gpuctl.reading.why.event_proofs import condition_proof, object_title
from gpuctl.reading.why.finding import Proof
from gpuctl.reading.why.pod_refusals import field

# Kueue's messages about queues that admit nothing, used if the queues may not be read:
# pkg/controller/core/workload_controller.go, pkg/scheduler/scheduler.go and flavorassigner.go.
_UNUSABLE = re.compile(
    r"(?:Local|Cluster)Queue \S+ (?:doesn't exist|is (?:inactive|stopped|terminating or missing))"
    r"|doesn't match ClusterQueue selector|unavailable in ClusterQueue|> maximum capacity"
)
_NO_FLAVOR = re.compile(r"doesn't match node affinity|untolerated taint")
_NO_TOPOLOGY = re.compile(r"does not (?:support TopologyAwareScheduling|contain the requested level)")
_UNMAPPED = re.compile(r"DeviceClass (\S+) is not mapped in DRA configuration")


class QueueTrouble(NamedTuple):
    """The reason why a queue cannot admit the job without a change, and a fix."""

    message: Sentence
    fix: Sentence
    source: Proof | None = None


def queue_trouble(admission: Object, place: QueuePosition, lists: KueueLists, workload: Object) -> QueueTrouble | None:
    """Return the first reason why the queue of a job cannot admit it; None if it only has to wait."""
    namespace = admission["metadata"]["namespace"]
    for found in (
        missing_queue_trouble(lists, namespace, place.queue),
        _stopped(lists, namespace, place),
        _refused_claim(admission, place),
        _not_covered(place),
        _too_large(place, workload),
        _by_its_words(admission, place),
    ):
        if found is not None:
            return found
    return None


def missing_queue_trouble(lists: KueueLists, namespace: str, queue: str) -> QueueTrouble | None:
    """Return the trouble of a LocalQueue that does not exist; None if it does, or if that is unknown."""
    if lists.local_queues is None:
        return None
    here = [item["metadata"]["name"] for item in lists.local_queues if item["metadata"]["namespace"] == namespace]
    if queue in here:
        return None
    fix = say(
        "ask the administrators to create the LocalQueue {queue} in {namespace}", queue=queue, namespace=namespace
    )
    if here:
        fix = say("name one of these in `resources.queue`, or in `training.queue` of the platform; or {fix}", fix=fix)
    return QueueTrouble(missing_queue(queue, namespace, here), fix)


def _stopped(lists: KueueLists, namespace: str, place: QueuePosition) -> QueueTrouble | None:
    """A LocalQueue or ClusterQueue is stopped, missing or inactive."""
    local = next(
        (item for item in lists.local_queues or [] if (item["metadata"]["namespace"], item["metadata"]["name"]) ==
         (namespace, place.queue)), None,
    )  # fmt: skip
    fix = say("ask the administrators why, and when it will be resumed")
    if local is not None and is_stopped(local):
        proof = Proof("spec", object_title(local), f"stopPolicy: {local['spec']['stopPolicy']}")
        return QueueTrouble(stopped_queue(place.path, local["spec"], None), fix, proof)
    if place.cluster_queue is None or lists.cluster_queues is None:
        return None
    found = next((item for item in lists.cluster_queues if item["metadata"]["name"] == place.cluster_queue), None)
    if found is None:
        fix = say("ask the administrators to create it, or to let the queue lead to another")
        return QueueTrouble(missing_cluster_queue(place.path), fix)
    if not is_stopped(found):
        fix = say("ask the administrators to repair the ClusterQueue")
    stopped = stopped_queue(place.path, {}, cluster_queue_entry(found))
    return QueueTrouble(stopped, fix, condition_proof(found, "Active")) if stopped else None


def _refused_claim(admission: Object, place: QueuePosition) -> QueueTrouble | None:
    """The job claims devices (DRA) in a way that Kueue does not count. Source: ``pkg/dra/claims.go``."""
    said = kueue_message(admission, "QuotaReserved")
    queue = place.path
    proof = condition_proof(admission, "QuotaReserved")
    if "FirstAvailable device selection is not supported" in said:
        fix = say("name one type in `resources.gpu-type`")
        message = say(
            "{queue} never admits it: Kueue does not support claims with alternatives of GPU types", queue=queue
        )
        return QueueTrouble(message, fix, proof)
    if (unmapped := _UNMAPPED.search(said)) is not None:
        named = {"queue": queue, "device_class": unmapped[1]}
        fix = say(
            "ask the administrators to list {device_class} in `resources.deviceClassMappings` of Kueue's configuration",
            **named,
        )
        message = say(
            "{queue} never admits it: Kueue's configuration does not list DeviceClass {device_class}", **named
        )
        return QueueTrouble(message, fix, proof)
    if said.startswith(REFUSED_CLAIM) and RETRIED in said:
        fix = say("if this lasts, apply its document again, or ask the administrators about what the message names")
        message = say("{queue} could not count its devices, and tries again: {text}", queue=queue, text=said)
        return QueueTrouble(message, fix, proof)
    if said.startswith(REFUSED_CLAIM):
        fix = say("ask the administrators which devices jobs of this queue can claim")
        message = say("{queue} does not admit it while Kueue cannot count its devices: {text}", queue=queue, text=said)
        return QueueTrouble(message, fix, proof)
    return None


def _not_covered(place: QueuePosition) -> QueueTrouble | None:
    if not place.uncovered:
        return None
    fix = say(
        "ask the administrators to add {what:and} to a flavor of ClusterQueue {cluster_queue}, or use a pool with "
        "another queue",
        what=place.uncovered,
        cluster_queue=place.cluster_queue,
    )
    return QueueTrouble(uncovered(place.path, place.uncovered), fix)


def _too_large(place: QueuePosition, workload: Object) -> QueueTrouble | None:
    rooms = place.too_small
    if not rooms:
        return None
    resource = rooms[0].slot.resource
    rooms = [room for room in rooms if room.slot.resource == resource]
    amounts, room = [item.most for item in rooms if item.most is not None], rooms[0]
    is_too_large = max(amounts) < room.largest
    most = max(amounts) if is_too_large else sum(amounts, ZERO)
    known = {"has": format_amount(resource, most), "field": field(resource)}
    if is_too_large and room.largest < room.asked:
        message = never_fits(place.path, "", resource, room.largest, most)
        fix = say("ask for less: {has} is the most for one pod set", **known)
    else:
        message = never_fits(place.path, None, resource, room.asked, most)
        if is_array(workload):
            fix = say(
                "ask for less in `{field}` or `array.parallelism`: {has} is the most for all runs at a time", **known
            )
        elif has_several_roles(workload):
            fix = say(
                "ask for less in `{field}` or the `nodes` of its roles: {has} is the most for all nodes together",
                **known,
            )
        else:
            fix = say(
                "ask for less in `{field}` or `resources.nodes`: {has} is the most for all nodes together", **known
            )
    return QueueTrouble(message, say("{fix}; or ask the administrators to raise the quota", fix=fix))


def _by_its_words(admission: Object, place: QueuePosition) -> QueueTrouble | None:
    """Judge Kueue's message, if its queues may not be read, and for causes that their numbers do not show."""
    said = kueue_message(admission, "QuotaReserved")
    if _UNUSABLE.search(said):
        message = say("{queue} does not take it: {text}", queue=place.path, text=said)
        return QueueTrouble(message, say("ask the administrators of the queue"))
    if _NO_TOPOLOGY.search(said) and "insufficient" not in said:
        fix = say(
            "remove `resources.topology`, or ask the administrators for flavors with a Topology that has its level"
        )
        proof = condition_proof(admission, "QuotaReserved")
        message = say("no flavor of {queue} has the topology that the job asks for", queue=place.path)
        return QueueTrouble(message, fix, proof)
    if _NO_FLAVOR.search(said) and "insufficient" not in said:
        fix = say("use another pool or GPU type, or ask the administrators which flavors the queue has")
        message = say("no flavor of {queue} is for jobs like this: {text}", queue=place.path, text=said)
        return QueueTrouble(message, fix)
    return None


def kueue_message(admission: Object, *kinds: str) -> str:
    """Return the message of the first of these conditions that is set, or ""."""
    found = next(filter(None, (find_condition(admission, kind) for kind in kinds)), {})
    return one_line(found.get("message"))
