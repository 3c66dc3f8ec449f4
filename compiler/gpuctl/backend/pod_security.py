"""Lowers ``security`` to the security contexts of the pod and its program, and lifts it back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gpuctl.language.fields import is_capability
from gpuctl.language.kinds import Job
from gpuctl.language.security_block import Security
from gpuctl.objects.api_resources import Object

Data = dict[str, Any]

_POD_FIELDS = {"user": "runAsUser", "group": "runAsGroup", "fsGroup": "fsGroup"}
NOTEBOOK_GROUP = 100
"""Group of the files on a claim that a notebook creates: the group `users`, which Jupyter's images run with. Without
one, a new volume belongs to root, and a notebook that runs as another user cannot write to it.
"""
_CHANGE_POLICY = "OnRootMismatch"
"""Without it, the kubelet changes the owner of every file of a claim at every start."""


def pod_security(model: Job) -> Object:
    """Return the pod's security context; empty if nothing is set."""
    fields = {key: getattr(model.security, field, None) for field, key in _POD_FIELDS.items()}
    if fields["fsGroup"] is None and model.kind == "notebook" and model.storage.new_claims:
        fields["fsGroup"] = NOTEBOOK_GROUP
    context = {key: value for key, value in fields.items() if value is not None}
    if "fsGroup" in context:
        context["fsGroupChangePolicy"] = _CHANGE_POLICY
    return context


def container_security(security: Security) -> Object:
    """Return the program's security context; empty if nothing is set."""
    context: Object = {"readOnlyRootFilesystem": True} if security.readOnlyRoot else {}
    changed = security.changed_capabilities
    capabilities = {name: names for name, names in (("add", changed.add), ("drop", changed.drop)) if names}
    if capabilities:
        context["capabilities"] = {name: list(names) for name, names in capabilities.items()}
    return context


def lift_security(pod: Object, container: Object, added: Collection[str] = ()) -> Data:
    """Return the ``security:`` block; empty if nothing is set.

    :param added: capabilities that another field of the document adds.
    """
    context, own = pod.get("securityContext", {}), container.get("securityContext", {})
    data: Data = {field: context[key] for field, key in _POD_FIELDS.items() if key in context}
    if context.get("fsGroupChangePolicy") != _CHANGE_POLICY:
        data.pop("fsGroup", None)
    if own.get("readOnlyRootFilesystem"):
        data["readOnlyRoot"] = True
    capabilities = {
        name: [item for item in names if name != "add" or item not in added]
        for name, names in own.get("capabilities", {}).items()
    }
    capabilities = {name: names for name, names in capabilities.items() if names or not added}
    if capabilities and all(names and all(map(is_capability, names)) for names in capabilities.values()):
        data["capabilities"] = capabilities["add"] if list(capabilities) == ["add"] else dict(capabilities)
    return data
