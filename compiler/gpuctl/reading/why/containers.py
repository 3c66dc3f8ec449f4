"""Rules for scheduled pods whose containers do not start: images, volumes, configuration, the sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.capacity.snapshot.pod_requests import container_limits
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import rough_duration
from gpuctl.objects.pod_specs import containers_of
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
MISSING_OBJECT = re.compile(r'(?P<kind>secret|configmap) "(?P<name>[a-z0-9][a-z0-9.-]*)" not found', re.IGNORECASE)


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
        return Proof(
            "status",
            f"pod/{self.name}",
            say("container {container} waits: {reason}{text}", container=self.container, reason=self.reason, text=said),
        )


def waiting_containers(evidence: Evidence) -> Iterator[WaitingContainer]:
    """Yield the waiting containers, pod by pod, init containers first."""
    for pod in evidence.pods:
        status, spec = pod.get("status") or {}, pod["spec"]
        if has_ended(pod) or not spec.get("nodeName"):
            continue
        images = {item["name"]: item.get("image") or "" for item in containers_of(spec)}
        for item in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            state = (item.get("state") or {}).get("waiting")
            if state is not None:
                image = images.get(item["name"], "")
                yield WaitingContainer(pod, item["name"], image, state.get("reason") or "", state.get("message") or "")


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
        message = say("`{image}` is not a valid image name", image=held.image)
        fix = say("correct `environment.image`: REGISTRY/NAME:TAG, in lower case except for the tag")
        return Finding("image-name-invalid", message, numbers, fix, told, held.name, pods)
    # Older kubelets do not repeat the error in the state of a back-off; only the event has it.
    text = " ".join([one_line(held.message), *(one_line(event.get("message")) for event in failed[-1:])])
    cause = _pull_cause(text, held.image)
    said = one_line(held.message) if "ErrImagePull: " in held.message or held.reason == "ErrImagePull" else text
    registry = registry_of(held.image)
    if cause == "image-not-found":
        message = say("the registry {registry} has no image {image}", registry=registry, image=held.image)
        fix = say("correct `environment.image`, name and tag, or push the image")
    elif cause == "image-unauthorised":
        names = [item["name"] for item in held.pod["spec"].get("imagePullSecrets") or []]
        used = say("with the pull secret {names}", names=names) if names else say("without a pull secret")
        is_unsure = "repository does not exist" in text
        unsure = say(" (or has no such image: registries report both alike)") if is_unsure else ""
        message = say(
            "the registry {registry} denies access to {image} {used}{unsure}",
            registry=registry,
            image=held.image,
            used=used,
            unsure=unsure,
        )
        if secrets:
            text = one_line(secrets[-1].get("message"))
            message = say("the pull secret for {image} cannot be read: {text}", image=held.image, text=text)
        fix = say("name a Secret with credentials in `environment.imagePullSecret`, or correct the one that is named")
        numbers["pullSecrets"] = names
    elif cause == "image-platform":
        message = say("{image} is not built for the platform of {node}", image=held.image, node=held.node)
        fix = say("build the image for it (`docker buildx build --platform linux/amd64`), or choose other nodes")
    elif cause == "image-unreachable":
        message = say(
            "{image} cannot be pulled from the registry {registry}: {text}",
            image=held.image,
            registry=registry,
            text=_innermost(said),
        )
        fix = say(
            "check the registry, the network and the proxy from {node}; kubelet tries again by itself", node=held.node
        )
    else:
        message = say("{image} cannot be pulled: {text}", image=held.image, text=_innermost(said) or held.reason)
        fix = say("{command} shows the whole message", command=command("describe job", evidence))
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


def creating_pods(evidence: Evidence) -> list[Object]:
    """Return the pods whose containers wait for the pod's setup or their images."""
    found = [
        item.pod for item in waiting_containers(evidence) if item.reason in ("ContainerCreating", "PodInitializing", "")
    ]
    return [pod for number, pod in enumerate(found) if pod not in found[:number]]


def failed_sandbox(evidence: Evidence) -> Finding | None:
    """The pod's network or container runtime cannot be set up."""
    for pod in creating_pods(evidence):
        events = evidence.events_with(
            "FailedCreatePodSandBox", "NetworkNotReady", "FailedPrepareDynamicResources", pod=pod
        )
        if not events:
            continue
        node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
        text = one_line(events[-1].get("message"))
        message = say("{node} cannot set up the pod: {text}", node=node, text=text.rpartition("desc = ")[2])
        fix = say("ask the administrators of {node} to repair its network or its container runtime", node=node)
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
    key, missing = _MISSING_KEY.search(text), MISSING_OBJECT.search(text)
    if key is not None:
        message = say("the {kind} {name} has no key {key}, which a variable uses", **key.groupdict())
        fix = say("add the key to the {kind}, or correct `key` in `environment.env`", kind=key["kind"])
        numbers |= {"missing": key["name"], "key": key["key"]}
        return Finding("config-missing", message, numbers, fix, (held.source,), held.name)
    if missing is not None:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing["kind"].lower()]
        names = _variables(held, missing["name"])
        of = say(", which {names} {number:uses/use}", names=names, number=len(names)) if names else ""
        if not names and _is_source(held, kind, missing["name"]):
            of = say(", which `environment.envFrom` names")
        message = say(
            "there is no {kind} {name} in {namespace}{of}", kind=kind, name=missing["name"], namespace=namespace, of=of
        )
        create = "create secret generic" if kind == "Secret" else "create configmap"
        literals = " ".join(f"--from-literal={key}=..." for key in _keys(held.pod, kind, missing["name"]) or ["KEY"])
        fix = say(
            "`kubectl {create} {name} -n {namespace} {literals}` with its value instead of `...`; kubelet tries again "
            "then",
            create=create,
            name=missing["name"],
            namespace=namespace,
            literals=literals,
        )
        numbers |= {"missing": missing["name"]}
        return Finding("config-missing", message, numbers, fix, (held.source,), held.name)
    if log.diagnose([text]).cause == "gpu-driver-error":
        return gpu_driver(held.pod, text, numbers, (held.source,))
    if _NO_COMMAND.search(text):
        return no_command(text, held.container, (held.source,), held.name)
    fix = say(
        "change the pod (`environment`, `podPatch`) as the message of kubelet, or of the container runtime, asks for"
    )
    return Finding(
        "config-invalid",
        say("the container cannot be created: {text}", text=text or held.reason),
        numbers,
        fix,
        (held.source,),
        held.name,
    )


def gpu_driver(pod: Object, line: str, numbers: dict[str, object], told: tuple[Proof, ...], again: str = "") -> Finding:
    """The program or the container runtime finds no GPU driver, or one that is too old for it."""
    name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName")
    asked = [key for item in containers_of(pod["spec"]) for key in container_limits(item) if "/" in key]
    message = say(
        "the GPU driver on {node} does not serve the pod {pod}: {line}{again}",
        node=node,
        pod=name,
        line=line,
        again=again,
    )
    fix = say("ask the administrators of {node} to install or repair its GPU driver", node=node)
    if log.is_driver_too_old(line):
        fix = say(
            "use an image whose CUDA is not newer than the driver of {node}, or have the driver updated", node=node
        )
    if not asked and not log.has_driver(line):
        message = say(
            "the program needs a GPU, but the pod {pod} requests none: {line}{again}", pod=name, line=line, again=again
        )
        fix = say("set `resources.gpu`, for instance `resources: {{gpu: 1}}`")
        return Finding("gpu-not-requested", message, {**numbers, "node": node, "gpuResources": asked}, fix, told, name)
    return Finding("gpu-driver-error", message, {**numbers, "node": node, "gpuResources": asked}, fix, told, name)


def _keys(pod: Object, kind: str, name: str) -> list[str]:
    """Return the keys of a Secret or ConfigMap that the pod's variables need."""
    field = {"Secret": "secretKeyRef", "ConfigMap": "configMapKeyRef"}[kind]
    variables = (variable for item in containers_of(pod["spec"]) for variable in item.get("env") or [])
    references = ((variable.get("valueFrom") or {}).get(field) or {} for variable in variables)
    needed = (item["key"] for item in references if item.get("name") == name and not item.get("optional"))
    return list(dict.fromkeys(needed))


def _variables(held: WaitingContainer, name: str) -> list[str]:
    found = []
    for container in containers_of(held.pod["spec"]):
        for variable in container.get("env") or []:
            taken = variable.get("valueFrom") or {}
            if name in ((taken.get(key) or {}).get("name") for key in ("secretKeyRef", "configMapKeyRef")):
                found.append(variable["name"])
    return found


def _is_source(held: WaitingContainer, kind: str, name: str) -> bool:
    """Return True if all keys of a Secret or ConfigMap become variables of the container."""
    field = {"Secret": "secretRef", "ConfigMap": "configMapRef"}[kind]
    container = next((item for item in containers_of(held.pod["spec"]) if item["name"] == held.container), {})
    return any((item.get(field) or {}).get("name") == name for item in container.get("envFrom") or [])


_NO_COMMAND = re.compile(
    r'exec: "(?P<name>[^"]+)": (?P<why>executable file not found[^:]*|permission denied|is a directory'
    r"|stat [^:]*: no such file or directory)"
)
_COMMANDS = {
    "permission denied": Template("the command `{name}` cannot be executed"),
    "is a directory": Template("the command `{name}` is a directory"),
}


def no_command(text: str, container: str, told: tuple[Proof, ...], pod: str) -> Finding:
    """The runtime could not start the command. The messages are runc's."""
    match = _NO_COMMAND.search(text)
    name = match["name"] if match else ""
    template = _COMMANDS.get(match["why"] if match else "", Template("the command `{name}` is not in the image"))
    message = say(template, name=name) if name else say("the command cannot be started: {text}", text=text)
    fix = say("correct `environment.command`, or use an image that has it")
    return Finding("command-not-found", message, {"command": name, "container": container}, fix, told, pod)


def slow_pull(evidence: Evidence) -> Finding | None:
    """Pulling an image takes long."""
    for pod in creating_pods(evidence):
        pull = open_pull(evidence, pod)
        if pull is None:
            continue
        seconds = evidence.seconds_since(event_time(pull)) or 0
        if seconds >= SLOW:
            image = next(iter(re.findall(r'"([^"]+)"', one_line(pull.get("message")))), say("its image"))
            node = pod["spec"]["nodeName"]
            message = say(
                "{node} has been pulling {image} for {duration}; nothing has failed",
                node=node,
                image=image,
                duration=rough_duration(seconds),
            )
            fix = say("wait; a smaller image, a closer registry, or an image that was pulled before starts faster")
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
