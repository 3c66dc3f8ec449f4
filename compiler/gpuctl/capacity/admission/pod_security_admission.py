"""Violations that Pod Security admission rejects, by the labels of a namespace.

Source: ``k8s.io/pod-security-admission`` 0.36, ``policy/check_*.go``: the checks and the versions from which they
apply. A client cannot read the cluster's default level and exemptions, which administrators configure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import containers_of

ENFORCE = "pod-security.kubernetes.io/enforce"
_LATEST = 10**6
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)
_BASELINE_CAPABILITIES = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
_SYSCTLS = {
    "kernel.shm_rmid_forced": 0,
    "net.ipv4.ip_local_port_range": 0,
    "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0,
    "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
}
"""Safe sysctl -> first minor version of Kubernetes in which it is safe."""
_RESTRICTED_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"),
        "secret",
    }
)
_SECCOMP = ("RuntimeDefault", "Localhost")
_SECCOMP_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR_CONTAINER = "container.apparmor.security.beta.kubernetes.io/"


class _Pod(NamedTuple):
    """A pod to be checked by the rules of a minor version of Kubernetes."""

    spec: Object
    annotations: Mapping[str, str]
    version: int

    @property
    def containers(self) -> list[Object]:
        return containers_of(self.spec)

    @property
    def own(self) -> Object:
        """The pod's ``securityContext``."""
        return self.spec.get("securityContext") or {}

    @property
    def is_windows(self) -> bool:
        """True if checks for Linux do not apply (1.25 and later)."""
        return self.version >= 25 and (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """True if the pod has its own user namespace, which relaxes checks (1.35 and later)."""
        return self.version >= 35 and self.spec.get("hostUsers") is False

    def contexts(self) -> Iterator[tuple[str, Object]]:
        """Yield the ``securityContext`` of the pod and of each container, with a name for messages."""
        yield say("the pod"), self.own
        for container in self.containers:
            yield _container(container), container.get("securityContext") or {}


def forbidden(template: Object, labels: Mapping[str, str]) -> list[str]:
    """Return why Pod Security rejects a pod (``metadata`` and ``spec``) in a namespace with these labels.

    The API server validates the labels, so level and version are valid.
    """
    level = labels.get(ENFORCE)
    if level in (None, "privileged"):
        return []
    match = _VERSION.fullmatch(labels.get(f"{ENFORCE}-version", ""))
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    pod = _Pod(template["spec"], annotations, int(match[1]) if match else _LATEST)
    checks = _BASELINE if level == "baseline" else (*_BASELINE, *_RESTRICTED)
    return list(dict.fromkeys(text for check in checks for text in check(pod)))


def _container(container: Object) -> Sentence:
    return say("container {name}", name=container["name"])


def _volume(volume: Object) -> Sentence:
    return say("volume {name}", name=volume["name"])


def _of(setting: str, whose: str) -> Sentence:
    return say("{setting} of {whose}", setting=setting, whose=whose)


def _host_namespaces(pod: _Pod) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(field):
            yield f"{field}: true"


def _host_paths(pod: _Pod) -> Iterator[str]:
    for volume in pod.spec.get("volumes") or []:
        if volume.get("hostPath"):
            yield _of("hostPath", _volume(volume))


def _host_ports(pod: _Pod) -> Iterator[str]:
    for container in pod.containers:
        for port in container.get("ports") or []:
            # With ``hostNetwork`` the API server turns every port into a host port.
            number = port.get("hostPort") or (port["containerPort"] if pod.spec.get("hostNetwork") else 0)
            if number:
                yield _of(f"hostPort {number}", _container(container))


def _hosts_of_probes(pod: _Pod) -> Iterator[str]:
    for container in pod.containers if pod.version >= 34 else ():
        lifecycle = container.get("lifecycle") or {}
        handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
        for handler in [*handlers, lifecycle.get("postStart"), lifecycle.get("preStop")]:
            for kind in ("httpGet", "tcpSocket"):
                if ((handler or {}).get(kind) or {}).get("host"):
                    yield say("{setting} in {whose}", setting=f"{kind}.host", whose=_container(container))


def _privileged(pod: _Pod) -> Iterator[str]:
    for whose, context in pod.contexts():
        if context.get("privileged"):
            yield _of("securityContext.privileged: true", whose)
        if (context.get("windowsOptions") or {}).get("hostProcess"):
            yield _of("securityContext.windowsOptions.hostProcess: true", whose)


def _security_profiles(pod: _Pod) -> Iterator[str]:
    for whose, context in pod.contexts():
        profile = context.get("appArmorProfile")
        if profile and profile.get("type") not in _SECCOMP:
            yield _of(f"securityContext.appArmorProfile.type: {profile.get('type')}", whose)
        options = context.get("seLinuxOptions") or {}
        kinds = ("", "container_t", "container_init_t", "container_kvm_t")
        if options.get("type", "") not in (*kinds, "container_engine_t")[: 5 if pod.version >= 31 else 4]:
            yield _of(f"securityContext.seLinuxOptions.type: {options['type']}", whose)
        for field in ("user", "role"):
            if options.get(field):
                yield _of(f"securityContext.seLinuxOptions.{field}", whose)
    for key, value in pod.annotations.items():
        if key.startswith(_APPARMOR_CONTAINER) and not re.match(r"\Z|runtime/default\Z|localhost/", value):
            yield f"annotation {key}={value}"


def _proc_mount(pod: _Pod) -> Iterator[str]:
    for whose, context in pod.contexts() if not pod.has_own_users else ():
        if context.get("procMount") not in (None, "Default"):
            yield _of(f"securityContext.procMount: {context['procMount']}", whose)


def _added_capabilities(pod: _Pod) -> Iterator[str]:
    for whose, context in pod.contexts():
        added = set((context.get("capabilities") or {}).get("add") or ()) - _BASELINE_CAPABILITIES
        if added:
            yield say(
                "{setting} of {whose}: {names}",
                setting="securityContext.capabilities.add",
                whose=whose,
                names=sorted(added),
            )


def _seccomp(pod: _Pod) -> Iterator[str]:
    if pod.version < 19:
        names = [_SECCOMP_ANNOTATION, *(_SECCOMP_CONTAINER + container["name"] for container in pod.containers)]
        for name in names:
            value = pod.annotations.get(name)
            if value is not None and not re.match(r"runtime/default\Z|docker/default\Z|localhost/", value):
                yield f"annotation {name}={value}"
        return
    for whose, context in pod.contexts():
        profile = context.get("seccompProfile")
        if profile and profile.get("type") not in _SECCOMP:
            yield _of(f"securityContext.seccompProfile.type: {profile.get('type')}", whose)


def _sysctls(pod: _Pod) -> Iterator[str]:
    for item in pod.own.get("sysctls") or []:
        if _SYSCTLS.get(item["name"], _LATEST + 1) > pod.version:
            yield f"sysctl {item['name']}"


def _volumes(pod: _Pod) -> Iterator[str]:
    for volume in pod.spec.get("volumes") or []:
        kinds = [key for key, value in volume.items() if key != "name" and value is not None]
        # The API server defaults a volume without a kind to emptyDir.
        if kinds and not _RESTRICTED_VOLUMES & set(kinds) and "hostPath" not in kinds:
            yield _of(kinds[0], _volume(volume))


def _privilege_escalation(pod: _Pod) -> Iterator[str]:
    if pod.version < 8 or pod.is_windows:
        return
    for container in pod.containers:
        if (container.get("securityContext") or {}).get("allowPrivilegeEscalation") is not False:
            yield say(
                "no {setting} of {whose}",
                setting="securityContext.allowPrivilegeEscalation: false",
                whose=_container(container),
            )


def _runs_as_root(pod: _Pod) -> Iterator[str]:
    if pod.has_own_users:
        return
    everywhere = pod.own.get("runAsNonRoot")
    if everywhere is False:
        yield _of("securityContext.runAsNonRoot: false", say("the pod"))
    for whose, context in list(pod.contexts())[1:]:
        said = context.get("runAsNonRoot")
        if said is False:
            yield _of("securityContext.runAsNonRoot: false", whose)
        elif said is None and not everywhere:
            yield say("no {setting} of {whose}", setting="securityContext.runAsNonRoot: true", whose=whose)
    if pod.version >= 23:
        for whose, context in pod.contexts():
            if context.get("runAsUser") == 0:
                yield _of("securityContext.runAsUser: 0", whose)


def _seccomp_required(pod: _Pod) -> Iterator[str]:
    if pod.version < 19 or pod.is_windows or (pod.own.get("seccompProfile") or {}).get("type") in _SECCOMP:
        return
    for container in pod.containers:
        if not (container.get("securityContext") or {}).get("seccompProfile"):
            yield say(
                "no {setting} of {whose}",
                setting="securityContext.seccompProfile.type: RuntimeDefault",
                whose=_container(container),
            )


def _dropped_capabilities(pod: _Pod) -> Iterator[str]:
    if pod.version < 22 or pod.is_windows:
        return
    for container in pod.containers:
        capabilities = (container.get("securityContext") or {}).get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            yield say(
                "no {setting} of {whose}",
                setting="securityContext.capabilities.drop: [ALL]",
                whose=_container(container),
            )
        added = set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}
        if added:
            yield say(
                "{setting} of {whose}: {names}",
                setting="securityContext.capabilities.add",
                whose=_container(container),
                names=sorted(added),
            )


def _proc_mount_always(pod: _Pod) -> Iterator[str]:
    # Before 1.35 this check is part of the baseline.
    return _proc_mount(pod._replace(version=0))


_Check = Callable[[_Pod], Iterator[str]]
_BASELINE: tuple[_Check, ...] = (
    _host_namespaces,
    _host_paths,
    _host_ports,
    _hosts_of_probes,
    _privileged,
    _security_profiles,
    _proc_mount,
    _added_capabilities,
    _seccomp,
    _sysctls,
)
_RESTRICTED: tuple[_Check, ...] = (
    _volumes,
    _privilege_escalation,
    _runs_as_root,
    _seccomp_required,
    _dropped_capabilities,
    _proc_mount_always,
)


def level_of(labels: Mapping[str, Any]) -> str:
    """Return the level label of a namespace, for messages."""
    return f"{ENFORCE}: {labels[ENFORCE]}"
