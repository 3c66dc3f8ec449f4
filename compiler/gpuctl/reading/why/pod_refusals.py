"""Rules for pods that the API server rejects, from the controllers' FailedCreate events and ReplicaFailure
conditions.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

from gpuctl.capacity.admission.quota_charges import (
    ChargedObjects,
    Shortfall,
    as_pod,
    charges,
    parse_exceeded,
    parse_unspecified,
    shortfalls,
)
from gpuctl.capacity.admission.quota_scopes import applies_to
from gpuctl.hints import kubectl_line
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import TRAININGS, Object, labels_of
from gpuctl.objects.elastic_jobs import node_bounds
from gpuctl.objects.hidden_names import is_hidden, prefixed, unique_names
from gpuctl.objects.label_names import owner_of
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.quantities import format_amount
from gpuctl.objects.workload_state import condition, end_state
from gpuctl.reading.jobs.events_of_jobs import event_time
from gpuctl.reading.jobs.job_objects import identity_of
from gpuctl.reading.jobs.status import one_line
from gpuctl.reading.why.event_proofs import condition_proof, event_proof, known_proofs
from gpuctl.reading.why.evidence import Evidence
from gpuctl.reading.why.finding import Finding, Proof
from gpuctl.reading.why.stopped_jobs import command

_HOLDERS = 3
_LOOKED_AT = 12
_FIELDS = {"cpu": "resources.cpu", "memory": "resources.memory", "ephemeral-storage": "podPatch"}
# plugin/pkg/admission/limitranger/admission.go.
_LIMIT = re.compile(
    r"(?P<bound>minimum|maximum) (?P<resource>\S+) usage per (?P<kind>\w+) is (?P<limit>[^\s,]+?)"
    r"(?:, but (?P<what>request|limit) is (?P<asked>[^\s,\]]+)|\.  No (?P<missing>request|limit) is specified)"
)
_RATIO = re.compile(r"(?P<resource>\S+) max limit to request ratio per (?P<kind>\w+) is (?P<limit>[^\s,]+)")
_PRIORITY = re.compile(r"no PriorityClass with name (\S+) was found")
_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<why>.*)', re.DOTALL)
# The prefix with the name of the rejected pod, which differs in each attempt.
_HEAD = re.compile(
    r'\A(?:Error creating: |create Pod \S+ in StatefulSet \S+ failed error: )?(?:pods? "[^"]*" is \w+: )?',
    re.IGNORECASE,
)


def refused(evidence: Evidence) -> Finding | None:
    """Pods are missing because the API server rejects them."""
    workload = evidence.job.workload
    if workload is None or end_state(workload) or workload["metadata"].get("deletionTimestamp"):
        return None
    missing = evidence.wanted - sum(_counts(pod) for pod in evidence.pods)
    if missing <= 0:
        return None
    told = _refusal(evidence, workload)
    if told is None:
        return _by_numbers(evidence, workload, missing)
    message, at = told
    text = _HEAD.sub("", one_line(message))
    counted = {"pods": evidence.wanted, "missingPods": missing}
    for rule in (_quota, _unspecified, _limit_range, _priority_class, _pod_security):
        found = rule(evidence, text, counted, at)
        if found is not None:
            return found
    fix = say(
        "change what the message names, or ask the administrators of the policy; {command} shows more",
        command=command("describe job", evidence),
    )
    return Finding("admission-refused", say("its pods are refused: {text}", text=text), counted, fix, at)


def _counts(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")


def _refusal(evidence: Evidence, workload: Object) -> tuple[str, tuple[Proof, ...]] | None:
    """Return the rejection message and its proofs; None if pods have been created since."""
    failing = condition(workload, "ReplicaFailure")
    events = evidence.events_with("FailedCreate")
    if failing is not None:
        newest = known_proofs(*(event_proof(event) for event in events[-1:]))
        return failing.get("message") or "", known_proofs(condition_proof(workload, "ReplicaFailure"), *newest)
    made = evidence.events_with("SuccessfulCreate")
    if not events or (made and event_time(made[-1])[:19] > event_time(events[-1])[:19]):
        return None
    return events[-1].get("message") or "", (event_proof(events[-1]),)


def _quota(evidence: Evidence, text: str, counted: dict[str, Any], told: tuple[Proof, ...]) -> Finding | None:
    parsed = parse_exceeded(text)
    if evidence.quotas is not None and parsed:
        there = {item["metadata"]["name"] for item in evidence.quotas}
        parsed = [item for item in parsed if item.quota in there]
    return _exceeded(evidence, parsed, counted, told) if parsed else None


def _exceeded(evidence: Evidence, found: list[Shortfall], counted: dict[str, Any], told: tuple[Proof, ...]) -> Finding:
    quota, pods = found[0].quota, counted["pods"]
    workload = evidence.job.workload
    # A training starts when all its pods run, an elastic one when the least number does; pods of a service may serve
    # without the others.
    together = pods if workload is not None and workload["kind"] in TRAININGS else 1
    if workload is not None and (bounds := node_bounds(workload)) is not None:
        together = bounds.least
    said = [_short(item, together) for item in found]
    numbers = {**counted, "quota": quota, "resources": [_numbers(item) for item in found]}
    holders = _holders(evidence, found)
    shown = [
        (prefixed(f"{kind}/", name), used[found[0].resource])
        for kind, name, _, used in holders
        if found[0].resource in used
    ]
    resource = found[0].resource
    held = tuple(
        Proof(
            "status", name, say("uses {amount} {resource}", amount=format_amount(resource, amount), resource=resource)
        )
        for name, amount in shown[:_HOLDERS]
    )
    if shown:
        numbers["heldBy"] = [{"job": name, "amount": format_amount(resource, amount)} for name, amount in shown]
    never = [item for item in found if item.needed * together > item.hard]
    missing = say(" ({missing} of {total} pods are missing)", missing=counted["missingPods"], total=pods)
    raised = [
        say(
            "{resource} to {amount}",
            resource=item.resource,
            amount=format_amount(item.resource, _raised(item, together)),
        )
        for item in found
    ]
    if never:
        least = ", ".join(
            f"{field(item.resource)}: {format_amount(item.resource, item.hard / together)}" for item in never
        )
        fix = say(
            "ask for at most `{least}`, or raise quota {quota}: {raised}", least=least, quota=quota, raised=raised
        )
        if any((item.hard / together).denominator > 1 for item in never if "/" in item.resource):
            fix = say(
                "ask for fewer nodes, or for less on each, or raise quota {quota}: {raised}", quota=quota, raised=raised
            )
    else:
        fix = say(
            "{end}ask for less in `{field}`, or raise quota {quota}: {raised}",
            end=_end(holders, found, counted["missingPods"]),
            field=field(resource),
            quota=quota,
            raised=raised,
        )
    message = say(
        "quota {quota} has no room: {said}{missing}", quota=quota, said=said, missing=missing if pods > 1 else ""
    )
    return Finding("quota-exceeded", message, numbers, fix, (*told, *held))


def _raised(item: Shortfall, together: int) -> Fraction:
    """Return the limit at which the missing pod has room; at least what all pods of a training need."""
    return max(item.total, item.needed * together)


def _end(holders: list[_Holder], found: list[Shortfall], missing: int) -> str:
    """Return which jobs have to end: the fewest that free enough of everything, at most three; "" if these are not
    enough.

    Trainings, which end by themselves, come first. No command is printed that would end another user's job.
    """
    lacks = {item.resource: item.used - item.freed + item.needed * missing - item.hard for item in found}
    ending = [item for item in holders if item.kind == "training"]
    ways = ((among[:_LOOKED_AT], number) for among in (ending, holders) for number in range(1, _HOLDERS + 1))
    for among, number in ways:
        for chosen in sorted(combinations(among, number), key=_amount):
            if any(sum(item.used.get(name, 0) for item in chosen) < lack for name, lack in lacks.items()):
                continue
            names = unique_names(map(_title, chosen))
            if all(item.kind == "training" for item in chosen):
                return say("wait until {names:and} {number:has/have} ended, ", names=names, number=len(names))
            # Services and pods of other tools may run forever.
            return say("ask the owners of {names:and} for room, ", names=names)
    return ""


def _amount(chosen: tuple[_Holder, ...]) -> Fraction:
    return sum((amount for item in chosen for amount in item.used.values()), Fraction(0))


def _title(item: _Holder) -> str:
    title = prefixed(f"{item.kind}/", item.name)
    has_owner = item.owner and not is_hidden(title)
    return say("{title} (owner {owner})", title=title, owner=item.owner) if has_owner else title


def _short(item: Shortfall, together: int) -> Sentence:
    needed, hard, used = (format_amount(item.resource, value) for value in (item.needed, item.hard, item.used))
    left = format_amount(item.resource, max(item.hard - item.used, item.hard * 0))
    known = {"resource": item.resource, "needed": needed, "hard": hard, "used": used, "left": left}
    if item.needed > item.hard:
        return say("a pod needs {needed} {resource}, and the limit is {hard}", **known)
    if item.needed * together > item.hard:
        every = format_amount(item.resource, item.needed * together)
        return say(
            "its {pods} pods need {every} {resource}, and the limit is {hard}", pods=together, every=every, **known
        )
    return say("a pod needs {needed} {resource}, {left} left ({used} of {hard} used)", **known)


def _numbers(item: Shortfall) -> dict[str, str]:
    texts = {"requested": item.needed, "used": item.used, "limited": item.hard}
    return {"resource": item.resource, **{key: format_amount(item.resource, value) for key, value in texts.items()}}


def field(resource: str) -> str:
    """Return the document field that requests a quota's resource."""
    plain = resource.removeprefix("requests.").removeprefix("limits.")
    return _FIELDS.get(plain, "resources.gpu" if "/" in plain else plain)


class _Holder(NamedTuple):
    """A job, or a pod without a job, that uses resources of a quota. ``owner`` comes from its labels."""

    kind: str
    name: str
    owner: str | None
    used: dict[str, Fraction]


def _holders(evidence: Evidence, found: list[Shortfall]) -> list[_Holder]:
    """Return the namespace's other jobs that use the short resources of the quota, those with most of the first one
    first.
    """
    resources = [item.resource for item in found]
    quotas = [item for item in evidence.quotas or [] if item["metadata"]["name"] == found[0].quota]
    holders: dict[tuple[str, str], _Holder] = {}
    for pod in evidence.namespace_pods or []:
        identity = identity_of(pod, evidence.keys)
        amounts = charges(pod)
        if identity == evidence.job.identity or not any(amounts.get(name) for name in resources):
            continue
        if not all(applies_to(quota, pod) for quota in quotas):
            continue
        key = (identity.kind, identity.object_name) if identity else ("pod", str(pod["metadata"]["name"]))
        used = holders.setdefault(key, _Holder(*key, owner_of(labels_of(pod)), {})).used
        for name in resources:
            if amounts.get(name):
                used[name] = used.get(name, Fraction(0)) + amounts[name]
    return sorted(holders.values(), key=lambda item: (-item.used.get(resources[0], 0), item.kind, item.name))


def _by_numbers(evidence: Evidence, workload: Object, missing: int) -> Finding | None:
    """Check the quotas directly: events of a rejection are kept for only an hour."""
    templates = pod_templates(workload)
    if not evidence.quotas or not templates or evidence.pods:
        return None
    found = shortfalls(evidence.quotas, [ChargedObjects(as_pod(template)) for template, _ in templates[:1]])
    if not found:
        return None
    counted = {"pods": evidence.wanted, "missingPods": missing}
    of_quota = [item for item in found if item.quota == found[0].quota]
    told = tuple(Proof("quota", f"resourcequota/{item.quota}", str(item)) for item in of_quota)
    return _exceeded(evidence, of_quota, counted, told)


def _unspecified(evidence: Evidence, text: str, counted: dict[str, Any], told: tuple[Proof, ...]) -> Finding | None:
    parsed = parse_unspecified(text)
    if not parsed:
        return None
    resources = [item.resource for item in parsed]
    fix = say("set `{fields}`", fields=", ".join(dict.fromkeys(field(name) for name in resources)))
    message = say(
        "quota {quota} requires every container to set {resources}, and its pods do not",
        quota=parsed[0].quota,
        resources=resources,
    )
    return Finding(
        "quota-unspecified", message, {**counted, "quota": parsed[0].quota, "resources": resources}, fix, told
    )


def _limit_range(evidence: Evidence, text: str, counted: dict[str, Any], told: tuple[Proof, ...]) -> Finding | None:
    limits = list(_LIMIT.finditer(text))
    ratios = list(_RATIO.finditer(text))
    if not limits and not ratios:
        return None
    said, numbers, fields = [], [], []
    for match in limits:
        word = say("at most") if match["bound"] == "maximum" else say("at least")
        known = {**match.groupdict(), "kind": match["kind"].lower(), "word": word}
        said.append(
            say("a {kind} asks for {asked} {resource}, allowed is {word} {limit}", **known)
            if match["asked"]
            else say("a {kind} sets no {missing} {resource}, allowed is {word} {limit}", **known)
        )
        fields.append(f"{field(match['resource'])}: {match['limit']}")
        numbers.append({"resource": match["resource"], match["bound"]: match["limit"], "requested": match["asked"]})
    for match in ratios:
        said.append(
            say(
                "limit and request of {resource} may differ by the factor {limit} at most",
                resource=match["resource"],
                limit=match["limit"],
            )
        )
        numbers.append({"resource": match["resource"], "maximumRatio": match["limit"]})
    said, fields = list(dict.fromkeys(said)), list(dict.fromkeys(fields))
    namespace = evidence.job.identity.namespace
    change = f"`{', '.join(fields)}`" if fields else say("requests equal to limits")
    fix = say(
        "{change}, or change the LimitRange: {command}",
        change=change,
        command=kubectl_line("get limitrange -n", namespace, "-o yaml"),
    )
    unique = [item for number, item in enumerate(numbers) if item not in numbers[:number]]
    message = say("a LimitRange refuses its pods: {said:;}", said=said)
    return Finding("limit-range", message, {**counted, "limits": unique}, fix, told)


def _priority_class(evidence: Evidence, text: str, counted: dict[str, Any], told: tuple[Proof, ...]) -> Finding | None:
    # Take the name from the pod template: text from an event must not be printed in a command.
    named = [spec.get("priorityClassName") for spec in _specs(evidence)]
    match = _PRIORITY.search(text)
    if match is None or match[1] not in named:
        return None
    ours = [(item.value, level) for level, item in evidence.settings.priorities.items() if item.class_name == match[1]]
    value = ours[0][0] if ours else 1000
    create = kubectl_line("create priorityclass", match[1], f"--value={value}")
    fix = say("use another `job.priority`, or let an administrator create the class: {command}", command=create)
    if ours:
        fix = say(
            "apply any job with `job.priority: {priority}` as an administrator, which creates it; or {fix}",
            priority=ours[0][1],
            fix=fix,
        )
    message = say("there is no PriorityClass {name}", name=match[1])
    return Finding("priority-class-missing", message, {**counted, "priorityClass": match[1]}, fix, told)


def _specs(evidence: Evidence) -> list[Object]:
    workload = evidence.job.workload
    return [template.get("spec") or {} for template, _ in pod_templates(workload)] if workload is not None else []


def _pod_security(evidence: Evidence, text: str, counted: dict[str, Any], told: tuple[Proof, ...]) -> Finding | None:
    match = _SECURITY.search(text)
    if match is None:
        return None
    namespace = evidence.job.identity.namespace
    fields = say(" (host paths come from `storage.workdirs`: use `pvc` or `nfs`)")
    fix = say(
        "change the pod{fields}, or the namespace's label pod-security.kubernetes.io/enforce on {namespace}",
        fields=fields if "hostPath" in match["why"] else "",
        namespace=namespace,
    )
    message = say(
        "the namespace's Pod Security level {level} refuses its pods: {text}", level=match["level"], text=match["why"]
    )
    return Finding("pod-security", message, {**counted, "level": match["level"]}, fix, told)
