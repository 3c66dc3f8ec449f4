"""Events and conditions as proofs: their text, their reporter, and how long they count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.workload_state import condition, find_condition
from gpuctl.reading.jobs.events_of_jobs import event_time
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.finding import Proof

_CONTROLLER = r".+-controller(?:-manager)?"
# The component that reports each reason: k8s.io/kubernetes, pkg/kubelet/events and pkg/controller. A user who may
# create events can use any reason and component, so this is no protection; it separates equal reasons of different
# components.
_OF_KUBELET = (
    *("NetworkNotReady", "FailedMount", "FailedMapVolume", "FailedPrepareDynamicResources", "FailedCreatePodSandBox"),
    *("Pulling", "Pulled", "Created", "Started", "Failed", "FailedToRetrieveImagePullSecret"),
    *("BackOff", "Unhealthy", "Killing", "Evicted"),
)
_REPORTERS: dict[str, str] = {
    **dict.fromkeys(_OF_KUBELET, r".*kubelet.*"),
    **dict.fromkeys(("FailedAttachVolume", "SuccessfulAttachVolume"), "attachdetach-controller"),
    **dict.fromkeys(("FailedCreate", "SuccessfulCreate"), _CONTROLLER),
    # pkg/controller/resourceclaim/controller.go.
    "FailedResourceClaimCreation": r"resource_?claim(?:-controller)?",
    # taint-controller before 1.29.
    "TaintManagerEviction": "taint-(?:eviction-)?controller",
}
_IS_SET_UP = 4
# Steps of a pod's setup on its node, in order: pkg/kubelet/kubelet.go, SyncPod.
_STAGES = {
    "NetworkNotReady": 0,
    "FailedAttachVolume": 1,
    "SuccessfulAttachVolume": 2,
    "FailedMount": 2,
    "FailedMapVolume": 2,
    "FailedPrepareDynamicResources": 2,
    "FailedCreatePodSandBox": 3,
    **dict.fromkeys(("Pulling", "Pulled", "Created", "Started"), _IS_SET_UP),
}
# pkg/scheduler/framework/preemption.
_PREEMPTED = re.compile(r"Preempted by pod (?P<uid>[0-9a-f-]{36}) on node (?P<node>[a-z0-9][a-z0-9.-]*)")
_CONTAINER = re.compile(r"spec\.(?:initC|ephemeralC|c)ontainers\{(?P<name>[^}]+)\}")


def has_expected_reporter(event: Object) -> bool:
    """Return True if an event comes from the component that reports its reason, or if any component may use the
    reason.
    """
    pattern = _REPORTERS.get(event.get("reason") or "")
    component = event.get("reportingComponent") or (event.get("source") or {}).get("component") or ""
    return pattern is None or re.fullmatch(pattern, component) is not None


def is_outdated(event: Object, pod: Object, events: Iterable[Object]) -> bool:
    """Return True if a pod has completed the setup step that an event is about.

    Times have whole seconds: within one second the state counts as newer than the event, since it holds now.

    :param events: the other events about the pod.
    """
    stage = _STAGES.get(event.get("reason") or "")
    if stage is None or stage == _IS_SET_UP:
        return False
    at = event_time(event)[:19]
    if any(time[:19] >= at for time in _set_up(pod)):
        return True
    return any(_STAGES.get(item.get("reason") or "", 0) > stage and event_time(item)[:19] > at for item in events)


def _set_up(pod: Object) -> Iterator[str]:
    """Yield the times at which a pod's volumes and sandbox existed: both exist before a container starts."""
    status = pod.get("status") or {}
    yield (condition(pod, "PodReadyToStartContainers") or {}).get("lastTransitionTime") or ""
    for field in ("initContainerStatuses", "containerStatuses"):
        for item in status.get(field) or []:
            for state in ((item.get("state") or {}), (item.get("lastState") or {})):
                for ran in ("running", "terminated"):
                    yield (state.get(ran) or {}).get("startedAt") or ""


def container_of(event: Object) -> str | None:
    """Return the container that a kubelet event is about; None for the whole pod."""
    match = _CONTAINER.fullmatch((event.get("involvedObject") or {}).get("fieldPath") or "")
    return match["name"] if match else None


def preempted_by(event: Object) -> re.Match[str] | None:
    """Match a Preempted event; groups ``uid`` and ``node`` are those of the preempting pod."""
    return _PREEMPTED.match(event.get("message") or "") if event.get("reason") == "Preempted" else None


def eviction_proof(event: Object, preemptors: Mapping[str, str]) -> Proof:
    """Return an eviction event as proof, naming the preempting job instead of the uid of its pod."""
    found, match = event_proof(event), preempted_by(event)
    if match is None:
        return found
    by = preemptors.get(match["uid"], say("a pod that may not be read, or is gone"))
    return found._replace(text=say("Preempted: by {by}, on node {node}", by=by, node=match["node"]))


def event_proof(event: Object) -> Proof:
    """Return an event as proof."""
    about = event.get("involvedObject") or {}
    text = f"{one_line(event.get('reason'))}: {one_line(event.get('message'))}"
    return Proof("event", f"{(about.get('kind') or '').lower()}/{about.get('name')}", text, event_time(event) or None)


def condition_proof(obj: Object, kind: str) -> Proof | None:
    """Return a condition of an object as proof, whatever its status; None if it is not set."""
    item = find_condition(obj, kind)
    if not item:
        return None
    parts = [f"{kind}={item.get('status')}", item.get("reason") or "", one_line(item.get("message"))]
    text = ": ".join(part for part in parts if part)
    return Proof("condition", object_title(obj), text, item.get("lastTransitionTime"))


def object_title(obj: Object) -> str:
    """Return ``pod/train-x1``."""
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"


def known_proofs(*found: Proof | None) -> tuple[Proof, ...]:
    """Return the proofs that are not None, without duplicates."""
    return tuple(dict.fromkeys(item for item in found if item is not None))
