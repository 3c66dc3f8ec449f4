"""Intervals made of ResourceQuotas as they change: how many GPUs each namespace may hold, from when to when.

A quota is in force as its status says it: that is what the API server holds pods against. Of several the smallest limit
of each resource counts; one with scopes limits some pods only, and does not count. Where several share a card, a
namespace may hold most where the fewest do.

A change is dated by what the object says of when it was written. What happened while nobody looked is dated within that
time: a quota that is different since its limits were written, one that has gone since it was last seen, like nodes and
pods; one that is as it was has been so all the time.

Pure: it is given what was seen and when, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuctl_usage.facts import GpuQuota
from gpuctl_usage.gathering.cluster_events import ClusterEvent
from gpuctl_usage.gathering.gpu_weights import GpuWeights
from gpuctl_usage.gathering.object_facts import NodeFacts, QuotaFacts

_NEEDED = frozenset({"Node", "ResourceQuota"})


class OpenQuotas:
    """The quotas that are in force in a cluster, and those that have just ended.

    Nothing ends or begins before nodes and quotas were listed: where quotas may not be read, they stay as they were.

    :param known_until: until when an earlier collector followed quotas; None when none did.
    """

    def __init__(self, weights: GpuWeights, known_until: float | None = None) -> None:
        self._weights = weights
        self._known_until = known_until
        self._listed: set[str] = set()
        self._quotas: dict[str, dict[str, QuotaFacts]] = {}
        self._nodes: dict[str, Mapping[str, int]] = {}
        self._turns: dict[str, int] = {}
        self._open: dict[str, GpuQuota] = {}
        self._ended: dict[str, float] = {}
        self._changed: dict[tuple[str, float], GpuQuota] = {}

    def restore(self, quotas: Iterable[GpuQuota]) -> None:
        """Go on with what was in force when an earlier collector ended."""
        self._open = {quota.namespace: quota for quota in quotas}

    def handle(self, event: ClusterEvent) -> None:
        """Take note of what was heard of quotas, and of nodes: how many share their cards says how much a quota is."""
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
        """What is new or different since this was last called."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def _mark_listed(self, kind: str, at: float) -> None:
        if kind not in _NEEDED - self._listed:
            return
        self._listed.add(kind)
        if not self._is_listed:
            return
        self._turns = self._fewest()
        since = 0.0 if self._known_until is None else min(self._known_until, at)
        for namespace in sorted({*self._quotas, *self._open}):
            written = [facts.written for facts in self._of(namespace) if facts.limits and facts.written is not None]
            # Where nothing says when, what was in force ended as long ago as may be, and what is begins now.
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
        return self._listed == _NEEDED

    def _share(self, at: float) -> None:
        if not self._is_listed or (turns := self._fewest()) == self._turns:
            return
        self._turns = turns
        for namespace in sorted(self._quotas):
            self._renew(namespace, at, None)

    def _fewest(self) -> dict[str, int]:
        """Of each resource how many share a card where the fewest do; of one that no node has now, as it was."""
        found: dict[str, int] = {}
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
        """Make the quota of a namespace what it is now.

        :param written: when that which has changed was written, None where nothing says so; ``since`` when it had not
            changed yet.
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
