"""Steps of kwok's stages as templates: the statuses that kubelet would write, the events it would tell.

The texts are YAML made by Go templates, whose data is the pod (or node). Their pieces agree on these names: ``$now``,
``$pod``, ``$annotations``; of a container ``$ref``, ``$status`` (what stood there before) and ``$restarts``.
"""

from __future__ import annotations

import json
from typing import Any

from control_plane.outcomes import BACK_OFFS, End, Event, Waiting

Step = dict[str, Any]

_VARIABLES = "{{ $now := Now }}{{ $pod := . }}{{ $annotations := or .metadata.annotations dict }}"
# As containerd names an image: with its registry and a tag (github.com/distribution/reference).
_REFERENCE = (
    "{{ $ref := .image }}"
    '{{ if not (regexMatch "^([^/]*[.:][^/]*|localhost)/" $ref) }}'
    '{{ $ref = printf "docker.io/%s%s" (ternary "" "library/" (contains "/" $ref)) $ref }}{{ end }}'
    '{{ if not (regexMatch ":[^/]*$" $ref) }}{{ $ref = printf "%s:latest" $ref }}{{ end }}'
)


def status_patch(text: str, variables: str = "") -> Step:
    return {"patch": {"subresource": "status", "root": "status", "template": _VARIABLES + variables + text}}


def event_step(event: Event, variables: str = "") -> Step:
    """Return a step that writes an event. kwok's own ``event`` has no template, and kubelet's messages contain names."""
    return {
        "apply": {
            "template": _VARIABLES
            + variables
            + "{{ with first .spec.containers }}"
            + _REFERENCE
            + f"""
apiVersion: v1
kind: Event
metadata:
  name: {{{{ printf "%s.%s" $pod.metadata.name (randAlphaNum 16 | lower) | Quote }}}}
  namespace: {{{{ $pod.metadata.namespace | Quote }}}}
involvedObject:
  apiVersion: v1
  kind: Pod
  name: {{{{ $pod.metadata.name | Quote }}}}
  namespace: {{{{ $pod.metadata.namespace | Quote }}}}
  uid: {{{{ $pod.metadata.uid | Quote }}}}
  fieldPath: {{{{ printf "spec.containers{{%s}}" .name | Quote }}}}
type: {event.type}
reason: {event.reason}
message: {{{{ {event.message} | Quote }}}}
count: 1
firstTimestamp: {{{{ now | date "2006-01-02T15:04:05Z07:00" | Quote }}}}
lastTimestamp: {{{{ now | date "2006-01-02T15:04:05Z07:00" | Quote }}}}
source:
  component: kubelet
  host: {{{{ $pod.spec.nodeName | Quote }}}}
reportingComponent: kubelet
reportingInstance: {{{{ $pod.spec.nodeName | Quote }}}}
{{{{ end }}}}"""
        }
    }


def _conditions(ready: bool, reason: str = "ContainersNotReady", *, started: bool = True, initialized: str = "") -> str:
    """kubelet/status/generate.go: what it says about a pod; ``reason`` is that of one that is not ready."""
    unready = "" if ready else f"\n  reason: {reason}"
    if not ready and reason == "ContainersNotReady":
        unready += """
  message: '{{ $names := list }}{{ range .spec.containers }}{{ $names = append $names .name }}{{ end -}}
    containers with unready status: {{ $names }}'"""
    because = f", reason: {initialized}" if initialized else ""
    status = "True" if ready else "False"
    return f"""
conditions:
- {{type: PodReadyToStartContainers, status: "{started}", lastTransitionTime: {{{{ $now | Quote }}}}}}
- {{type: Initialized, status: "True", lastTransitionTime: {{{{ $now | Quote }}}}{because}}}
- type: Ready
  status: "{status}"
  lastTransitionTime: {{{{ $now | Quote }}}}{unready}
- type: ContainersReady
  status: "{status}"
  lastTransitionTime: {{{{ $now | Quote }}}}{unready}
"""


_PLACE = """
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
hostIPs:
- ip: {{ NodeIPWith .spec.nodeName | Quote }}
startTime: {{ or .status.startTime $now | Quote }}
"""
_ADDRESS = """
{{ $ip := .status.podIP }}{{ if not $ip }}
{{ $ip = PodIPWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace }}
{{ end }}
podIP: {{ $ip | Quote }}
podIPs:
- ip: {{ $ip | Quote }}
"""
# Names for a container's run and its image, of the same form as containerd's.
_CONTAINER = """
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
"""
_CONTAINER_ID = 'printf "containerd://%s" (sha256sum (printf "%s/%s/%v" $pod.metadata.uid .name $restarts))'
_IMAGE_ID = 'printf "%s@sha256:%s" (regexReplaceAll "[:@][^/]*$" $ref "") (sha256sum $ref)'
_INIT_CONTAINERS = f"""
initContainerStatuses:
{{{{ $restarts := 0 }}}}
{{{{ range .spec.initContainers }}}}{_REFERENCE}{_CONTAINER}  imageID: {{{{ {_IMAGE_ID} | Quote }}}}
  containerID: {{{{ {_CONTAINER_ID} | Quote }}}}
  ready: true
  restartCount: 0
  {{{{ if eq (or .restartPolicy "") "Always" }}}}
  started: true
  state: {{running: {{startedAt: {{{{ $now | Quote }}}}}}}}
  {{{{ else }}}}
  state: {{terminated: {{exitCode: 0, reason: Completed, startedAt: {{{{ $now | Quote }}}}, finishedAt: {{{{ $now | Quote }}}}}}}}
  {{{{ end }}}}
{{{{ end }}}}
"""


def runs(ready: bool) -> Step:
    """All containers start."""
    text = f"""
containerStatuses:
{{{{ $restarts := 0 }}}}
{{{{ range .spec.containers }}}}{_REFERENCE}{_CONTAINER}  imageID: {{{{ {_IMAGE_ID} | Quote }}}}
  containerID: {{{{ {_CONTAINER_ID} | Quote }}}}
  ready: {str(ready).lower()}
  restartCount: 0
  started: true
  state: {{running: {{startedAt: {{{{ $now | Quote }}}}}}}}
{{{{ end }}}}
phase: Running
"""
    return status_patch(text + _INIT_CONTAINERS + _conditions(ready) + _PLACE + _ADDRESS)


def waits(waiting: Waiting, *, sandbox: bool) -> Step:
    """No container starts. ``sandbox``: whether the pod has its sandbox, and so an address."""
    message = f"message: {{{{ {waiting.message} | Quote }}}}" if waiting.message else ""
    text = f"""
containerStatuses:
{{{{ range .spec.containers }}}}{_REFERENCE}{_CONTAINER}  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    waiting:
      reason: {waiting.reason}
      {message}
{{{{ end }}}}
phase: Pending
"""
    tail = _conditions(False, started=sandbox) + _PLACE + (_INIT_CONTAINERS + _ADDRESS if sandbox else "")
    return status_patch(text + tail, waiting.variables)


def _terminated(end: End) -> str:
    message = f", message: {{{{ {end.message} | Quote }}}}" if end.message else ""
    return f"""{{terminated: {{exitCode: {{{{ {end.code} }}}}, reason: {end.reason}{message},
    containerID: {{{{ or $status.containerID "" | Quote }}}}, finishedAt: {{{{ $now | Quote }}}},
    startedAt: {{{{ dig "state" "running" "startedAt" $now $status | Quote }}}}}}}}"""


# Statuses stand in the order of the spec: they were written here.
_EACH_STATUS = """
containerStatuses:
{{ $statuses := or .status.containerStatuses list }}
{{ range $index, $container := .spec.containers }}{{ if lt $index (len $statuses) }}
{{ $status := index $statuses $index }}{{ $restarts := $status.restartCount | toString | atoi }}"""
_IDENTITY = _REFERENCE + _CONTAINER + "  imageID: {{ $status.imageID | Quote }}\n"
_END_EACH = "{{ end }}{{ end }}\n"


def over(end: End, phase: str, extra: str = "", condition: str = "", variables: str = "") -> Step:
    """All containers have ended, and so has the pod; sidecars are ended with it. Texts add to the status."""
    text = f"""{_EACH_STATUS}{_IDENTITY}  containerID: {{{{ or $status.containerID "" | Quote }}}}
  ready: false
  started: false
  restartCount: {{{{ $restarts }}}}
  {{{{ with $status.lastState }}}}lastState: {{{{ toJson . }}}}{{{{ end }}}}
  state: {_terminated(end)}
{_END_EACH}
initContainerStatuses:
{{{{ range .status.initContainerStatuses }}}}
{{{{ $ended := dict "exitCode" 0 "reason" "Completed" "finishedAt" $now "containerID" (or .containerID "") }}}}
{{{{ if dig "state" "running" "" . }}}}{{{{ $state := dict "terminated" (set $ended "startedAt" .state.running.startedAt) }}}}
- {{{{ set (set (set . "state" $state) "ready" false) "started" false | toJson }}}}
{{{{ else }}}}
- {{{{ . | toJson }}}}
{{{{ end }}}}
{{{{ end }}}}
phase: {phase}
{extra}"""
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    initialized = "PodCompleted" if phase == "Succeeded" else ""
    text += _conditions(False, reason, started=False, initialized=initialized) + condition
    return status_patch(text, variables)


def init_fails() -> Step:
    """The init containers have failed once, and wait to start again; the others wait for them."""
    text = f"""
initContainerStatuses:
{{{{ $restarts := 1 }}}}
{{{{ range .spec.initContainers }}}}{_REFERENCE}{_CONTAINER}  imageID: {{{{ {_IMAGE_ID} | Quote }}}}
  containerID: {{{{ {_CONTAINER_ID} | Quote }}}}
  ready: false
  started: false
  restartCount: 1
  lastState: {{terminated: {{exitCode: 1, reason: Error, startedAt: {{{{ $now | Quote }}}}, finishedAt: {{{{ $now | Quote }}}},
    containerID: {{{{ {_CONTAINER_ID} | Quote }}}}}}}}
  state:
    waiting:
      reason: CrashLoopBackOff
      message: {{{{ printf "back-off 10s restarting failed container=%s pod=%s" .name $pod.metadata.name | Quote }}}}
{{{{ end }}}}
containerStatuses:
{{{{ range .spec.containers }}}}{_REFERENCE}{_CONTAINER}  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state: {{waiting: {{reason: PodInitializing}}}}
{{{{ end }}}}
phase: Pending
"""
    return status_patch(text + _conditions(False) + _PLACE + _ADDRESS)


def restarts(end: End) -> Step:
    """All containers have ended and start again: at once the first time, later after a back-off."""
    text = f"""{_EACH_STATUS}{_IDENTITY}  lastState: {_terminated(end)}
  {{{{ if eq $restarts 0 }}}}{{{{ $restarts = 1 }}}}
  containerID: {{{{ {_CONTAINER_ID} | Quote }}}}
  ready: false
  started: true
  state: {{running: {{startedAt: {{{{ $now | Quote }}}}}}}}
  {{{{ else }}}}
  containerID: {{{{ or $status.containerID "" | Quote }}}}
  ready: false
  started: false
  state:
    waiting:
      reason: CrashLoopBackOff
      message: {{{{ printf "back-off %s restarting failed container=%s pod=%s_%s(%s)" {_BACK_OFF} .name $pod.metadata.name
        $pod.metadata.namespace $pod.metadata.uid | Quote }}}}
  {{{{ end }}}}
  restartCount: {{{{ $restarts }}}}
{_END_EACH}"""
    return status_patch(text + _conditions(False))


# kubelet/kuberuntime/kuberuntime_manager.go, doBackOff.
_BACK_OFF = (
    f"(index (list {' '.join(json.dumps(item) for item in BACK_OFFS)}) (min {len(BACK_OFFS) - 1} (sub $restarts 1)))"
)
BACK_OFF_EVENT = Event(
    "Warning",
    "BackOff",
    'printf "Back-off restarting failed container %s in pod %s_%s(%s)" .name $pod.metadata.name '
    "$pod.metadata.namespace $pod.metadata.uid",
)


def starts_again() -> Step:
    """The back-off is over."""
    text = f"""{_EACH_STATUS}{_IDENTITY}  {{{{ $restarts = add1 $restarts }}}}
  containerID: {{{{ {_CONTAINER_ID} | Quote }}}}
  ready: true
  started: true
  restartCount: {{{{ $restarts }}}}
  {{{{ with $status.lastState }}}}lastState: {{{{ toJson . }}}}{{{{ end }}}}
  state: {{running: {{startedAt: {{{{ $now | Quote }}}}}}}}
{_END_EACH}"""
    return status_patch(text + _conditions(True))


def node_state(status: bool) -> Step:
    """A node's state. kubelet/nodestatus/setters.go; the false one is a kubelet without a network."""
    condition = (
        'status: "True", reason: KubeletReady, message: kubelet is posting ready status'
        if status
        else 'status: "False", reason: KubeletNotReady, message: "container runtime network not ready: '
        'NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"'
    )
    text = f"""
conditions:
- {{type: Ready, {condition}, lastHeartbeatTime: {{{{ $now | Quote }}}}, lastTransitionTime: {{{{ $now | Quote }}}}}}
addresses:
- {{address: {{{{ NodeIP | Quote }}}}, type: InternalIP}}
- {{address: {{{{ NodeName | Quote }}}}, type: Hostname}}
daemonEndpoints: {{kubeletEndpoint: {{Port: {{{{ NodePort }}}}}}}}
nodeInfo:
  {{{{ range list "bootID" "kernelVersion" "kubeProxyVersion" "machineID" "osImage" "systemUUID" }}}}
  {{{{ . }}}}: ""
  {{{{ end }}}}
  architecture: amd64
  containerRuntimeVersion: ""
  kubeletVersion: kwok-{{{{ Version }}}}
  operatingSystem: linux
phase: Running
"""
    return status_patch(text)
