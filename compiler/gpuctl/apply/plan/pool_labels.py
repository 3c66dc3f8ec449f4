"""Pools' labels on nodes, set by server-side apply with their own manager, so that other fields of a node are not
touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from gpuctl.apply.plan.apply_request import MaySee
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.apply.state.field_paths import steps_of
from gpuctl.apply.state.live_state import OURS, LiveState
from gpuctl.apply.state.managed_fields import applied_fields
from gpuctl.backend.lowering_context import Lowered
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.names import DEFAULT_POOL, SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Key, Object, key_of, labels_of
from gpuctl.objects.companion_names import pool_definition, pool_of
from gpuctl.objects.label_managers import POOLS_MANAGER, label_managers
from gpuctl.objects.ownership_metadata import Records, job_title, main_title
from gpuctl.objects.role_jobs import pools_of
from gpuctl.objects.workload_state import has_ended


def plan_nodes(
    session: Session, plan: Plan, lowered: Iterable[Lowered], live: LiveState, keys: Records, *, adopt: bool
) -> Iterator[Step]:
    """Yield a step for each node that a pool names, and for each node that has left its pool."""
    wanted = {key_of(item.object): item for item in lowered if item.object["kind"] == "Node"}
    for key, item in wanted.items():
        title = f"pool/{item.object['metadata']['labels'][keys.pool]}"
        if key in live.unreadable:
            yield Step("skip", key, live.unreadable[key], shared=True, title=title)
        elif key not in live.objects:
            plan.notes.append(
                say(
                    "{pool}: there is no node {node} in the cluster; apply again when it has joined",
                    pool=title,
                    node=key.name,
                )
            )
            yield Step("skip", key, say("not in the cluster"), shared=True, title=title)
        else:
            yield _label(key, item.object["metadata"]["labels"], live.objects[key], title, adopt=adopt)
    for key, pool in sorted(_former_nodes(lowered, live, keys).items()):
        node = if_allowed(partial(session.get, key), None) if key not in wanted else None
        if node is None or labels_of(node).get(keys.pool) != pool:
            # The node is gone, or already in another pool.
            continue
        if held_labels(node):
            step = _label(key, {}, node, f"pool/{pool}", adopt=False)
            step.reason = say("leaves the pool {pool}", pool=pool)
            yield step
        else:
            stays = say("{notes:;}", notes=remaining_label_notes(node, [keys.pool]))
            plan.notes.append(
                say("node {node} leaves the pool {pool}, but {stays}", node=key.name, pool=pool, stays=stays)
            )


def pool_leave_steps(session: Session, pool: str, keys: Records) -> list[Step]:
    """Return steps that remove the label of a deleted pool from all its nodes, whichever manager set it. GPU types
    stay: they are facts about the nodes.

    :raises ApiError: the user may not list nodes.
    """
    nodes, _ = session.list_objects(RESOURCES["Node"], labels=f"{keys.pool}={pool}")
    return [
        Step(
            "update",
            key_of(node),
            say("leaves the pool {pool}", pool=pool),
            desired={"metadata": {"uid": node["metadata"]["uid"], "labels": {keys.pool: None}}},
            live=node,
            method="patch",
            changes=[FieldOutcome(f"metadata.labels[{keys.pool}]", pool, None)],
            title=f"pool/{pool}",
            shared=True,
        )
        for node in nodes
    ]


def nodes_of(definition_map: Object) -> list[Key]:
    """Return the nodes in a pool's definition in the cluster."""
    named = pool_definition(definition_map).get("nodes")
    return [Key("Node", "", str(name)) for name in named] if isinstance(named, dict) else []


def users_of(session: Session, pool: str, keys: Records) -> dict[Key, str]:
    """Return the jobs that select a pool, as far as the user may read them, with their names in messages."""
    users: dict[Key, str] = {}
    for kind in WORKLOADS:
        read = partial(session.list_objects, RESOURCES[kind], labels=in_pool(kind, pool, keys))
        for obj in if_allowed(read, ([], ""))[0]:
            if pool not in pools_of(obj, keys.pool):
                continue
            key = key_of(obj)
            users[key] = say("{job} in {namespace}", job=main_title(obj, keys), namespace=key.namespace)
    return users


def in_pool(kind: str, pool: str, keys: Records) -> str:
    """Return the selector of the jobs of a kind that may have pods in a pool. The labels of roles are not selected."""
    return OURS if kind == "JobSet" else f"{OURS},{keys.pool}={pool}"


def warn_about_users(plan: Plan, pool: str, users: Iterable[str]) -> None:
    """Add a question if jobs select a deleted pool: they keep running, but cannot start again."""
    users = list(users)
    if users:
        plan.confirm.append(
            say(
                "deletes pool {pool}; jobs that select it keep running but cannot start again: {jobs:few5}",
                pool=pool,
                jobs=users,
            )
        )


def labels_to_apply(key: Key, labels: dict[str, str], uid: str) -> Object:
    """Return the node object to apply. With its uid an absent node is a conflict and is not created."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name, "uid": uid, "labels": labels}}


def remaining_label_notes(node: Object, labels: Iterable[str]) -> list[str]:
    """Return notes on released labels that are still on a node, with the managers that hold them."""
    result: list[str] = []
    for label in labels:
        if label in labels_of(node):
            holders = label_managers(node, label)
            managers = say("{names:and}", names=holders) if holders else say("another manager")
            result.append(say("label {label} stays: {managers} set it too", label=label, managers=managers))
    return result


def label_changes(step: Step) -> dict[str, str | None]:
    """Return the labels that a step sets on its node; None for a label that it removes.

    Server-side apply does not remove a label that another manager set too.
    """
    assert step.live is not None
    changes = {steps_of(change.path)[-1]: change.new for change in step.changes}
    return {
        label: value
        for label, value in changes.items()
        if value is not None or step.method == "patch" or not {*label_managers(step.live, label)} - {POOLS_MANAGER}
    }


def held_labels(node: Object) -> list[str]:
    """Return the labels that pools have set on a node."""
    held = (applied_fields(node, POOLS_MANAGER).get("f:metadata") or {}).get("f:labels") or {}
    return [name.removeprefix("f:") for name in held if name != "."]


def _label(key: Key, labels: dict[str, str], node: Object, title: str, *, adopt: bool) -> Step:
    have = labels_of(node)
    changed = {name: value for name, value in labels.items() if have.get(name) != value}
    gone = [name for name in held_labels(node) if name not in labels]
    if not changed and not gone:
        return Step("unchanged", key, live=node, shared=True, title=title)
    changes = [FieldOutcome(f"metadata.labels[{name}]", have.get(name), value) for name, value in changed.items()]
    changes += [FieldOutcome(f"metadata.labels[{name}]", have.get(name), None) for name in gone]
    return Step(
        "update",
        key,
        say("{changes}", changes=[_said(change) for change in changes]),
        desired=labels_to_apply(key, labels, node["metadata"]["uid"]),
        live=node,
        method="labels",
        changes=changes,
        title=title,
        shared=True,
        adopt=adopt,
    )


def _said(change: FieldOutcome) -> str:
    name = change.path.rpartition("/")[2].rstrip("]")
    return f"{name} {change.new}" if change.old is None else f"{name} {change.old} -> {change.new or say('none')}"


def _former_nodes(lowered: Iterable[Lowered], live: LiveState, keys: Records) -> dict[Key, str]:
    """Return the nodes in the live definitions of the applied pools, and the pool of each."""
    found: dict[Key, str] = {}
    for item in lowered:
        obj = live.objects.get(key_of(item.object))
        pool = pool_of(obj, keys) if obj is not None else None
        if obj is not None and pool is not None:
            found.update(dict.fromkeys(nodes_of(obj), pool))
    return found


def known_pools(session: Session, settings: Settings, keys: Records) -> set[str]:
    """Return the pools that have a definition, a node, or an entry in platform.yaml; without ``default``.

    :raises ApiError: the user may not list nodes.
    """
    nodes, _ = session.list_objects(RESOURCES["Node"], labels=keys.pool)
    named = {labels_of(node)[keys.pool] for node in nodes} | set(settings.external_pools)
    maps = if_allowed(lambda: session.list_objects(RESOURCES["ConfigMap"], SYSTEM_NAMESPACE, labels=keys.pool)[0], [])
    return {name for name in {*named, *(pool_of(item, keys) for item in maps)} if name} - {DEFAULT_POOL}


def note_jobs_left_behind(session: Session, plan: Plan, steps: Iterable[Step], keys: Records, sees: MaySee) -> None:
    """Add a note for each node that leaves a pool while jobs of the pool run on it, also if it joins another pool.

    Nothing is noted if the user may not list pods.

    :param sees: returns True if a job of a namespace and title may be named.
    """
    changed = f"metadata.labels[{keys.pool}]"
    left: dict[str, list[str]] = {}
    for step in steps:
        for change in step.changes:
            if change.path == changed and change.old is not None:
                left.setdefault(str(change.old), []).append(step.key.name)
    for pool, nodes in sorted(left.items()):
        found = _jobs_by_node(session, pool, keys, sees)
        for node in sorted(nodes):
            jobs = sorted(found.get(node, ()))
            if jobs:
                plan.notes.append(
                    say(
                        "node {node} leaves the pool {pool}; jobs on it keep running, but their next pods do not start "
                        "there: {jobs:few5}",
                        node=node,
                        pool=pool,
                        jobs=jobs,
                    )
                )


def _jobs_by_node(session: Session, pool: str, keys: Records, sees: MaySee) -> dict[str, set[str]]:
    labels = f"{OURS},{keys.pool}={pool}"
    found: dict[str, set[str]] = {}
    for pod in if_allowed(lambda: session.list_objects(RESOURCES["Pod"], labels=labels)[0], []):
        node, namespace = pod["spec"].get("nodeName"), pod["metadata"]["namespace"]
        if node is None or has_ended(pod):
            continue
        title = job_title(labels_of(pod), keys) or pod["metadata"]["name"]
        found.setdefault(node, set()).add(
            say("{job} in {namespace}", job=title, namespace=namespace) if sees(namespace, title) else say("other jobs")
        )
    return found
