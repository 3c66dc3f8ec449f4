"""Rules for ready pods that cannot be reached or scaled: Services, autoscalers, paused rollouts."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.companion_names import MAIN_PORT, service_name
from gpuctl.objects.pod_specs import sidecars_of
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.workload_state import find_condition, gets_requests
from gpuctl.reading.jobs.status import is_ready, one_line
from gpuctl.reading.why.event_proofs import condition_proof, known_proofs, object_title
from gpuctl.reading.why.evidence import SERVICE_NAME, Evidence, subdomain_of
from gpuctl.reading.why.finding import Finding, Proof

YOUNG = 60.0
"""Seconds that controllers may need for endpoints and for an autoscaler's first metrics."""


def unreachable_pods(evidence: Evidence) -> Finding | None:
    """Pods are ready, but their Service does not exist or has no endpoints for them."""
    if evidence.services is None:
        return None
    missing = _missing(evidence)
    if missing is not None:
        return missing
    if evidence.job.workload is None or evidence.job.workload["kind"] == "Job":
        return None
    ready = [pod for pod in evidence.pods if is_ready(pod) and gets_requests(pod)]
    found = (_of_service(evidence, service, ready) for service in evidence.services)
    return next((item for item in found if item is not None), None)


def _missing(evidence: Evidence) -> Finding | None:
    workload = evidence.job.workload
    assert workload is not None
    subdomain = subdomain_of(workload)
    if subdomain is not None:
        return None if evidence.services else _unnamed(evidence, workload, subdomain)
    spec = pod_templates(workload)[0][0]["spec"]
    ports = (port for item in spec.get("containers") or [] for port in item.get("ports") or [])
    # The port name that lowering uses: ports of other tools need no Service.
    listens = any(port.get("name") == MAIN_PORT for port in ports)
    if evidence.services or not listens:
        return None
    identity = evidence.job.identity
    name = workload["spec"].get("serviceName") or service_name(identity.name)
    message = say(
        "{pods}, but there is no Service {name} in {namespace} to reach them by",
        pods=_pods(evidence),
        name=name,
        namespace=identity.namespace,
    )
    fix = say("apply its document again, which creates the Service")
    told = (
        Proof("spec", object_title(workload), say("its containers have ports, and no Service has the job's labels")),
    )
    return Finding("service-missing", message, {"service": name}, fix, told)


def _unnamed(evidence: Evidence, workload: Object, name: str) -> Finding:
    message = say(
        "there is no Service {name} in {namespace}, by which its pods find each other (MASTER_ADDR)",
        name=name,
        namespace=evidence.job.identity.namespace,
    )
    fix = say("apply its document again, which creates the Service")
    told = (Proof("spec", object_title(workload), f"subdomain: {name}"),)
    return Finding("service-missing", message, {"service": name}, fix, told)


def _of_service(evidence: Evidence, service: Object, ready: list[Object]) -> Finding | None:
    spec, name = service.get("spec") or {}, service["metadata"]["name"]
    if spec.get("type") == "ExternalName" or not ready:
        return None
    selector = spec.get("selector") or {}
    wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
    matched = [pod for pod in ready if selector and selector.items() <= labels_of(pod).items()]
    shown = kubectl_line("get service", name, "-n", evidence.job.identity.namespace, "-o yaml")
    again = say("apply its document again, or correct the Service: {command}", command=shown)
    numbers = {"service": name, "selector": dict(selector), "readyPods": len(ready)}
    if not matched:
        known = {"pods": _pods(evidence), "name": name, "selector": wanted}
        message = say("{pods}, but the Service {name} has no selector", **known)
        if selector:
            message = say("{pods}, but the Service {name} selects none of them ({selector})", **known)
        told = (Proof("spec", object_title(service), f"selector: {wanted or 'none'}"),)
        return Finding("service-empty", message, numbers, again, told)
    ports = {port.get("name") for pod in matched for port in _ports(pod)}
    for port in spec.get("ports") or []:
        target = port.get("targetPort")
        if isinstance(target, str) and target not in ports:
            message = say(
                "{pods}, but port {port} of the Service {name} leads to a port `{target}` that none of their "
                "containers has",
                pods=_pods(evidence),
                port=port["port"],
                name=name,
                target=target,
            )
            spoken = Proof("spec", object_title(service), f"targetPort: {target}")
            return Finding("service-empty", message, {**numbers, "targetPort": target}, again, (spoken,))
    if _has_endpoints(evidence, name) or min(_ready_for(evidence, pod) for pod in matched) < YOUNG:
        return None
    message = say(
        "{pods}, but the Service {name} has no endpoints, although it selects them", pods=_pods(evidence), name=name
    )
    fix = say(
        "check that the controller manager runs; {command} lists the endpoints", command=_slices_of(evidence, name)
    )
    told = (Proof("status", object_title(service), say("no EndpointSlice of it has a ready endpoint")),)
    return Finding("service-empty", message, numbers, fix, told)


def _pods(evidence: Evidence) -> Sentence:
    return say("its {pods:pod} {pods:is/are} ready", pods=sum(map(is_ready, evidence.pods)))


def _slices_of(evidence: Evidence, name: str) -> str:
    return kubectl_line("get endpointslices -n", evidence.job.identity.namespace, f"-l {SERVICE_NAME}={name}")


def _ports(pod: Object) -> Iterator[Object]:
    spec = pod["spec"]
    for container in [*spec.get("containers", []), *sidecars_of(spec)]:
        yield from container.get("ports") or []


def _has_endpoints(evidence: Evidence, name: str) -> bool:
    """Return True if the Service has a ready endpoint, or if EndpointSlices may not be read."""
    if evidence.endpoint_slices is None:
        return True
    own = (item for item in evidence.endpoint_slices if labels_of(item).get(SERVICE_NAME) == name)
    every = (endpoint for item in own for endpoint in item.get("endpoints") or [])
    # Without the condition an endpoint counts as ready (k8s.io/api/discovery/v1, EndpointConditions).
    return any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in every)


def _ready_for(evidence: Evidence, pod: Object) -> float:
    return evidence.seconds_since(find_condition(pod, "Ready").get("lastTransitionTime")) or 0.0


def failing_autoscaler(evidence: Evidence) -> Finding | None:
    """The autoscaler cannot compute or set the number of pods."""
    scaler = evidence.scaler
    if scaler is None or not evidence.wanted:
        return None
    name, namespace = scaler["metadata"]["name"], evidence.job.identity.namespace
    for kind in ("AbleToScale", "ScalingActive"):
        for item in (scaler.get("status") or {}).get("conditions") or []:
            age = evidence.seconds_since(item.get("lastTransitionTime"))
            if item.get("type") != kind or item.get("status") != "False" or (age or 0.0) < YOUNG:
                continue
            reason = item.get("reason") or ""
            message = say(
                "its autoscaler {name} does not scale it, {pods:pod} {pods:stays/stay}: {text}",
                name=name,
                pods=evidence.wanted,
                text=f"{reason}: {one_line(item.get('message'))}",
            )
            fix = say(
                "check that its metric exists: {command} shows what it asks for",
                command=kubectl_line("describe hpa", name, "-n", namespace),
            )
            numbers = {"autoscaler": name, "reason": reason, "pods": evidence.wanted}
            return Finding("autoscaler-failing", message, numbers, fix, known_proofs(condition_proof(scaler, kind)))
    return None


def paused_rollout(evidence: Evidence) -> Finding | None:
    """The rollout is paused, and changed pods wait for it."""
    workload = evidence.job.workload
    if not is_rollout_paused(workload) or workload is None:
        return None
    status, name = workload.get("status") or {}, workload["metadata"]["name"]
    updated = int(status.get("updatedReplicas") or 0)
    if updated >= evidence.wanted:
        return None
    message = say(
        "its rollout is paused (spec.paused), and its pods have been changed: {updated} of {total} are new",
        updated=updated,
        total=evidence.wanted,
    )
    fix = Sentence(kubectl_line(f"rollout resume deployment/{name} -n", evidence.job.identity.namespace))
    told = known_proofs(Proof("spec", object_title(workload), "paused: true"), condition_proof(workload, "Progressing"))
    return Finding("rollout-paused", message, {"pods": evidence.wanted, "updatedPods": updated}, fix, told)


def is_rollout_paused(workload: Object | None) -> bool:
    """Return True if a Deployment's rollout is paused (``kubectl rollout pause``)."""
    return workload is not None and workload["kind"] == "Deployment" and bool(workload["spec"].get("paused"))
