"""Events and conditions as evidence: how they are shown, whose they may be, and how long they count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from gpuctl.objects.api_resources import Object
from gpuctl.reading.event_rows import event_time
from gpuctl.reading.status import one_line
from gpuctl.reading.why.finding import Proof

_CONTROLLER = r".+-controller(?:-manager)?"
# Who reports what: k8s.io/kubernetes, pkg/kubelet/events and pkg/controller. Anybody who may create events may use the
# reasons of others; which component reported an event is not proof either, but keeps words alike apart.
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
# What a pod goes through on its node, in this order: pkg/kubelet/kubelet.go, SyncPod.
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
    """Whether an event comes from the component that uses its reason; True for reasons that any may use."""
    pattern = _REPORTERS.get(event.get("reason") or "")
    component = event.get("reportingComponent") or (event.get("source") or {}).get("component") or ""
    return pattern is None or re.fullmatch(pattern, component) is not None


def is_outdated(event: Object, pod: Object, events: Iterable[Object]) -> bool:
    """Whether a pod has since got beyond what an event of its setup speaks of.

    ``events`` are the others about the pod. Times of the API are whole seconds: within one a state counts as the newer,
    since it holds now.
    """
    stage = _STAGES.get(event.get("reason") or "")
    if stage is None or stage == _IS_SET_UP:
        return False
    at = event_time(event)[:19]
    if any(time[:19] >= at for time in _set_up(pod)):
        return True
    return any(_STAGES.get(item.get("reason") or "", 0) > stage and event_time(item)[:19] > at for item in events)


def _set_up(pod: Object) -> Iterator[str]:
    """When a pod had its volumes and its sandbox: both are there before a container starts."""
    status = pod.get("status") or {}
    for item in status.get("conditions") or []:
        if item.get("type") == "PodReadyToStartContainers" and item.get("status") == "True":
            yield item.get("lastTransitionTime") or ""
    for field in ("initContainerStatuses", "containerStatuses"):
        for item in status.get(field) or []:
            for state in ((item.get("state") or {}), (item.get("lastState") or {})):
                for ran in ("running", "terminated"):
                    yield (state.get(ran) or {}).get("startedAt") or ""


def container_of(event: Object) -> str | None:
    """The container that kubelet's event is about, None when it is about the whole pod."""
    match = _CONTAINER.fullmatch((event.get("involvedObject") or {}).get("fieldPath") or "")
    return match["name"] if match else None


def preempted_by(event: Object) -> re.Match[str] | None:
    """Groups ``uid`` and ``node`` of an event by which the scheduler says for which pod it evicted one."""
    return _PREEMPTED.match(event.get("message") or "") if event.get("reason") == "Preempted" else None


def eviction_proof(event: Object, preemptors: Mapping[str, str]) -> Proof:
    """An event about an eviction, with the job for which it was instead of its pod's uid."""
    found, match = event_proof(event), preempted_by(event)
    if match is None:
        return found
    by = preemptors.get(match["uid"], "a pod that may not be read, or is gone")
    return found._replace(text=f"Preempted: by {by}, on node {match['node']}")


def event_proof(event: Object) -> Proof:
    """An event as evidence."""
    about = event.get("involvedObject") or {}
    text = f"{one_line(event.get('reason'))}: {one_line(event.get('message'))}"
    return Proof("event", f"{(about.get('kind') or '').lower()}/{about.get('name')}", text, event_time(event) or None)


def condition_proof(obj: Object, kind: str) -> Proof | None:
    """A condition of an object, whatever its status, as evidence."""
    for item in (obj.get("status") or {}).get("conditions") or []:
        if item.get("type") == kind:
            parts = [f"{kind}={item.get('status')}", item.get("reason") or "", one_line(item.get("message"))]
            text = ": ".join(part for part in parts if part)
            return Proof("condition", object_title(obj), text, item.get("lastTransitionTime"))
    return None


def object_title(obj: Object) -> str:
    """``pod/train-x1``."""
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"


def known_proofs(*found: Proof | None) -> tuple[Proof, ...]:
    """Those that there are, each once."""
    return tuple(dict.fromkeys(item for item in found if item is not None))
