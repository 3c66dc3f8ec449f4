"""The addresses of a job: its route, its ports from outside and inside the cluster, and `gpuctl port-forward`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.status import pod_status


@dataclass(frozen=True)
class Addresses:
    """Addresses as ``host:port``. ``port_forward`` is a command; None if no Service has a port. ``route`` is a URL."""

    nodes: list[str] = field(default_factory=list)
    balancers: list[str] = field(default_factory=list)
    services: list[str] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    port_forward: str | None = None
    route: str | None = None


def job_addresses(job: Job, services: Iterable[Object], nodes: Mapping[str, Object | None], url: str) -> Addresses:
    """Return a job's addresses. For node ports, a node's external address is preferred to its internal one.

    :param url: the annotation with the URL of the job's route.
    """
    name, namespace, pods = job.identity.name, job.identity.namespace, job.pods
    running = [pod for pod in pods if pod_status(pod).phase == "running"]
    hosts = list(dict.fromkeys(host for pod in running if (host := _host(pod, nodes))))
    route = annotations_of(job.workload).get(url) if job.workload is not None else None
    found = Addresses(route=route)
    ports: list[int] = []
    for service in services:
        spec, own = service["spec"], service["metadata"]["name"]
        if spec.get("clusterIP") == "None":
            continue
        for port in spec.get("ports") or []:
            ports.append(port["port"])
            found.services.append(f"{own}.{namespace}.svc:{port['port']}")
            if port.get("nodePort"):
                found.nodes.extend(f"{bracketed(host)}:{port['nodePort']}" for host in hosts)
            for ingress in ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []:
                host = ingress.get("hostname") or bracketed(ingress.get("ip") or "")
                found.balancers.append(f"{host}:{port['port']}")
    for pod in running:
        listening = [port for item in pod["spec"]["containers"] for port in item.get("ports") or []]
        address = (pod.get("status") or {}).get("podIP")
        if address:
            found.pods.extend(f"{bracketed(address)}:{port['containerPort']}" for port in listening)
    if not ports:
        return found
    command = f"gpuctl port-forward {name} {ports[0]} -n {namespace}"
    return Addresses(found.nodes, found.balancers, found.services, found.pods, command, found.route)


def _host(pod: Object, nodes: Mapping[str, Object | None]) -> str | None:
    node = nodes.get(pod["spec"].get("nodeName") or "") or {}
    addresses = {item["type"]: item["address"] for item in (node.get("status") or {}).get("addresses") or []}
    return addresses.get("ExternalIP") or addresses.get("InternalIP") or (pod.get("status") or {}).get("hostIP")


def bracketed(host: str) -> str:
    """Return an IPv6 address in brackets, so that a port can be appended; other hosts unchanged."""
    return f"[{host}]" if ":" in host else host
