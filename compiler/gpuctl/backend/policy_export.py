"""The platform's ``policy`` as a ValidatingAdmissionPolicy, which checks pods that gpuctl did not make, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.backend.object_metadata import metadata
from gpuctl.backend.policy_checks import HOST_NAMESPACES
from gpuctl.frontend.platform_restrictions import DATA_DEVICES, SYSTEM_DIRECTORIES, SYSTEM_TREES, own_host_paths
from gpuctl.language.path_fields import normal_path
from gpuctl.language.policy_block import PolicyBlock
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object
from gpuctl.objects.label_names import managed_labels

POLICY_NAME = "gpuctl-pods"
_API_VERSION = "admissionregistration.k8s.io/v1"
_CONTAINERS = "variables.containers.all(c, {0}) && variables.ephemeral.all(c, {0})"
_NOT_PRIVILEGED = "!c.?securityContext.?privileged.orValue(false)"
# The API server accepts `//` and `/./` in paths, and rejects `..`.
_PATHS = """\
object.spec.?volumes.orValue([]).filter(v, has(v.hostPath)).map(v,
  '/' + v.hostPath.path.split('/').filter(p, p != '' && p != '.').join('/'))"""


class _Rule(NamedTuple):
    expression: str
    message: str


def policy_objects(settings: Settings) -> list[Object]:
    """Return the policy and its binding; empty if the platform has no policy.

    The binding selects namespaces by a label, so that the pods of the cluster's own namespaces are not affected.
    """
    policy = settings.policy
    rules = list(_rules(settings, policy)) if policy is not None else []
    if not rules:
        return []
    selected = [
        {"operations": ["CREATE"], "resources": ["pods"]},
        # Only ephemeral containers can be added to a pod, and only the limits of others change. Other updates remove
        # finalizers of pods that end.
        {"operations": ["UPDATE"], "resources": ["pods/ephemeralcontainers", "pods/resize"]},
    ]
    variables = {
        "containers": "object.spec.containers + object.spec.?initContainers.orValue([])",
        "ephemeral": "object.spec.?ephemeralContainers.orValue([])",
        "paths": _PATHS,
    }
    label = settings.label("policy")
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata(POLICY_NAME, None, managed_labels()),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], **rule} for rule in selected]
                },
                "variables": [{"name": name, "expression": text} for name, text in variables.items()],
                "validations": [{"expression": rule.expression, "message": rule.message} for rule in rules],
            },
        },
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata(POLICY_NAME, None, managed_labels()),
            "spec": {
                "policyName": POLICY_NAME,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {label: "enforce"}}},
            },
        },
    ]


def _rules(settings: Settings, policy: PolicyBlock) -> Iterator[_Rule]:
    yield _host_paths(settings)
    for name in HOST_NAMESPACES:
        if getattr(policy, name) == "deny":
            yield _Rule(f"!object.spec.?{name}.orValue(false)", f"the platform denies {name}")
    if policy.hostNetwork == "deny":
        own_port = "c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"
        yield _Rule(_CONTAINERS.format(own_port), "the platform denies ports of nodes (hostPort)")
    if policy.privileged == "deny":
        yield _Rule(_CONTAINERS.format(_NOT_PRIVILEGED), "the platform denies privileged containers")
    if policy.capabilities is not None:
        listed = _listed(policy.capabilities)
        allowed = f"c.?securityContext.?capabilities.?add.orValue([]).all(x, x in {listed})"
        message = f"the platform allows these capabilities: {', '.join(policy.capabilities) or 'none'}"
        if policy.privileged == "allow":
            # A privileged container has every capability.
            allowed = f"{allowed} && {_NOT_PRIVILEGED}"
        yield _Rule(_CONTAINERS.format(allowed), message)
    if policy.require.runAsNonRoot:
        user = "c.?securityContext.?runAsUser.orValue(object.spec.?securityContext.?runAsUser.orValue(-1))"
        checked = "c.?securityContext.?runAsNonRoot.orValue(object.spec.?securityContext.?runAsNonRoot.orValue(false))"
        allowed = f"{user} > 0 || ({user} == -1 && {checked})"
        yield _Rule(_CONTAINERS.format(allowed), "the platform requires runAsNonRoot, or runAsUser other than 0")
    if policy.require.limits:
        # Ephemeral containers have no resources. To the kubelet, 0 is no limit.
        limited = "quantity(c.?resources.?limits[?r].orValue('0')).isGreaterThan(quantity('0'))"
        allowed = f"{_listed(policy.require.limits)}.all(r, {limited})"
        message = f"the platform requires limits of {' and '.join(policy.require.limits)}"
        yield _Rule(f"variables.containers.all(c, {allowed})", message)


def _host_paths(settings: Settings) -> _Rule:
    own = [f"{path.rstrip('/')}/" for path in own_host_paths(settings)]
    listed = settings.platform.policy.hostPaths
    if listed is not None:
        trees = _listed([*(f"{normal_path(path)}/" for path in listed), *own])
        expression = f"variables.paths.all(p, {trees}.exists(t, (p + '/').startsWith(t)))"
        return _Rule(expression, f"the platform allows these paths of nodes: {', '.join(listed) or 'none'}")
    devices, trees = _listed([f"{path}/" for path in DATA_DEVICES]), _listed([f"{path}/" for path in SYSTEM_TREES])
    inside = "{}.exists(t, (p + '/').startsWith(t))"
    around = f"{trees}.exists(t, (p + '/').startsWith(t) || t.startsWith(p + '/'))"
    system = f"p in {_listed(sorted(SYSTEM_DIRECTORIES))} || p.endsWith('.sock')"
    refused = f"{system} || (!{inside.format(devices)} && {around})"
    allowed = f"{inside.format(_listed(own))} || !({refused})" if own else f"!({refused})"
    return _Rule(f"variables.paths.all(p, {allowed})", "the path belongs to the node's system")


def _listed(values: list[str] | tuple[str, ...]) -> str:
    """Return a list of strings in CEL, whose escapes are those of JSON."""
    return json.dumps(list(values), ensure_ascii=False)
