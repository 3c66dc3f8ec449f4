"""Rules for scheduled pods whose containers do not start: configuration, the command, GPU drivers, the sandbox."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.capacity.snapshot.pod_requests import container_limits
from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import containers_of
from gpuctl.objects.workload_state import has_ended
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why import log_diagnosis as log
from gpuctl.reading.why.event_proofs import event_proof
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof, most_urgent

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
            "{command} with its value instead of `...`; kubelet tries again then",
            command=kubectl_line(create, missing["name"], "-n", namespace, literals),
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
    containers = containers_of(pod["spec"])
    asked = [key for item in containers for key in container_limits(item) if "/" in key]
    has_claims = any((item.get("resources") or {}).get("claims") for item in containers)
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
    if not (asked or has_claims or log.has_driver(line)):
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
