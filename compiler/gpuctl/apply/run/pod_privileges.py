"""Privileges of an object beyond its own pods, in short, for the user who confirms that it is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpuctl.language.display_text import visible
from gpuctl.objects.api_resources import Object

_LONGEST = 80


def _flag(words: str) -> Callable[[Any], str]:
    return lambda value: words if value is True else ""


def _named(words: str) -> Callable[[Any], str]:
    return lambda value: f"{words} {value}" if isinstance(value, str) and value else ""


def _account(value: Any) -> str:
    return f"service account {value}" if isinstance(value, str) and value not in ("", "default") else ""


def _inside(words: str, key: str) -> Callable[[Any], str]:
    return lambda value: f"{words} {value.get(key)}" if isinstance(value, dict) else ""


def _listed(words: str) -> Callable[[Any], str]:
    return lambda value: f"{words} {', '.join(map(str, value))}" if isinstance(value, list) and value else ""


_MARKS: dict[str, Callable[[Any], str]] = {
    "privileged": _flag("privileged"),
    "allowPrivilegeEscalation": _flag("allows privilege escalation"),
    "hostNetwork": _flag("network of the host"),
    "hostPID": _flag("processes of the host"),
    "hostIPC": _flag("IPC of the host"),
    "hostPort": lambda value: f"port {value} of the host" if value else "",
    "hostPath": _inside("path of the host", "path"),
    "add": _listed("capabilities"),
    "runAsUser": lambda value: "runs as root" if value == 0 else "",
    "serviceAccountName": _account,
    "secretName": _named("Secret"),
    "secretKeyRef": _inside("Secret", "name"),
    "secretRef": _inside("Secret", "name"),
    "nodeName": _named("node"),
    "externalIPs": _listed("external addresses"),
    "externalName": _named("external name"),
}
"""Field name, at any depth of an object -> function that describes its value; "" if it is no privilege."""


def privileges(obj: Object) -> list[str]:
    """Return the privileges of an object: host access, service account, Secrets; each once."""
    return list(dict.fromkeys(visible(text)[:_LONGEST] for text in _found(obj.get("spec"))))


def _found(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            said = _MARKS[key](item) if key in _MARKS else ""
            if said:
                yield said
            yield from _found(item)
    elif isinstance(value, list):
        for item in value:
            yield from _found(item)
