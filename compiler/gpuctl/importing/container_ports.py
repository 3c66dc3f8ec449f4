"""The ports of containers in a manifest, by number and by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuctl.importing.field_values import MOST_DIGITS
from gpuctl.importing.source_tree import Path, SourceTree
from gpuctl.objects.quantities import whole_number


class ContainerPort(NamedTuple):
    """A port of a container. ``path``: its entry in the manifest."""

    number: int
    name: str | None
    protocol: str
    path: Path


def container_ports(tree: SourceTree, container: Path) -> list[ContainerPort]:
    """Return the ports of a container that have a number."""
    found = []
    for index in range(tree.items((*container, "ports"))):
        path: Path = (*container, "ports", index)
        number = tree.number((*path, "containerPort"))
        if number is not None:
            protocol = tree.text((*path, "protocol")) or "TCP"
            found.append(ContainerPort(number, tree.text((*path, "name")), protocol, path))
    return found


def port_number(text: str | None, ports: Sequence[ContainerPort]) -> int | None:
    """Return the number of a port that is named by its number or by its name; None if it is not known."""
    named = (port.number for port in ports if port.name == text)
    return None if text is None else next(named, whole_number(text, MOST_DIGITS))


def with_port_numbers(action: Any, ports: Sequence[ContainerPort]) -> Any:
    """Return a probe, or an action of a lifecycle, with numbers of ports: those of a document have other names."""
    if not isinstance(action, dict):
        return action
    return {
        kind: {**value, "port": port_number(str(value["port"]), ports) or value["port"]}
        if kind in ("httpGet", "tcpSocket") and isinstance(value, dict) and "port" in value
        else value
        for kind, value in action.items()
    }
