"""Privileges of an object beyond its own pods, in short, for the user who confirms that it is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpuctl.language.display_text import visible
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import Object

_LONGEST = 80


def _flag(words: Template) -> Callable[[Any], str]:
    return lambda value: say(words) if value is True else ""


def _named(words: Template) -> Callable[[Any], str]:
    return lambda value: say("{what} {name}", what=say(words), name=value) if isinstance(value, str) and value else ""


def _account(value: Any) -> str:
    return say("service account {name}", name=value) if isinstance(value, str) and value not in ("", "default") else ""


def _inside(words: Template, key: str) -> Callable[[Any], str]:
    return lambda value: say("{what} {name}", what=say(words), name=value.get(key)) if isinstance(value, dict) else ""


def _listed(words: Template) -> Callable[[Any], str]:
    return lambda value: (
        say("{what} {names}", what=say(words), names=value) if isinstance(value, list) and value else ""
    )


_MARKS: dict[str, Callable[[Any], str]] = {
    "privileged": _flag(Template("privileged")),
    "allowPrivilegeEscalation": _flag(Template("allows privilege escalation")),
    "hostNetwork": _flag(Template("network of the host")),
    "hostPID": _flag(Template("processes of the host")),
    "hostIPC": _flag(Template("IPC of the host")),
    "hostPort": lambda value: say("port {port} of the host", port=value) if value else "",
    "hostPath": _inside(Template("path of the host"), "path"),
    "add": _listed(Template("capabilities")),
    "runAsUser": lambda value: say("runs as root") if value == 0 else "",
    "serviceAccountName": _account,
    "secretName": _named(Template("Secret")),
    "secretKeyRef": _inside(Template("Secret"), "name"),
    "secretRef": _inside(Template("Secret"), "name"),
    "nodeName": _named(Template("node")),
    "externalIPs": _listed(Template("external addresses")),
    "externalName": _named(Template("external name")),
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
