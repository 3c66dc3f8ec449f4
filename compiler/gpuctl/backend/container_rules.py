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
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean
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
                yield PodProblem(
                    (*place, "name"), say("`{name}` is not a legal container name, a DNS label", name=name)
                )
            elif name in seen:
                message = say("two containers are called `{name}`", name=name)
                yield PodProblem((*place, "name"), message, say("rename one: init containers count too"))
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
    wrong = image_problem(image) if image else (say("is missing"), say("add `image:`"))
    if wrong is not None:
        yield PodProblem(
            ("image",) if image else (), say("the image `{image}` {problem}", image=image, problem=wrong[0]), wrong[1]
        )
    yield from _ports(container, host_ports, host_network=bool(pod.get("hostNetwork")))
    yield from _env(container)
    yield from _security(pod, container.get("securityContext", {}))
    yield from _restarts(pod, container, init=init)
    helper = init and container.get("restartPolicy") != "Always"
    grace = pod.get("terminationGracePeriodSeconds", 30)
    for field in (*_PROBES, "lifecycle"):
        if helper and field in container:
            yield PodProblem(
                (field,), say("an init container can have `{field}` with `restartPolicy: Always` only", field=field)
            )
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
        hint = say("an init container with `restartPolicy: Always` is a sidecar")
        message = say("`restartPolicy: {policy}` is a field of the pod, not of a container", policy=policy)
        yield PodProblem(
            ("restartPolicy",),
            message if not init else say("the `restartPolicy` of an init container can only be `Always`"),
            hint,
        )
    seen: set[str] = set()
    for index, item in enumerate(container.get("resizePolicy", [])):
        place: FieldPath = ("resizePolicy", index)
        if item.get("resourceName") in seen:
            yield PodProblem(place, say("`{name}` is listed twice in resizePolicy", name=item.get("resourceName")))
        seen.add(item.get("resourceName", ""))
        if item.get("restartPolicy") == "RestartContainer" and pod.get("restartPolicy") == "Never":
            yield PodProblem(
                (*place, "restartPolicy"), say("the pod's containers are never restarted"), say("write `NotRequired`")
            )
        elif item.get("restartPolicy") == "RestartContainer" and init and policy != "Always":
            yield PodProblem(
                (*place, "restartPolicy"), say("an init container is not restarted"), say("write `NotRequired`")
            )


def _ports(container: Object, host_ports: set[tuple[Any, ...]], *, host_network: bool) -> Iterator[PodProblem]:
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports", [])):
        place: FieldPath = ("ports", index)
        name = port.get("name", "")
        if name and not names.is_port_name(name):
            message = say(
                "`{name}` is not a legal port name: at most 15 lower-case letters, digits and single `-`", name=name
            )
            yield PodProblem((*place, "name"), message)
        elif name and name in seen:
            yield PodProblem((*place, "name"), say("two ports of the container are called `{name}`", name=name))
        seen.add(name)
        host = port.get("hostPort", 0)
        if not host:
            continue
        key = (port.get("protocol") or "TCP", port.get("hostIP", ""), host)
        if key in host_ports:
            yield PodProblem(
                (*place, "hostPort"), say("hostPort {host} is taken by another port of the pod", host=host)
            )
        host_ports.add(key)
        if host_network and host != port.get("containerPort"):
            yield PodProblem((*place, "hostPort"), say("with `hostNetwork` the hostPort is the containerPort"))


def _env(container: Object) -> Iterator[PodProblem]:
    for index, variable in enumerate(container.get("env", [])):
        place: FieldPath = ("env", index)
        name, source = variable.get("name", ""), variable.get("valueFrom")
        if not names.is_env_name(name):
            yield PodProblem((*place, "name"), say("`{name}` is not a legal name of a variable", name=name))
        if source is None:
            continue
        kinds = [kind for kind in _ENV_SOURCES if kind in source]
        if len(kinds) != 1:
            yield PodProblem(
                (*place, "valueFrom"),
                say("`{field}` needs one of {names}", field="valueFrom", names=list(_ENV_SOURCES[:4])),
            )
        elif variable.get("value"):
            yield PodProblem(
                (*place, "valueFrom"), say("`{name}` has a value and `valueFrom`", name=name), say("keep one")
            )
        yield from check_field(source.get("fieldRef"), (*place, "valueFrom", "fieldRef"), names.POD_FIELDS)
        yield from check_resource(source.get("resourceFieldRef"), (*place, "valueFrom", "resourceFieldRef"))
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if kind in source:
                yield from _key(source[kind], (*place, "valueFrom", kind))
    for index, item in enumerate(container.get("envFrom", [])):
        place = ("envFrom", index)
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in item]
        if len(kinds) != 1:
            yield PodProblem(place, say("needs one of configMapRef and secretRef"))
        if item.get("prefix") and not names.is_env_name(item["prefix"]):
            yield PodProblem(
                (*place, "prefix"), say("`{text}` is not the beginning of a variable's name", text=item["prefix"])
            )
        for kind in kinds:
            if not item[kind].get("name"):
                yield PodProblem((*place, kind), say("`{field}` needs `{key}`", field=kind, key="name"))


def _key(reference: Object, place: FieldPath) -> Iterator[PodProblem]:
    """Yield the problems of a reference to a key of a Secret or ConfigMap."""
    key = reference.get("key", "")
    if not reference.get("name"):
        yield PodProblem(place, say("`{field}` needs `{key}`", field=place[-1], key="name"))
    if not names.is_data_key(key):
        message = say(
            "`{key}` is not a key of Secrets and ConfigMaps: at most 253 letters, digits, `-`, `_` and `.`", key=key
        )
        yield PodProblem((*place, "key") if key else place, message if key else say("needs `key`"))


def no_volume(place: FieldPath, name: str, volumes: Iterable[str]) -> PodProblem:
    """Return the problem of a mount that names none of the pod's volumes."""
    hint = did_you_mean(name, volumes) or say("add a volume called `{name}` to `volumes`", name=name)
    return PodProblem(place, say("there is no volume called `{name}`", name=name), hint)


def _mounts(volumes: Mapping[str, Object], container: Object) -> Iterator[PodProblem]:
    devices = {device.get("name") for device in container.get("volumeDevices", [])}
    targets: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", [])):
        place: FieldPath = ("volumeMounts", index)
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if name not in volumes:
            yield no_volume((*place, "name"), name, volumes)
        elif name in devices:
            yield PodProblem((*place, "name"), say("`{name}` is in volumeDevices too", name=name))
        if not target:
            yield PodProblem(place, say("a mount needs `mountPath`"))
        elif target in targets:
            yield PodProblem((*place, "mountPath"), say("two volumes are mounted at `{target}`", target=target))
        elif ":" in target or not target.startswith("/"):
            yield PodProblem(
                (*place, "mountPath"), say("`{target}` is not an absolute path without `:`", target=target)
            )
        targets.add(target)
        yield from _mount_options(container, mount, place)
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", [])):
        place = ("volumeDevices", index)
        volume, path = volumes.get(device.get("name")), device.get("devicePath", "")
        if volume is None:
            yield PodProblem((*place, "name"), say("there is no volume called `{name}`", name=device.get("name", "")))
        elif not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            yield PodProblem((*place, "name"), say("only claims can be block devices"))
        if not path or ".." in path.split("/") or path in targets | paths:
            yield PodProblem(
                (*place, "devicePath"), say("`{path}` is empty, contains `..` or is used already", path=path)
            )
        paths.add(path)


def _mount_options(container: Object, mount: Object, place: FieldPath) -> Iterator[PodProblem]:
    for field in ("subPath", "subPathExpr"):
        path = mount.get(field, "")
        if path.startswith("/") or ".." in path.split("/"):
            yield PodProblem((*place, field), say("`{value}` is not a relative path inside the volume", value=path))
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield PodProblem((*place, "subPathExpr"), say("a mount has one of subPath and subPathExpr"))
    privileged = container.get("securityContext", {}).get("privileged")
    if mount.get("mountPropagation") == "Bidirectional" and not privileged:
        yield PodProblem((*place, "mountPropagation"), say("`Bidirectional` needs a privileged container"))
    if mount.get("recursiveReadOnly") in ("IfPossible", "Enabled") and (
        not mount.get("readOnly") or mount.get("mountPropagation", "None") != "None"
    ):
        message = say("`recursiveReadOnly` needs `readOnly: true` and no mountPropagation")
        yield PodProblem((*place, "recursiveReadOnly"), message)


def _handler(container: Object, handler: Object, place: FieldPath, grace: Any) -> Iterator[PodProblem]:
    """Yield the problems of a probe's or hook's action."""
    kinds = [kind for kind in _HANDLERS if kind in handler]
    if len(kinds) != 1:
        yield PodProblem(place, say("`{field}` needs one of {names}", field=place[-1], names=list(_HANDLERS[:4])))
    if "exec" in handler and not handler["exec"].get("command"):
        yield PodProblem((*place, "exec"), say("`{field}` needs `{key}`", field="exec", key="command"))
    seconds = handler.get("sleep", {}).get("seconds", 0)
    if isinstance(grace, int) and not 0 <= seconds <= grace:
        message = say(
            "sleeps {seconds} s, and the pod has {grace} s to end (terminationGracePeriodSeconds)",
            seconds=seconds,
            grace=grace,
        )
        yield PodProblem((*place, "sleep"), message)
    for index, header in enumerate(handler.get("httpGet", {}).get("httpHeaders", [])):
        if not re.fullmatch(r"[-A-Za-z0-9]+", header.get("name", "")):
            yield PodProblem(
                (*place, "httpGet", "httpHeaders", index),
                say("`{name}` is not the name of a header", name=header.get("name", "")),
            )
    for kind in ("httpGet", "tcpSocket"):
        port = handler.get(kind, {}).get("port")
        known = [item["name"] for item in container.get("ports", []) if "name" in item]
        if isinstance(port, str) and port not in known:
            hint = say("the ports are {names}", names=known) if known else say("write the port's number")
            causes = tuple(("ports", index) for index in range(len(container.get("ports", []))))
            message = say(
                "`{field}` uses the port `{port}`, and the container has no port of that name",
                field=place[-1],
                port=port,
            )
            yield PodProblem((*place, kind, "port"), message, hint, causes)
        elif kind in handler and port is None:
            yield PodProblem((*place, kind), say("`{field}` needs `{key}`", field=kind, key="port"))


def _thresholds(probe: Object, place: FieldPath) -> Iterator[PodProblem]:
    if place[-1] != "readinessProbe" and probe.get("successThreshold", 1) not in (0, 1):
        yield PodProblem((*place, "successThreshold"), say("must be 1 in a {probe}", probe=place[-1]))
    if place[-1] == "readinessProbe" and "terminationGracePeriodSeconds" in probe:
        yield PodProblem(
            (*place, "terminationGracePeriodSeconds"),
            say("a readinessProbe cannot have `terminationGracePeriodSeconds`"),
        )


def _security(pod: Object, context: Object) -> Iterator[PodProblem]:
    place: FieldPath = ("securityContext",)
    if context.get("allowPrivilegeEscalation") is False:
        added = context.get("capabilities", {}).get("add", [])
        if context.get("privileged"):
            yield PodProblem(
                (*place, "privileged"), say("a privileged container cannot forbid `allowPrivilegeEscalation`")
            )
        if {"CAP_SYS_ADMIN", "SYS_ADMIN"} & set(added):
            message = say("SYS_ADMIN needs `allowPrivilegeEscalation`, which is set to false")
            yield PodProblem((*place, "capabilities", "add"), message)
    if context.get("procMount") == "Unmasked" and pod.get("hostUsers", True):
        yield PodProblem((*place, "procMount"), say("`Unmasked` needs `hostUsers: false`"))
    if "windowsOptions" in context:
        yield PodProblem((*place, "windowsOptions"), say("gpuctl makes pods for Linux nodes"))
    yield from check_profiles(context, place)


def check_profiles(context: Object, place: FieldPath) -> Iterator[PodProblem]:
    """Yield the problems of a security context's seccomp and AppArmor profiles."""
    for field in ("seccompProfile", "appArmorProfile"):
        profile = context.get(field)
        if profile is None:
            continue
        local = profile.get("localhostProfile")
        if not profile.get("type"):
            yield PodProblem((*place, field), say("`{field}` needs `{key}`", field=field, key="type"))
        elif profile["type"] == "Localhost":
            if not local or (field == "seccompProfile" and (local.startswith("/") or ".." in local.split("/"))):
                yield PodProblem((*place, field), say("`type: Localhost` needs `localhostProfile`, a relative path"))
        elif local is not None:
            yield PodProblem((*place, field, "localhostProfile"), say("`localhostProfile` needs `type: Localhost`"))
