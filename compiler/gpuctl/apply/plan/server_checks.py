"""The checks before anything is changed: rights, the server's dry-runs, quotas, and dependencies of pods."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.claim_charges import ClaimCharges
from gpuctl.apply.plan.dependency_checks import check_dependencies
from gpuctl.apply.plan.dry_run_pods import DryRunPod, creation_error, dry_run_pods
from gpuctl.apply.plan.evictions import never_fitting
from gpuctl.apply.plan.plan import WRITING, Plan, Step
from gpuctl.apply.plan.pool_limit_checks import check_pool_limits
from gpuctl.apply.plan.quota_checks import check_quotas
from gpuctl.apply.plan.quota_waits import QuotaWaitOptions
from gpuctl.apply.state.compare import compare
from gpuctl.apply.state.managed_fields import held_by_others
from gpuctl.apply.state.takeover import claim
from gpuctl.hints import ADOPT_FIELDS, ADOPT_OBJECT, QUEUE, QUEUE_ANYWAY
from gpuctl.kube.api_errors import ApiError, Changed
from gpuctl.kube.kueue import kueue_resources, queue_names
from gpuctl.kube.session import MANAGER, Session
from gpuctl.kube.version_conflicts import retried_on_conflict
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import (
    DEFAULT_QUEUE,
    RESOURCES,
    TRAININGS,
    Key,
    Object,
    Resource,
    annotations_of,
    key_of,
)
from gpuctl.objects.label_managers import POOLS_MANAGER
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, is_ours
from gpuctl.objects.queueing import queue_of

_VERSIONED = frozenset({"LeaderWorkerSet"})
"""Custom resources that are updated in place. Source: ``apimachinery/pkg/api/validation``, ValidateObjectMetaUpdate."""


class Right(NamedTuple):
    """A verb on a resource in a namespace ("" for the whole cluster)."""

    verb: str
    resource: Resource
    namespace: str
    subresource: str = ""


def check(session: Session, plan: Plan, request: ApplyRequest | None = None) -> None:
    """Add the reasons why a plan would fail to its errors, and warnings to its notes.

    :param request: None for plans that only delete: pools are then not checked.
    :raises ApiError: the cluster failed during a check.
    """
    steps = [step for step in plan.steps if step.action in WRITING]
    if not steps:
        return
    plan.lacking += _missing_rights(session, plan)
    if plan.lacking:
        return
    new_namespaces = plan.new_namespaces
    refusals: dict[str, list[str]] = {}
    _find_queued(session, plan, steps, request)
    succeeding = plan.succeeding_autoscalers
    refused = list(session.each(lambda step: _dry_run(session, step, new_namespaces, refusals, succeeding), steps))
    plan.errors += [_explained(step, error) for step, error in zip(steps, refused, strict=True) if error is not None]
    lenient = None if request is None else request.planning.no_probe
    # The pods of a refused workload would mostly be refused for the same reason, in the same words.
    accepted = [step for step, error in zip(steps, refused, strict=True) if error is None]
    pods = dry_run_pods(session, plan, accepted, new_namespaces, lenient=lenient)
    claims = ClaimCharges(session, plan.steps)
    if not plan.errors:
        plan.errors += _check_quotas(session, plan, steps, pods, refusals, claims, request)
        _tell_of_kueue(plan, request)
    if request is not None and not plan.errors:
        plan.errors += check_pool_limits(session, plan.steps, claims, request)
    keys, gpus = (None, frozenset[str]()) if request is None else (request.keys, request.settings.gpu_resources)
    check_dependencies(session, plan, pods, keys, gpus)
    if not plan.errors:
        plan.notes += [say("the API server warns: {warning}", warning=warning) for warning in session.warnings]


def _check_quotas(
    session: Session,
    plan: Plan,
    steps: list[Step],
    pods: list[DryRunPod],
    refusals: dict[str, list[str]],
    claims: ClaimCharges,
    request: ApplyRequest | None,
) -> list[str]:
    """Return errors for objects and pods that exceed a quota. With ``--queue`` such pods become waits."""
    templates: dict[int, list[tuple[Object, int]]] = {}
    refused: dict[int, str] = {}
    for pod in pods:
        template = claims.planned(pod.template, pod.step.key.namespace)
        templates.setdefault(id(pod.step), []).append((template, pod.pods))
        if pod.refusal:
            refused.setdefault(id(pod.step), pod.refusal)
    if request is not None and request.planning.queue:
        return check_quotas(
            session, steps, templates, refusals, claims, QuotaWaitOptions(request.keys, refused, request.sees)
        )
    for pod in pods:
        if pod.refusal:
            refusals.setdefault(pod.step.key.namespace, []).append(pod.refusal)
    errors = check_quotas(session, steps, templates, refusals, claims)
    if not errors or request is None:
        return errors
    never = never_fitting(session, plan)
    if never:
        return [*never, *errors]
    plan.can_queue = True
    advice = say("{option}, and it starts when there is room", option=QUEUE_ANYWAY)
    return check_quotas(session, steps, templates, refusals, claims, advice=advice)


def _tell_of_kueue(plan: Plan, request: ApplyRequest | None) -> None:
    """Note that ``--queue`` changes nothing for workloads that Kueue suspends."""
    held = [step.title for step in plan.steps if step.queued]
    if held and request is not None and request.planning.queue:
        plan.notes.append(
            say(
                "{names:few}: Kueue starts it when its queue has room, with or without {option}",
                names=held,
                option=QUEUE,
            )
        )


def _find_queued(session: Session, plan: Plan, steps: list[Step], request: ApplyRequest | None) -> None:
    """Mark the new workloads that Kueue's webhook will suspend, including those without a queue if there is a default.

    Without Kueue a queue has no effect, which becomes a note.
    """
    coming = [(step, step.desired) for step in steps if step.method == "post" and step.desired is not None]
    unnamed = {step.key.namespace for step, desired in coming if step.key.kind in TRAININGS and not queue_of(desired)}
    named = [step.title for step, desired in coming if queue_of(desired)]
    try:
        kinds = kueue_resources(session) if named or unnamed else None
    except ApiError as error:
        if named or not error.lacks_permission:
            raise
        kinds = None
    if kinds is None:
        if named:
            plan.notes.append(
                say(
                    "the cluster has no Kueue, so the queue of {names:few} has no effect: nothing holds the pods back, "
                    "and nothing starts those of several nodes together; install Kueue, or remove `resources.queue` "
                    "from the document and `training.queue` from platform.yaml",
                    names=named,
                )
            )
        return
    queues = {namespace: queue_names(session, kinds["LocalQueue"], namespace) for namespace in sorted(unnamed)}
    for step, desired in coming:
        # The pods of a service are created at once, and wait with a gate.
        own = queues.get(step.key.namespace, [])
        step.queued = step.key.kind in TRAININGS and (bool(queue_of(desired)) or DEFAULT_QUEUE in own)
    for namespace, names in queues.items():
        beside = [
            step.title
            for step, _ in coming
            if step.key.kind in TRAININGS and step.key.namespace == namespace and not step.queued
        ]
        if names and beside:
            plan.notes.append(
                say(
                    "namespace {namespace} has the Kueue {number:queue/queues} {queues:few}, and {names:few} "
                    "{jobs:starts/start} without one: {reason}",
                    namespace=namespace,
                    number=len(names),
                    queues=names,
                    names=beside,
                    jobs=len(beside),
                    reason=say("no platform file was found")
                    if request is not None and request.settings.is_default
                    else say("`training.queue` in platform.yaml names no queue for the pool"),
                )
            )


def _missing_rights(session: Session, plan: Plan) -> list[str]:
    """Return the rights that the user lacks. Source: SelfSubjectAccessReview (authorization.k8s.io/v1)."""
    rights = sorted(set(_rights(plan)))

    def review(right: Right) -> bool:
        attributes = {
            "verb": right.verb,
            "group": right.resource.group,
            "resource": right.resource.plural,
            "subresource": right.subresource,
            "namespace": right.namespace,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        try:
            answer = session.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body)
        except ApiError as error:
            if error.status in (403, 404):
                # The server does not answer reviews; the requests themselves will fail if a right is missing.
                return True
            raise
        return bool((answer.get("status") or {}).get("allowed"))

    allowed = session.each(review, rights)
    missing: dict[Right, list[str]] = {}
    for right, yes in zip(rights, allowed, strict=True):
        if not yes:
            missing.setdefault(right._replace(verb=""), []).append(right.verb)
    return [_lacking(right, verbs) for right, verbs in sorted(missing.items())]


def _lacking(right: Right, verbs: list[str]) -> str:
    resource, namespace = right.resource, right.namespace
    name = resource.plural + (f".{resource.group}" if resource.group else "")
    name += f"/{right.subresource}" if right.subresource else ""
    return say(
        "you may not {verbs} {resource} {where}{why}",
        verbs=say("{first} or {last}", first=verbs[:-1], last=verbs[-1]) if len(verbs) > 1 else verbs,
        resource=name,
        where=say("in namespace {namespace}", namespace=namespace) if namespace else say("in the whole cluster"),
        why=say(": a replaced object is kept in one until the new object exists")
        if resource is RESOURCES["Secret"]
        else "",
    )


def _rights(plan: Plan) -> Iterator[Right]:
    verbs = {"post": ("create",), "patch": ("patch",), "put": ("update",), "labels": ("patch",), "none": ()}
    for step in plan.steps:
        if step.action not in WRITING:
            continue
        resource, namespace = step.key.resource, step.key.namespace
        if step.claims is not None:
            yield Right("patch", resource, namespace)
        if step.method == "apply":
            # Server-side apply of an absent object needs both verbs (apiserver, PatchResource).
            yield Right("patch", resource, namespace)
            if step.action in ("create", "replace"):
                yield Right("create", resource, namespace)
        else:
            for verb in verbs.get(step.method, ()):
                yield Right(verb, resource, namespace)
        if step.desired is not None and FINISHED_INDEXES in annotations_of(step.desired):
            yield Right("patch", resource, namespace)
            yield Right("patch", resource, namespace, "status")
        if step.deletes and step.live is not None:
            leaving = key_of(step.live).resource
            yield Right("delete", leaving, namespace)
            yield Right("watch", leaving, namespace)
            if step.action == "replace":
                for verb in ("create", "delete", "list"):
                    yield Right(verb, RESOURCES["Secret"], namespace)


def _dry_run(
    session: Session, step: Step, new_namespaces: set[str], refusals: dict[str, list[str]], succeeding: set[Key]
) -> ApiError | None:
    """Dry-run one step, and return the error. Quota errors are collected in ``refusals``, because the plan may free
    quota.

    :param succeeding: autoscalers whose predecessor still exists. KEDA's webhook refuses them until it is deleted.
    :raises ApiError: the cluster failed: that is no statement about the object.
    """
    desired = step.desired
    if desired is None or step.passed_dry_run or step.method in ("none", "delete"):
        return None
    try:
        if step.key.namespace in new_namespaces:
            _dry_run_elsewhere(session, desired)
        elif step.action == "create":
            session.create(desired, dry_run=True)
        elif step.action == "replace":
            _dry_run_create(session, desired)
        elif step.method == "apply":
            _dry_run_apply(session, step, desired, MANAGER)
        elif step.method == "labels":
            _dry_run_apply(session, step, desired, POOLS_MANAGER)
        elif step.method == "patch":
            session.patch(step.key, desired, dry_run=True)
        elif step.method == "put":
            _dry_run_put(session, step.key, desired)
    except ApiError as error:
        if error.is_outage:
            raise
        if error.exceeds_quota:
            refusals.setdefault(step.key.namespace, []).append(_explained(step, error))
            return None
        if error.is_policy_refusal and step.key in succeeding:
            return None
        if error.exists_already and _is_ours_now(session, step.key):
            raise Changed(
                say("{object} was just created by another gpuctl run", object=step.key), say("check it, and run again")
            ) from None
        return error
    return None


def _dry_run_put(session: Session, key: Key, desired: Object) -> None:
    """Dry-run a PUT. That of a custom resource must state a version, which each update of its status changes.

    :raises ApiError: the server refuses it.
    """
    if key.kind not in _VERSIONED:
        session.replace(desired, dry_run=True)
        return

    def send() -> None:
        live = session.get(key)
        if live is not None:
            metadata = {**desired["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
            session.replace({**desired, "metadata": metadata}, dry_run=True)

    retried_on_conflict(send)


def _is_ours_now(session: Session, key: Key) -> bool:
    live = session.get(key)
    return live is not None and is_ours(live)


def _dry_run_apply(session: Session, step: Step, desired: Object, manager: str) -> None:
    """Dry-run a server-side apply; if allowed, take over fields of other managers and add them to the step's reason."""
    try:
        session.apply(desired, manager=manager, dry_run=True)
    except ApiError as error:
        if not error.is_conflict or not (step.adopt or step.claims):
            raise
        held = error.message
        if step.claims is not None and step.live is not None:
            # The server does not take into account that gpuctl will own the fields of its last document before the
            # apply.
            claimed = claim(step.live, step.claims).live
            held = compare(step.key.kind, desired, claimed, others=held_by_others(claimed)).held
            if held and not step.adopt:
                raise
        session.apply(desired, manager=manager, force=True, dry_run=True)
        if held:
            step.reason += say("; takes over fields of other managers: {held}", held=held)


def _explained(step: Step, error: ApiError) -> str:
    if error.exists_already:
        return say(
            "{object} exists already and is not gpuctl's (it lacks the label app.kubernetes.io/managed-by=gpuctl); "
            "{hint}",
            object=step.key,
            hint=ADOPT_OBJECT,
        )
    if error.is_conflict and step.method in ("apply", "labels"):
        return say("{object}: {error}; {hint}", object=step.key, error=error.message, hint=ADOPT_FIELDS)
    if error.is_missing and error.raw.startswith("namespaces "):
        return say(
            "there is no namespace {namespace}; its administrators have to create it", namespace=step.key.namespace
        )
    # For a group without a CRD the response is not a Status.
    if error.is_missing and (not error.raw or "could not find the requested resource" in error.raw):
        return say(
            "{object}: this kind is not installed in the cluster; its administrators have to install it",
            object=step.key,
        )
    return say("{object}: {error}", object=step.key, error=error.message)


def _dry_run_elsewhere(session: Session, desired: Object) -> None:
    """Dry-run in the namespace ``default``, as the object's own namespace does not exist yet. This detects invalid
    objects.

    Refusals by admission are ignored: they concern the other namespace.
    """
    try:
        _dry_run_create(session, {**desired, "metadata": {**desired["metadata"], "namespace": "default"}})
    except ApiError as error:
        if error.status != 403 and not error.is_policy_refusal:
            raise


def _dry_run_create(session: Session, desired: Object) -> None:
    """Dry-run a creation under the object's own name, even if the object it replaces has it; see
    :func:`creation_error`.

    Node ports are removed, because the old object still has them.
    """
    if desired["kind"] == "Service":
        desired = copy.deepcopy(desired)
        for port in desired["spec"].get("ports") or []:
            port.pop("nodePort", None)
    refusal = creation_error(session, desired)
    if refusal is not None:
        raise refusal
