"""Patches of pods, right and wrong: made of fragments whose values come from small pools, by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Random = random.Random

NAMES = ("a", "b", "cache", "data", "workdir-0", "dshm", "main", "A", "x_y", "a.b", "a" * 64, "-a")
LABELS = ("a", "example.com/a", "a_b", "A/b", "-a", "example.com/", "a" * 64, "")
VALUES = ("a", "", "A.b", "-a", "a b", "a" * 64)
PATHS = ("/a", "/data", "/b/c", "b", "../c", "/a/../b", "/dev/shm")
PORTS: tuple[Any, ...] = (8000, 8001, 1, 65535, 8000, "main", 0, 70000, -1, "metrics", "none", "A", "")
QUANTITIES: tuple[Any, ...] = ("1", "2", "500m", "1Gi", "4Gi", "-1", "0", "1.5", "1GB", 2, 0.5)
RESOURCES = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "rdma/hca",
    "requests.example.com/a",
    "hugepages-2Mi",
    "gpus",
    "example.com/a b",
    "pods",
)
NUMBERS = (0, 1, 2, 30, -1, 100, 101, 2**31, 65534)
SCOPES = ("containers", "initContainers")


def _some(draw: Random, pool: tuple[Any, ...]) -> Any:
    """Mostly the first values of a pool, which are right."""
    return draw.choice(pool[: max(2, len(pool) // 2)] if draw.random() < 0.85 else pool)


def _choice(draw: Random, *values: str) -> str:
    """One of a field's values, now and then misspelt."""
    value = draw.choice(values)
    roll = draw.random()
    return value.lower() if roll < 0.03 else f"{value}s" if roll < 0.05 else "" if roll < 0.07 else value


def _handler(draw: Random) -> Object:
    kinds: dict[str, Any] = {
        "httpGet": {"path": _some(draw, ("/", "/x", "")), "port": _some(draw, PORTS)},
        "tcpSocket": {"port": _some(draw, PORTS)},
        "exec": {"command": _some(draw, (["true"], ["sh", "-c", "x"], []))},
        "grpc": {"port": _some(draw, (8000, 1, 0, 70000))},
    }
    if draw.random() < 0.3:
        kinds["httpGet"]["scheme"] = _choice(draw, "HTTP", "HTTPS")
    if draw.random() < 0.2:
        kinds["httpGet"]["httpHeaders"] = [{"name": _some(draw, ("X-A", "Host", "a b", "")), "value": "x"}]
    chosen = draw.sample(sorted(kinds), 1 if draw.random() < 0.85 else draw.choice((0, 2)))
    return {kind: kinds[kind] for kind in chosen}


def _probe(draw: Random) -> Object:
    fields = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
    extra = {field: _some(draw, NUMBERS) for field in draw.sample(fields, 2)} if draw.random() < 0.5 else {}
    if draw.random() < 0.15:
        extra["terminationGracePeriodSeconds"] = _some(draw, (10, 1, 0, -1))
    return {**_handler(draw), **extra}


def _main(part: Callable[[Random], Object]) -> Callable[[Random], Object]:
    """A fragment of a container, ours or another one."""

    def made(draw: Random) -> Object:
        container = {"name": "main", **part(draw)}
        if draw.random() < 0.35:
            container = {"name": _some(draw, NAMES), "image": "app:1", **part(draw)}
        scope = "containers" if draw.random() < 0.7 else "initContainers"
        if scope == "initContainers":
            container.setdefault("image", "app:1")
            container["name"] = _some(draw, ("init", "setup", "main"))
            if draw.random() < 0.5:
                container["restartPolicy"] = _choice(draw, "Always", "Always", "Always", "Never")
        return {scope: [container]}

    return made


def _probes(draw: Random) -> Object:
    return {draw.choice(("livenessProbe", "readinessProbe", "startupProbe")): _probe(draw)}


def _lifecycle(draw: Random) -> Object:
    hook: Object = _handler(draw) if draw.random() < 0.6 else {"sleep": {"seconds": _some(draw, (1, 5, 31, 10**6, -1))}}
    hook.pop("grpc", None)
    return {"lifecycle": {draw.choice(("postStart", "preStop")): hook}}


def _ports(draw: Random) -> Object:
    ports = []
    for _ in range(draw.randint(1, 2)):
        port: Object = {"containerPort": _some(draw, (8000, 9000, 1, 0, 70000))}
        if draw.random() < 0.6:
            port["name"] = _some(draw, ("main", "metrics", "A", "a--b", "a" * 16, "1"))
        if draw.random() < 0.4:
            port["protocol"] = _choice(draw, "TCP", "UDP", "SCTP")
        if draw.random() < 0.4:
            port["hostPort"] = _some(draw, (8000, 9000, 0, 70000, -1))
        ports.append(port)
    return {"ports": ports}


def _resources(draw: Random) -> Object:
    found: Object = {}
    for kind in draw.sample(("limits", "requests"), draw.randint(1, 2)):
        found[kind] = {_some(draw, RESOURCES): _some(draw, QUANTITIES) for _ in range(draw.randint(1, 2))}
    return {"resources": found}


def _env(draw: Random) -> Object:
    reference: Object = {
        "secretKeyRef": {"name": _some(draw, ("s", "a.b", "")), "key": _some(draw, ("k", "a.b", "a/b", "..", ""))},
        "configMapKeyRef": {"name": "c", "key": _some(draw, ("k", "a/b"))},
        "fieldRef": {"fieldPath": _some(draw, ("metadata.name", "status.podIP", "metadata.labels['a']", "spec.x", ""))},
        "resourceFieldRef": {"resource": _some(draw, ("limits.cpu", "requests.memory", "cpu", "limits.gpu"))},
    }
    chosen = draw.sample(sorted(reference), draw.choice((1, 1, 1, 1, 0, 2)))
    variable: Object = {"name": _some(draw, ("A", "a.b", "A-B", "A=B", "1A"))}
    if draw.random() < 0.7:
        variable["valueFrom"] = {kind: reference[kind] for kind in chosen}
    if draw.random() < 0.3:
        variable["value"] = _some(draw, ("x", "", "y"))
    source = {"configMapRef": {"name": _some(draw, ("c", "d", ""))}, "secretRef": {"name": "s"}}
    picked = draw.sample(sorted(source), draw.choice((1, 1, 1, 0, 2)))
    item: Object = {kind: source[kind] for kind in picked}
    if draw.random() < 0.3:
        item["prefix"] = _some(draw, ("A_", "B", "1", "A="))
    return {"env": [variable]} if draw.random() < 0.7 else {"envFrom": [item]}


def _mounts(draw: Random) -> Object:
    mount: Object = {"name": _some(draw, ("cache", "workdir-0", "none", "")), "mountPath": _some(draw, PATHS)}
    if draw.random() < 0.3:
        mount[draw.choice(("subPath", "subPathExpr"))] = _some(draw, ("a", "a/b", "/a", "../a", "a/../b"))
    if draw.random() < 0.25:
        mount["mountPropagation"] = _choice(draw, "None", "HostToContainer", "Bidirectional")
    if draw.random() < 0.25:
        mount["recursiveReadOnly"] = _choice(draw, "Disabled", "IfPossible", "Enabled")
        mount["readOnly"] = draw.random() < 0.7
    if draw.random() < 0.15:
        return {"volumeDevices": [{"name": _some(draw, ("claim", "cache", "none")), "devicePath": _some(draw, PATHS)}]}
    return {"volumeMounts": [mount]}


def _container(draw: Random) -> Object:
    field, value = draw.choice(
        (
            ("imagePullPolicy", _choice(draw, "Always", "IfNotPresent", "Never")),
            ("terminationMessagePolicy", _choice(draw, "File", "FallbackToLogsOnError")),
            ("restartPolicy", _choice(draw, "Always", "Never")),
            ("image", _some(draw, ("app:2", "registry.example.com/a@sha256:" + "a" * 64, "App:1", "a b", ""))),
            ("workingDir", "/x"),
            (
                "resizePolicy",
                [
                    {
                        "resourceName": _choice(draw, "cpu", "memory"),
                        "restartPolicy": _choice(draw, "NotRequired", "RestartContainer"),
                    }
                ],
            ),
        )
    )
    return {field: value}


def _items(draw: Random) -> list[Object]:
    item: Object = {"key": _some(draw, ("k", "a.b", "")), "path": _some(draw, ("p", "a/b", "/p", "../p", ""))}
    if draw.random() < 0.4:
        item["mode"] = _some(draw, (256, 0o777, 1023, -1))
    return [item]


def _volumes(draw: Random) -> Object:
    sources: dict[str, Any] = {
        "emptyDir": {"sizeLimit": _some(draw, ("1Gi", "2Gi", "-1")), "medium": _choice(draw, "Memory", "HugePages")},
        "hostPath": {"path": _some(draw, PATHS), "type": _choice(draw, "Directory", "File", "DirectoryOrCreate")},
        "nfs": {"server": _some(draw, ("n", "nfs.example.com", "")), "path": _some(draw, PATHS)},
        "configMap": {"name": _some(draw, ("c", "d", "")), "defaultMode": _some(draw, (256, 511, 512, -1))},
        "secret": {"secretName": _some(draw, ("s", "t", "")), "items": _items(draw)},
        "persistentVolumeClaim": {"claimName": _some(draw, ("c", "d", ""))},
        "image": {"reference": _some(draw, ("a:1", "b:1", "")), "pullPolicy": _choice(draw, "Always", "Never")},
        "csi": {"driver": _some(draw, ("a.example.com", "b", "A_b", ""))},
    }
    chosen = draw.sample(sorted(sources), draw.choice((1, 1, 1, 1, 1, 0, 2)))
    return {"volumes": [{"name": _some(draw, ("cache", "claim", *NAMES)), **{kind: sources[kind] for kind in chosen}}]}


def _tolerations(draw: Random) -> Object:
    item: Object = {}
    if draw.random() < 0.8:
        item["key"] = _some(draw, LABELS)
    if draw.random() < 0.7:
        item["operator"] = _choice(draw, "Exists", "Equal")
    if draw.random() < 0.4:
        item["value"] = _some(draw, VALUES)
    if draw.random() < 0.5:
        item["effect"] = _choice(draw, "NoSchedule", "NoExecute", "PreferNoSchedule")
    if draw.random() < 0.3:
        item["tolerationSeconds"] = 30
    return {"tolerations": [item]}


def _pod(draw: Random) -> Object:
    fields: dict[str, Any] = {
        "dnsPolicy": _choice(draw, "ClusterFirst", "Default"),
        "hostNetwork": True,
        "terminationGracePeriodSeconds": _some(draw, (0, 60, -1)),
        "resourceClaims": [{"name": _some(draw, ("a", "b")), "resourceClaimName": "c"}],
        "restartPolicy": _choice(draw, "Always", "Never"),
    }
    return {field: fields[field] for field in draw.sample(sorted(fields), draw.randint(1, 2))}


FRAGMENTS: tuple[Callable[[Random], Object], ...] = (
    *(_main(part) for part in (_probes, _lifecycle, _ports, _resources, _env, _mounts, _container)),
    *(_volumes, _volumes, _tolerations, _pod),
)


def patch(seed: int) -> Object:
    """The patch of a seed: one to three fragments side by side."""
    draw = random.Random(seed)
    found: Object = {}
    for fragment in draw.sample(FRAGMENTS, draw.choice((1, 1, 2, 3))):
        for key, value in fragment(draw).items():
            if isinstance(value, list):
                found.setdefault(key, []).extend(value)
            elif isinstance(value, dict):
                found[key] = {**found.get(key, {}), **value}
            else:
                found[key] = value
    return found
