"""The rules of the API server and the kubelet for a pod's containers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from gpuctl.backend.pod_problems import PodProblem
from gpuctl.backend.resource_rules import check_amounts
from gpuctl.backend.volume_rules import check_field, check_resource
from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.language import names
from gpuctl.language.images import image_problem
from gpuctl.language.spelling import nearest
from gpuctl.objects.api_resources import Object

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROFILES = ("RuntimeDefault", "Localhost", "Unconfined")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("lifecycle.postStart", "lifecycle.preStop")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")

# Field of a container -> its values, and True if the server fills in an empty one.
CHOICES: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("imagePullPolicy", PULL_POLICIES, True),
    ("terminationMessagePolicy", ("File", "FallbackToLogsOnError"), True),
    ("ports[].protocol", ("TCP", "UDP", "SCTP"), True),
    ("volumeMounts[].mountPropagation", ("None", "HostToContainer", "Bidirectional"), False),
    ("volumeMounts[].recursiveReadOnly", ("Disabled", "IfPossible", "Enabled"), False),
    ("resizePolicy[].resourceName", ("cpu", "memory"), False),
    ("resizePolicy[].restartPolicy", ("NotRequired", "RestartContainer"), False),
    ("securityContext.procMount", ("Default", "Unmasked"), False),
    ("securityContext.seccompProfile.type", _PROFILES, False),
    ("securityContext.appArmorProfile.type", _PROFILES, False),
    *((f"{handler}.httpGet.scheme", ("HTTP", "HTTPS"), True) for handler in (*_PROBES, *_HOOKS)),
)
_COUNT = (0, 2**31 - 1)
_PORT = (1, 65535)
RANGES: dict[str, tuple[int, int]] = {
    "ports[].containerPort": _PORT,
    "ports[].hostPort": (0, 65535),
    "securityContext.runAsUser": _COUNT,
    "securityContext.runAsGroup": _COUNT,
    **{
        f"{probe}.{field}": _COUNT
        for probe in _PROBES
        for field in (
            *("initialDelaySeconds", "timeoutSeconds", "periodSeconds"),
            *("successThreshold", "failureThreshold"),
        )
    },
    **{f"{probe}.terminationGracePeriodSeconds": (1, 2**63 - 1) for probe in _PROBES},
    **{f"{handler}.{kind}.port": _PORT for handler in (*_PROBES, *_HOOKS) for kind in ("httpGet", "tcpSocket", "grpc")},
}


def check_containers(pod: Object) -> Iterator[PodProblem]:
    """Yield all problems of a pod's containers and init containers."""
    seen: set[str] = set()
    # Needed for every container.
    volumes = {volume.get("name"): volume for volume in pod.get("volumes", [])}
    claims = {claim.get("name") for claim in pod.get("resourceClaims", [])}
    for field in ("containers", "initContainers"):
        host_ports: set[tuple[Any, ...]] = set()
        for index, container in enumerate(pod.get(field, [])):
            place: FieldPath = (field, index)
            name = container.get("name", "")
            if not names.is_dns_label(name):
                yield PodProblem((*place, "name"), f"`{name}` is not a legal container name, a DNS label")
            elif name in seen:
                message = f"two containers are called `{name}`"
                yield PodProblem((*place, "name"), message, "rename one: init containers count too")
            seen.add(name)
            if field == "initContainers":
                host_ports = set()  # They run one after another.
            init = field == "initContainers"
            problems = (
                _container(pod, container, host_ports, init=init),
                _mounts(volumes, container),
                check_amounts(container, claims),
            )
            for problem in chain(*problems):
                causes = tuple((*place, *cause) for cause in problem.causes)
                yield problem._replace(path=(*place, *problem.path), causes=causes)


def _container(pod: Object, container: Object, host_ports: set[tuple[Any, ...]], *, init: bool) -> Iterator[PodProblem]:
    image = container.get("image", "")
    wrong = image_problem(image) if image else ("is missing", "add `image:`")
    if wrong is not None:
        yield PodProblem(("image",) if image else (), f"the image `{image}` {wrong[0]}", wrong[1])
    yield from _ports(container, host_ports, host_network=bool(pod.get("hostNetwork")))
    yield from _env(container)
    yield from _security(pod, container.get("securityContext", {}))
    yield from _restarts(pod, container, init=init)
    helper = init and container.get("restartPolicy") != "Always"
    grace = pod.get("terminationGracePeriodSeconds", 30)
    for field in (*_PROBES, "lifecycle"):
        if helper and field in container:
            yield PodProblem((field,), f"an init container can have `{field}` with `restartPolicy: Always` only")
    for probe in _PROBES:
        if probe in container:
            yield from _handler(container, container[probe], (probe,), grace)
            yield from _thresholds(container[probe], (probe,))
    for hook in ("postStart", "preStop"):
        if hook in container.get("lifecycle", {}):
            yield from _handler(container, container["lifecycle"][hook], ("lifecycle", hook), grace)


def _restarts(pod: Object, container: Object, *, init: bool) -> Iterator[PodProblem]:
    policy = container.get("restartPolicy")
    if policy is not None and not (policy == "Always" and init):
        hint = "an init container with `restartPolicy: Always` is a sidecar"
        message = f"`restartPolicy: {policy}` is a field of the pod, not of a container"
        yield PodProblem(
            ("restartPolicy",),
            message if not init else "the `restartPolicy` of an init container can only be `Always`",
            hint,
        )
    seen: set[str] = set()
    for index, item in enumerate(container.get("resizePolicy", [])):
        place: FieldPath = ("resizePolicy", index)
        if item.get("resourceName") in seen:
            yield PodProblem(place, f"`{item.get('resourceName')}` is listed twice in resizePolicy")
        seen.add(item.get("resourceName", ""))
        if item.get("restartPolicy") == "RestartContainer" and pod.get("restartPolicy") == "Never":
            yield PodProblem(
                (*place, "restartPolicy"), "the pod's containers are never restarted", "write `NotRequired`"
            )
        elif item.get("restartPolicy") == "RestartContainer" and init and policy != "Always":
            yield PodProblem((*place, "restartPolicy"), "an init container is not restarted", "write `NotRequired`")


def _ports(container: Object, host_ports: set[tuple[Any, ...]], *, host_network: bool) -> Iterator[PodProblem]:
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports", [])):
        place: FieldPath = ("ports", index)
        name = port.get("name", "")
        if name and not names.is_port_name(name):
            message = f"`{name}` is not a legal port name: at most 15 lower-case letters, digits and single `-`"
            yield PodProblem((*place, "name"), message)
        elif name and name in seen:
            yield PodProblem((*place, "name"), f"two ports of the container are called `{name}`")
        seen.add(name)
        host = port.get("hostPort", 0)
        if not host:
            continue
        key = (port.get("protocol") or "TCP", port.get("hostIP", ""), host)
        if key in host_ports:
            yield PodProblem((*place, "hostPort"), f"hostPort {host} is taken by another port of the pod")
        host_ports.add(key)
        if host_network and host != port.get("containerPort"):
            yield PodProblem((*place, "hostPort"), "with `hostNetwork` the hostPort is the containerPort")


def _env(container: Object) -> Iterator[PodProblem]:
    for index, variable in enumerate(container.get("env", [])):
        place: FieldPath = ("env", index)
        name, source = variable.get("name", ""), variable.get("valueFrom")
        if not names.is_env_name(name):
            yield PodProblem((*place, "name"), f"`{name}` is not a legal name of a variable")
        if source is None:
            continue
        kinds = [kind for kind in _ENV_SOURCES if kind in source]
        if len(kinds) != 1:
            yield PodProblem((*place, "valueFrom"), f"`valueFrom` needs one of {', '.join(_ENV_SOURCES[:4])}")
        elif variable.get("value"):
            yield PodProblem((*place, "valueFrom"), f"`{name}` has a value and `valueFrom`", "keep one")
        yield from check_field(source.get("fieldRef"), (*place, "valueFrom", "fieldRef"), names.POD_FIELDS)
        yield from check_resource(source.get("resourceFieldRef"), (*place, "valueFrom", "resourceFieldRef"))
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if kind in source:
                yield from _key(source[kind], (*place, "valueFrom", kind))
    for index, item in enumerate(container.get("envFrom", [])):
        place = ("envFrom", index)
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in item]
        if len(kinds) != 1:
            yield PodProblem(place, "needs one of configMapRef and secretRef")
        if item.get("prefix") and not names.is_env_name(item["prefix"]):
            yield PodProblem((*place, "prefix"), f"`{item['prefix']}` is not the beginning of a variable's name")
        for kind in kinds:
            if not item[kind].get("name"):
                yield PodProblem((*place, kind), f"`{kind}` needs `name`")


def _key(reference: Object, place: FieldPath) -> Iterator[PodProblem]:
    """Yield the problems of a reference to a key of a Secret or ConfigMap."""
    key = reference.get("key", "")
    if not reference.get("name"):
        yield PodProblem(place, f"`{place[-1]}` needs `name`")
    if not names.is_data_key(key):
        what = "a key of Secrets and ConfigMaps: at most 253 letters, digits, `-`, `_` and `.`"
        yield PodProblem((*place, "key") if key else place, f"`{key}` is not {what}" if key else "needs `key`")


def no_volume(place: FieldPath, name: str, volumes: Iterable[str]) -> PodProblem:
    """Return the problem of a mount that names none of the pod's volumes."""
    close = nearest(name, volumes)
    hint = f"did you mean `{close}`?" if close else f"add a volume called `{name}` to `volumes`"
    return PodProblem(place, f"there is no volume called `{name}`", hint)


def _mounts(volumes: Mapping[str, Object], container: Object) -> Iterator[PodProblem]:
    devices = {device.get("name") for device in container.get("volumeDevices", [])}
    targets: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", [])):
        place: FieldPath = ("volumeMounts", index)
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if name not in volumes:
            yield no_volume((*place, "name"), name, volumes)
        elif name in devices:
            yield PodProblem((*place, "name"), f"`{name}` is in volumeDevices too")
        if not target:
            yield PodProblem(place, "a mount needs `mountPath`")
        elif target in targets:
            yield PodProblem((*place, "mountPath"), f"two volumes are mounted at `{target}`")
        elif ":" in target or not target.startswith("/"):
            yield PodProblem((*place, "mountPath"), f"`{target}` is not an absolute path without `:`")
        targets.add(target)
        yield from _mount_options(container, mount, place)
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", [])):
        place = ("volumeDevices", index)
        volume, path = volumes.get(device.get("name")), device.get("devicePath", "")
        if volume is None:
            yield PodProblem((*place, "name"), f"there is no volume called `{device.get('name', '')}`")
        elif not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            yield PodProblem((*place, "name"), "only claims can be block devices")
        if not path or ".." in path.split("/") or path in targets | paths:
            yield PodProblem((*place, "devicePath"), f"`{path}` is empty, contains `..` or is used already")
        paths.add(path)


def _mount_options(container: Object, mount: Object, place: FieldPath) -> Iterator[PodProblem]:
    for field in ("subPath", "subPathExpr"):
        path = mount.get(field, "")
        if path.startswith("/") or ".." in path.split("/"):
            yield PodProblem((*place, field), f"`{path}` is not a relative path inside the volume")
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield PodProblem((*place, "subPathExpr"), "a mount has one of subPath and subPathExpr")
    privileged = container.get("securityContext", {}).get("privileged")
    if mount.get("mountPropagation") == "Bidirectional" and not privileged:
        yield PodProblem((*place, "mountPropagation"), "`Bidirectional` needs a privileged container")
    if mount.get("recursiveReadOnly") in ("IfPossible", "Enabled") and (
        not mount.get("readOnly") or mount.get("mountPropagation", "None") != "None"
    ):
        message = "`recursiveReadOnly` needs `readOnly: true` and no mountPropagation"
        yield PodProblem((*place, "recursiveReadOnly"), message)


def _handler(container: Object, handler: Object, place: FieldPath, grace: Any) -> Iterator[PodProblem]:
    """Yield the problems of a probe's or hook's action."""
    kinds = [kind for kind in _HANDLERS if kind in handler]
    if len(kinds) != 1:
        yield PodProblem(place, f"`{place[-1]}` needs one of {', '.join(_HANDLERS[:4])}")
    if "exec" in handler and not handler["exec"].get("command"):
        yield PodProblem((*place, "exec"), "`exec` needs `command`")
    seconds = handler.get("sleep", {}).get("seconds", 0)
    if isinstance(grace, int) and not 0 <= seconds <= grace:
        message = f"sleeps {seconds} s, and the pod has {grace} s to end (terminationGracePeriodSeconds)"
        yield PodProblem((*place, "sleep"), message)
    for index, header in enumerate(handler.get("httpGet", {}).get("httpHeaders", [])):
        if not re.fullmatch(r"[-A-Za-z0-9]+", header.get("name", "")):
            yield PodProblem(
                (*place, "httpGet", "httpHeaders", index), f"`{header.get('name', '')}` is not the name of a header"
            )
    for kind in ("httpGet", "tcpSocket"):
        port = handler.get(kind, {}).get("port")
        known = [item["name"] for item in container.get("ports", []) if "name" in item]
        if isinstance(port, str) and port not in known:
            hint = f"the ports are {', '.join(known)}" if known else "write the port's number"
            causes = tuple(("ports", index) for index in range(len(container.get("ports", []))))
            message = f"`{place[-1]}` uses the port `{port}`, and the container has no port of that name"
            yield PodProblem((*place, kind, "port"), message, hint, causes)
        elif kind in handler and port is None:
            yield PodProblem((*place, kind), f"`{kind}` needs `port`")


def _thresholds(probe: Object, place: FieldPath) -> Iterator[PodProblem]:
    if place[-1] != "readinessProbe" and probe.get("successThreshold", 1) not in (0, 1):
        yield PodProblem((*place, "successThreshold"), f"must be 1 in a {place[-1]}")
    if place[-1] == "readinessProbe" and "terminationGracePeriodSeconds" in probe:
        yield PodProblem(
            (*place, "terminationGracePeriodSeconds"), "a readinessProbe cannot have `terminationGracePeriodSeconds`"
        )


def _security(pod: Object, context: Object) -> Iterator[PodProblem]:
    place: FieldPath = ("securityContext",)
    if context.get("allowPrivilegeEscalation") is False:
        added = context.get("capabilities", {}).get("add", [])
        if context.get("privileged"):
            yield PodProblem((*place, "privileged"), "a privileged container cannot forbid `allowPrivilegeEscalation`")
        if {"CAP_SYS_ADMIN", "SYS_ADMIN"} & set(added):
            message = "SYS_ADMIN needs `allowPrivilegeEscalation`, which is set to false"
            yield PodProblem((*place, "capabilities", "add"), message)
    if context.get("procMount") == "Unmasked" and pod.get("hostUsers", True):
        yield PodProblem((*place, "procMount"), "`Unmasked` needs `hostUsers: false`")
    if "windowsOptions" in context:
        yield PodProblem((*place, "windowsOptions"), "gpuctl makes pods for Linux nodes")
    yield from check_profiles(context, place)


def check_profiles(context: Object, place: FieldPath) -> Iterator[PodProblem]:
    """Yield the problems of a security context's seccomp and AppArmor profiles."""
    for field in ("seccompProfile", "appArmorProfile"):
        profile = context.get(field)
        if profile is None:
            continue
        local = profile.get("localhostProfile")
        if not profile.get("type"):
            yield PodProblem((*place, field), f"`{field}` needs `type`")
        elif profile["type"] == "Localhost":
            if not local or (field == "seccompProfile" and (local.startswith("/") or ".." in local.split("/"))):
                yield PodProblem((*place, field), "`type: Localhost` needs `localhostProfile`, a relative path")
        elif local is not None:
            yield PodProblem((*place, field, "localhostProfile"), "`localhostProfile` needs `type: Localhost`")
