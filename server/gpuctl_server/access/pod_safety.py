"""What pods may do that the service creates with its own rights for somebody who has fewer.

Whoever may create pods in a namespace reaches all that pods can be given: the node itself, when nothing forbids it.
Kubernetes' Pod Security forbids it by labels of the namespace, which nobody may have set. So the service holds every
pod that it would create for a limited token against a level of that standard, and against the service accounts that are
free to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.pod_requests import pod_templates
from gpuctl.capacity.podsecurity import ENFORCE, forbidden
from gpuctl_server.settings import PodSecurityLevel

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
            judged = {**template, "spec": {**spec, "volumes": list(filter(self._judges, spec.get("volumes") or []))}}
            yield from forbidden(judged, {ENFORCE: self.level})
            for field in ("serviceAccountName", "serviceAccount"):
                account = spec.get(field) or _DEFAULT_ACCOUNT
                if account not in (_DEFAULT_ACCOUNT, *self.service_accounts):
                    yield f"{field}: {account}"

    def _judges(self, volume: dict[str, Any]) -> bool:
        path = (volume.get("hostPath") or {}).get("path")
        return path is None or not any(_is_below(path, directory) for directory in self.host_paths)


def _is_below(path: str, directory: str) -> bool:
    """Whether a path is a directory, or in it. Kubernetes refuses host paths with ``..``, so does this."""
    parts, within = path.split("/"), directory.rstrip("/").split("/")
    return ".." not in parts and [part for part in parts if part not in ("", ".")][: len(within) - 1] == within[1:]
