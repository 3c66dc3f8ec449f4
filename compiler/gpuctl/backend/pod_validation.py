"""The rules of the API server and the kubelet for a pod beyond its schema: names, references, enumerations, amounts.

The compiler's own pods satisfy them; pods with a ``podPatch`` are checked. Source:
``k8s.io/kubernetes/pkg/apis/core/validation`` (ValidatePodSpec), compared with the API server's dry-run by
``tests/cluster/test_pod_validation.py``. Rules that depend on the cluster (whether a Secret or a RuntimeClass exists,
feature gates, admission) are not checked here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.backend import container_rules, volume_rules
from gpuctl.backend.pod_problems import PodProblem, strings_at, values_at
from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.language import names
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean
from gpuctl.objects.api_resources import Object

_CONTAINERS = ("containers", "initContainers")


class _Choice(NamedTuple):
    """A field with a closed list of values. ``empty``: the empty string is allowed, because the server fills in a
    default.
    """

    path: str
    values: tuple[str, ...]
    empty: bool = False


_PROFILES = ("RuntimeDefault", "Localhost", "Unconfined")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POD_TERMS = tuple(
    f"affinity.{kind}.{term}"
    for kind in ("podAffinity", "podAntiAffinity")
    for term in (f"{_REQUIRED}[]", f"{_PREFERRED}[].podAffinityTerm")
)
_NODE_TERMS = (
    f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[]",
    f"affinity.nodeAffinity.{_PREFERRED}[].preference",
)
_SELECTORS = (
    *(f"{term}.{name}" for term in _POD_TERMS for name in ("labelSelector", "namespaceSelector")),
    "topologySpreadConstraints[].labelSelector",
)

_CHOICES = (
    _Choice("restartPolicy", ("Always", "OnFailure", "Never"), True),
    _Choice("dnsPolicy", ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"), True),
    _Choice("os.name", ("linux", "windows")),
    _Choice("securityContext.fsGroupChangePolicy", ("OnRootMismatch", "Always")),
    _Choice("securityContext.supplementalGroupsPolicy", ("Merge", "Strict")),
    _Choice("securityContext.seLinuxChangePolicy", ("Recursive", "MountOption")),
    _Choice("securityContext.seccompProfile.type", _PROFILES),
    _Choice("securityContext.appArmorProfile.type", _PROFILES),
    _Choice("tolerations[].operator", ("Equal", "Exists", "Gt", "Lt"), True),
    _Choice("tolerations[].effect", ("NoSchedule", "PreferNoSchedule", "NoExecute"), True),
    _Choice("topologySpreadConstraints[].whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway")),
    _Choice("topologySpreadConstraints[].nodeAffinityPolicy", ("Honor", "Ignore")),
    _Choice("topologySpreadConstraints[].nodeTaintsPolicy", ("Honor", "Ignore")),
    *(_Choice(f"{term}.matchExpressions[].operator", _NODE_OPERATORS) for term in _NODE_TERMS),
    *(_Choice(f"{term}.matchFields[].operator", ("In", "NotIn")) for term in _NODE_TERMS),
    *(_Choice(f"{selector}.matchExpressions[].operator", _LABEL_OPERATORS) for selector in _SELECTORS),
    _Choice("volumes[].hostPath.type", volume_rules.HOST_PATH_TYPES, True),
    _Choice("volumes[].image.pullPolicy", container_rules.PULL_POLICIES, True),
    *(
        _Choice(f"{containers}[].{field}", values, empty)
        for containers in _CONTAINERS
        for field, values, empty in container_rules.CHOICES
    ),
)

# Path -> minimum and maximum.
_RANGES: dict[str, tuple[int, int]] = {
    "activeDeadlineSeconds": (1, 2**31 - 1),
    "terminationGracePeriodSeconds": (0, 2**63 - 1),
    "securityContext.runAsUser": (0, 2**31 - 1),
    "securityContext.runAsGroup": (0, 2**31 - 1),
    "securityContext.fsGroup": (0, 2**31 - 1),
    "securityContext.supplementalGroups[]": (0, 2**31 - 1),
    "topologySpreadConstraints[].maxSkew": (1, 2**31 - 1),
    "topologySpreadConstraints[].minDomains": (1, 2**31 - 1),
    f"affinity.nodeAffinity.{_PREFERRED}[].weight": (1, 100),
    f"affinity.podAffinity.{_PREFERRED}[].weight": (1, 100),
    f"affinity.podAntiAffinity.{_PREFERRED}[].weight": (1, 100),
    **{
        f"{containers}[].{field}": limits
        for containers in _CONTAINERS
        for field, limits in container_rules.RANGES.items()
    },
    **{
        f"volumes[].{field}": (0, 0o777)
        for source in ("configMap", "secret", "downwardAPI", "projected")
        for field in (f"{source}.defaultMode", f"{source}.items[].mode")
    },
    **{f"volumes[].projected.sources[].{source}.items[].mode": (0, 0o777) for source in ("configMap", "secret")},
    "volumes[].projected.sources[].serviceAccountToken.expirationSeconds": (600, 2**32),
}


def check_pod(pod: Object) -> Iterator[PodProblem]:
    """Yield everything in a pod's spec that the API server rejects, or that keeps the pod from starting."""
    for choice in _CHOICES:
        yield from _chosen(pod, choice)
    for path, (least, most) in _RANGES.items():
        for place, value in values_at(pod, path):
            if isinstance(value, int) and not least <= value <= most:
                message = say("must be at most {bound}, got {value}", bound=most, value=value)
                if most == 0o777:
                    message = say("{mode} is not a file mode between 0 and 0777", mode=f"{value:#o}")
                elif value < least:
                    message = say("must be at least {bound}, got {value}", bound=least, value=value)
                yield PodProblem(place, message)
    yield from _names(pod)
    yield from _tolerations(pod)
    yield from _affinity(pod)
    yield from _spread(pod)
    yield from _network(pod)
    yield from _security(pod)
    yield from volume_rules.check_volumes(pod)
    yield from container_rules.check_containers(pod)


def _chosen(pod: Object, choice: _Choice) -> Iterator[PodProblem]:
    for place, value in values_at(pod, choice.path):
        if value in choice.values or (value == "" and choice.empty) or not isinstance(value, str):
            continue
        message = say("`{value}` is not a value of `{field}`", value=value, field=place[-1])
        yield PodProblem(
            place,
            message,
            did_you_mean(value, choice.values) or say("write one of {names}", names=list(choice.values)),
        )


def _names(pod: Object) -> Iterator[PodProblem]:
    """Yield illegal names of objects and labels."""
    for path in ("serviceAccountName", "serviceAccount", "runtimeClassName"):
        for place, value in strings_at(pod, path):
            if not names.is_dns_subdomain(value) and (value or path == "runtimeClassName"):
                yield PodProblem(place, say("`{value}` is not a legal object name", value=value))
    for key, value in pod.get("nodeSelector", {}).items():
        if not names.is_qualified_name(key) or not names.is_label_value(str(value)):
            yield PodProblem(("nodeSelector", key), say("`{key}: {value}` is not a legal label", key=key, value=value))
    for place, value in [*values_at(pod, "schedulingGates[].name"), *values_at(pod, "readinessGates[].conditionType")]:
        if not names.is_qualified_name(str(value)):
            yield PodProblem(place, say("`{value}` is not a qualified name such as `example.com/name`", value=value))
    seen: set[str] = set()
    for place, value in strings_at(pod, "schedulingGates[].name"):
        if value in seen:
            yield PodProblem(place, say("the scheduling gate `{value}` is listed twice", value=value))
        seen.add(value)
    for index, claim in enumerate(pod.get("resourceClaims", [])):
        if not names.is_dns_label(claim.get("name", "")):
            yield PodProblem(
                ("resourceClaims", index, "name"), say("`{name}` is not a DNS label", name=claim.get("name", ""))
            )
        sources = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if name in claim]
        if len(sources) != 1:
            yield PodProblem(
                ("resourceClaims", index), say("needs one of resourceClaimName and resourceClaimTemplateName")
            )
        for source in sources:
            if not names.is_dns_subdomain(claim[source]):
                yield PodProblem(
                    ("resourceClaims", index, source), say("`{value}` is not a legal object name", value=claim[source])
                )


def _tolerations(pod: Object) -> Iterator[PodProblem]:
    for index, toleration in enumerate(pod.get("tolerations", [])):
        place: FieldPath = ("tolerations", index)
        key, operator = toleration.get("key", ""), toleration.get("operator") or "Equal"
        value = toleration.get("value", "")
        if key and not names.is_qualified_name(key):
            yield PodProblem((*place, "key"), say("`{key}` is not a legal taint key", key=key))
        if not key and operator != "Exists":
            yield PodProblem(place, say("a toleration without a key needs `operator: Exists`"))
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            yield PodProblem((*place, "tolerationSeconds"), say("`tolerationSeconds` needs `effect: NoExecute`"))
        if operator == "Exists" and value:
            yield PodProblem(
                (*place, "value"), say("`operator: Exists` takes no value"), say("remove it, or use `operator: Equal`")
            )
        elif operator == "Equal" and not names.is_label_value(value):
            yield PodProblem((*place, "value"), say("`{value}` is not a legal taint value", value=value))
        elif operator in ("Gt", "Lt") and not value.lstrip("-").isdigit():
            yield PodProblem(
                (*place, "operator"),
                say("`operator: {operator}` needs a number, got `{value}`", operator=operator, value=value),
            )


def _affinity(pod: Object) -> Iterator[PodProblem]:
    for path in _NODE_TERMS:
        for place, term in values_at(pod, path):
            for part in ("matchExpressions", "matchFields"):
                for index, item in enumerate(term.get(part, [])):
                    yield from _requirement((*place, part, index), item, fields=part == "matchFields")
    terms = ("affinity", "nodeAffinity", _REQUIRED)
    for _, required in values_at(pod, ".".join(terms)):
        if not required.get("nodeSelectorTerms"):
            yield PodProblem((*terms, "nodeSelectorTerms"), say("needs at least one term"))
    for path in _POD_TERMS:
        for place, term in values_at(pod, path):
            if not names.is_qualified_name(term.get("topologyKey", "")):
                found = term.get("topologyKey")
                message = say("`{key}` is not a legal label key", key=found) if found else say("needs a `topologyKey`")
                yield PodProblem((*place, "topologyKey") if found else place, message)
            for index, namespace in enumerate(term.get("namespaces", [])):
                if not names.is_dns_label(namespace):
                    yield PodProblem(
                        (*place, "namespaces", index),
                        say("`{namespace}` is not a legal namespace name", namespace=namespace),
                    )
    for path in _SELECTORS:
        for place, selector in values_at(pod, path):
            yield from _selector(place, selector)


def _requirement(place: FieldPath, item: Object, *, fields: bool = False, numbers: bool = True) -> Iterator[PodProblem]:
    """Yield the problems of one selector expression, for nodes or, without ``numbers``, for labels."""
    key, operator, values = item.get("key", ""), item.get("operator"), item.get("values", [])
    if fields:
        if key != "metadata.name":
            yield PodProblem((*place, "key"), say("`matchFields` supports only the field `metadata.name`"))
        if len(values) != 1:
            yield PodProblem(place, say("`operator: {operator}` on a field needs exactly one value", operator=operator))
        return
    if not names.is_qualified_name(key):
        yield PodProblem((*place, "key"), say("`{key}` is not a legal label key", key=key))
    if operator in ("In", "NotIn") and not values:
        yield PodProblem(place, say("`operator: {operator}` needs `values`", operator=operator))
    elif operator in ("Exists", "DoesNotExist") and values:
        yield PodProblem((*place, "values"), say("`operator: {operator}` takes no values", operator=operator))
    elif operator in ("Gt", "Lt") and numbers and len(values) != 1:
        yield PodProblem(place, say("`operator: {operator}` needs exactly one value", operator=operator))
    for index, value in enumerate(values):
        if not names.is_label_value(value):
            yield PodProblem((*place, "values", index), say("`{value}` is not a legal label value", value=value))


def _selector(place: FieldPath, selector: Object) -> Iterator[PodProblem]:
    for key, value in selector.get("matchLabels", {}).items():
        if not names.is_qualified_name(key) or not names.is_label_value(str(value)):
            yield PodProblem(
                (*place, "matchLabels", key), say("`{key}: {value}` is not a legal label", key=key, value=value)
            )
    for index, item in enumerate(selector.get("matchExpressions", [])):
        yield from _requirement((*place, "matchExpressions", index), item, numbers=False)


def _spread(pod: Object) -> Iterator[PodProblem]:
    for index, item in enumerate(pod.get("topologySpreadConstraints", [])):
        place: FieldPath = ("topologySpreadConstraints", index)
        if not names.is_qualified_name(item.get("topologyKey", "")):
            yield PodProblem(
                (*place, "topologyKey"), say("`{key}` is not a legal label key", key=item.get("topologyKey", ""))
            )
        if "minDomains" in item and item.get("whenUnsatisfiable") != "DoNotSchedule":
            yield PodProblem((*place, "minDomains"), say("`minDomains` needs `whenUnsatisfiable: DoNotSchedule`"))
        if item.get("matchLabelKeys") and "labelSelector" not in item:
            yield PodProblem((*place, "matchLabelKeys"), say("`matchLabelKeys` needs a `labelSelector`"))
        for position, key in enumerate(item.get("matchLabelKeys", [])):
            if not names.is_qualified_name(key):
                yield PodProblem((*place, "matchLabelKeys", position), say("`{key}` is not a legal label key", key=key))


def _network(pod: Object) -> Iterator[PodProblem]:
    dns = pod.get("dnsConfig", {})
    servers = dns.get("nameservers", [])
    if pod.get("dnsPolicy") == "None" and not servers:
        yield PodProblem(("dnsPolicy",), say("`dnsPolicy: None` needs `dnsConfig.nameservers`"))
    for what, most in (("nameservers", 3), ("searches", 32)):
        if len(dns.get(what, [])) > most:
            yield PodProblem(("dnsConfig", what), say("has more than {most} entries", most=most))
    for index, server in enumerate(servers):
        if not _is_address(server):
            yield PodProblem(
                ("dnsConfig", "nameservers", index), say("`{address}` is not an IP address", address=server)
            )
    for index, search in enumerate(dns.get("searches", [])):
        if search != "." and not names.is_dns_subdomain(search.removesuffix(".").replace("_", "x")):
            yield PodProblem(("dnsConfig", "searches", index), say("`{search}` is not a DNS domain", search=search))
    if len(" ".join(map(str, dns.get("searches", [])))) > 2048:
        yield PodProblem(("dnsConfig", "searches"), say("the search list has more than 2048 characters"))
    for index, option in enumerate(dns.get("options", [])):
        if not option.get("name"):
            yield PodProblem(("dnsConfig", "options", index), say("an option of the resolver needs a name"))
    for index, alias in enumerate(pod.get("hostAliases", [])):
        if not _is_address(alias.get("ip", "")):
            yield PodProblem(
                ("hostAliases", index, "ip"), say("`{address}` is not an IP address", address=alias.get("ip", ""))
            )
        for position, hostname in enumerate(alias.get("hostnames", [])):
            if not names.is_dns_subdomain(hostname):
                yield PodProblem(
                    ("hostAliases", index, "hostnames", position),
                    say("`{hostname}` is not a host name", hostname=hostname),
                )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _security(pod: Object) -> Iterator[PodProblem]:
    """Yield security settings that exclude each other."""
    context: Object = pod.get("securityContext", {})
    if pod.get("hostPID") and pod.get("shareProcessNamespace"):
        yield PodProblem(("shareProcessNamespace",), say("`shareProcessNamespace` and `hostPID` cannot both be set"))
    if pod.get("hostUsers") is False:
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(field):
                yield PodProblem((field,), say("`{field}` cannot be set with `hostUsers: false`", field=field))
    seen: set[str] = set()
    for place, value in strings_at(pod, "securityContext.sysctls[].name"):
        bare = value.replace("/", ".")
        if not bare or len(bare) > 253 or not all(names.is_dns_subdomain(p.replace("_", "x")) for p in bare.split(".")):
            yield PodProblem(place, say("`{value}` is not the name of a sysctl", value=value))
        elif bare in seen:
            yield PodProblem(place, say("the sysctl `{value}` is set twice", value=value))
        elif (pod.get("hostNetwork") and bare.startswith("net.")) or (pod.get("hostIPC") and _is_ipc(bare)):
            yield PodProblem(place, say("the sysctl `{value}` is the host's with hostNetwork or hostIPC", value=value))
        seen.add(bare)
    yield from container_rules.check_profiles(context, ("securityContext",))
    if pod.get("os", {}).get("name") == "windows":
        yield PodProblem(("os", "name"), say("gpuctl makes pods for Linux nodes"))
    for place, _ in values_at(pod, "securityContext.windowsOptions"):
        yield PodProblem(place, say("gpuctl makes pods for Linux nodes"))


def _is_ipc(sysctl: str) -> bool:
    return sysctl.startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."))
