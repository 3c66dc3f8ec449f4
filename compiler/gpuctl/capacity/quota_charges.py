"""What the ResourceQuotas of a namespace leave room for, and what their refusals say.

Dry-runs do not add up: each is held against what is in use now. Here everything that a plan adds is summed, with what
its deletions give back. Source: Kubernetes 1.36, ``apiserver/pkg/admission/plugin/resourcequota/controller.go``
(CheckRequest) and the evaluators in ``pkg/quota/v1/evaluator/core`` and ``apiserver/pkg/quota/v1/generic``.

Not known to a client: quotas that an administrator demands by the admission plugin's own configuration
(``limitedResources``). Not looked at: the scope VolumeAttributesClass, which only claims have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.pod_requests import (
    HUGE_PAGES,
    Amounts,
    amounts,
    container_limits,
    container_requests,
    has_pod_resources,
    is_best_effort,
    pod_limits,
    pod_requests,
    quantity,
)
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.pod_templates import job_templates, pod_templates
from gpuctl.objects.quantities import format_bytes

# Controllers' own objects, which gpuctl itself never handles: kind -> resource with its group.
_MADE_BY_CONTROLLERS = {"ReplicaSet": "replicasets.apps", "ControllerRevision": "controllerrevisions.apps"}
# core/registry.go, legacyObjectCountAliases.
_PLAIN_COUNTS = {"ConfigMap": "configmaps", "Secret": "secrets", "ResourceQuota": "resourcequotas"}
_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
_UNITS = (("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18))
# Resources that every container must set as soon as a quota has them (core/pods.go, validationSet).
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
    """``number`` objects alike that admission sees: a top object, or a Pod as a controller makes it (:func:`as_pod`).

    ``before`` is the live form of an object that is updated in place: then only the increase counts.
    """

    object: Object
    number: int = 1
    before: Object | None = None


class Shortfall(NamedTuple):
    """A limit of a quota that would be exceeded: ``used`` - ``freed`` + ``needed`` > ``hard``.

    Exact numbers, in cores, bytes or pieces by the ``resource`` (a key of the quota's ``hard``).
    """

    quota: str
    resource: str
    hard: Fraction
    used: Fraction
    freed: Fraction
    needed: Fraction

    @property
    def total(self) -> Fraction:
        """What would be in use."""
        return self.used - self.freed + self.needed

    def __str__(self) -> str:
        total, hard, used, freed, needed = (
            format_amount(self.resource, value) for value in (self.total, self.hard, self.used, self.freed, self.needed)
        )
        parts = [f"in use {used}", f"released {freed}", f"needed {needed}"]
        if not self.freed:
            del parts[1]
        return f"quota {self.quota}: {self.resource} would be {total} of {hard} ({', '.join(parts)})"


class Unspecified(NamedTuple):
    """A resource that a quota limits and that ``containers`` of a pod do not set, for which the pod is refused."""

    quota: str
    resource: str
    containers: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(self.containers)
        return f"quota {self.quota}: every container must set {self.resource}, and these do not: {names}"


def as_pod(template: Object) -> Object:
    """The Pod that a controller makes of a template (its ``metadata`` and ``spec``)."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": template.get("metadata") or {}, "spec": template["spec"]}


def charged_objects(obj: Object, pods: Iterable[tuple[Object, int]] | None = None) -> list[ChargedObjects]:
    """Everything that admission will see because ``obj`` is created: itself, its pods, what its controller makes.

    ``pods`` are its pod templates and counts where they are known better than from ``obj``: with the server's defaults
    and those of LimitRanges, or with the number an autoscaler wants. Claims of a StatefulSet's templates are left out:
    they outlive it. Source for JobSet: ``jobset_controller.go`` (a Job for each replica, a headless Service).
    """
    result = [ChargedObjects(obj)]
    kind = obj["kind"]
    if kind == "Pod":
        return result
    if kind == "Deployment":
        result.append(ChargedObjects({"kind": "ReplicaSet"}))
    elif kind == "StatefulSet":
        result.append(ChargedObjects({"kind": "ControllerRevision"}))
    elif kind == "JobSet":
        result.append(ChargedObjects({"kind": "Job"}, sum(number for _, number in job_templates(obj))))
        if ((obj["spec"].get("network") or {}).get("enableDNSHostnames")) is not False:
            result.append(ChargedObjects({"kind": "Service", "spec": {"clusterIP": "None"}}))
    templates = pod_templates(obj) if pods is None else pods
    return result + [ChargedObjects(as_pod(template), count) for template, count in templates]


def shortfalls(
    quotas: Iterable[Object],
    added: Iterable[ChargedObjects],
    freed: Iterable[ChargedObjects] = (),
    now: datetime | None = None,
) -> list[Shortfall]:
    """Where ``added`` objects do not fit into the quotas of their namespace, even after ``freed`` ones are gone.

    ``quotas`` are the namespace's ResourceQuotas with their status: of ``spec.hard`` and ``status.hard``, which lags
    behind it, the smaller holds. Only what increases is refused: a limit that nothing in ``added`` raises is never
    among the results, however far it is exceeded already. ``freed`` are live objects, best the live pods themselves:
    finished ones give back no resources, and by ``now`` nor do those whose grace period to end has passed.
    """
    added, freed = list(added), list(freed)
    result = []
    for quota in quotas:
        needed = _total(_increase(quota, usage, now) for usage in added)
        found = (
            item._replace(needed=needed.get(item.resource, item.needed)) for item in quota_headroom(quota, freed, now)
        )
        result += [item for item in found if item.needed > 0 and item.total > item.hard]
    return result


def quota_headroom(
    quota: Object, freed: Iterable[ChargedObjects] = (), now: datetime | None = None
) -> Iterator[Shortfall]:
    """Every limit of a quota, with what is in use and given back, before anything is needed."""
    used, given = amounts((quota.get("status") or {}).get("used")), _total(_increase(quota, one, now) for one in freed)
    for resource, hard in sorted(_hard(quota).items()):
        in_use = used.get(resource, Fraction(0))
        # What is freed but was never counted, such as by a quota made a moment ago, gives nothing back.
        back = min(given.get(resource, Fraction(0)), in_use)
        yield Shortfall(_name(quota), resource, hard, in_use, back, Fraction(0))


def charges_in_quota(quota: Object, usage: ChargedObjects) -> Amounts:
    """What one of a usage's objects counts for in a quota, by the resources that this limits."""
    return {
        key: amount for key, amount in _increase(quota, usage._replace(number=1), None).items() if key in _hard(quota)
    }


def with_charges(quota: Object, added: Iterable[ChargedObjects], freed: Iterable[ChargedObjects] = ()) -> Object:
    """The quota as it stands when ``added`` objects are there and ``freed`` ones are gone."""
    status = quota.get("status") or {}
    needed, given = (_total(_increase(quota, usage, None) for usage in usages) for usages in (added, freed))
    before, zero = amounts(status.get("used")), Fraction(0)
    used = {
        key: max(zero, before.get(key, zero) - given.get(key, zero)) + needed.get(key, zero) for key in _hard(quota)
    }
    return {**quota, "status": {**status, "used": {key: format_amount(key, value) for key, value in used.items()}}}


def unspecified(quotas: Iterable[Object], added: Iterable[ChargedObjects]) -> list[Unspecified]:
    """Resources that quotas want of every container and pods in ``added`` leave open.

    A pod that sets its own ``resources`` need not. LimitRanges' defaults must be in the pods already.
    Source: core/pods.go, Constraints.
    """
    pods = [usage.object for usage in added if usage.object["kind"] == "Pod" and usage.number]
    result = []
    for quota in quotas:
        demanded = _DEMANDED & _hard(quota).keys()
        missing: dict[str, set[str]] = {}
        for pod in pods:
            if has_pod_resources(pod["spec"]) or not _matches(quota, pod):
                continue
            for container in [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]:
                for resource in demanded - _charged(container_requests(container), container_limits(container)).keys():
                    missing.setdefault(resource, set()).add(container["name"])
        for resource in sorted(missing):
            result.append(Unspecified(_name(quota), resource, tuple(sorted(missing[resource]))))
    return result


def charges(obj: Object, now: datetime | None = None) -> Amounts:
    """What one object counts for, by the keys of a quota; nothing for kinds that live in no namespace.

    Raises KeyError for kinds that gpuctl does not know.
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
    elif kind == "Service":
        result.update(_service(obj["spec"]))
    elif kind == "PersistentVolumeClaim":
        result.update(_claim(obj))
    elif kind in _PLAIN_COUNTS:
        result[_PLAIN_COUNTS[kind]] = Fraction(1)
    return result


def format_amount(resource: str, amount: Fraction) -> str:
    """An amount of a quota's resource as Kubernetes writes it: ``1500m`` of cpu, ``64Gi`` or ``500G`` of memory."""
    if amount.denominator != 1:
        return f"{math.ceil(amount * 1000)}m"
    value = amount.numerator
    texts = [str(value)]
    if resource.endswith(("memory", "storage")) or HUGE_PAGES in resource:
        texts = [
            format_bytes(value),
            *(f"{value // 10**power}{unit}" for unit, power in _UNITS if value % 10**power == 0),
        ]
    return min(texts, key=len) if value else "0"


def parse_exceeded(message: str) -> list[Shortfall] | None:
    """The limits in ``exceeded quota: NAME, requested: a=1,b=2, used: a=3, limited: a=4``, for who may not read quotas.

    None for every other message. Such a refusal names one quota, the first that was exceeded.
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
    """The resources in ``failed quota: NAME: must specify requests.cpu for: main,sidecar; ...``; else None."""
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


def _total(parts: Iterable[Amounts]) -> Amounts:
    result: Amounts = {}
    for part in parts:
        for resource, amount in part.items():
            result[resource] = result.get(resource, Fraction(0)) + amount
    return result


def _increase(quota: Object, usage: ChargedObjects, now: datetime | None) -> Amounts:
    """What a quota would count more for a usage. Source: controller.go, CheckRequest."""
    if not _matches(quota, usage.object):
        return {}
    result = charges(usage.object, now)
    if usage.before is not None and _matches(quota, usage.before):
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
    """Source: core/pods.go, QuotaV1Pod: the time of deletion has the grace period in it, which is added once more."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    metadata = pod.get("metadata") or {}
    ends, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if now is None or ends is None or grace is None:
        return False
    moment = datetime.strptime(ends, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    return now > moment + timedelta(seconds=grace)


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
    """Source: core/persistent_volume_claims.go, Usage: whole bytes, once in all and once by storage class."""
    annotations = (claim.get("metadata") or {}).get("annotations") or {}
    storage_class = annotations.get(_STORAGE_CLASS_ANNOTATION, claim["spec"].get("storageClassName"))
    counts = {"persistentvolumeclaims": Fraction(1)}
    requested = amounts((claim["spec"].get("resources") or {}).get("requests")).get("storage")
    if requested is not None:
        allocated = amounts((claim.get("status") or {}).get("allocatedResources")).get("storage", requested)
        counts["requests.storage"] = Fraction(math.ceil(max(requested, allocated)))
    by_class = {f"{storage_class}.storageclass.storage.k8s.io/{key}": amount for key, amount in counts.items()}
    return {**counts, **by_class} if storage_class else counts


def _matches(quota: Object, obj: Object) -> bool:
    """Whether an object lies in all scopes of a quota. Source: generic/evaluator.go, Matches; only pods have scopes."""
    scopes = list(_scopes(quota))
    return not scopes or (obj["kind"] == "Pod" and all(_in_scope(obj, scope) for scope in scopes))


def _scopes(quota: Object) -> Iterator[Object]:
    spec = quota.get("spec") or {}
    for name in spec.get("scopes") or []:
        yield {"scopeName": name, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or []


def _in_scope(pod: Object, scope: Object) -> bool:
    """Source: core/pods.go, podMatchesScopeFunc."""
    spec: Object = pod["spec"]
    name: str = scope["scopeName"]
    if name in ("Terminating", "NotTerminating"):
        return (spec.get("activeDeadlineSeconds") is not None) == (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        quality = (pod.get("status") or {}).get("qosClass")
        best_effort = quality == "BestEffort" if quality else is_best_effort(spec)
        return bool(best_effort) == (name == "BestEffort")
    if name == "PriorityClass":
        return _selects(scope, spec.get("priorityClassName"))
    return name == "CrossNamespacePodAffinity" and any(_reaches_out(term) for term in _affinity_terms(spec))


def _selects(scope: Object, value: str | None) -> bool:
    """Labels' rules with one label, which a pod without a class does not have: NotIn holds for it."""
    operator: str = scope["operator"]
    if operator in ("Exists", "DoesNotExist"):
        return bool(value) == (operator == "Exists")
    return (value in scope["values"]) == (operator == "In")


def _affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(side) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            yield weighted["podAffinityTerm"]


def _reaches_out(term: Object) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None
