"""Jobs that are created although a quota has no room for their pods: their waits, and the jobs that hold the quota.

Only pods may come later: Kubernetes' controllers retry them (``pkg/controller``: ``job`` after 1 s, 2 s ... at most a
minute; ``replicaset`` and ``statefulset`` after 5 ms, 10 ms ... at most 1000 s). No controller retries a Job that
``count/jobs.batch`` refuses. :mod:`~gpuctl.apply.plan.quota_checks` rejects pods beyond the whole quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import MaySee
from gpuctl.apply.plan.claim_charges import ClaimCharges
from gpuctl.apply.plan.plan import Step, Wait
from gpuctl.capacity.admission.quota_charges import ChargedObjects, Shortfall, parse_exceeded, shortfalls, with_charges
from gpuctl.capacity.snapshot.pod_requests import Amounts, amounts
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Object, labels_of
from gpuctl.objects.ownership_metadata import Records, job_title
from gpuctl.objects.quantities import format_amount


class QuotaWaitOptions(NamedTuple):
    """Options for waiting for quotas. ``refused`` are the errors of pod dry-runs by ``id(step)``, used if the user may
    not read quotas. ``sees`` returns True if a job may be named.
    """

    keys: Records
    refused: dict[int, str]
    sees: MaySee


class PodDemand(NamedTuple):
    """The pods of a workload that is created, as quotas count them."""

    step: Step
    pods: list[ChargedObjects]


def add_quota_waits(
    session: Session,
    namespace: str,
    quotas: list[Object],
    demands: list[PodDemand],
    objects: list[ChargedObjects],
    freed: list[ChargedObjects],
    claims: ClaimCharges,
    queueing: QuotaWaitOptions,
) -> None:
    """Add waits to the steps of a namespace whose pods exceed a quota when ``demands`` are created in this order."""
    if not shortfalls(quotas, [*objects, *(usage for demand in demands for usage in demand.pods)], freed):
        return
    left = [with_charges(quota, objects, freed) for quota in quotas]
    holders = _Holders(session, namespace, freed, claims, queueing)
    for demand in demands:
        short = shortfalls(left, demand.pods)
        if not short:
            left = [with_charges(quota, demand.pods) for quota in left]
            holders.add(demand)
            continue
        for quota in left:
            mine = [item for item in short if item.quota == quota["metadata"]["name"]]
            if mine:
                held = holders.of(quota, mine[0].resource)
                demand.step.waits.append(_wait(namespace, mine, held))


def add_refused_waits(steps: Iterable[Step], queueing: QuotaWaitOptions) -> list[str]:
    """Add waits from the errors of dry-runs, if the user may not read quotas. Return errors for pods that never fit."""
    never: list[str] = []
    for step in steps:
        said = queueing.refused.get(id(step), "")
        parsed = parse_exceeded(said)
        too_much = [item for item in parsed or () if item.needed > item.hard]
        if too_much:
            never.append(
                say(
                    "{job} never fits into {namespace}: {shortfall}",
                    job=step.title,
                    namespace=step.key.namespace,
                    shortfall=too_much[0],
                )
            )
        elif parsed:
            short = [item for item in parsed if item.total > item.hard]
            step.waits.append(_wait(step.key.namespace, short or parsed, []))
        elif said:
            step.waits.append(
                Wait("quota", say("a quota in {namespace} that you may not read", namespace=step.key.namespace))
            )
    return never


def _wait(namespace: str, short: list[Shortfall], held: list[str]) -> Wait:
    lacks = [
        say(
            "asks {amount} {resource}, {free} free",
            amount=format_amount(item.resource, item.needed),
            resource=item.resource.removeprefix("requests."),
            free=format_amount(item.resource, max(Fraction(0), item.hard - item.used + item.freed)),
        )
        for item in short
    ]
    by = say("; held by {names:few}", names=held) if held else ""
    return Wait(
        "quota",
        say("quota {quota} in {namespace}: {lacks}{by}", quota=short[0].quota, namespace=namespace, lacks=lacks, by=by),
    )


class _Holders:
    """The usage of a namespace's quotas by job. Its pods are read once, when first needed."""

    def __init__(
        self,
        session: Session,
        namespace: str,
        freed: list[ChargedObjects],
        claims: ClaimCharges,
        queueing: QuotaWaitOptions,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._leaving = {_uid(usage.object) for usage in freed}
        self._claims = claims
        self._queueing = queueing
        self._known: list[tuple[str, list[ChargedObjects]]] | None = None
        self._coming: list[tuple[str, list[ChargedObjects]]] = []
        # By quota: the usage of each holder, and the number of holders that were counted.
        self._amounts: dict[str, tuple[dict[str, Amounts], int]] = {}

    def add(self, demand: PodDemand) -> None:
        """Add the pods of a demand to the holders."""
        self._coming.append((demand.step.title, demand.pods))

    def of(self, quota: Object, resource: str) -> list[str]:
        """Return the jobs that hold a resource of a quota, or come earlier in the plan, largest first."""
        sees = self._queueing.sees
        found = [
            (name, used[resource])
            for name, used in self._of(quota).items()
            if used.get(resource) and sees(self._namespace, name)
        ]
        ordered = sorted(found, key=lambda item: (-item[1], item[0]))
        return [say("{name} ({detail})", name=name, detail=format_amount(resource, amount)) for name, amount in ordered]

    def _of(self, quota: Object) -> dict[str, Amounts]:
        if self._known is None:
            self._known = list(self._live())
        name = quota["metadata"]["name"]
        table, looked = self._amounts.get(name, ({}, 0))
        nothing = {**quota, "status": {**(quota.get("status") or {}), "used": {}}}
        everybody = [*self._known, *self._coming]
        for holder, usages in everybody[looked:]:
            own = table.setdefault(holder, {})
            for resource, amount in amounts(with_charges(nothing, usages)["status"]["used"]).items():
                own[resource] = own.get(resource, Fraction(0)) + amount
        self._amounts[name] = table, len(everybody)
        return table

    def _live(self) -> Iterator[tuple[str, list[ChargedObjects]]]:
        for pod in self._read():
            yield (
                job_title(labels_of(pod), self._queueing.keys) or f"pod/{pod['metadata']['name']}",
                [ChargedObjects(self._claims.live(pod, self._namespace))],
            )

    def _read(self) -> list[Object]:
        pods = if_allowed(lambda: self._session.list_objects(RESOURCES["Pod"], self._namespace)[0], [])
        return [{"kind": "Pod", **pod} for pod in pods if _uid(pod) not in self._leaving]


def _uid(obj: Object) -> str | None:
    return (obj.get("metadata") or {}).get("uid")
