"""Whether all that a plan adds fits into the quotas, with what its deletions give back."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.live_state import OURS
from gpuctl.backend.api_resources import RESOURCES, WORKLOADS, Object, labels_of
from gpuctl.capacity.quota_sum import Usage, admissions, shortfalls
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session

Template = tuple[Object, int]


def check_quotas(
    session: Session, steps: list[Step], pods: dict[int, list[Template]], refusals: dict[str, list[str]]
) -> list[str]:
    """What does not fit, as errors.

    :param pods: ``id(step)`` -> the pod templates of its workload with the server's defaults, and their numbers.
    :param refusals: namespace -> what dry-runs said of quotas; it counts where quotas may not be read.
    """
    namespaces = sorted({step.key.namespace for step in steps if step.key.namespace})
    errors: list[str] = []
    for found in session.each(lambda namespace: _check(session, namespace, steps, pods, refusals), namespaces):
        errors += found
    return errors


def _check(
    session: Session,
    namespace: str,
    steps: list[Step],
    pods: dict[int, list[Template]],
    refusals: dict[str, list[str]],
) -> list[str]:
    mine = [step for step in steps if step.key.namespace == namespace]
    leaving = [step for step in mine if step.deletes]
    try:
        quotas, _ = session.list_objects(RESOURCES["ResourceQuota"], namespace)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        # With something to give back, a refusal of today says nothing about the time after the delete.
        return [] if leaving else list(dict.fromkeys(refusals.get(namespace, [])))
    quotas = [_as_planned(quota, mine) for quota in quotas]
    if not quotas:
        return []
    added: list[Usage] = []
    rolling: list[Object] = []
    for step in mine:
        if step.desired is None:
            continue
        if step.action in ("create", "replace"):
            # What Kueue holds back has pods when others have given back theirs.
            added += admissions(step.desired, [] if step.queued else pods.get(id(step)))
        elif step.method == "put" and step.live is not None:
            # Rolling: the new pods come as the old ones go, so what counts is the difference.
            added += [Usage(step.desired, before=step.live), *_pods_of(step.desired, pods.get(id(step)))]
            rolling.append(step.live)
        elif step.method == "apply" and step.live is not None:
            added.append(Usage(step.desired, before=step.live))
    freed = _freed(session, namespace, leaving, rolling)
    found = [f"in namespace {namespace}, {shortfall}" for shortfall in shortfalls(quotas, added, freed)]
    unused = [{**quota, "status": {**(quota.get("status") or {}), "used": {}}} for quota in quotas]
    for step in mine:
        if step.queued and step.desired is not None:
            alone = shortfalls(unused, _pods_of(step.desired, pods.get(id(step))))
            found += [f"{step.title} never fits into {namespace}: {shortfall}" for shortfall in alone]
    return found


def _as_planned(quota: Object, steps: Iterable[Step]) -> Object:
    """A quota that the plan changes counts as it will be."""
    for step in steps:
        if step.key.kind == "ResourceQuota" and step.key.name == quota["metadata"]["name"] and step.desired is not None:
            hard = (step.desired.get("spec") or {}).get("hard") or quota["spec"].get("hard")
            return {
                **quota,
                "spec": {**quota["spec"], "hard": hard},
                "status": {**(quota.get("status") or {}), "hard": hard},
            }
    return quota


def _pods_of(workload: Object, pods: list[Template] | None) -> list[Usage]:
    """The pods alone of a workload."""
    return [usage for usage in admissions(workload, pods) if usage.object["kind"] == "Pod"]


def _freed(session: Session, namespace: str, leaving: list[Step], rolling: list[Object]) -> list[Usage]:
    """What is given back: objects that are deleted, and the pods that they, or those in ``rolling``, have now."""
    live = [step.live for step in leaving if step.live is not None]
    freed = [usage for obj in live for usage in admissions(obj, [])]
    workloads = [obj for obj in live if obj["kind"] in WORKLOADS] + rolling
    if not workloads:
        return freed
    try:
        pods, _ = session.list_objects(RESOURCES["Pod"], namespace, labels=OURS)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        return [usage for obj in live for usage in admissions(obj)] + [
            usage for obj in rolling for usage in _pods_of(obj, None)
        ]
    selectors = [_labels_of_pods(obj) for obj in workloads]
    return freed + [
        Usage(pod) for pod in pods if any(selector.items() <= labels_of(pod).items() for selector in selectors)
    ]


def _labels_of_pods(workload: Object) -> dict[str, str]:
    """Labels that the pods of a workload have and no others."""
    if workload["kind"] == "JobSet":
        return {"jobset.sigs.k8s.io/jobset-name": workload["metadata"]["name"]}
    return dict(((workload.get("spec") or {}).get("selector") or {}).get("matchLabels") or {"": ""})
