"""Rules for a patched pod (``podPatch``) beyond its schema: names, references between parts, common enumerations.

They are those that people break, and those that no server checks, such as a probe's port. The API server's dry run,
which ``apply``, ``diff`` and the service make, names everything else. Source: ``pkg/apis/core/validation`` of
Kubernetes, compared with the API server by ``tests/cluster/test_pod_validation.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from gpuctl.backend.pod_problems import PodProblem, strings_at, values_at
from gpuctl.backend.resource_rules import check_amounts
from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.language import names
from gpuctl.language.images import image_problem
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean
from gpuctl.objects.api_resources import Object

_CONTAINERS = ("containers", "initContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES = (
    *("DirectoryOrCreate", "Directory", "FileOrCreate", "File"),
    *("Socket", "CharDevice", "BlockDevice"),
)

# Path -> the values of a closed list. The server fills in a default for an empty one.
_CHOICES: dict[str, tuple[str, ...]] = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "tolerations[].operator": ("Equal", "Exists", "Gt", "Lt"),
    "tolerations[].effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "volumes[].hostPath.type": _HOST_PATH_TYPES,
    "volumes[].image.pullPolicy": _PULL_POLICIES,
    **{f"{field}[].imagePullPolicy": _PULL_POLICIES for field in _CONTAINERS},
    **{f"{field}[].ports[].protocol": ("TCP", "UDP", "SCTP") for field in _CONTAINERS},
}

# Path -> minimum and maximum.
_RANGES: dict[str, tuple[int, int]] = {
    "activeDeadlineSeconds": (1, 2**31 - 1),
    "terminationGracePeriodSeconds": (0, 2**63 - 1),
    **{f"{field}[].ports[].containerPort": (1, 65535) for field in _CONTAINERS},
    **{
        f"volumes[].{source}.{mode}": (0, 0o777)
        for source in ("configMap", "secret")
        for mode in ("defaultMode", "items[].mode")
    },
}

# Texts of common volume sources that may not be empty.
_REQUIRED = (
    *("hostPath.path", "nfs.server", "nfs.path", "persistentVolumeClaim.claimName", "csi.driver"),
    *("image.reference", "configMap.name", "secret.secretName"),
)


def check_pod(pod: Object) -> Iterator[PodProblem]:
    """Yield what is wrong in a pod's spec."""
    yield from _values(pod)
    for index, toleration in enumerate(pod.get("tolerations", [])):
        if not toleration.get("key") and toleration.get("operator") != "Exists":
            yield PodProblem(("tolerations", index), say("a toleration without a key needs `operator: Exists`"))
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            message = say("`tolerationSeconds` needs `effect: NoExecute`")
            yield PodProblem(("tolerations", index, "tolerationSeconds"), message)
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            yield PodProblem(
                ("tolerations", index, "value"),
                say("`operator: Exists` takes no value"),
                say("remove it, or use `operator: Equal`"),
            )
    yield from _volumes(pod)
    seen: set[str] = set()
    volumes = [volume.get("name", "") for volume in pod.get("volumes", [])]
    claims = {claim.get("name") for claim in pod.get("resourceClaims", [])}
    for field in _CONTAINERS:
        for index, container in enumerate(pod.get(field, [])):
            place: FieldPath = (field, index)
            yield from _container_name(container.get("name", ""), (*place, "name"), seen)
            parts = (_container(container), _mounts(volumes, container), check_amounts(container, claims))
            for problem in chain(*parts):
                causes = tuple((*place, *cause) for cause in problem.causes)
                yield problem._replace(path=(*place, *problem.path), causes=causes)


def _values(pod: Object) -> Iterator[PodProblem]:
    """Yield values that are in no list of choices, or outside of their range."""
    for path, choices in _CHOICES.items():
        for place, value in strings_at(pod, path):
            if value and value not in choices:
                message = say("`{value}` is not a value of `{field}`", value=value, field=place[-1])
                hint = did_you_mean(value, choices) or say("write one of {names}", names=list(choices))
                yield PodProblem(place, message, hint)
    for path, (least, most) in _RANGES.items():
        for place, value in values_at(pod, path):
            if isinstance(value, int) and not least <= value <= most:
                message = say("must be at most {bound}, got {value}", bound=most, value=value)
                if most == 0o777:
                    message = say("{mode} is not a file mode between 0 and 0777", mode=f"{value:#o}")
                elif value < least:
                    message = say("must be at least {bound}, got {value}", bound=least, value=value)
                yield PodProblem(place, message)


def _volumes(pod: Object) -> Iterator[PodProblem]:
    seen: set[str] = set()
    for index, volume in enumerate(pod.get("volumes", [])):
        place: FieldPath = ("volumes", index)
        name = volume.get("name", "")
        if not names.is_dns_label(name):
            yield PodProblem((*place, "name"), say("`{name}` is not a legal volume name, a DNS label", name=name))
        elif name in seen:
            yield PodProblem((*place, "name"), say("two volumes are called `{name}`", name=name))
        seen.add(name)
        sources = [field for field in volume if field != "name"]
        if len(sources) > 1:
            message = say("the volume `{name}` has {sources:and}; it can have one source", name=name, sources=sources)
            yield PodProblem((*place, sources[-1]), message, say("keep one"))
        for source, _, field in (pattern.partition(".") for pattern in _REQUIRED):
            found = volume.get(source)
            if isinstance(found, dict) and not found.get(field):
                message = say("`{field}` needs `{key}`", field=source, key=field)
                yield PodProblem((*place, source), message, say("add `{name}:`", name=field))
        for pattern in ("hostPath.path", "nfs.path"):
            for inner, path in strings_at(volume, pattern):
                if ".." in path.split("/"):
                    yield PodProblem((*place, *inner), say("`{value}` contains `..`", value=path))
                elif path and not path.startswith("/"):
                    yield PodProblem((*place, *inner), say("`{value}` is not an absolute path", value=path))
        for inner, medium in strings_at(volume, "emptyDir.medium"):
            if medium not in ("", "Memory", "HugePages") and not medium.startswith("HugePages-"):
                hint = say("write `Memory`, or remove it for the node's disk")
                yield PodProblem((*place, *inner), say("`{text}` is not a medium", text=medium), hint)
        for inner, image in strings_at(volume, "image.reference"):
            yield from _image(image, (*place, *inner))


def _image(image: str, place: FieldPath) -> Iterator[PodProblem]:
    wrong = image_problem(image) if image else None
    if wrong is not None:
        yield PodProblem(place, say("the image `{image}` {problem}", image=image, problem=wrong[0]), wrong[1])


def _container_name(name: str, place: FieldPath, seen: set[str]) -> Iterator[PodProblem]:
    if not names.is_dns_label(name):
        yield PodProblem(place, say("`{name}` is not a legal container name, a DNS label", name=name))
    elif name in seen:
        message = say("two containers are called `{name}`", name=name)
        yield PodProblem(place, message, say("rename one: init containers count too"))
    seen.add(name)


def _container(container: Object) -> Iterator[PodProblem]:
    image = container.get("image", "")
    if not image:
        message = say("the image `{image}` {problem}", image=image, problem=say("is missing"))
        yield PodProblem((), message, say("add `image:`"))
    yield from _image(image, ("image",))
    seen: set[str] = set()
    for index, port in enumerate(container.get("ports", [])):
        name = port.get("name", "")
        if name and not names.is_port_name(name):
            message = say(
                "`{name}` is not a legal port name: at most 15 lower-case letters, digits and single `-`", name=name
            )
            yield PodProblem(("ports", index, "name"), message)
        elif name and name in seen:
            message = say("two ports of the container are called `{name}`", name=name)
            yield PodProblem(("ports", index, "name"), message)
        seen.add(name)
    for index, variable in enumerate(container.get("env", [])):
        place: FieldPath = ("env", index)
        name, source = variable.get("name", ""), variable.get("valueFrom")
        if not names.is_env_name(name):
            yield PodProblem((*place, "name"), say("`{name}` is not a legal name of a variable", name=name))
        if source is not None and len([kind for kind in _ENV_SOURCES if kind in source]) != 1:
            message = say("`{field}` needs one of {names}", field="valueFrom", names=list(_ENV_SOURCES[:4]))
            yield PodProblem((*place, "valueFrom"), message)
        elif source is not None and variable.get("value"):
            message = say("`{name}` has a value and `valueFrom`", name=name)
            yield PodProblem((*place, "valueFrom"), message, say("keep one"))
    for probe in _PROBES:
        if probe in container:
            yield from _handler(container, container[probe], (probe,))
    for hook in ("postStart", "preStop"):
        if hook in container.get("lifecycle", {}):
            yield from _handler(container, container["lifecycle"][hook], ("lifecycle", hook))


def _handler(container: Object, handler: Object, place: FieldPath) -> Iterator[PodProblem]:
    """Yield the problems of a probe's or hook's action."""
    if len([kind for kind in _HANDLERS if kind in handler]) != 1:
        yield PodProblem(place, say("`{field}` needs one of {names}", field=place[-1], names=list(_HANDLERS[:4])))
    for kind in ("httpGet", "tcpSocket"):
        port = handler.get(kind, {}).get("port")
        known = [item["name"] for item in container.get("ports", []) if "name" in item]
        if isinstance(port, str) and port not in known:
            # The API server does not compare the names; the kubelet's probe fails.
            hint = say("the ports are {names}", names=known) if known else say("write the port's number")
            causes = tuple(("ports", index) for index in range(len(container.get("ports", []))))
            message = say(
                "`{field}` uses the port `{port}`, and the container has no port of that name",
                field=place[-1],
                port=port,
            )
            yield PodProblem((*place, kind, "port"), message, hint, causes)


def no_volume(place: FieldPath, name: str, volumes: Iterable[str]) -> PodProblem:
    """Return the problem of a mount that names none of the pod's volumes."""
    hint = did_you_mean(name, volumes) or say("add a volume called `{name}` to `volumes`", name=name)
    return PodProblem(place, say("there is no volume called `{name}`", name=name), hint)


def _mounts(volumes: list[str], container: Object) -> Iterator[PodProblem]:
    targets: set[str] = set()
    for field, key in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for index, mount in enumerate(container.get(field, [])):
            place: FieldPath = (field, index)
            name, target = mount.get("name", ""), mount.get(key, "")
            if name not in volumes:
                yield no_volume((*place, "name"), name, volumes)
            if target in targets:
                yield PodProblem((*place, key), say("two volumes are mounted at `{target}`", target=target))
            elif ":" in target or not target.startswith("/"):
                message = say("`{target}` is not an absolute path without `:`", target=target)
                yield PodProblem((*place, key), message)
            targets.add(target)
