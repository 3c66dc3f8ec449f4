"""A rule for trainings whose program has ended while another container of the pod still runs."""

from __future__ import annotations

from gpuctl.capacity.snapshot.pod_requests import pod_requests, total_of
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import TRAININGS, Object
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof
from gpuctl.reading.why.stopped_jobs import command


def running_sidecar(evidence: Evidence) -> Finding | None:
    """A training's program has ended, but another container keeps the pod running: a pod ends with its last container.

    Native sidecars (init containers with ``restartPolicy: Always``) end with the other containers.
    """
    workload = evidence.job.workload
    if workload is None or workload["kind"] not in TRAININGS:
        return None
    found = [(pod, ended, others) for pod in evidence.pods for ended, others in [_ended(workload, pod)] if others]
    if not found:
        return None
    pod, ended, others = found[0]
    name, code = pod["metadata"]["name"], int(ended["state"]["terminated"].get("exitCode") or 0)
    resources = evidence.settings.gpu_resources
    gpus = sum(evidence.claimed_gpus.get(item["metadata"]["uid"], 0) for item, _, _ in found) + int(
        sum(total_of(pod_requests(item["spec"]), resources) for item, _, _ in found)
    )
    since = evidence.since(ended["state"]["terminated"].get("finishedAt"))
    many = say("{pods:pod} of {total}: ", pods=len(found), total=evidence.wanted) if evidence.wanted > 1 else ""
    message = say(
        "{many}{container} of pod {pod} has ended (exit code {code}, {duration} ago); container {others:few} still "
        "{number:runs/run}, so the pod keeps running{held}",
        many=many,
        container=ended["name"],
        pod=name,
        code=code,
        duration=since,
        others=others,
        number=len(others),
        held=say(", and holds {gpus:GPU}", gpus=gpus) if gpus else "",
    )
    own = {item["name"] for template, _ in pod_templates(workload) for item in template["spec"].get("containers") or []}
    end = command("delete job", evidence)
    fix = say(
        "let its injector create it as a native sidecar (an init container with `restartPolicy: Always`), which ends "
        "with the program; {command} ends it now",
        command=end,
    )
    if set(others) <= own:
        fix = say(
            "write it in `podPatch.initContainers` as a native sidecar (an init container with `restartPolicy: "
            "Always`), which ends with the program; {command} ends it now",
            command=end,
        )
    told = (
        Proof(
            "status",
            f"pod/{name}",
            say("container {container} ended: exit code {code}", container=ended["name"], code=code),
        ),
        *(Proof("status", f"pod/{name}", say("container {container} runs", container=other)) for other in others),
    )
    numbers = {
        "pods": len(found),
        "container": ended["name"],
        "exitCode": code,
        "runningContainers": others,
        "gpus": gpus,
    }
    return Finding("sidecar-running", message, numbers, fix, told, name, len(found))


def _ended(workload: Object, pod: Object) -> tuple[Object, list[str]]:
    """Return the status of the program's container if it will not restart ({} otherwise), and the other running
    containers.
    """
    mains = {item["name"] for template, _ in pod_templates(workload) for item in template["spec"]["containers"][:1]}
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    ended: Object = next((item for item in statuses if item["name"] in mains and _is(item, "terminated")), {})
    if not ended or (pod["spec"].get("restartPolicy") != "Never" and ended["state"]["terminated"].get("exitCode")):
        # A failed container is restarted.
        return {}, []
    return ended, [item["name"] for item in statuses if _is(item, "running")]


def _is(status: Object, state: str) -> bool:
    return state in (status.get("state") or {})
