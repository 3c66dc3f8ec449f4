"""The ports of a Deployment's program and of its Service, as fields of a document."""

from __future__ import annotations

from typing import Any

from gpuctl.importing.container_ports import ContainerPort, container_ports, port_number
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.pod_fields import PodFields
from gpuctl.importing.source_tree import Path

_PROTOCOLS = ("TCP", "UDP")
_PROTOCOL = "a port is TCP or UDP, not {}"
_MAIN = "main"


class ServicePorts:
    """Adds ports to a document. ``main``: the port in the container that `service.port` is about."""

    def __init__(self, tree: ConvertedTree, pod: PodFields) -> None:
        self.tree = tree
        self.container = pod.container
        self.patch = pod.patch
        self.known = container_ports(tree, pod.container)
        containers: Path = pod.container[:-1]
        others = [(*containers, index) for index in range(tree.items(containers)) if index != pod.main]
        self.named = [*self.known, *(port for path in others for port in container_ports(tree, path))]
        """Ports that a Service can name, also those of other containers."""
        self.main: ContainerPort | None = self.known[0] if self.known else None
        self.extra: list[dict[str, Any]] = []

    def take(self, service: ConvertedTree | None) -> None:
        """Take the ports of the container, and those of its Service."""
        first = None if service is None else self._target(service, ("spec", "ports", 0))
        if first is not None and first.protocol in _PROTOCOLS:
            self.main = next((port for port in self.known if _is_same(port, first)), first)
        for index, port in enumerate(self.known):
            if any(_is_same(port, other) for other in self.known[:index]):
                self.tree.mapped(port.path, "service.ports", "the container has this port already")
            else:
                self._container_port(port)
        if service is not None:
            for index in range(service.items(("spec", "ports"))):
                self._service_port(service, ("spec", "ports", index), is_first=index == 0)
        for entry in self.extra:
            self.tree.draft.append("service.ports", entry)

    def resolve(self, text: str | None) -> int | None:
        """Return the number of a port that is named by its number or by its name."""
        return port_number(text, self.named)

    def _target(self, service: ConvertedTree, path: Path) -> ContainerPort | None:
        """Return the port in the container that a port of a Service is about; None if it is not known."""
        number = self.resolve(service.text((*path, "targetPort")) or service.text((*path, "port")))
        protocol = service.text((*path, "protocol")) or "TCP"
        return None if number is None else ContainerPort(number, None, protocol, ())

    def _container_port(self, port: ContainerPort) -> None:
        tree, is_main = self.tree, port is self.main
        field = "service.port" if is_main else "service.ports"
        if port.protocol not in _PROTOCOLS:
            tree.dropped(port.path, _PROTOCOL.format(port.protocol))
            return
        if is_main:
            self.tree.draft.set("service.port", port.number, tree.line(port.path))
            if port.protocol == "UDP":
                self.tree.draft.set("service.protocol", "UDP", tree.line(port.path))
        else:
            entry: dict[str, Any] = {"name": self._free_name(port.name, port.number), "port": port.number}
            self.extra.append({**entry, "protocol": "UDP"} if port.protocol == "UDP" else entry)
        host: Path = (*port.path, "hostPort")
        if number := tree.number(host):
            ours = {"containerPort": port.number, "hostPort": number}
            self.patch.of_container(host, "ports", [{**ours, "protocol": "UDP"} if port.protocol == "UDP" else ours])
        tree.mapped((*port.path, "containerPort"), field)
        tree.mapped((*port.path, "name"), field)
        tree.mapped((*port.path, "protocol"), "service.protocol" if is_main else field)

    def _free_name(self, wanted: str | None, number: int) -> str:
        taken = {_MAIN, *(entry["name"] for entry in self.extra)}
        return wanted if wanted and wanted not in taken else f"port-{number}"

    def _service_port(self, service: ConvertedTree, path: Path, *, is_first: bool) -> None:
        port, target = service.number((*path, "port")), self._target(service, path)
        if target is not None and target.protocol not in _PROTOCOLS:
            service.dropped(path, _PROTOCOL.format(target.protocol))
            return
        if port is None or target is None:
            service.dropped(path, f"no port of the container is `{service.text((*path, 'targetPort'))}`")
            return
        node_port = service.number((*path, "nodePort"))
        values = {"port": port}
        if target.number != port:
            values["targetPort"] = target.number
        if node_port is not None:
            values["nodePort"] = node_port
        written = service.text((*path, "name"))
        name = _MAIN
        if is_first:
            for field, value in values.items():
                self.tree.draft.set(f"service.{field}", value, service.line((*path, field)))
            if target.protocol == "UDP":
                self.tree.draft.set("service.protocol", "UDP", service.line(path))
        else:
            name = self._extra_port(written, target, values)
        prefix = "service" if is_first else "service.ports[]"
        for field in ("port", "targetPort", "nodePort", "protocol"):
            service.mapped((*path, field), f"{prefix}.{field}")
        note = None if name == written else f"the port of the Service is called `{name}`"
        service.taken((*path, "name"), "service.port" if is_first else f"{prefix}.name", note)

    def _extra_port(self, name: str | None, target: ContainerPort, values: dict[str, int]) -> str:
        """Add a port of the Service. Return its name."""
        protocol = {"protocol": "UDP"} if target.protocol == "UDP" else {}
        for entry in self.extra:
            if entry["port"] == target.number and entry.get("protocol", "TCP") == target.protocol:
                entry.update(values)
                return str(entry["name"])
        self.extra.append({"name": self._free_name(name, values["port"]), **values, **protocol})
        return str(self.extra[-1]["name"])


def _is_same(one: ContainerPort, other: ContainerPort) -> bool:
    return (one.number, one.protocol) == (other.number, other.protocol)
