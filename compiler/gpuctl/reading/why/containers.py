"""Rules for scheduled pods whose containers do not start: images, volumes, configuration, the sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.capacity.snapshot.pod_requests import container_limits
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.workload_state import has_ended
from gpuctl.reading.jobs.event_rows import event_time
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.event_proofs import container_of, event_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof, most_urgent
from gpuctl.reading.why.stopped_jobs import command

SLOW = 120.0
"""Seconds after which a pull counts as slow."""

_PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError"}
    | {"SignatureValidationFailed"}
)
# Messages of registries and containerd (core/remotes/docker, core/images), kubelet's image_manager, and Go's net.
_PULLS: dict[str, str] = {
    "image-platform": r"no match for platform|no matching manifest|exec format error",
    "image-limited": r"toomanyrequests|too many requests|rate limit|\b429\b",
    "image-unauthorised": r"unauthori[sz]ed|authori[sz]ation failed|no basic auth credentials|access denied|\bdenied: "
    r"|\b403\b|\b401\b",
    "image-unreachable": r"dial tcp|i/o timeout|no such host|connection refused|connection reset|TLS handshake|x509:"
    r"|deadline exceeded|server misbehaving|\b50[0234]\b|\bEOF\b|proxyconnect|network is unreachable",
    "image-not-found": r"not found|manifest unknown|NotFound",
}
_MISSING_KEY = re.compile(r"couldn't find key (?P<key>\S+) in (?P<kind>Secret|ConfigMap) [^/]+/(?P<name>\S+)")
# Only names of objects match, because they are printed in commands.
_MISSING = re.compile(r'(?P<kind>secret|configmap) "(?P<name>[a-z0-9][a-z0-9.-]*)" not found', re.IGNORECASE)
_VOLUME = re.compile(r'volume "(?P<name>[^"]+)"')
# pkg/volume/configmap/configmap.go and pkg/volume/secret/secret.go, MakePayload.
_MISSING_FILE = re.compile(r"references non-existent (?P<kind>config|secret) key: (?P<key>\S+)")
_HOST_PATH = re.compile(r"hostPath type check failed: (?P<path>\S+) is not an? (?P<what>.+)")
_MOUNTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")


class WaitingContainer(NamedTuple):
    """A waiting container of a scheduled pod."""

    pod: Object
    container: str
    image: str
    reason: str
    message: str

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName") or "")

    @property
    def source(self) -> Proof:
        """Return the container's state as proof."""
        said = f": {one_line(self.message)}" if self.message else ""
        return Proof("status", f"pod/{self.name}", f"container {self.container} waits: {self.reason}{said}")


def waiting_containers(evidence: Evidence) -> Iterator[WaitingContainer]:
    """Yield the waiting containers, pod by pod, init containers first."""
    for pod in evidence.pods:
        status, spec = pod.get("status") or {}, pod["spec"]
        if has_ended(pod) or not spec.get("nodeName"):
            continue
        images = {item["name"]: item.get("image") or "" for item in _containers(spec)}
        for item in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            state = (item.get("state") or {}).get("waiting")
            if state is not None:
                image = images.get(item["name"], "")
                yield WaitingContainer(pod, item["name"], image, state.get("reason") or "", state.get("message") or "")


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def failed_image(evidence: Evidence) -> Finding | None:
    """An image cannot be pulled, or its name is invalid."""
    held = [
        item
        for item in waiting_containers(evidence)
        if item.reason in _PULL_REASONS or item.reason == "InvalidImageName"
    ]
    return most_urgent(_image(evidence, item, len({other.name for other in held})) for item in held)


def _image(evidence: Evidence, held: WaitingContainer, pods: int) -> Finding:
    numbers = {"image": held.image, "container": held.container, "pods": pods}
    failed = [
        event
        for event in evidence.events_with("Failed", pod=held.pod)
        if "ailed to pull" in (event.get("message") or "")
    ]
    secrets = evidence.events_with("FailedToRetrieveImagePullSecret", pod=held.pod)
    # Newer kubelets repeat the event's error in the container state; show it once.
    unsaid = [event for event in failed[-1:] if one_line(event.get("message")).rpartition(": ")[2] not in held.message]
    told = (held.source, *(event_proof(event) for event in [*unsaid, *secrets[-1:]]))
    if held.reason == "InvalidImageName":
        message = f"`{held.image}` is not a valid image name"
        fix = "correct `environment.image`: REGISTRY/NAME:TAG, in lower case except for the tag"
        return Finding("image-name-invalid", message, numbers, fix, told, held.name, pods)
    # Older kubelets do not repeat the error in the state of a back-off; only the event has it.
    text = " ".join([one_line(held.message), *(one_line(event.get("message")) for event in failed[-1:])])
    cause = _pull_cause(text, held.image)
    said = one_line(held.message) if "ErrImagePull: " in held.message or held.reason == "ErrImagePull" else text
    registry = registry_of(held.image)
    if cause == "image-not-found":
        message = f"the registry {registry} has no image {held.image}"
        fix = "correct `environment.image`, name and tag, or push the image"
    elif cause == "image-unauthorised":
        names = [item["name"] for item in held.pod["spec"].get("imagePullSecrets") or []]
        used = f"with the pull secret {', '.join(names)}" if names else "without a pull secret"
        unsure = " (or has no such image: registries report both alike)" if "repository does not exist" in text else ""
        message = f"the registry {registry} denies access to {held.image} {used}{unsure}"
        if secrets:
            message = f"the pull secret for {held.image} cannot be read: {one_line(secrets[-1].get('message'))}"
        fix = "name a Secret with credentials in `environment.imagePullSecret`, or correct the one that is named"
        numbers["pullSecrets"] = names
    elif cause == "image-platform":
        message = f"{held.image} is not built for the platform of {held.node}"
        fix = "build the image for it (`docker buildx build --platform linux/amd64`), or choose other nodes"
    elif cause == "image-unreachable":
        message = f"{held.image} cannot be pulled from the registry {registry}: {_innermost(said)}"
        fix = f"check the registry, the network and the proxy from {held.node}; kubelet tries again by itself"
    else:
        message = f"{held.image} cannot be pulled: {_innermost(said) or held.reason}"
        fix = command("describe job", evidence) + " shows the whole message"
    return Finding(cause, message, numbers, fix, told, held.name, pods)


def _pull_cause(text: str, image: str) -> str:
    """Return the cause of a failed pull. The image's name is removed first: it may contain any words."""
    for prefix in ("docker.io/library/", "docker.io/", ""):
        text = text.replace(f"{prefix}{image}", "")
    cause = next((code for code, pattern in _PULLS.items() if re.search(pattern, text)), "image-pull-failed")
    return "image-unreachable" if cause == "image-limited" else cause


def registry_of(image: str) -> str:
    """Return the registry of an image name. Source: github.com/distribution/reference, splitDockerDomain."""
    head, slash, _ = image.partition("/")
    return head if slash and ("." in head or ":" in head or head == "localhost") else "docker.io"


def _innermost(text: str) -> str:
    """Return the end of a chain of errors, without the prefixes of kubelet and containerd."""
    text = re.sub(r"^.*?(?:failed to (?:resolve reference|do request|copy|authorize)[^:]*: )", "", text)
    return text if len(text) <= 200 else f"{text[:199]}…"


def failed_mount(evidence: Evidence) -> Finding | None:
    """A volume cannot be attached or mounted."""
    return most_urgent(_mount(evidence, pod) for pod in _creating(evidence))


def _creating(evidence: Evidence) -> list[Object]:
    found = [
        item.pod for item in waiting_containers(evidence) if item.reason in ("ContainerCreating", "PodInitializing", "")
    ]
    return [pod for number, pod in enumerate(found) if pod not in found[:number]]


def _mount(evidence: Evidence, pod: Object) -> Finding | None:
    events = evidence.events_with(*_MOUNTS, pod=pod)
    if not events:
        return None
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    # "Unable to attach or mount volumes: ... timed out" only repeats a more specific event.
    event = next((item for item in reversed(events) if ": " in (item.get("message") or "")), events[-1])
    text = one_line(event.get("message"))
    volume = next(iter(match["name"] for match in [_VOLUME.search(text)] if match), None)
    told = (event_proof(event),)
    numbers = {"volume": volume, "node": node, "pod": name}
    host, missing = _HOST_PATH.search(text), _MISSING.search(text)
    if host is not None:
        message = f"{host['path']} on {node} is not a {host['what']}, as the volume {volume} requires"
        fix = f"create it on {node}, or set the workdir's `type` in `storage.workdirs` to what it is"
        return Finding("mount-failed", message, {**numbers, "path": host["path"]}, fix, told, name)
    if missing is not None:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing["kind"].lower()]
        message = f"there is no {kind} {missing['name']}, which the volume {volume} mounts"
        fix = f"create the {kind} {missing['name']} in {pod['metadata']['namespace']}; kubelet tries again by itself"
        return Finding("mount-failed", message, {**numbers, "missing": missing["name"]}, fix, told, name)
    file = _MISSING_FILE.search(text)
    if file is not None:
        kind = {"secret": "Secret", "config": "ConfigMap"}[file["kind"]]
        volumes: list[Object] = pod["spec"].get("volumes") or []
        source: Object = next((item for item in volumes if item["name"] == volume), {})
        named = (source.get("secret") or {}).get("secretName") or (source.get("configMap") or {}).get("name")
        whose = " ".join(filter(None, (kind, named)))
        message = f"the {whose} has no key {file['key']}, which the volume {volume} mounts"
        fix = f"add the key to the {kind}, or correct `items` in `storage.mounts`; kubelet tries again by itself"
        return Finding("mount-failed", message, {**numbers, "missing": named, "key": file["key"]}, fix, told, name)
    why = re.sub(r"^\S+ failed for volume \"[^\"]*\" ?: ", "", text)
    message = f"the volume {volume or ''} cannot be mounted on {node}: {why}".replace("  ", " ")
    fix = f"check the storage behind it, and that {node} reaches it; kubelet tries again by itself"
    return Finding("mount-failed", message, numbers, fix, told, name)


def failed_sandbox(evidence: Evidence) -> Finding | None:
    """The pod's network or container runtime cannot be set up."""
    for pod in _creating(evidence):
        events = evidence.events_with(
            "FailedCreatePodSandBox", "NetworkNotReady", "FailedPrepareDynamicResources", pod=pod
        )
        if not events:
            continue
        node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
        text = one_line(events[-1].get("message"))
        message = f"{node} cannot set up the pod: {text.rpartition('desc = ')[2]}"
        fix = f"ask the administrators of {node} to repair its network or its container runtime"
        return Finding("sandbox-failed", message, {"node": node}, fix, (event_proof(events[-1]),), name)
    return None


def failed_config(evidence: Evidence) -> Finding | None:
    """A container cannot be created: a Secret or ConfigMap of its variables is missing, or its configuration is
    invalid.
    """
    reasons = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError")
    return most_urgent(_config(evidence, item) for item in waiting_containers(evidence) if item.reason in reasons)


def _config(evidence: Evidence, held: WaitingContainer) -> Finding:
    text, namespace = one_line(held.message), held.pod["metadata"]["namespace"]
    numbers: dict[str, object] = {"container": held.container}
    key, missing = _MISSING_KEY.search(text), _MISSING.search(text)
    if key is not None:
        message = f"the {key['kind']} {key['name']} has no key {key['key']}, which a variable uses"
        fix = f"add the key to the {key['kind']}, or correct `key` in `environment.env`"
        numbers |= {"missing": key["name"], "key": key["key"]}
        return Finding("config-missing", message, numbers, fix, (held.source,), held.name)
    if missing is not None:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing["kind"].lower()]
        names = _variables(held, missing["name"])
        of = f", which {', '.join(names)} use{'' if len(names) > 1 else 's'}" if names else ""
        if not names and _is_source(held, kind, missing["name"]):
            of = ", which `environment.envFrom` names"
        message = f"there is no {kind} {missing['name']} in {namespace}{of}"
        create = "create secret generic" if kind == "Secret" else "create configmap"
        literals = " ".join(f"--from-literal={key}=..." for key in _keys(held.pod, kind, missing["name"]) or ["KEY"])
        fix = (
            f"`kubectl {create} {missing['name']} -n {namespace} {literals}` with its value instead of `...`; kubelet "
            "tries again then"
        )
        numbers |= {"missing": missing["name"]}
        return Finding("config-missing", message, numbers, fix, (held.source,), held.name)
    if log.diagnose([text]).cause == "gpu-driver-error":
        return gpu_driver(held.pod, text, numbers, (held.source,))
    if _NO_COMMAND.search(text):
        return no_command(text, held.container, (held.source,), held.name)
    fix = "change the pod (`environment`, `podPatch`) as the message of kubelet, or of the container runtime, asks for"
    return Finding(
        "config-invalid",
        f"the container cannot be created: {text or held.reason}",
        numbers,
        fix,
        (held.source,),
        held.name,
    )


def gpu_driver(pod: Object, line: str, numbers: dict[str, object], told: tuple[Proof, ...], again: str = "") -> Finding:
    """The program or the container runtime finds no GPU driver, or one that is too old for it."""
    name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName")
    asked = [key for item in _containers(pod["spec"]) for key in container_limits(item) if "/" in key]
    message = f"the GPU driver on {node} does not serve the pod {name}: {line}{again}"
    fix = f"ask the administrators of {node} to install or repair its GPU driver"
    if log.is_driver_too_old(line):
        fix = f"use an image whose CUDA is not newer than the driver of {node}, or have the driver updated"
    if not asked and not log.has_driver(line):
        message = f"the program needs a GPU, but the pod {name} requests none: {line}{again}"
        fix = "set `resources.gpu`, for instance `resources: {gpu: 1}`"
        return Finding("gpu-not-requested", message, {**numbers, "node": node, "gpuResources": asked}, fix, told, name)
    return Finding("gpu-driver-error", message, {**numbers, "node": node, "gpuResources": asked}, fix, told, name)


def _keys(pod: Object, kind: str, name: str) -> list[str]:
    """Return the keys of a Secret or ConfigMap that the pod's variables need."""
    field = {"Secret": "secretKeyRef", "ConfigMap": "configMapKeyRef"}[kind]
    variables = (variable for item in _containers(pod["spec"]) for variable in item.get("env") or [])
    references = ((variable.get("valueFrom") or {}).get(field) or {} for variable in variables)
    needed = (item["key"] for item in references if item.get("name") == name and not item.get("optional"))
    return list(dict.fromkeys(needed))


def _variables(held: WaitingContainer, name: str) -> list[str]:
    found = []
    for container in _containers(held.pod["spec"]):
        for variable in container.get("env") or []:
            taken = variable.get("valueFrom") or {}
            if name in ((taken.get(key) or {}).get("name") for key in ("secretKeyRef", "configMapKeyRef")):
                found.append(variable["name"])
    return found


def _is_source(held: WaitingContainer, kind: str, name: str) -> bool:
    """Return True if all keys of a Secret or ConfigMap become variables of the container."""
    field = {"Secret": "secretRef", "ConfigMap": "configMapRef"}[kind]
    container = next((item for item in _containers(held.pod["spec"]) if item["name"] == held.container), {})
    return any((item.get(field) or {}).get("name") == name for item in container.get("envFrom") or [])


_NO_COMMAND = re.compile(
    r'exec: "(?P<name>[^"]+)": (?P<why>executable file not found[^:]*|permission denied|is a directory'
    r"|stat [^:]*: no such file or directory)"
)
_COMMANDS = {"permission denied": "cannot be executed", "is a directory": "is a directory"}


def no_command(text: str, container: str, told: tuple[Proof, ...], pod: str) -> Finding:
    """The runtime could not start the command. The messages are runc's."""
    match = _NO_COMMAND.search(text)
    name = match["name"] if match else ""
    what = _COMMANDS.get(match["why"] if match else "", "is not in the image")
    message = f"the command `{name}` {what}" if name else f"the command cannot be started: {text}"
    fix = "correct `environment.command`, or use an image that has it"
    return Finding("command-not-found", message, {"command": name, "container": container}, fix, told, pod)


def slow_pull(evidence: Evidence) -> Finding | None:
    """Pulling an image takes long."""
    for pod in _creating(evidence):
        pull = open_pull(evidence, pod)
        if pull is None:
            continue
        seconds = evidence.seconds_since(event_time(pull)) or 0
        if seconds >= SLOW:
            image = next(iter(re.findall(r'"([^"]+)"', one_line(pull.get("message")))), "its image")
            node = pod["spec"]["nodeName"]
            message = f"{node} has been pulling {image} for {rough_duration(seconds)}; nothing has failed"
            fix = "wait; a smaller image, a closer registry, or an image that was pulled before starts faster"
            numbers = {"image": image, "seconds": int(seconds), "node": node}
            return Finding(
                "image-slow", message, numbers, fix, known_proofs(event_proof(pull)), pod["metadata"]["name"]
            )
    return None


def open_pull(evidence: Evidence, pod: Object) -> Object | None:
    """Return the Pulling event of a pull that has not ended, or None."""
    begun = evidence.events_with("Pulling", pod=pod)
    over = evidence.events_with("Pulled", "Failed", "BackOff", pod=pod)
    if not begun or (over and event_time(over[-1]) >= event_time(begun[-1])):
        return None
    status = pod.get("status") or {}
    states = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    started = {item["name"] for item in states if "waiting" not in (item.get("state") or {"waiting": {}})}
    return None if container_of(begun[-1]) in started else begun[-1]
