"""Turns observed quotas into intervals of the number of GPUs that each namespace may hold.

A ResourceQuota counts as its status states it, because the API server enforces the status. Of several quotas, the
smallest limit of each resource counts. A quota with scopes limits only some pods and is ignored. A ClusterQueue counts
with its own quota: what it borrows is beyond it. If cards are shared by time, the node with the fewest replicas per
card determines how many GPUs a limit allows.

A change is dated by the object's write time. After an outage, a changed quota is dated to the write of its limits, a
deleted one to when it was last seen, and an unchanged one is assumed valid throughout.

No input or output: all observations and their times are passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl_usage.facts import GpuQuota
from gpuctl_usage.gathering.cluster_events import ClusterEvent
from gpuctl_usage.gathering.gpu_weights import GpuWeights
from gpuctl_usage.gathering.object_facts import NodeFacts, QuotaFacts


class OpenQuotas:
    """The quotas in force in a cluster, and the ones that have just ended.

    Intervals begin and end only after nodes and quotas are listed; if quotas cannot be read, the stored intervals stay
    open.

    :param known_until: time until which an earlier collector followed quotas; None if there was no earlier one.
    :param kinds: the kinds of quotas.
    """

    def __init__(
        self, weights: GpuWeights, known_until: float | None = None, kinds: Iterable[str] = ("ResourceQuota",)
    ) -> None:
        self._needed = frozenset({"Node", *kinds})
        self._weights = weights
        self._known_until = known_until
        self._listed: set[str] = set()
        self._quotas: dict[str, dict[str, QuotaFacts]] = {}
        self._nodes: dict[str, Mapping[str, float]] = {}
        self._turns: dict[str, float] = {}
        self._open: dict[str, GpuQuota] = {}
        self._ended: dict[str, float] = {}
        self._changed: dict[tuple[str, float], GpuQuota] = {}

    def restore(self, quotas: Iterable[GpuQuota]) -> None:
        """Load the quotas that were in force when an earlier collector ended."""
        self._open = {quota.namespace: quota for quota in quotas}

    def handle(self, event: ClusterEvent) -> None:
        """Handle an event of a quota or node. Nodes matter because their replicas per card determine the GPUs of a
        limit.
        """
        facts = event.facts
        if event.type == "LISTED":
            self._mark_listed(event.kind, event.at)
        elif isinstance(facts, QuotaFacts):
            self._handle_quota(facts, event)
        elif isinstance(facts, NodeFacts):
            offered = facts.resource_turns if event.type == "PUT" else {}
            if offered != self._nodes.get(facts.name, {}):
                self._nodes[facts.name] = offered
                self._share(event.at)

    def take(self) -> list[GpuQuota]:
        """Return the quotas that changed since the last call."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def _mark_listed(self, kind: str, at: float) -> None:
        if kind not in self._needed - self._listed:
            return
        self._listed.add(kind)
        if not self._is_listed:
            return
        self._turns = self._fewest()
        since = 0.0 if self._known_until is None else min(self._known_until, at)
        for namespace in sorted({*self._quotas, *self._open}):
            written = [facts.written for facts in self._of(namespace) if facts.limits and facts.written is not None]
            # Without a write time: a change of an open quota is dated as early as possible, a new quota to now.
            unsaid = since if namespace in self._open else at
            self._renew(namespace, at, max(written, default=unsaid), since)

    def _handle_quota(self, facts: QuotaFacts, event: ClusterEvent) -> None:
        theirs = self._quotas.setdefault(facts.namespace, {})
        if event.type == "PUT":
            theirs[facts.uid] = facts
            self._renew(facts.namespace, event.at, facts.written)
        else:
            theirs.pop(facts.uid, None)
            self._renew(facts.namespace, event.at if event.missed is None else event.missed, None)

    @property
    def _is_listed(self) -> bool:
        return self._listed == self._needed

    def _share(self, at: float) -> None:
        if not self._is_listed or (turns := self._fewest()) == self._turns:
            return
        self._turns = turns
        for namespace in sorted(self._quotas):
            self._renew(namespace, at, None)

    def _fewest(self) -> dict[str, float]:
        """Return the lowest number of replicas per card of each resource; the last known one if no node has the
        resource now.
        """
        found: dict[str, float] = {}
        for offered in self._nodes.values():
            for name, turns in offered.items():
                found[name] = min(turns, found.get(name, turns))
        return {**self._turns, **found}

    def _of(self, namespace: str) -> Iterable[QuotaFacts]:
        return self._quotas.get(namespace, {}).values()

    def _most(self, namespace: str) -> float | None:
        limits: dict[str, float] = {}
        for facts in self._of(namespace):
            for name, amount in facts.limits:
                limits[name] = min(amount, limits.get(name, amount))
        return self._weights.max_gpus(limits, self._turns)

    def _renew(self, namespace: str, at: float, written: float | None, since: float = 0.0) -> None:
        """Update the quota of a namespace.

        :param written: when the change was written, None if unknown; ``since``: a time before which it did not happen.
        """
        if not self._is_listed:
            return
        known, gpus = self._open.get(namespace), self._most(namespace)
        if gpus == (None if known is None else known.gpus):
            return
        moment = max(at if written is None else min(written, at), since, self._ended.get(namespace, 0.0))
        if known is not None:
            moment = self._ended[namespace] = max(moment, known.start)
            self._note(self._open.pop(namespace)._replace(end=moment))
        if gpus is not None:
            self._open[namespace] = GpuQuota(namespace, gpus, moment, None)
            self._note(self._open[namespace])

    def _note(self, quota: GpuQuota) -> None:
        self._changed[quota.namespace, quota.start] = quota
