"""What pods may do, and how Services may be reached, that the service creates with its own rights for a limited token.

Whoever may create pods in a namespace reaches all that pods can be given: the node itself, when nothing forbids it.
Kubernetes' Pod Security forbids it by labels of the namespace, which nobody may have set. So the service holds every
pod that it would create for a limited token against a level of that standard, and against the service accounts that are
free to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gpuctl.capacity.podsecurity import ENFORCE, forbidden
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_templates import pod_templates
from gpuctl_server.server_settings import PodSecurityLevel

_DEFAULT_ACCOUNT = "default"


class PodTerms(NamedTuple):
    """A level of the Pod Security Standards, and what is allowed beside it: directories of nodes, service accounts."""

    level: PodSecurityLevel
    host_paths: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()

    def breaches(self, objects: Iterable[Object]) -> list[str]:
        """What the pods of objects would be given beyond these terms, each once."""
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
    """The types of Services that are allowed, and whether their node ports may be chosen."""

    types: tuple[str, ...]
    fixed_node_ports: bool

    def breaches(self, objects: Iterable[Object]) -> list[str]:
        """Return what of the Services among objects is not allowed, each once."""
        return list(dict.fromkeys(text for obj in objects if obj["kind"] == "Service" for text in self._of(obj)))

    def _of(self, service: Object) -> Iterator[str]:
        spec = service["spec"]
        kind = spec.get("type", "ClusterIP")
        if kind not in self.types:
            yield f"a Service of type {kind}"
        if not self.fixed_node_ports:
            for port in spec.get("ports") or []:
                if "nodePort" in port:
                    yield f"the node port {port['nodePort']}"


def _is_below(path: str, directory: str) -> bool:
    """Whether a path is a directory, or in it. Kubernetes refuses host paths with ``..``, so does this."""
    parts, within = path.split("/"), directory.rstrip("/").split("/")
    return ".." not in parts and [part for part in parts if part not in ("", ".")][: len(within) - 1] == within[1:]
