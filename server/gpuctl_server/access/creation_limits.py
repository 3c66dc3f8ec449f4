"""Limits for pods and Services that the service creates with its own rights for a token with limits.

A user who may create pods in a namespace can reach the node, unless Pod Security forbids it. Kubernetes enforces Pod
Security by labels of the namespace, which may be missing. So the service checks each pod of such a token against a
level of the Pod Security Standards, and against a list of service accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gpuctl.capacity.admission.pod_security_admission import ENFORCE, forbidden
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_templates import pod_templates
from gpuctl_server.server_settings import PodSecurityLevel

_DEFAULT_ACCOUNT = "default"


class PodTerms(NamedTuple):
    """A level of the Pod Security Standards, with the host paths and service accounts that are allowed in addition."""

    level: PodSecurityLevel
    host_paths: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()

    def breaches(self, objects: Iterable[Object]) -> list[str]:
        """Return the violations of the pods in these objects, each once."""
        return list(dict.fromkeys(text for obj in objects for text in self._of_object(obj)))

    def _of_object(self, obj: Object) -> Iterator[str]:
        for template, _ in pod_templates(obj):
            spec = template["spec"]
            judged = {
                **template,
                "spec": {**spec, "volumes": list(filter(self._judges, spec.get("volumes") or []))},
            }
            yield from forbidden(judged, {ENFORCE: self.level})
            for field in ("serviceAccountName", "serviceAccount"):
                account = spec.get(field) or _DEFAULT_ACCOUNT
                if account not in (_DEFAULT_ACCOUNT, *self.service_accounts):
                    yield f"{field}: {account}"

    def _judges(self, volume: dict[str, Any]) -> bool:
        path = (volume.get("hostPath") or {}).get("path")
        return path is None or not any(_is_below(path, directory) for directory in self.host_paths)


class ServiceTerms(NamedTuple):
    """The allowed types of Services, and whether documents may choose node ports."""

    types: tuple[str, ...]
    fixed_node_ports: bool

    def breaches(self, objects: Iterable[Object]) -> list[str]:
        """Return the violations of the Services among these objects, each once."""
        return list(dict.fromkeys(text for obj in objects if obj["kind"] == "Service" for text in self._of(obj)))

    def _of(self, service: Object) -> Iterator[str]:
        spec = service["spec"]
        kind = spec.get("type", "ClusterIP")
        if kind not in self.types:
            yield say("a Service of type {kind}", kind=kind)
        if not self.fixed_node_ports:
            for port in spec.get("ports") or []:
                if "nodePort" in port:
                    yield say("the node port {port}", port=port["nodePort"])


def _is_below(path: str, directory: str) -> bool:
    """Return True if a path equals a directory or is below it. Paths with ``..`` never match; Kubernetes rejects them
    too.
    """
    parts, within = path.split("/"), directory.rstrip("/").split("/")
    return ".." not in parts and [part for part in parts if part not in ("", ".")][: len(within) - 1] == within[1:]
