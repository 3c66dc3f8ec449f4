"""Charges of objects to ResourceQuotas, the amounts left, and the API server's refusals.

A dry-run of each object compares it with the current usage only. Here all objects that a plan adds are summed, minus
those that it deletes. Source: Kubernetes 1.36, ``apiserver/pkg/admission/plugin/resourcequota/controller.go``
(CheckRequest) and the evaluators in ``pkg/quota/v1/evaluator/core`` and ``apiserver/pkg/quota/v1/generic``.

A client cannot read quotas required by the configuration of the admission plugin (``limitedResources``). The scope
VolumeAttributesClass, which applies to claims only, is not supported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.admission.quota_scopes import applies_to
from gpuctl.capacity.snapshot.pod_requests import (
    Amounts,
    amounts,
    container_limits,
    container_requests,
    has_pod_resources,
    pod_limits,
    pod_requests,
)
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.pod_specs import containers_of
from gpuctl.objects.pod_templates import job_templates, pod_templates
from gpuctl.objects.quantities import HUGE_PAGES, format_amount, quantity, sum_by_key
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.objects.workload_state import has_ended

# Objects that controllers create and gpuctl never handles: kind -> resource with its group.
_MADE_BY_CONTROLLERS = {"ReplicaSet": "replicasets.apps", "ControllerRevision": "controllerrevisions.apps"}
# core/registry.go, legacyObjectCountAliases.
_PLAIN_COUNTS = {"ConfigMap": "configmaps", "Secret": "secrets", "ResourceQuota": "resourcequotas"}
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
DEVICES = "devices"
"""Field of a template and a Pod, which Kubernetes does not have: what the pod's claims for devices charge, by key of a
quota. Quotas refuse the claims and not the pod, which waits for them: either way it does not start.
"""
# Resources that every container must set if a quota limits them (core/pods.go, validationSet).
_DEMANDED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})

_AMOUNT = r"[^\s,=]+=[+-]?[\d.]+(?:[eE][+-]?\d+|[A-Za-z]{0,2})"
_LIST = rf"(?:{_AMOUNT}(?:,{_AMOUNT})*)?"
_EXCEEDED = (
    rf"exceeded quota: (?P<quota>[^\s,]+), requested: (?P<requested>{_LIST}), used: (?P<used>{_LIST}), "
    rf"limited: (?P<limited>{_LIST})"
)
_UNSPECIFIED = (
    r"failed quota: (?P<quota>[^\s:]+): must specify (?P<lists>[^\s;]+ for: [^\s;]+(?:; [^\s;]+ for: [^\s;]+)*)"
)


class ChargedObjects(NamedTuple):
    """``number`` identical objects that quota admission sees: an applied object, or a Pod as its controller creates it
    (:func:`as_pod`).

    ``before``: the live form of an object that is updated in place; then only the increase counts.
    """

    object: Object
    number: int = 1
    before: Object | None = None


class Shortfall(NamedTuple):
    """A limit of a quota that would be exceeded: ``used`` - ``freed`` + ``needed`` > ``hard``.

    Exact amounts in cores, bytes or pieces. ``resource``: a key of the quota's ``hard``.
    """

    quota: str
    resource: str
    hard: Fraction
    used: Fraction
    freed: Fraction
    needed: Fraction

    @property
    def total(self) -> Fraction:
        """The amount that would be in use."""
        return self.used - self.freed + self.needed

    def __str__(self) -> str:
        total, hard, used, freed, needed = (
            format_amount(self.resource, value) for value in (self.total, self.hard, self.used, self.freed, self.needed)
        )
        parts = [
            say("in use {used}", used=used),
            say("released {freed}", freed=freed),
            say("needed {needed}", needed=needed),
        ]
        if not self.freed:
            del parts[1]
        return say(
            "quota {quota}: {resource} would be {total} of {hard} ({parts})",
            quota=self.quota,
            resource=self.resource,
            total=total,
            hard=hard,
            parts=parts,
        )


class Unspecified(NamedTuple):
    """A limited resource that ``containers`` of a pod do not set; the quota rejects the pod for it."""

    quota: str
    resource: str
    containers: tuple[str, ...]

    def __str__(self) -> str:
        return say(
            "quota {quota}: every container must set {resource}, and these do not: {names}",
            quota=self.quota,
            resource=self.resource,
            names=list(self.containers),
        )


def as_pod(template: Object) -> Object:
    """Return the Pod that a controller creates from a template (its ``metadata``, ``spec`` and :data:`DEVICES`)."""
    claims = {DEVICES: template[DEVICES]} if template.get(DEVICES) else {}
    metadata = template.get("metadata") or {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"], **claims}


def charged_objects(obj: Object, pods: Iterable[tuple[Object, int]] | None = None) -> list[ChargedObjects]:
    """Return all objects that quota admission sees when ``obj`` is created: the object, its pods, its controller's
    objects.

    Claims of a StatefulSet's templates are left out, because they outlive it. Source for JobSet:
    ``jobset_controller.go`` (a Job for each replica, a headless Service); for LeaderWorkerSet its two controllers.

    :param pods: pod templates with counts, if better known than from ``obj``: with the defaults of the server and of
        LimitRanges, or scaled by an autoscaler.
    """
    result = [ChargedObjects(obj)]
    kind = obj["kind"]
    if kind == "Pod":
        return result
    templates = pod_templates(obj) if pods is None else list(pods)
    if kind == "Deployment":
        result.append(ChargedObjects({"kind": "ReplicaSet"}))
    elif kind == "StatefulSet":
        result.append(ChargedObjects({"kind": "ControllerRevision"}))
    elif kind == "LeaderWorkerSet":
        # A StatefulSet of the leaders, and one of the workers of each leader; each has a ControllerRevision.
        sets = 1 + (templates or pod_templates(obj))[0][1]
        result.append(ChargedObjects({"kind": "StatefulSet"}, sets))
        result.append(ChargedObjects({"kind": "ControllerRevision"}, sets + 1))
        result.append(ChargedObjects({"kind": "Service", "spec": {"clusterIP": "None"}}))
    elif kind == "JobSet":
        result.append(ChargedObjects({"kind": "Job"}, sum(number for _, number in job_templates(obj))))
        if ((obj["spec"].get("network") or {}).get("enableDNSHostnames")) is not False:
            result.append(ChargedObjects({"kind": "Service", "spec": {"clusterIP": "None"}}))
    return result + [ChargedObjects(as_pod(template), count) for template, count in templates]


def shortfalls(
    quotas: Iterable[Object],
    added: Iterable[ChargedObjects],
    freed: Iterable[ChargedObjects] = (),
    now: datetime | None = None,
) -> list[Shortfall]:
    """Return the limits that ``added`` objects would exceed, even after ``freed`` ones are gone.

    Only increases are refused: a limit that ``added`` does not raise is never returned, even if it is exceeded already.

    :param quotas: the namespace's ResourceQuotas with their status. The smaller of ``spec.hard`` and ``status.hard``,
        which lags behind, applies.
    :param freed: live objects, preferably the live pods. Finished pods free no resources.
    :param now: pods whose grace period has passed by then free no resources either.
    """
    added, freed = list(added), list(freed)
    result = []
    for quota in quotas:
        needed = sum_by_key(_increase(quota, usage, now) for usage in added)
        found = (
            item._replace(needed=needed.get(item.resource, item.needed)) for item in quota_headroom(quota, freed, now)
        )
        result += [item for item in found if item.needed > 0 and item.total > item.hard]
    return result


def quota_headroom(
    quota: Object, freed: Iterable[ChargedObjects] = (), now: datetime | None = None
) -> Iterator[Shortfall]:
    """Yield every limit of a quota with its used and freed amounts, and nothing needed."""
    used, given = (
        amounts((quota.get("status") or {}).get("used")),
        sum_by_key(_increase(quota, one, now) for one in freed),
    )
    for resource, hard in sorted(_hard(quota).items()):
        in_use = used.get(resource, Fraction(0))
        # Freed objects that were never counted, such as by a quota created just now, give nothing back.
        back = min(given.get(resource, Fraction(0)), in_use)
        yield Shortfall(_name(quota), resource, hard, in_use, back, Fraction(0))


def charges_in_quota(quota: Object, usage: ChargedObjects) -> Amounts:
    """Return what one of the objects charges to a quota, by limited resource."""
    return {
        key: amount for key, amount in _increase(quota, usage._replace(number=1), None).items() if key in _hard(quota)
    }


def with_charges(quota: Object, added: Iterable[ChargedObjects], freed: Iterable[ChargedObjects] = ()) -> Object:
    """Return the quota after ``added`` objects are created and ``freed`` ones are deleted."""
    status = quota.get("status") or {}
    needed, given = (sum_by_key(_increase(quota, usage, None) for usage in usages) for usages in (added, freed))
    before, zero = amounts(status.get("used")), Fraction(0)
    used = {
        key: max(zero, before.get(key, zero) - given.get(key, zero)) + needed.get(key, zero) for key in _hard(quota)
    }
    return {**quota, "status": {**status, "used": {key: format_amount(key, value) for key, value in used.items()}}}


def unspecified(quotas: Iterable[Object], added: Iterable[ChargedObjects]) -> list[Unspecified]:
    """Return the resources that quotas require of every container and that pods in ``added`` do not set.

    A pod with its own ``resources`` is exempt. The pods must have the defaults of LimitRanges already. Source:
    core/pods.go, Constraints.
    """
    pods = [usage.object for usage in added if usage.object["kind"] == "Pod" and usage.number]
    result = []
    for quota in quotas:
        demanded = _DEMANDED & _hard(quota).keys()
        missing: dict[str, set[str]] = {}
        for pod in pods:
            if has_pod_resources(pod["spec"]) or not applies_to(quota, pod):
                continue
            for container in containers_of(pod["spec"]):
                for resource in demanded - _charged(container_requests(container), container_limits(container)).keys():
                    missing.setdefault(resource, set()).add(container["name"])
        for resource in sorted(missing):
            result.append(Unspecified(_name(quota), resource, tuple(sorted(missing[resource]))))
    return result


def charges(obj: Object, now: datetime | None = None) -> Amounts:
    """Return what one object counts, by quota key; nothing for cluster-scoped kinds.

    :raises KeyError: gpuctl does not know the kind.
    """
    kind = obj["kind"]
    if kind in RESOURCES:
        resource = RESOURCES[kind]
        if not resource.namespaced:
            return {}
        counted = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    else:
        counted = _MADE_BY_CONTROLLERS[kind]
    result = {f"count/{counted}": Fraction(1)}
    if kind == "Pod":
        if not _ended(obj, now):
            result["pods"] = Fraction(1)
            result.update(_charged(pod_requests(obj["spec"], obj.get("status")), pod_limits(obj["spec"])))
            for resource, number in (obj.get(DEVICES) or {}).items():
                result[resource] = result.get(resource, Fraction(0)) + number
    elif kind == "Service":
        result.update(_service(obj["spec"]))
    elif kind == "PersistentVolumeClaim":
        result.update(_claim(obj))
    elif kind in _PLAIN_COUNTS:
        result[_PLAIN_COUNTS[kind]] = Fraction(1)
    return result


def parse_exceeded(message: str) -> list[Shortfall] | None:
    """Parse ``exceeded quota: NAME, requested: a=1,b=2, used: a=3, limited: a=4``; None for another message.

    For users who may not read quotas. The message names one quota, the first that was exceeded.
    """
    match = re.search(_EXCEEDED, message)
    if match is None:
        return None
    requested, used, limited = (_parse_list(match[name]) for name in ("requested", "used", "limited"))
    zero = Fraction(0)
    return [
        Shortfall(match["quota"], resource, limited.get(resource, zero), used.get(resource, zero), zero, needed)
        for resource, needed in requested.items()
    ]


def parse_unspecified(message: str) -> list[Unspecified] | None:
    """Parse ``failed quota: NAME: must specify requests.cpu for: main,sidecar; ...``; None for another message."""
    match = re.search(_UNSPECIFIED, message)
    if match is None:
        return None
    pairs = [item.split(" for: ") for item in match["lists"].split("; ")]
    return [Unspecified(match["quota"], resource, tuple(names.split(","))) for resource, names in pairs]


def _parse_list(text: str) -> Amounts:
    pairs = (item.partition("=") for item in text.split(",") if item)
    return {resource: quantity(value) for resource, _, value in pairs}


def _name(quota: Object) -> str:
    return str(quota["metadata"]["name"])


def _hard(quota: Object) -> Amounts:
    result = amounts((quota.get("spec") or {}).get("hard"))
    for resource, amount in amounts((quota.get("status") or {}).get("hard")).items():
        result[resource] = min(amount, result.get(resource, amount))
    return result


def _increase(quota: Object, usage: ChargedObjects, now: datetime | None) -> Amounts:
    """Return the increase that a quota charges. Source: controller.go, CheckRequest."""
    if not applies_to(quota, usage.object):
        return {}
    result = charges(usage.object, now)
    if usage.before is not None and applies_to(quota, usage.before):
        before = charges(usage.before, now)
        result = {key: max(Fraction(0), amount - before.get(key, 0)) for key, amount in result.items()}
    return {key: amount * usage.number for key, amount in result.items()}


def _charged(requests: Amounts, limits: Amounts) -> Amounts:
    """Source: core/pods.go, podComputeUsageHelper."""
    result: Amounts = {}
    for name in ("cpu", "memory", "ephemeral-storage"):
        if name in requests:
            result[name] = result[f"requests.{name}"] = requests[name]
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(HUGE_PAGES):
            result[name] = result[f"requests.{name}"] = amount
        elif "/" in name and ("kubernetes.io/" not in name or name.startswith(_DEVICE_CLASS)):
            result[f"requests.{name}"] = amount
    return result


def _ended(pod: Object, now: datetime | None) -> bool:
    """Source: core/pods.go, QuotaV1Pod. ``deletionTimestamp`` includes the grace period, which is added once more."""
    if has_ended(pod):
        return True
    metadata = pod.get("metadata") or {}
    ends, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if now is None or ends is None or grace is None:
        return False
    return now > parse_timestamp(ends) + timedelta(seconds=grace)


def _service(spec: Object) -> Amounts:
    """Source: core/services.go, Usage."""
    ports, kind = spec.get("ports") or [], spec.get("type")
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    balancers = int(kind == "LoadBalancer")
    counts = {"services": 1, "services.nodeports": node_ports, "services.loadbalancers": balancers}
    return {resource: Fraction(count) for resource, count in counts.items()}


def _claim(claim: Object) -> Amounts:
    """Source: core/persistent_volume_claims.go, Usage: whole bytes, in total and by storage class."""
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    storage_class = annotations.get(_STORAGE_CLASS_ANNOTATION, claim["spec"].get("storageClassName"))
    counts = {"persistentvolumeclaims": Fraction(1)}
    requested = amounts((claim["spec"].get("resources") or {}).get("requests")).get("storage")
    if requested is not None:
        allocated = amounts((claim.get("status") or {}).get("allocatedResources")).get("storage", requested)
        counts["requests.storage"] = Fraction(math.ceil(max(requested, allocated)))
    by_class = {f"{storage_class}.storageclass.storage.k8s.io/{key}": amount for key, amount in counts.items()}
    return {**counts, **by_class} if storage_class else counts
