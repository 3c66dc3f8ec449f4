"""The platform's ``policy`` on a final pod: privileges, namespaces of the node, capabilities, users and limits.

``hostPaths`` is checked where paths are written: storage_checks.py and pod_patches.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.pod_network import RDMA_CAPABILITY
from gpuctl.backend.pod_patches import PatchCauses, layers_of, report_in_patch
from gpuctl.backend.pod_problems import PodProblem
from gpuctl.frontend.diagnostics import FieldPath, Severity
from gpuctl.frontend.document import Document
from gpuctl.language.kinds import Job
from gpuctl.language.names import CODE_CONTAINER, MAIN_CONTAINER
from gpuctl.language.policy_block import PolicyBlock
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import parse_quantity

HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_FIELDS = ("initContainers", "containers")
_HINT = Template("remove it, or have the platform change `policy.{name}`")


def check_policy(context: Context, document: Document, model: Job, pod: Object) -> None:
    """Report each violation of the platform's policy, at the field or patch that caused it."""
    policy = context.settings.policy
    if policy is None or context.check_pod_spec is None:
        return
    if policy.podPatch != "allow" and model.podPatch is not None:
        denied = policy.podPatch == "deny"
        context.report(
            document,
            "GPU441",
            say("the platform denies `podPatch`") if denied else say("the platform advises against `podPatch`"),
            ("podPatch",),
            say("use the fields of the language, or ask the platform team for one")
            if not denied
            else say("use the fields of the language, or have the platform change `policy.podPatch`"),
            severity=Severity.ERROR if denied else Severity.WARNING,
            key=True,
        )
    layers = layers_of(context, model)
    causes = PatchCauses(pod, layers)
    for problem, own in _violations(policy, model, pod):
        found = causes.of(problem) if layers else None
        if found is not None and (own is None or (problem.code == "GPU438" and len(found[1]) == len(problem.path))):
            report_in_patch(context, document, found[0], problem, found[1])
        else:
            context.report(document, problem.code, problem.message, own or (), problem.hint, key=True)


Violation = tuple[PodProblem, FieldPath | None]
"""A problem of a pod, and the document's own field that caused it; None if only a patch can have caused it."""


def _violations(policy: PolicyBlock, model: Job, pod: Object) -> Iterator[Violation]:
    for name in HOST_NAMESPACES:
        if getattr(policy, name) == "deny" and pod.get(name):
            is_own = name == "hostNetwork" and model.resources.network.hostNetwork
            own = ("resources", "network", "hostNetwork") if is_own else None
            yield (
                PodProblem(
                    (name,), say("the platform denies `{name}`", name=name), say(_HINT, name=name), code="GPU438"
                ),
                own,
            )
    # Each container that the document describes, with the place of its `resources`.
    places: dict[str, FieldPath] = {MAIN_CONTAINER: (), CODE_CONTAINER: ()}
    places |= {helper.name: place for place, helper in model.helpers}
    for field in _FIELDS:
        for index, container in enumerate(pod.get(field) or ()):
            yield from _privileges(policy, (field, index), container, model)
            yield from _missing(policy, (field, index), container, pod, places.get(container["name"]))


def _privileges(policy: PolicyBlock, place: FieldPath, container: Object, model: Job) -> Iterator[Violation]:
    name, context = container["name"], container.get("securityContext") or {}
    at = (*place, "securityContext")
    if policy.privileged == "deny" and context.get("privileged"):
        message = say("the container `{name}` is privileged, which the platform denies", name=name)
        yield PodProblem((*at, "privileged"), message, say(_HINT, name="privileged"), code="GPU438"), None
    if policy.hostNetwork == "deny":
        for index, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                message = say(
                    "the container `{name}` takes the node's port {port}; the platform denies it",
                    name=name,
                    port=port["hostPort"],
                )
                path = (*place, "ports", index, "hostPort")
                yield PodProblem(path, message, say(_HINT, name="hostNetwork"), code="GPU438"), None
    if policy.capabilities is None:
        return
    if policy.privileged == "allow" and context.get("privileged"):
        message = say(
            "the container `{name}` is privileged and so has every capability; the platform allows {allowed}",
            name=name,
            allowed=policy.capabilities or say("none"),
        )
        yield PodProblem((*at, "privileged"), message, say(_HINT, name="capabilities"), code="GPU438"), None
    for index, capability in enumerate((context.get("capabilities") or {}).get("add") or ()):
        if capability not in policy.capabilities:
            message = say(
                "the container `{name}` adds the capability `{capability}`; the platform allows {allowed}",
                name=name,
                capability=capability,
                allowed=policy.capabilities or say("none"),
            )
            path = (*at, "capabilities", "add", index)
            own = _field_of_capability(model, capability) if name == MAIN_CONTAINER else None
            yield PodProblem(path, message, say(_HINT, name="capabilities"), code="GPU438"), own


def _field_of_capability(model: Job, capability: str) -> FieldPath | None:
    if capability == RDMA_CAPABILITY and model.resources.network.uses_rdma:
        return ("resources", "network", "rdma")
    added = model.security.changed_capabilities.add if model.security is not None else []
    return ("security", "capabilities") if added else None


def _missing(
    policy: PolicyBlock, place: FieldPath, container: Object, pod: Object, own: FieldPath | None
) -> Iterator[Violation]:
    """Yield the requirements that a container violates.

    :param own: place in the document of the container's ``resources``; None if a patch added the container.
    """
    name = container["name"]
    if policy.require.runAsNonRoot and not is_non_root(container, pod):
        message = say(
            "the platform requires a user other than root, and the container `{name}` may run as root", name=name
        )
        problem = PodProblem(place, message, say("write `security: {{user: 1000}}`"), code="GPU440")
        yield problem, None if own is None else ("security",)
    limits = (container.get("resources") or {}).get("limits") or {}
    # To the kubelet, 0 is no limit.
    lacking = [resource for resource in policy.require.limits if not parse_quantity(str(limits.get(resource, 0)))]
    if lacking:
        message = say(
            "the platform requires limits of {limits:and}, and the container `{name}` has none",
            limits=lacking,
            name=name,
        )
        problem = PodProblem(place, message, say("add {limits:and} to its `resources`", limits=lacking), code="GPU440")
        yield problem, None if own is None else (*own, "resources")


def is_non_root(container: Object, pod: Object) -> bool:
    """Return True if a container cannot run as root: by its user, or else because the kubelet checks its image's."""
    contexts: Sequence[dict[str, Any]] = [item.get("securityContext") or {} for item in (container, pod)]
    user = next((item["runAsUser"] for item in contexts if item.get("runAsUser") is not None), None)
    if user is not None:
        return bool(user)
    return bool(next((item["runAsNonRoot"] for item in contexts if item.get("runAsNonRoot") is not None), False))
