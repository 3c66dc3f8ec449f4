"""The probes of a Deployment's program, as fields of a document or in `podPatch`."""

from __future__ import annotations

from gpuctl.importing.container_ports import with_port_numbers
from gpuctl.importing.converted_tree import ConvertedTree
from gpuctl.importing.field_values import short_duration
from gpuctl.importing.pod_fields import PodFields
from gpuctl.importing.service_ports import ServicePorts
from gpuctl.importing.source_tree import Path
from gpuctl.importing.task_fields import AS_PROBES

_HEALTH = "service.health_check"
_STARTUP = "service.startup_timeout"


def take_probes(tree: ConvertedTree, pod: PodFields, ports: ServicePorts) -> None:
    """Take the probes: those that the language has not go into `podPatch`."""
    names = [name for name in ("readinessProbe", "startupProbe", "livenessProbe") if name in tree.keys(pod.container)]
    has_all = len(names) == 3
    for name in names:
        base: Path = (*pod.container, name)
        written = tree.text((*base, "httpGet", "path"))
        path = None if written is None else f"/{written.removeprefix('/')}"
        known = tree.draft.get(_HEALTH)
        if not _is_health_check(tree, base, ports) or (name == "startupProbe" and known not in (None, path)):
            pod.patch.of_container(base, name, with_port_numbers(tree.typed(base), ports.named))
            continue
        field = _HEALTH if known in (None, path) else "service.liveness"
        tree.set((*base, "httpGet", "path"), field, path, AS_PROBES if known is None and not has_all else None)
        tree.mapped((*base, "httpGet", "port"), "service.port")
        tree.mapped((*base, "httpGet", "scheme"), field)
        _startup_timeout(tree, base, name, has_startup="startupProbe" in names)


def _is_health_check(tree: ConvertedTree, base: Path, ports: ServicePorts) -> bool:
    """Return True if a probe asks the main port over HTTP, and nothing else."""
    port = ports.resolve(tree.text((*base, "httpGet", "port")))
    is_main = ports.main is None or port == ports.main.number
    keys = set(tree.keys((*base, "httpGet")))
    scheme = tree.text((*base, "httpGet", "scheme")) or "HTTP"
    path = tree.text((*base, "httpGet", "path"))
    return path is not None and port is not None and is_main and keys <= {"path", "port", "scheme"} and scheme == "HTTP"


def _startup_timeout(tree: ConvertedTree, base: Path, name: str, *, has_startup: bool) -> None:
    failures = tree.number((*base, "failureThreshold")) or 0
    period = tree.number((*base, "periodSeconds")) or 10
    delay = tree.number((*base, "initialDelaySeconds")) or 0
    if tree.text((*base, "successThreshold")) == "1":
        tree.mapped((*base, "successThreshold"), None, "it is Kubernetes' default")
    if name == "livenessProbe" and delay and not has_startup:
        tree.draft.set(_STARTUP, short_duration(delay + period * (failures or 3)), tree.line(base))
        note = "a pod that has not answered after this time and the failures is restarted"
        tree.changed((*base, "initialDelaySeconds"), _STARTUP, note)
    if name == "startupProbe" and failures:
        tree.draft.set(_STARTUP, short_duration(failures * period), tree.line(base))
        tree.mapped((*base, "failureThreshold"), _STARTUP)
        tree.mapped((*base, "periodSeconds"), _STARTUP)
