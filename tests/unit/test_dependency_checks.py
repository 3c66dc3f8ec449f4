"""Notes on nodes that the pods of a plan need; a fake session has one node of a pool."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.apply.plan.dependency_checks import check_dependencies
from gpuctl.apply.plan.dry_run_pods import DryRunPod
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.plan.pool_labels import pool_leave_steps
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object, Resource
from gpuctl.objects.label_managers import POOLS_MANAGER
from gpuctl.objects.ownership_metadata import records

GPU = "nvidia.com/gpu"
KEYS = records(Settings())
POOL = f"{KEYS.pool}=a"


class Nodes:
    """A session that lists nodes; it has no resource slices."""

    def __init__(self, *nodes: Object) -> None:
        self.nodes = nodes

    def list_objects(self, resource: Resource, labels: str = "") -> tuple[list[Object], str]:
        return list(self.nodes) if resource.kind == "Node" else [], ""

    def list_metadata(self, resource: Resource) -> list[Object]:
        return list(self.nodes)

    def each(self, task: Any, items: Any) -> list[Any]:
        return list(map(task, items))

    def serves(self, *_: Any) -> bool:
        return False


def node(gpus: int, *managers: str) -> Object:
    fields = {"f:metadata": {"f:labels": {f"f:{KEYS.pool}": {}}}}
    entries = [{"manager": name, "operation": "Apply", "fieldsV1": fields} for name in (POOLS_MANAGER, *managers)]
    metadata = {"name": "gpu-1", "uid": "u", "labels": {KEYS.pool: "a"}, "managedFields": entries}
    amounts = {GPU: str(gpus)} if gpus else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": amounts}}


def leaving(live: Object) -> Step:
    """Return the step of a node that its pool does not name any longer."""
    changes = [FieldOutcome(f"metadata.labels[{KEYS.pool}]", "a", None)]
    desired = {"kind": "Node", "metadata": {"name": "gpu-1", "labels": {}}}
    return Step("update", Key("Node", "", "gpu-1"), live=live, desired=desired, method="labels", changes=changes)


def notes(session: Any, gpus: int, *steps: Step, **spec: Any) -> list[str]:
    """Return the notes of a plan that creates a job in the pool."""
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}}}
    template = {"spec": {"containers": [container], "nodeSelector": {KEYS.pool: "a"}, **spec}}
    step = Step("create", Key("Job", "nlp", "train"), title="training/train")
    plan = Plan([step, *steps])
    check_dependencies(session, plan, [DryRunPod(step, {}, template, 1, template)], KEYS, frozenset({GPU}))
    return plan.notes


def test_pool_that_the_plan_takes_the_last_node_from_has_none() -> None:
    live = node(8)
    session: Any = Nodes(live)
    assert notes(session, 1) == []
    empty = [f"no node has the labels {POOL}, which training/train will wait for"]
    assert notes(session, 1, leaving(live)) == empty
    assert notes(session, 1, *pool_leave_steps(session, "a", KEYS)) == empty


def test_label_that_another_manager_set_too_stays() -> None:
    live = node(8, "kubectl-label")
    session: Any = Nodes(live)
    assert notes(session, 1, leaving(live)) == []
    assert notes(session, 1, *pool_leave_steps(session, "a", KEYS)) != []


@pytest.mark.parametrize(("gpus", "more"), [(0, ""), (4, " (the largest, gpu-1, has 4)")])
def test_fewer_gpus_than_a_pod_needs_are_noted(gpus: int, more: str) -> None:
    session: Any = Nodes(node(gpus))
    assert notes(session, 8) == [f"no node with {POOL} has 8 {GPU}{more}: training/train cannot start"]


def test_nodes_that_affinity_excludes_are_not_counted() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    session: Any = Nodes(node(0))
    assert notes(session, 8, affinity={"nodeAffinity": required}) == []
