"""Small random clusters in which the API server's admission, claims, attached volumes and resizes decide."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

DRIVER = "csi.example.com"
GPU = "nvidia.com/gpu"
CLASSES = {"admission-low": 10, "admission-high": 500}
_LEVELS = ("privileged", "baseline", "restricted", "restricted")
_VERSIONS = (None, "latest", "v1.18", "v1.21", "v1.24", "v1.28", "v1.33", "v1.36")


@dataclass
class AdmissionWorld:
    """A namespace, a node of its own, and one pod that may or may not run on it.

    ``bound`` are pods on the node with their status, ``terminating`` what is deleted once it is all there.
    """

    seed: int
    kind: str
    labels: dict[str, str] = field(default_factory=dict)
    limits: list[Object] = field(default_factory=list)
    quotas: list[Object] = field(default_factory=list)
    claims: list[tuple[Object, str]] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)
    attachments: list[Object] = field(default_factory=list)
    csi_limit: int | None = None
    bound: list[tuple[Object, Object]] = field(default_factory=list)
    deleted_claims: list[str] = field(default_factory=list)
    is_namespace_deleted: bool = False
    pod: Object = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The namespace of all its objects."""
        return f"admission-{self.seed}"

    @property
    def node(self) -> str:
        """Its node."""
        return f"admission-{self.seed}"


KINDS = ("limits", "security", "volumes", "claims", "resize", "scopes", "namespace")


def admission_world(seed: int) -> AdmissionWorld:
    """The world of a seed."""
    draw = random.Random(seed)
    world = AdmissionWorld(seed, KINDS[seed % len(KINDS)])
    world.pod = _pod(world, draw)
    _MAKERS[world.kind](world, draw)
    return world


def _pod(world: AdmissionWorld, draw: random.Random) -> Object:
    amounts = {"cpu": draw.choice(("500m", "1", "2")), "memory": draw.choice(("256Mi", "1Gi", "2Gi"))}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": dict(amounts)}}
    spec: Object = {
        "containers": [container],
        "nodeSelector": {"example.com/admission": str(world.seed)},
        "terminationGracePeriodSeconds": 0,
    }
    metadata = {"name": "wanted", "namespace": world.namespace, "labels": {"app": "wanted"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _limits(world: AdmissionWorld, draw: random.Random) -> None:
    spec = world.pod["spec"]
    resources = spec["containers"][0]["resources"]
    if draw.random() < 0.4:
        del resources[draw.choice(("requests", "limits"))]
    if draw.random() < 0.3:
        spec["containers"][0]["resources"] = {}
    elif draw.random() < 0.4 and "limits" in resources:
        resources["limits"]["cpu"] = draw.choice(("2", "4", "8"))
    if draw.random() < 0.3:
        init = {"name": "prepare", "image": "x", "resources": {"requests": {"cpu": "3"}}}
        spec["initContainers"] = [{**init, **({"restartPolicy": "Always"} if draw.random() < 0.5 else {})}]
    if draw.random() < 0.2:
        spec["resources"] = {"requests": {"cpu": "3"}, "limits": {"cpu": "6"}}
    for number in range(draw.choice((1, 1, 2))):
        limit: Object = {"type": draw.choice(("Container", "Container", "Pod"))}
        name = draw.choice(("cpu", "memory"))
        low, high = {"cpu": ("1", "3"), "memory": ("512Mi", "1536Mi")}[name]
        for key in draw.sample(
            ("min", "max", "maxLimitRequestRatio", "default", "defaultRequest"), draw.choice((1, 2))
        ):
            if limit["type"] == "Pod" and key.startswith("default"):
                continue
            limit[key] = {name: {"min": low, "max": high, "maxLimitRequestRatio": "2"}.get(key, low)}
        if "maxLimitRequestRatio" in limit and "default" in limit and "defaultRequest" not in limit:
            limit["defaultRequest"] = dict(limit["default"])
        metadata = {"name": f"limits-{number}"}
        world.limits.append(
            {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [limit]}}
        )


_CONTEXTS: tuple[Object, ...] = (
    {"privileged": True},
    {"allowPrivilegeEscalation": True},
    {"capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}},
    {"capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}},
    {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
    {"capabilities": {"drop": ["KILL"]}},
    {"runAsUser": 0},
    {"runAsNonRoot": False},
    {"seccompProfile": {"type": "Unconfined"}},
    {"appArmorProfile": {"type": "Unconfined"}},
    {"seLinuxOptions": {"type": "container_engine_t"}},
    {"seLinuxOptions": {"type": "spc_t"}},
    {"seLinuxOptions": {"role": "x"}},
)
_SPECS: tuple[Object, ...] = (
    {"hostNetwork": True},
    {"hostPID": True},
    {"hostIPC": True},
    {"volumes": [{"name": "host", "hostPath": {"path": "/data"}}]},
    {"volumes": [{"name": "share", "nfs": {"server": "nfs", "path": "/"}}]},
    {"volumes": [{"name": "scratch", "emptyDir": {}}]},
    {"volumes": [{"name": "plain"}]},
    {"os": {"name": "windows"}},
)


def _security(world: AdmissionWorld, draw: random.Random) -> None:
    prefix = "pod-security.kubernetes.io/enforce"
    world.labels[prefix] = draw.choice(_LEVELS)
    version = draw.choice(_VERSIONS)
    if version is not None:
        world.labels[f"{prefix}-version"] = version
    spec = world.pod["spec"]
    safe: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    parts: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    everywhere = draw.random() < 0.5
    context = {**safe, **({} if everywhere else parts)}
    own = dict(parts) if everywhere else {}
    for _ in range(draw.choice((0, 0, 1, 2))):
        odd = draw.choice(_CONTEXTS)
        if draw.random() < 0.3 and not {"privileged", "allowPrivilegeEscalation", "capabilities"} & odd.keys():
            own.update(odd)
        else:
            context.update(odd)
    if "privileged" in context or context.get("capabilities", {}).get("add") == ["SYS_ADMIN"]:
        # Any other would not be valid.
        context["allowPrivilegeEscalation"] = True
    if draw.random() < 0.25:
        own["sysctls"] = [
            {"name": draw.choice(("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "kernel.sem")), "value": "1"}
        ]
    for name in draw.sample(sorted(context), draw.choice((0, 0, 0, 1))):
        del context[name]
    spec["securityContext"] = own
    spec["containers"][0]["securityContext"] = context
    if draw.random() < 0.35:
        odd = draw.choice(_SPECS)
        if "os" in odd:
            spec["securityContext"], spec["containers"][0]["securityContext"] = {}, {}
            if everywhere:
                spec["securityContext"] = {"runAsNonRoot": True}
        spec.update(odd)
    if draw.random() < 0.2:
        spec["hostUsers"] = False
        for field_name in ("hostNetwork", "hostPID", "hostIPC"):
            spec.pop(field_name, None)
    if draw.random() < 0.2:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": draw.choice((80, 0)) or 80}]
    if draw.random() < 0.2:
        spec["containers"][0]["livenessProbe"] = {"httpGet": {"port": 80, "host": draw.choice(("", "10.0.0.1"))}}


def _volume(world: AdmissionWorld, name: str, driver: str | None) -> None:
    """A claim that is bound to a volume."""
    full = f"{world.namespace}-{name}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    source = {"csi": {"driver": driver, "volumeHandle": full}} if driver else {"nfs": {"server": "nfs", "path": "/"}}
    claim_ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": world.namespace, "name": name}
    volume = {**common, **source, "capacity": {"storage": "1Gi"}, "claimRef": claim_ref}
    world.volumes.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": full}, "spec": volume})
    _claim(world, name, "Bound", {**common, "volumeName": full})


def _claim(world: AdmissionWorld, name: str, phase: str, spec: Object) -> None:
    metadata = {
        "name": name,
        "namespace": world.namespace,
        # Until a finalizer goes, so does nothing.
        "finalizers": ["example.com/held"],
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {},
    }
    body = {**spec, "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body}
    world.claims.append((claim, phase))


def _mounts(names: Iterator[str] | list[str]) -> list[Object]:
    return [{"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in names]


def _volumes(world: AdmissionWorld, draw: random.Random) -> None:
    world.csi_limit = draw.choice((None, 1, 2, 3, 3))
    names = [f"data-{number}" for number in range(5)]
    for name in names:
        _volume(world, name, draw.choice((DRIVER, DRIVER, DRIVER, DRIVER, "other.example.com", None)))
    for number in range(draw.choice((0, 1, 2))):
        spec = {"volumes": _mounts(draw.sample(names, draw.choice((1, 1, 2)))), "terminationGracePeriodSeconds": 0}
        world.bound.append(
            (
                _filler(
                    world, f"filler-{number}", spec, draw.choice(("admission-low", "admission-low", "admission-high"))
                ),
                {},
            )
        )
    for name in draw.sample(names, draw.choice((0, 0, 1))):
        attached = {"attacher": DRIVER, "nodeName": world.node}
        attached["source"] = {"persistentVolumeName": f"{world.namespace}-{name}"}
        world.attachments.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": f"{world.namespace}-{name}"},
                "spec": attached,
            }
        )
    world.pod["spec"]["volumes"] = _mounts(draw.sample(names, draw.choice((1, 2, 2))))
    if draw.random() < 0.3:
        # All that the driver attaches there is an unimportant pod's.
        world.csi_limit, world.attachments = 2, []
        spec = {"volumes": _mounts(names[:2]), "terminationGracePeriodSeconds": 0}
        world.bound = [(_filler(world, "filler", spec, "admission-low"), {})]
        for volume in world.volumes:
            volume["spec"] = {**volume["spec"], "csi": {"driver": DRIVER, "volumeHandle": volume["metadata"]["name"]}}
            volume["spec"].pop("nfs", None)
    if draw.random() < 0.8:
        world.pod["spec"]["priorityClassName"] = "admission-high"


def _claims(world: AdmissionWorld, draw: random.Random) -> None:
    kind = draw.choice(("bound", "deleted", "lost", "late", "early", "absent"))
    if kind in ("bound", "deleted"):
        _volume(world, "data", None)
        if kind == "deleted":
            world.deleted_claims.append("data")
    elif kind == "lost":
        _claim(world, "data", "Lost", {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "gone"})
    elif kind in ("late", "early"):
        _claim(world, "data", "Pending", {"accessModes": ["ReadWriteOnce"], "storageClassName": f"admission-{kind}"})
    world.pod["spec"]["volumes"] = _mounts(["data"])


def _filler(world: AdmissionWorld, name: str, spec: Object, class_name: str) -> Object:
    amounts = spec.pop("amounts", {"cpu": "100m"})
    container = {"name": "main", "image": "x", "resources": {"requests": amounts}}
    metadata = {"name": name, "namespace": world.namespace}
    body = {"nodeName": world.node, "containers": [container], "priorityClassName": class_name, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _resize(world: AdmissionWorld, draw: random.Random) -> None:
    """A node of 8 cores, 4 of them wanted, and a pod there that is growing or shrinking."""
    world.pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    wanted, actual, allocated = (draw.choice(("2", "4", "5", "6")) for _ in range(3))
    filler = _filler(
        world, "filler", {"amounts": {"cpu": wanted}, "terminationGracePeriodSeconds": 0}, "admission-high"
    )
    one = {"name": "main", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
    found = {**one, "resources": {"requests": {"cpu": actual}}, "allocatedResources": {"cpu": allocated}}
    conditions = []
    if draw.random() < 0.5:
        reason = draw.choice(("Infeasible", "Deferred"))
        conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [found]}
    world.bound.append((filler, {**status, "conditions": conditions}))


def _scopes(world: AdmissionWorld, draw: random.Random) -> None:
    spec = world.pod["spec"]
    if draw.random() < 0.4:
        spec["activeDeadlineSeconds"] = 600
    if draw.random() < 0.3:
        spec["containers"][0]["resources"] = {}
    if draw.random() < 0.6:
        spec["priorityClassName"] = draw.choice(sorted(CLASSES))
    scope = draw.choice(("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"))
    body: Object = {"hard": {"pods": draw.choice(("0", "5"))}}
    if scope == "PriorityClass":
        operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: Object = {"scopeName": scope, "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = [draw.choice([*CLASSES, "admission-default"])]
        body["scopeSelector"] = {"matchExpressions": [expression]}
    else:
        body["scopes"] = [scope]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "scoped"}, "spec": body}
    world.quotas.append(quota)


def _namespace(world: AdmissionWorld, draw: random.Random) -> None:
    world.is_namespace_deleted = draw.random() < 0.5


_MAKERS = {
    "limits": _limits,
    "security": _security,
    "volumes": _volumes,
    "claims": _claims,
    "resize": _resize,
    "scopes": _scopes,
    "namespace": _namespace,
}
