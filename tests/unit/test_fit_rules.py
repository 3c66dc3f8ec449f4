"""Mutation test of ``fit``: with any rule disabled, ``fit`` disagrees with the scheduler in some recorded world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuctl.capacity.admission import pod_admission as admission
from gpuctl.capacity.fit import components, simulation
from gpuctl.capacity.fit import job_fit as fit_module
from gpuctl.capacity.pods import demand, incoming_pods
from gpuctl.capacity.scheduler import placement, preemption, scheduler_model, scheduling
from gpuctl.capacity.snapshot import pod_requests as requests
from support.fit_parts import CARD, GPU, MISSING
from support.fit_records import trials_of
from support.fit_trials import Trial, disagreements

Object = dict[str, Any]


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """Return the recorded worlds of one or two jobs."""
    return [trial for trial in trials_of("known") if len(trial.world.jobs) <= 2]


Patch = Callable[[pytest.MonkeyPatch], None]


def _without_rule(name: str) -> Patch:
    left = [rule for rule in scheduling.RULES if rule.name != name]
    assert len(left) < len(scheduling.RULES)

    def without(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(scheduling, "RULES", left)
        if name in (rule.name for rule in scheduling.ROOM):
            patch.setattr(scheduling, "_has_pod_slot" if name == "pods" else "_has_resources", lambda *_: True)

    return without


def _requests_without(*fields: str, sidecars: bool | None = None) -> Patch:
    """Ignore fields of the pod spec, or one kind of init containers, when requests are added up."""
    count = requests.pod_requests

    def less(spec: Object) -> Any:
        spec = {key: value for key, value in spec.items() if key not in fields}
        if sidecars is not None:
            init = spec.get("initContainers") or []
            spec["initContainers"] = [item for item in init if (item.get("restartPolicy") == "Always") != sidecars]
        return count(spec)

    return lambda patch: patch.setattr(incoming_pods, "pod_requests", less)


def _cost_without(position: int) -> Patch:
    """Drop one criterion of the victim choice. Ties are broken by the victim's name, as if that were certain."""
    cost: Callable[[Any], Any] = preemption.Eviction.cost.fget  # type: ignore[attr-defined]

    def less(self: preemption.Eviction) -> Any:
        own = cost(self)
        return *own[:position], *own[position + 1 :], self.victims[0].name, id(self)

    return lambda patch: patch.setattr(preemption.Eviction, "cost", property(less))


def _changed(target: object, name: str, change: Callable[..., Any]) -> Patch:
    """Wrap a function of gpuctl so that it returns ``change(result, *arguments)``."""
    own: Callable[..., Any] = getattr(target, name)

    def changed(*arguments: Any, **named: Any) -> Any:
        return change(own(*arguments, **named), *arguments)

    return lambda patch: patch.setattr(target, name, changed)


def _incoming(change: Any) -> Patch:
    """Change the pods of jobs and the pending pods."""

    def changed(patch: pytest.MonkeyPatch) -> None:
        for module in (demand, incoming_pods):
            _changed(module, "incoming_pod", change)(patch)

    return changed


def _spreads(**other: Any) -> Patch:
    return _changed(incoming_pods, "_spreads", lambda found, *_: [spread._replace(**other) for spread in found])


def _each_job_alone(patch: pytest.MonkeyPatch) -> None:
    """Judge each job as if it were the only one."""
    patch.setattr(fit_module, "components", lambda _, groups, nodes: _separate_components(nodes, groups))


def _separate_components(nodes: components.SuitableNodes, groups: Any) -> list[components.Component]:
    every = list(range(len(nodes.open_to(scheduler_model.IncomingPod(scheduler_model.PlacedPod("", ""))))))
    return [components.Component([number], every, []) for number in range(len(groups))]


def _without_parts(**parts: Any) -> Patch:
    return _changed(demand, "build_cluster_model", lambda found, *_: found._replace(**parts))


def _without_waiting(patch: pytest.MonkeyPatch) -> None:
    _changed(fit_module, "model_demands", lambda found, *_: (found[0]._replace(waiting=[]), found[1]))(patch)


def _pods_as(**other: Any) -> Patch:
    return _changed(demand, "resident_pod", lambda pod, *_: replace(pod, **other))


def _incoming_as(**other: Any) -> Patch:
    return _incoming(lambda found, *_: replace(found, **other))


def _tolerations_as(change: Callable[[Object], Object]) -> Patch:
    """Change every toleration."""
    return _incoming(lambda found, *_: replace(found, tolerations=[change(item) for item in found.tolerations]))


def _dropping(*keys: str) -> Callable[[Object], Object]:
    return lambda item: {key: value for key, value in item.items() if key not in keys}


def _without_limit_ranges(patch: pytest.MonkeyPatch) -> None:
    admitted = demand.admitted
    patch.setattr(
        demand,
        "admitted",
        lambda spec, namespace, have, classes: admitted(spec, namespace, replace(have, limit_ranges=[]), classes),
    )


def _without_reprieve(patch: pytest.MonkeyPatch) -> None:
    evict = placement.find_eviction

    def everybody(incoming: Any, node_info: Any, fits: Any, budgets: Any) -> Any:
        found = evict(incoming, node_info, fits, budgets)
        lower = [pod for pod in node_info.pods if preemption.may_evict(incoming, pod)]
        return found and found._replace(victims=tuple(sorted(lower, key=lambda pod: pod.importance)))

    for module in (placement, simulation):
        patch.setattr(module, "find_eviction", everybody)


def _nodes_with(**other: Any) -> Patch:
    """Set allocatable resources of all nodes."""
    return _changed(
        demand,
        "build_cluster_model",
        lambda found, *_: found._replace(
            node_infos=[
                replace(node_info, node=replace(node_info.node, allocatable={**node_info.node.allocatable, **other}))
                for node_info in found.node_infos
            ]
        ),
    )


def _ignore_missing_resource(patch: pytest.MonkeyPatch) -> None:
    """Ignore requests of a resource that no node reports."""

    def less(found: Any, *_: Any) -> Any:
        shown = {name: amount for name, amount in found.pod.requests.items() if name != MISSING}
        return replace(found, pod=replace(found.pod, requests=shown))

    _incoming(less)(patch)
    _changed(demand, "unknown_reasons", lambda *_: [])(patch)


PLENTY = 10**15
VOLUME_RULES = ("attach-limits", "volumes")
MUTATIONS: dict[str, Patch] = {
    # The recorded worlds have no volumes; test_fit_admission and test_fit_unbound_claims do.
    **{f"rule {rule.name}": _without_rule(rule.name) for rule in scheduling.RULES if rule.name not in VOLUME_RULES},
    **{
        f"amount of {name}": _nodes_with(**{name: PLENTY}) for name in ("cpu", "memory", "ephemeral-storage", GPU, CARD)
    },
    "init containers": _requests_without(sidecars=False),
    "sidecars": _requests_without(sidecars=True),
    "overhead": _requests_without("overhead"),
    "defaults of limit ranges": _without_limit_ranges,
    "requests of pods on the node": _pods_as(requests={}),
    "ports of pods on the node": _pods_as(ports=()),
    "a port's address": _changed(
        scheduler_model.HostPort, "conflicts", lambda _, own, other: own.number == other.number
    ),
    "a toleration's key": _tolerations_as(_dropping("key")),
    "a toleration's value": _tolerations_as(lambda item: {**_dropping("value")(item), "operator": "Exists"}),
    "a toleration's effect": _tolerations_as(_dropping("effect")),
    "default tolerations": _changed(admission, "_default_tolerations", lambda *_: []),
    "node names": _changed(scheduling, "matches_node_term", lambda found, term, node: found or "matchFields" in term),
    "spread: taints": _spreads(honour_taints=False),
    "spread: affinity": _spreads(honour_affinity=True),
    "spread: domains": _spreads(min_domains=1),
    "spread: skew": _spreads(max_skew=1),
    "anti-affinity of pods on the node": _pods_as(anti_affinity=()),
    "preemption": _incoming_as(preempts=False),
    "preemption policy": _incoming_as(preempts=True),
    "priority of victims": lambda patch: patch.setattr(preemption, "may_evict", lambda incoming, pod: bool(pod.start)),
    "victims of lower, not equal priority": lambda patch: patch.setattr(
        preemption, "may_evict", lambda incoming, pod: bool(pod.start) and pod.priority <= incoming.pod.priority
    ),
    "importance: start": lambda patch: patch.setattr(
        scheduler_model.PlacedPod, "importance", property(lambda pod: (-pod.priority, pod.name))
    ),
    "reprieve of victims": _without_reprieve,
    "disruption budgets": _without_parts(budgets=[]),
    "choice: violations": _cost_without(0),
    "choice: highest priority": _cost_without(1),
    "choice: sum of priorities": _cost_without(2),
    "choice: start": _cost_without(4),
    "quotas": _without_parts(quotas=[]),
    "daemon set pods": _pods_as(stays_on_node=False),
    "resource that no node reports": _ignore_missing_resource,
    "gang size": _changed(
        demand, "_demand", lambda found, *_: found._replace(groups=[(group, 1) for group, _ in found.groups])
    ),
    "jobs in one component": _each_job_alone,
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_fit_without_one_rule_disagrees_with_the_scheduler(
    trials: list[Trial], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTATIONS[name](monkeypatch)
    assert any(disagreements(trial) for trial in trials), f"{len(trials)} worlds agree without: {name}"


@pytest.mark.parametrize("name", ["terminating pods", "nominated pods", "pending pods"])
def test_fit_without_leaving_or_pending_pods_disagrees(
    trials: list[Trial], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patches = {
        "terminating pods": _pods_as(deleting=False),
        "nominated pods": _without_parts(nominated=[]),
        "pending pods": _without_waiting,
    }
    patches[name](monkeypatch)
    assert any(disagreements(trial) for trial in trials), f"{len(trials)} worlds agree without: {name}"
