"""What can become of a simulated pod, in the words of kubelet 1.36 and containerd 2.

A pod's annotations choose; without any it runs until somebody deletes it.

``gpuctl.test/outcome``
    one of :data:`OUTCOMES`. Set on a pod that runs already, it still comes: ``kubectl annotate pod NAME
    gpuctl.test/outcome=evicted`` evicts one pod, once, and not those that its controller makes to replace it.
``gpuctl.test/duration``
    how long containers run before they end, as Go writes it: ``1500ms``, ``1m``. Default: no time.
``gpuctl.test/exit-code``
    the exit code of ``fail`` and ``crash``. Default: 1.
``gpuctl.test/termination``
    ``slow``: a deleted pod takes 3 s to stop. ``stuck``: it stops when the annotation is removed, or when it is deleted
    by force.

What the end of containers means for their pod follows ``restartPolicy``: it is over, or they start again, at once the
first time and then after the waits of :data:`BACK_OFFS` (CrashLoopBackOff). A node with ``gpuctl.test/ready: "false"``
is not ready.

Messages are pipelines of Go templates. In them ``.`` is a container of the pod's spec, ``$pod`` the pod, ``$ref`` the
container's image as containerd names it. Comments name files of k8s.io/kubernetes v1.36.3 under ``pkg/``.
"""

from __future__ import annotations

from typing import NamedTuple

OUTCOME = "gpuctl.test/outcome"
DURATION = "gpuctl.test/duration"
EXIT_CODE = "gpuctl.test/exit-code"
TERMINATION = "gpuctl.test/termination"
READY = "gpuctl.test/ready"

BACK_OFFS = ("10s", "20s", "40s", "1m20s", "2m40s", "5m0s")
"""kubelet/kubelet.go: MaxCrashLoopBackOff is 300 s, the first one 10 s, each the double of the one before."""


class Event(NamedTuple):
    """An event about the pod's first container."""

    type: str
    reason: str
    message: str


class Waiting(NamedTuple):
    """Containers that do not start. ``variables`` is template text that defines what ``message`` uses."""

    reason: str
    message: str | None = None
    events: tuple[Event, ...] = ()
    variables: str = ""


class End(NamedTuple):
    """Containers that end: their exit code (a pipeline), the reason as text, perhaps a message."""

    code: str
    reason: str
    message: str | None = None
    events: tuple[Event, ...] = ()


def _pull_error(code: str, text: str) -> str:
    references = " ".join(["$ref"] * (text.count("%q") + text.count("%s")))
    return f'printf "rpc error: code = {code} desc = failed to pull and unpack image {text}" {references}'


# The texts are containerd's: core/remotes/docker/resolver.go ("%s: not found") and errors_remote.go (authorization),
# core/images/image.go (no match for platform), client/pull.go (what stands before them). The code is gRPC's.
PULL_ERRORS = {
    "image-not-found": _pull_error("NotFound", "%q: failed to resolve reference %q: %s: not found"),
    "image-unauthorised": _pull_error(
        "Unknown",
        "%q: failed to resolve reference %q: pull access denied, repository does not exist or may require "
        "authorization: authorization failed: no basic auth credentials",
    ),
    "image-platform": _pull_error("NotFound", "%q: no match for platform in manifest: not found"),
    # core/remotes/docker/resolver.go, doRequest; what follows is Go's net/http and net.
    "image-unreachable": _pull_error(
        "Unavailable",
        "%q: failed to resolve reference %q: failed to do request: Head "
        r"\"https://registry.example.com/v2/team/train/manifests/v1\": dial tcp: lookup registry.example.com on "
        "10.0.0.10:53: no such host",
    ),
}
"""Outcome -> message of the container runtime for a failed image pull."""

# kubelet/images/image_manager.go, pullImage.
PULLING = Event("Normal", "Pulling", 'printf "Pulling image %q" .image')


def pull_failed(error: str) -> Waiting:
    """The first state of a container whose image cannot be pulled."""
    failed = Event("Warning", "Failed", f'printf "Failed to pull image %q: %s" .image ({error})')
    return Waiting("ErrImagePull", error, (PULLING, failed, Event("Warning", "Failed", '"Error: ErrImagePull"')))


def pull_backs_off(error: str) -> Waiting:
    """The second state of a container whose image cannot be pulled; kubelet goes to and fro, this one stays."""
    back_off = Event("Normal", "BackOff", 'printf "Back-off pulling image %q" .image')
    return Waiting(
        "ImagePullBackOff",
        f'printf "Back-off pulling image %q: ErrImagePull: %s" .image ({error})',
        (back_off, Event("Warning", "Failed", '"Error: ImagePullBackOff"')),
    )


# kubelet/kubelet_pods.go, makeEnvironmentVariables, passes the API server's "not found" on;
# kubelet/kuberuntime/kuberuntime_container.go, startContainer, makes the event.
_SECRET = (
    "{{ $secret := `missing` }}{{ range .spec.containers }}"
    "{{ range .env }}{{ with .valueFrom }}{{ with .secretKeyRef }}{{ $secret = .name }}{{ end }}{{ end }}{{ end }}"
    "{{ range .envFrom }}{{ with .secretRef }}{{ $secret = .name }}{{ end }}{{ end }}{{ end }}"
)
_NO_SECRET = 'printf "secret %q not found" $secret'

# volume/util/operationexecutor/operation_generator.go (MountVolume.SetUp), volume/hostpath/host_path.go. The first
# volume is the one that cannot be mounted.
_VOLUME = (
    "{{ $volume := dict `name` `data` }}{{ with .spec.volumes }}{{ $volume = first . }}{{ end }}"
    '{{ $cause := "rpc error: code = DeadlineExceeded desc = context deadline exceeded" }}'
    '{{ with $volume.hostPath }}{{ $cause = printf "hostPath type check failed: %s is not a directory" .path }}{{ end }}'
    '{{ with $volume.secret }}{{ $cause = printf "secret %q not found" .secretName }}{{ end }}'
    '{{ with $volume.configMap }}{{ $cause = printf "configmap %q not found" .name }}{{ end }}'
)
_NO_MOUNT = 'printf "MountVolume.SetUp failed for volume %q : %s" $volume.name $cause'

# kubelet/images/image_manager.go, EnsureImageExists; util/parsers/parsers.go.
_NO_NAME = (
    'printf "Failed to apply default image tag %q: couldn\'t parse image name %q: invalid reference format" '
    ".image .image"
)
# kubelet/kubelet_pods.go, makeEnvironmentVariables.
_KEY = (
    "{{ $secret := `missing` }}{{ $key := `missing` }}{{ range .spec.containers }}{{ range .env }}"
    "{{ with .valueFrom }}{{ with .secretKeyRef }}{{ $secret = .name }}{{ $key = .key }}{{ end }}{{ end }}"
    "{{ end }}{{ end }}"
)
_NO_KEY = 'printf "couldn\'t find key %s in Secret %s/%s" $key $pod.metadata.namespace $secret'
# kubelet/kuberuntime/security_context_others.go, verifyRunAsNonRoot.
_ROOT = (
    'printf "container has runAsNonRoot and image will run as root (pod: \\"%s_%s(%s)\\", container: %s)" '
    "$pod.metadata.name $pod.metadata.namespace $pod.metadata.uid .name"
)
# kubelet/kuberuntime/kuberuntime_manager.go, SyncPod; containerd's internal/cri/server/podsandbox.
_NO_SANDBOX = (
    '"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: plugin '
    'type=\\"calico\\" failed (add): error getting ClusterInformation: connection is unauthorized: Unauthorized"'
)

WAITING: dict[str, Waiting] = {
    "image-name-invalid": Waiting(
        "InvalidImageName",
        _NO_NAME,
        (
            Event("Warning", "InspectFailed", _NO_NAME),
            Event("Warning", "Failed", '"Error: InvalidImageName"'),
        ),
    ),
    "missing-key": Waiting(
        "CreateContainerConfigError", _NO_KEY, (Event("Warning", "Failed", f'printf "Error: %s" ({_NO_KEY})'),), _KEY
    ),
    "root-refused": Waiting(
        "CreateContainerConfigError", _ROOT, (Event("Warning", "Failed", f'printf "Error: %s" ({_ROOT})'),)
    ),
    "no-sandbox": Waiting("ContainerCreating", events=(Event("Warning", "FailedCreatePodSandBox", _NO_SANDBOX),)),
    "image-slow": Waiting("ContainerCreating", events=(PULLING,)),
    "missing-secret": Waiting(
        "CreateContainerConfigError",
        _NO_SECRET,
        (Event("Warning", "Failed", f'printf "Error: %s" ({_NO_SECRET})'),),
        _SECRET,
    ),
    "missing-mount": Waiting(
        "ContainerCreating", events=(Event("Warning", "FailedMount", _NO_MOUNT),), variables=_VOLUME
    ),
}
"""Outcomes whose containers never start, but for the errors of pulling."""

_CODE = f'(or (index $annotations "{EXIT_CODE}") "1")'

# kubelet/kuberuntime/kuberuntime_manager.go, computePodActions, and kubelet/prober/prober.go, probe.
_PROBE = '(ternary "startup" "liveness" (hasKey . "startupProbe"))'
_RESTARTED = '(ternary "" ", will be restarted" (eq $pod.spec.restartPolicy "Never"))'
_UNHEALTHY = "probe failed: HTTP probe failed with statuscode: 503"
_PROBE_EVENTS = (
    Event("Warning", "Unhealthy", f'printf "%s {_UNHEALTHY}" (title {_PROBE})'),
    Event("Normal", "Killing", f'printf "Container %s failed %s probe%s" .name {_PROBE} {_RESTARTED}'),
)

# The reason is containerd's (internal/cri/server/container_start.go), the words are runc's.
_NO_COMMAND = (
    'printf "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create '
    "failed: unable to start container process: error during container init: exec: %q: executable file not found in "
    '$PATH" (first (or .command (list "/entrypoint.sh")))'
)

ENDS: dict[str, End] = {
    "complete": End('"0"', "Completed"),
    "fail": End(_CODE, "Error"),
    "crash": End(_CODE, "Error"),
    "oom": End('"137"', "OOMKilled"),
    "probe-killed": End('"137"', "Error", events=_PROBE_EVENTS),
    "command-not-found": End(
        '"128"', "StartError", _NO_COMMAND, (Event("Warning", "Failed", f'printf "Error: %s" ({_NO_COMMAND})'),)
    ),
}
"""Outcomes whose containers end. ``crash`` and ``fail`` are the same end: the words differ for who reads a test."""

NEVER_READY = "never-ready"
NOT_READY_EVENT = Event("Warning", "Unhealthy", f'"Readiness {_UNHEALTHY}"')

EVICTED = "evicted"
# kubelet/eviction/helpers.go: nodeLowMessageFmt, thresholdMetMessageFmt, containerMessageFmt.
EVICTION_MESSAGE = (
    'printf "The node was low on resource: memory. Threshold quantity: 100Mi, available: 71236Ki. Container %s was '
    'using 96636764Ki, request is %s, has larger consumption of memory. " .name '
    '(dig "resources" "requests" "memory" "0" .)'
)

VOLUME_FULL = "volume-full"
# kubelet/eviction/helpers.go: emptyDirMessageFmt. The first emptyDir of the pod is the one that is full.
VOLUME_FULL_VARIABLES = (
    "{{ $volume := `` }}{{ $limit := `` }}{{ range .spec.volumes }}{{ $name := .name }}"
    "{{ if not $volume }}{{ with .emptyDir }}{{ $volume = $name }}{{ $limit = or .sizeLimit `` }}{{ end }}{{ end }}{{ end }}"
)
VOLUME_FULL_MESSAGE = 'printf "Usage of EmptyDir volume %q exceeds the limit %q. " $volume $limit'

SHUTDOWN = "shutdown"
# kubelet/nodeshutdown/nodeshutdown_manager.go.
SHUTDOWN_REASON = "Terminated"
SHUTDOWN_MESSAGE = "Pod was terminated in response to imminent node shutdown."

INIT_FAILS = "init-fails"
"""Its init containers end with exit code 1 and wait to start again; only of pods whose restartPolicy is Always."""

OVERDUE = "overdue"
# kubelet/active_deadline.go.
OVERDUE_REASON = "DeadlineExceeded"
OVERDUE_MESSAGE = "Pod was active on the node longer than the specified deadline"

REJECTED = "gpu-unavailable"
# kubelet/cm/devicemanager/manager.go (devicesToAllocate), kubelet/cm/admission/errors.go, kubelet/kubelet.go (rejectPod).
REJECTION_REASON = "UnexpectedAdmissionError"
REJECTION_MESSAGE = (
    'printf "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: %s, '
    'Available: 0, which is unexpected" (dig "resources" "limits" "nvidia.com/gpu" "1" .)'
)

OUTCOMES = (*PULL_ERRORS, *WAITING, *ENDS, NEVER_READY, EVICTED, VOLUME_FULL, SHUTDOWN, INIT_FAILS, OVERDUE, REJECTED)
"""Possible values of ``gpuctl.test/outcome``."""
