"""Dependencies of pods: the Secrets, ConfigMaps and claims that they name, and nodes that can run them.

If one is missing, pods are accepted and wait. It may still be created later, so that is a note; it is an error if
running work would be ended. (A pod without its service account is not accepted; the pod dry-run detects that.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from gpuctl.apply.plan.dry_run_pods import DryRunPod
from gpuctl.apply.plan.plan import WRITING, Plan
from gpuctl.apply.plan.pool_labels import label_changes
from gpuctl.capacity.snapshot.pod_requests import amounts, pod_requests
from gpuctl.kube.api_errors import ApiError, if_allowed, or_refusal
from gpuctl.kube.dynamic_resources import DEVICE_CLAIMS, may_offer_extended_resource, serves_dra
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.spelling import nearest
from gpuctl.objects.api_resources import RESOURCES, Key, Object, labels_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_specs import containers_of, required_node_terms
from gpuctl.objects.selectors import requirement_matches

Labels = dict[str, str]


class PodReference(NamedTuple):
    """An object that a pod names; ``what`` is its kind in messages."""

    key: Key
    what: str


class PlannedNode(NamedTuple):
    """A node with its labels after the plan, and its allocatable resources."""

    name: str
    labels: Labels
    allocatable: Labels


class _Findings:
    """Missing dependencies, and the jobs that need them."""

    def __init__(self) -> None:
        self.missing: dict[str, dict[str, None]] = {}
        self.too_small: dict[str, dict[str, None]] = {}
        self.ending: dict[str, None] = {}
        self.asked: dict[str, None] = {}

    def add(self, pod: DryRunPod, text: str, *, certain: bool = True) -> None:
        """Add a finding. If running work would be ended, a ``certain`` one is an error, any other one a question."""
        (self.missing if certain else self.too_small).setdefault(text, {})[pod.step.title] = None
        if pod.step.running is not None:
            where = self.ending if certain else self.asked
            where[say("{job}: {missing}, and its running pods would be ended", job=pod.step.title, missing=text)] = None


def check_dependencies(
    session: Session, plan: Plan, pods: list[DryRunPod], keys: Records | None, gpu_resources: frozenset[str]
) -> None:
    """Add the missing dependencies of pods to the plan's notes, errors and questions.

    :param keys: the platform's label keys; None if unknown: pools are then unknown too, and all nodes are read.
    """
    findings = _Findings()
    _objects(session, plan, pods, findings)
    _nodes(session, plan, pods, keys, gpu_resources, findings)
    plan.errors += findings.ending
    plan.confirm += [text for text in findings.asked if text not in plan.confirm]
    if not findings.ending:
        plan.lacking_jobs |= {
            title for found in (findings.missing, findings.too_small) for titles in found.values() for title in titles
        }
        plan.notes += [
            say("{missing}, which {jobs} will wait for", missing=text, jobs=_enumerated(list(titles)))
            for text, titles in findings.missing.items()
        ]
        plan.notes += [
            say("{missing}: {jobs} cannot start", missing=text, jobs=_enumerated(list(titles)))
            for text, titles in findings.too_small.items()
        ]


def _enumerated(titles: list[str]) -> str:
    return say("{titles:few}", titles=titles) if len(titles) > 4 else say("{titles:few4}", titles=titles)


def _objects(session: Session, plan: Plan, pods: list[DryRunPod], findings: _Findings) -> None:
    """Read the metadata of each named object; its contents are never read."""
    planned = {step.key for step in plan.steps if step.desired is not None and step.action in WRITING}
    needs = [(pod, list(dict.fromkeys(_needs(pod)))) for pod in pods]
    named = sorted({need.key for _, found in needs for need in found} - planned)
    if any(key.kind in DEVICE_CLAIMS for key in named) and not serves_dra(session):
        # Kubernetes before 1.34 serves other versions of these kinds.
        named = [key for key in named if key.kind not in DEVICE_CLAIMS]
    answers = dict(zip(named, session.each(lambda key: _state(session, key), named), strict=True))
    for pod, found in needs:
        for what in found:
            answer = answers.get(what.key, "")
            values = {"kind": what.what, "name": what.key.name, "namespace": what.key.namespace}
            if answer is None:
                findings.add(pod, say("there is no {kind} {name} in {namespace}", **values))
            elif answer == "leaving":
                findings.add(pod, say("the {kind} {name} in {namespace} is being deleted", **values))
    refusals = sorted({answer.message for answer in answers.values() if isinstance(answer, ApiError)})
    if refusals:
        plan.notes.append(say("whether the objects that pods name exist was not checked: {errors:;}", errors=refusals))


def _state(session: Session, key: Key) -> str | ApiError | None:
    """Return ``there``, ``leaving``, None if absent, or the error if the user may not read it."""
    found = or_refusal(partial(session.get_metadata, key))
    if found is None or isinstance(found, ApiError):
        return found
    return "leaving" if found["metadata"].get("deletionTimestamp") else "there"


def _needs(pod: DryRunPod) -> Iterator[PodReference]:
    """Yield the objects without which a pod does not start, except those marked ``optional``."""
    namespace = pod.step.key.namespace

    def need(kind: str, what: str, reference: Object | None, field: str = "name") -> Iterator[PodReference]:
        if reference and reference.get(field) and not reference.get("optional"):
            yield PodReference(Key(kind, namespace, reference[field]), what)

    # Admission adds the pull secrets of the service account to `template`. Variables are read from `own`: `template`
    # may be that of another pod with other variables.
    for item in pod.template["spec"].get("imagePullSecrets") or []:
        yield from need("Secret", say("pull secret"), item)
    spec = pod.own["spec"]
    for container in containers_of(spec):
        for source in container.get("envFrom") or []:
            yield from need("Secret", say("secret"), source.get("secretRef"))
            yield from need("ConfigMap", say("config map"), source.get("configMapRef"))
        for variable in container.get("env") or []:
            taken = variable.get("valueFrom") or {}
            yield from need("Secret", say("secret"), taken.get("secretKeyRef"))
            yield from need("ConfigMap", say("config map"), taken.get("configMapKeyRef"))
    for claim in spec.get("resourceClaims") or []:
        yield from need("ResourceClaim", say("resource claim"), claim, "resourceClaimName")
        yield from need("ResourceClaimTemplate", say("resource claim template"), claim, "resourceClaimTemplateName")
    for volume in spec.get("volumes") or []:
        yield from need("PersistentVolumeClaim", say("claim"), volume.get("persistentVolumeClaim"), "claimName")
        for source in (volume, *((volume.get("projected") or {}).get("sources") or [])):
            yield from need("Secret", say("secret"), source.get("secret"), "secretName" if source is volume else "name")
            yield from need("ConfigMap", say("config map"), source.get("configMap"))


def _nodes(
    session: Session,
    plan: Plan,
    pods: list[DryRunPod],
    keys: Records | None,
    gpu_resources: frozenset[str],
    findings: _Findings,
) -> None:
    selective = [pod for pod in pods if _selector(pod) or _gpus(pod, gpu_resources)]
    if not selective:
        return
    pools = {_selector(pod).get(keys.pool) if keys is not None else None for pod in selective}
    labels = "" if keys is None or None in pools else f"{keys.pool} in ({','.join(sorted(map(str, pools)))})"
    hosts = _planned_nodes(session, plan, labels)
    if hosts is None:
        return
    everywhere: list[Labels] = []

    def known() -> list[Labels]:
        """Read the labels of all nodes, only if a selector matches no node."""
        if not everywhere:
            everywhere.extend(labels_of(node) for node in session.list_metadata(RESOURCES["Node"]))
        return everywhere

    for pod in selective:
        selector = _selector(pod)
        stated = [f"{name}={value}" for name, value in selector.items()]
        selected = [host for host in hosts if selector.items() <= host.labels.items()]
        if selector and not selected:
            meant = _suggestion(selector, known)
            findings.add(pod, say("no node has the labels {labels}{meant}", labels=stated, meant=meant))
            continue
        selected = [host for host in selected if _is_in_terms(pod, host.labels)]
        for resource, amount in _gpus(pod, gpu_resources).items():
            text = _shortage(selected, resource, amount)
            if text is not None and not may_offer_extended_resource(session, resource):
                where = say(" with {labels}", labels=stated) if stated else ""
                findings.add(
                    pod,
                    say(
                        "no node{where} has {amount} {resource}{more}",
                        where=where,
                        amount=amount,
                        resource=resource,
                        more=text,
                    ),
                    certain=False,
                )


def _shortage(hosts: list[PlannedNode], resource: str, amount: int) -> str | None:
    """Return the size of the largest node if no node has ``amount``, as text, "" if none has any; None if one does.

    None also without nodes: required terms of affinity exclude those that have the labels.
    """
    sizes = {host.name: int(amounts(host.allocatable).get(resource, 0)) for host in hosts}
    if not sizes or max(sizes.values()) >= amount:
        return None
    largest = max(sorted(sizes), key=lambda name: sizes[name])
    return say(" (the largest, {node}, has {amount})", node=largest, amount=sizes[largest]) if sizes[largest] else ""


def _suggestion(selector: Labels, known: Callable[[], list[Labels]]) -> str:
    """Return a similar label value, of nodes that have all the other labels, as a hint."""
    for name, value in selector.items():
        others = {key: wanted for key, wanted in selector.items() if key != name}
        values = {labels[name] for labels in known() if name in labels and others.items() <= labels.items()}
        close = nearest(value, sorted(values))
        # The plan removes a label that is equal.
        if close not in (None, value):
            return say(" (did you mean {name}={value}?)", name=name, value=close)
    return ""


def _selector(pod: DryRunPod) -> Labels:
    return pod.template["spec"].get("nodeSelector") or {}


def _gpus(pod: DryRunPod, resources: Iterable[str]) -> dict[str, int]:
    requests = pod_requests(pod.template["spec"])
    return {name: int(requests[name]) for name in sorted(resources) if requests.get(name)}


def _is_in_terms(pod: DryRunPod, labels: Labels) -> bool:
    """Return True if one of the required node selector terms matches, by labels only (``matchFields`` is ignored)."""
    terms = required_node_terms(pod.template["spec"])
    return not terms or any(
        all(requirement_matches(expression, labels) for expression in term.get("matchExpressions") or [])
        for term in terms
    )


def _planned_nodes(session: Session, plan: Plan, labels: str) -> list[PlannedNode] | None:
    """Return the nodes that have, or will have, certain labels; None if the user may not read nodes."""
    nodes = if_allowed(lambda: session.list_objects(RESOURCES["Node"], labels=labels)[0], None)
    if nodes is None:
        return None
    found = {node["metadata"]["name"]: node for node in nodes}
    changes: dict[str, dict[str, str | None]] = {}
    for step in plan.steps:
        if step.key.kind == "Node" and step.live is not None:
            found.setdefault(step.key.name, step.live)
            changes[step.key.name] = label_changes(step)
    return [
        PlannedNode(
            name,
            {key: value for key, value in {**labels_of(node), **changes.get(name, {})}.items() if value is not None},
            (node.get("status") or {}).get("allocatable") or {},
        )
        for name, node in found.items()
    ]
