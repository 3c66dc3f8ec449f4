"""Rules for images: pulls that fail or take long, and invalid names."""

from __future__ import annotations

import re

from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.durations import rough_duration
from gpuctl.reading.jobs.events_of_jobs import event_time
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.containers import WaitingContainer, creating_pods, waiting_containers
from gpuctl.reading.why.event_proofs import container_of, event_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, most_urgent
from gpuctl.reading.why.stopped_jobs import command

_SLOW = 120.0
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


def slow_pull(evidence: Evidence) -> Finding | None:
    """Pulling an image takes long."""
    for pod in creating_pods(evidence):
        pull = open_pull(evidence, pod)
        if pull is None:
            continue
        seconds = evidence.seconds_since(event_time(pull)) or 0
        if seconds >= _SLOW:
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
