"""Rules for health checks that fail."""

from __future__ import annotations

import re

from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.workload_state import condition
from gpuctl.reading.jobs.events_of_jobs import event_time
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.container_exits import ContainerExit, container_exits
from gpuctl.reading.why.event_proofs import container_of, event_proof
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding

_PROBE = re.compile(r"Container (?P<container>\S+) failed (?P<probe>liveness|startup) probe")


def failed_probe(evidence: Evidence, end: ContainerExit, pod: Object, again: str) -> Finding | None:
    """kubelet killed the container because a probe failed. Events older than this run are ignored."""
    for event in reversed(evidence.events_with("Killing", pod=pod)):
        match = _PROBE.search(event.get("message") or "")
        if match is None or match["container"] != end.container or event_time(event)[:19] < end.started[:19]:
            continue
        unhealthy = [
            item
            for item in evidence.events_with("Unhealthy", pod=pod)
            if match["probe"] in (item.get("message") or "").lower()
        ]
        why = one_line(unhealthy[-1].get("message")) if unhealthy else ""
        said = say(": {text}", text=why.partition(": ")[2] or why) if why else ""
        message = say(
            "its {probe} probe fails{said}; kubelet stopped container {container} of pod {pod}{again}",
            probe=match["probe"],
            said=said,
            container=end.container,
            pod=end.pod,
            again=again,
        )
        fix = _probe_fix(match["probe"])
        numbers = {"probe": match["probe"], "exitCode": end.code, "restarts": end.restarts}
        told = tuple(event_proof(item) for item in (*unhealthy[-1:], event))
        return Finding("probe-failed", message, numbers, fix, told, end.pod)
    return None


def _probe_fix(probe: str) -> Sentence:
    if probe == "startup":
        return say(
            "raise `service.startup_timeout` if it only takes long to load; otherwise correct `service.health_check`"
        )
    return say(
        "look in its log for why it does not answer; `service.health_check` names the path, `service.port` the port"
    )


def unready(evidence: Evidence) -> Finding | None:
    """Containers run, but their readiness or startup probe fails."""
    for pod in evidence.pods:
        status = pod.get("status") or {}
        if status.get("phase") != "Running" or container_exits([pod], evidence.now):
            continue
        unready = [item for item in status.get("containerStatuses") or [] if not item.get("ready")]
        told = [(item, _unhealthy(evidence, pod, item)) for item in unready]
        waiting = [item for item, events in told if events]
        unhealthy = [event for _, events in told for event in events]
        if not waiting:
            continue
        text = one_line(unhealthy[-1].get("message"))
        probe = text.partition(" ")[0].lower()
        name = pod["metadata"]["name"]
        since = evidence.since((waiting[0].get("state") or {}).get("running", {}).get("startedAt"))
        count = int(unhealthy[-1].get("count") or 1)
        numbers = {"probe": probe, "container": waiting[0]["name"], "failures": count}
        why = text.partition(": ")[2] or text
        unreadies = sum(not _is_up(item) for item in evidence.pods)
        many = say("{pods:pod} of {total} not ready: ", pods=unreadies, total=evidence.wanted)
        message = say(
            "{many}pod {pod} has been running for {duration}, but its {probe} probe fails: {text}",
            many=many if evidence.wanted > 1 else "",
            pod=name,
            duration=since,
            probe=probe,
            text=why,
        )
        return Finding("probe-failed", message, numbers, _probe_fix(probe), (event_proof(unhealthy[-1]),), name)
    return None


def _unhealthy(evidence: Evidence, pod: Object, container: Object) -> list[Object]:
    """Return the failed probes of a container's current run."""
    begun = ((container.get("state") or {}).get("running") or {}).get("startedAt")
    if not begun:
        return []
    events = [item for item in evidence.events_with("Unhealthy", pod=pod) if event_time(item)[:19] >= begun[:19]]
    return [item for item in events if container_of(item) in (None, container["name"])]


def _is_up(pod: Object) -> bool:
    return condition(pod, "Ready") is not None
