"""A rule for volumes that cannot be attached or mounted."""

from __future__ import annotations

import re

from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.containers import MISSING_OBJECT, creating_pods
from gpuctl.reading.why.event_proofs import event_proof
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, most_urgent

_VOLUME = re.compile(r'volume "(?P<name>[^"]+)"')
# pkg/volume/configmap/configmap.go and pkg/volume/secret/secret.go, MakePayload.
_MISSING_FILE = re.compile(r"references non-existent (?P<kind>config|secret) key: (?P<key>\S+)")
_HOST_PATH = re.compile(r"hostPath type check failed: (?P<path>\S+) is not an? (?P<what>.+)")
_MOUNTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")


def failed_mount(evidence: Evidence) -> Finding | None:
    """A volume cannot be attached or mounted."""
    return most_urgent(_mount(evidence, pod) for pod in creating_pods(evidence))


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
    host, missing = _HOST_PATH.search(text), MISSING_OBJECT.search(text)
    if host is not None:
        message = say(
            "{path} on {node} is not a {what}, as the volume {volume} requires",
            path=host["path"],
            node=node,
            what=host["what"],
            volume=volume,
        )
        fix = say("create it on {node}, or set the workdir's `type` in `storage.workdirs` to what it is", node=node)
        return Finding("mount-failed", message, {**numbers, "path": host["path"]}, fix, told, name)
    if missing is not None:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing["kind"].lower()]
        message = say(
            "there is no {kind} {name}, which the volume {volume} mounts",
            kind=kind,
            name=missing["name"],
            volume=volume,
        )
        fix = say(
            "create the {kind} {name} in {namespace}; kubelet tries again by itself",
            kind=kind,
            name=missing["name"],
            namespace=pod["metadata"]["namespace"],
        )
        return Finding("mount-failed", message, {**numbers, "missing": missing["name"]}, fix, told, name)
    file = _MISSING_FILE.search(text)
    if file is not None:
        kind = {"secret": "Secret", "config": "ConfigMap"}[file["kind"]]
        volumes: list[Object] = pod["spec"].get("volumes") or []
        source: Object = next((item for item in volumes if item["name"] == volume), {})
        named = (source.get("secret") or {}).get("secretName") or (source.get("configMap") or {}).get("name")
        whose = " ".join(filter(None, (kind, named)))
        message = say(
            "the {whose} has no key {key}, which the volume {volume} mounts",
            whose=whose,
            key=file["key"],
            volume=volume,
        )
        fix = say(
            "add the key to the {kind}, or correct `items` in `storage.mounts`; kubelet tries again by itself",
            kind=kind,
        )
        return Finding("mount-failed", message, {**numbers, "missing": named, "key": file["key"]}, fix, told, name)
    why = re.sub(r"^\S+ failed for volume \"[^\"]*\" ?: ", "", text)
    which = f" {volume}" if volume else ""
    message = say("the volume{which} cannot be mounted on {node}: {text}", which=which, node=node, text=why)
    fix = say("check the storage behind it, and that {node} reaches it; kubelet tries again by itself", node=node)
    return Finding("mount-failed", message, numbers, fix, told, name)
