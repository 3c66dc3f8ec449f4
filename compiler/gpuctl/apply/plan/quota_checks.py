"""Check of a plan's additions against the ResourceQuotas, minus what its deletions free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl.apply.plan.claim_charges import ClaimCharges
from gpuctl.apply.plan.new_pods import workload_of_new_pods
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.quota_waits import PodDemand, QuotaWaitOptions, add_quota_waits, add_refused_waits
from gpuctl.apply.state.live_state import OURS
from gpuctl.capacity.admission.quota_charges import ChargedObjects, Shortfall, charged_objects, shortfalls
from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Object
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.workload_state import pods_of_each

Template = tuple[Object, int]


def check_quotas(
    session: Session,
    steps: list[Step],
    pods: dict[int, list[Template]],
    refusals: dict[str, list[str]],
    claims: ClaimCharges,
    queueing: QuotaWaitOptions | None = None,
    advice: str = "",
) -> list[str]:
    """Return errors for the objects and pods that exceed a quota.

    :param pods: ``id(step)`` -> pod templates of its workload with the server's defaults, and the number of pods of
        each.
    :param refusals: namespace -> quota errors of dry-runs; used if the user may not read the quotas.
    :param claims: what the devices of live pods charge.
    :param queueing: pods that exceed a quota wait instead: written into the steps as waits.
    :param advice: appended to the error if the pods would fit later.
    """
    namespaces = sorted({step.key.namespace for step in steps if step.key.namespace})
    errors: list[str] = []

    def look(namespace: str) -> list[str]:
        return _check(session, namespace, steps, pods, refusals, claims, queueing, advice)

    for found in session.each(look, namespaces):
        errors += found
    return errors


def _check(
    session: Session,
    namespace: str,
    steps: list[Step],
    pods: dict[int, list[Template]],
    refusals: dict[str, list[str]],
    claims: ClaimCharges,
    queueing: QuotaWaitOptions | None,
    advice: str,
) -> list[str]:
    mine = [step for step in steps if step.key.namespace == namespace]
    leaving = [step for step in mine if step.deletes]
    try:
        quotas, _ = session.list_objects(RESOURCES["ResourceQuota"], namespace)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        # If the plan frees something, a refusal before the deletion does not predict one after it.
        if leaving:
            return []
        never = [] if queueing is None else add_refused_waits(mine, queueing)
        return list(dict.fromkeys([*refusals.get(namespace, []), *never]))
    quotas = [_as_planned(quota, mine) for quota in quotas]
    if not quotas:
        return []
    objects, demands, rolling = _requested_usage(mine, pods)
    freed = _freed(session, namespace, leaving, rolling, claims)
    # Prunes come after creations. Pods retry until the pruned pods are gone; the creation of an object does not.
    freed_before = _freed_objects(step for step in leaving if step.action != "prune")
    never = _never_fitting(namespace, quotas, mine, pods, queued_only=queueing is None)
    if queueing is None:
        every = [*objects, *(usage for demand in demands for usage in demand.pods)]
        too_late = shortfalls(quotas, objects, freed_before)
        found = _messages(namespace, shortfalls(quotas, every, freed) or too_late)
        may_wait = bool(advice and found) and not too_late
        if may_wait and not _never_fitting(namespace, quotas, mine, pods, queued_only=False):
            found[-1] += say("; {text}", text=advice)
        return [*found, *never]
    found = [*_messages(namespace, shortfalls(quotas, objects, freed_before)), *never]
    if not found:
        classes = {step.key.name: step.desired for step in steps if step.key.kind == "PriorityClass" and step.desired}
        # The sort is stable: equal priorities keep the order of the plan.
        demands.sort(key=lambda demand: -_priority(demand, classes))
        add_quota_waits(session, namespace, quotas, demands, objects, freed, claims, queueing)
    return found


def _priority(demand: PodDemand, classes: Mapping[str, Object]) -> int:
    """Return the priority of a workload's pods: from the server's dry-run, or from the planned PriorityClasses."""
    workload = workload_of_new_pods(demand.step)
    templates = [] if workload is None else pod_templates(workload)
    named = [template["spec"].get("priorityClassName") for template, _ in templates]
    planned = [classes[name]["value"] for name in named if name in classes]
    return max((*planned, *(usage.object["spec"].get("priority") or 0 for usage in demand.pods)), default=0)


def _requested_usage(
    steps: Iterable[Step], pods: dict[int, list[Template]]
) -> tuple[list[ChargedObjects], list[PodDemand], list[Object]]:
    """Return the objects and the pods that quotas will count, and the live workloads that are updated by rolling."""
    objects: list[ChargedObjects] = []
    demands: list[PodDemand] = []
    rolling: list[Object] = []
    for step in steps:
        if step.desired is None:
            continue
        if step.action in ("create", "replace"):
            objects += charged_objects(step.desired, [])
            if not step.queued:
                # Pods of a workload that Kueue suspends are created only when other pods have freed the quota.
                demands.append(PodDemand(step, _pods_of(step.desired, pods.get(id(step)))))
        elif step.method == "put" and step.live is not None:
            # A rolling update replaces pods one by one, so only the difference counts.
            objects.append(ChargedObjects(step.desired, before=step.live))
            demands.append(PodDemand(step, _pods_of(step.desired, pods.get(id(step)))))
            rolling.append(step.live)
        elif step.method == "patch" and (added := workload_of_new_pods(step)) is not None:
            demands.append(PodDemand(step, _pods_of(added, pods.get(id(step)))))
        elif step.method == "apply" and step.live is not None:
            objects.append(ChargedObjects(step.desired, before=step.live))
    return objects, demands, rolling


def _messages(namespace: str, found: Iterable[Shortfall]) -> list[str]:
    return [
        say("in namespace {namespace}, {shortfall}", namespace=namespace, shortfall=shortfall) for shortfall in found
    ]


def _never_fitting(
    namespace: str, quotas: list[Object], steps: list[Step], pods: dict[int, list[Template]], *, queued_only: bool
) -> list[str]:
    """Return errors for the workloads whose pods exceed a quota even if nothing else runs."""
    unused = [{**quota, "status": {**(quota.get("status") or {}), "used": {}}} for quota in quotas]
    found: list[str] = []
    for step in steps:
        workload = workload_of_new_pods(step) if step.method != "apply" else None
        if workload is not None and (step.queued or not queued_only):
            stay = _pods_of(step.live, None) if step.method == "patch" and step.live is not None else []
            alone = shortfalls(unused, [*stay, *_pods_of(workload, pods.get(id(step)))])
            found += [
                say(
                    "{job} never fits into {namespace}: {shortfall}",
                    job=step.title,
                    namespace=namespace,
                    shortfall=shortfall,
                )
                for shortfall in alone
            ]
    return found


def _as_planned(quota: Object, steps: Iterable[Step]) -> Object:
    """Return a quota with the limits that the plan sets."""
    for step in steps:
        if step.key.kind == "ResourceQuota" and step.key.name == quota["metadata"]["name"] and step.desired is not None:
            hard = (step.desired.get("spec") or {}).get("hard") or quota["spec"].get("hard")
            return {
                **quota,
                "spec": {**quota["spec"], "hard": hard},
                "status": {**(quota.get("status") or {}), "hard": hard},
            }
    return quota


def _pods_of(workload: Object, pods: list[Template] | None) -> list[ChargedObjects]:
    """Return the usage of a workload's pods, without the workload itself."""
    return [usage for usage in charged_objects(workload, pods) if usage.object["kind"] == "Pod"]


def _freed(
    session: Session, namespace: str, leaving: list[Step], rolling: list[Object], claims: ClaimCharges
) -> list[ChargedObjects]:
    """Return the usage that is freed: deleted objects, and the live pods of deleted and ``rolling`` workloads."""
    live = [step.live for step in leaving if step.live is not None]
    freed = _freed_objects(leaving)
    workloads = [obj for obj in live if obj["kind"] in WORKLOADS] + rolling
    if not workloads:
        return freed
    pods = if_allowed(lambda: session.list_objects(RESOURCES["Pod"], namespace, labels=OURS)[0], None)
    if pods is None:
        return [usage for obj in live for usage in charged_objects(obj)] + [
            usage for obj in rolling for usage in _pods_of(obj, None)
        ]
    return freed + [
        ChargedObjects(claims.live(pod, namespace)) for mine in pods_of_each(pods, workloads) for pod in mine
    ]


def _freed_objects(leaving: Iterable[Step]) -> list[ChargedObjects]:
    """Return the usage of the deleted objects, without their pods."""
    return [usage for step in leaving if step.live is not None for usage in charged_objects(step.live, [])]
