"""Deletion of pools, quotas and namespaces by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from gpuctl.apply.plan.namespace_contents import namespace_contents
from gpuctl.apply.plan.plan import Plan, Refused, Step
from gpuctl.apply.plan.pool_labels import known_pools, pool_leave_steps, users_of, warn_about_users
from gpuctl.apply.plan.quota_queue_notes import check_queue_deletions
from gpuctl.hints import ListHint
from gpuctl.kube.api_errors import ApiError, ClusterError, if_allowed, is_outage
from gpuctl.kube.not_found import no_such
from gpuctl.kube.quota_lists import list_quota_objects
from gpuctl.kube.session import Session
from gpuctl.language.names import DEFAULT_POOL, KUBERNETES_PREFIX, SYSTEM_NAMESPACE
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import (
    RESOURCES,
    Key,
    Object,
    key_of,
    labels_of,
)
from gpuctl.objects.companion_names import config_map_name, pool_of
from gpuctl.objects.ownership_metadata import Records, is_ours
from gpuctl.objects.queue_names import cluster_queue_name

_POLL = 0.5


def plan_pool_deletion(
    session: Session, names: Iterable[str], settings: Settings, keys: Records, *, keep_labels: bool = False
) -> Plan:
    """Plan to delete the definitions of pools and remove their labels from nodes, whichever manager set them. No job is
    ended.

    :raises NotThere: a pool does not exist.
    """
    plan = Plan()
    there = known_pools(session, settings, keys)
    for pool in dict.fromkeys(names):
        if pool == DEFAULT_POOL:
            raise Refused(
                say("{pool} has the nodes that are in no other pool: there is nothing to delete", pool=DEFAULT_POOL)
            )
        if pool not in there:
            raise no_such("pool", pool, there)
        definition = session.get(Key("ConfigMap", SYSTEM_NAMESPACE, config_map_name(pool)))
        title = f"pool/{pool}"
        before = len(plan.steps)
        if definition is not None and pool_of(definition, keys) == pool:
            plan.steps.append(Step("delete", key_of(definition), live=definition, method="delete", title=title))
        if not keep_labels:
            plan.steps += pool_leave_steps(session, pool, keys)
        warn_about_users(plan, pool, users_of(session, pool, keys).values())
        if pool in settings.external_pools and len(plan.steps) == before:
            plan.notes.append(
                say(
                    "{title}: platform.yaml names it; the cluster has neither a definition nor nodes of it", title=title
                )
            )
    return plan


def plan_quota_deletion(session: Session, names: Iterable[str], settings: Settings) -> tuple[Plan, list[str]]:
    """Plan to delete the objects of quotas, but nothing else in their namespaces; also return these namespaces.

    A name is a user's (the namespace), or that of a quota's document, which may be in several namespaces.

    :raises NotThere: a quota does not exist.
    """
    label = settings.label("quota")
    names = list(dict.fromkeys(names))
    user_of = partial(quota_user, namespace_key=settings.label("namespace"))
    found = [obj for objects in list_quota_objects(session, names, label).values() for obj in objects if user_of(obj)]
    users = {user_of(obj) for obj in found}
    quotas = {labels_of(obj)[label] for obj in found}
    plan = Plan()
    for name in names:
        own = [obj for obj in found if user_of(obj) == name]
        own = own or [obj for obj in found if labels_of(obj)[label] == name]
        if not own:
            raise no_such("quota", name, users | quotas, say("{command} lists them", command=ListHint("quotas")))
        have = {step.key for step in plan.steps}
        plan.steps += [
            Step("delete", key_of(obj), live=obj, method="delete", title=f"quota/{labels_of(obj)[label]}")
            for obj in own
            if key_of(obj) not in have
        ]
    check_queue_deletions(session, plan, plan.steps)
    return plan, sorted({user_of(step.live) for step in plan.steps if step.live is not None})


def quota_user(obj: Object, namespace_key: str) -> str:
    """Return the namespace that an object of a quota limits; "" for an object of another tool."""
    return obj["metadata"].get("namespace") or labels_of(obj).get(namespace_key, "")


def plan_namespace_deletion(session: Session, names: Iterable[str], keys: Records) -> Plan:
    """Plan to delete namespaces with all their contents, which the question to confirm lists, and the ClusterQueues of
    their quotas.

    :raises Refused: a namespace is Kubernetes' or gpuctl's own.
    :raises NotThere: a namespace does not exist.
    """
    plan = Plan()
    for name in dict.fromkeys(names):
        if name == "default" or name.startswith(KUBERNETES_PREFIX):
            raise Refused(say("namespace {name} is Kubernetes' own and is not deleted", name=name))
        if name == SYSTEM_NAMESPACE:
            raise Refused(say("namespace {name} holds the definitions of the pools and is not deleted", name=name))
        live = session.get(Key("Namespace", "", name))
        if live is None:
            raise no_such("namespace", name, session.names(RESOURCES["Namespace"]))
        plan.steps.append(Step("delete", key_of(live), live=live, method="delete", title=f"namespace/{name}"))
        plan.confirm.append(
            say(
                "deletes namespace {name} and everything in it: {contents}",
                name=name,
                contents=namespace_contents(session, name, keys),
            )
        )
        queue = Key("ClusterQueue", "", cluster_queue_name(name))
        found = if_allowed(partial(session.get, queue), None)
        if found is not None and is_ours(found):
            plan.steps.append(
                Step("delete", queue, live=found, method="delete", title=say("quota of {name}", name=name))
            )
    return plan


def delete_namespaces(
    session: Session, plan: Plan, timeout: float, done: Callable[[Step], None], tell: Callable[[str], None]
) -> None:
    """Carry out a plan of :func:`plan_namespace_deletion`, and wait until the namespaces are gone; steps get their
    results.

    :param timeout: seconds.
    """
    session.patience = max(session.patience, min(timeout, 120.0))
    waiting: list[Step] = []

    def fail(step: Step, message: str, error: ClusterError | None = None) -> None:
        step.result, step.error = "failed", message
        plan.outage = plan.outage or (error is not None and is_outage(error))
        done(step)

    for step in plan.steps:
        assert step.live is not None
        try:
            session.delete(step.key, step.live["metadata"]["uid"], foreground=False)
        except ClusterError as error:
            is_forbidden = isinstance(error, ApiError) and error.lacks_permission and step.key.kind == "Namespace"
            if is_forbidden and all(other.result == "planned" for other in plan.steps) and not waiting:
                raise
            fail(step, error.message, error)
        else:
            waiting.append(step)
    deadline = time.monotonic() + timeout
    try:
        while waiting:
            for step in list(waiting):
                assert step.live is not None
                try:
                    live = session.get(step.key)
                except ClusterError as error:
                    waiting.remove(step)
                    unknown = say(
                        "{object}: whether it is gone is unknown: {reason}", object=step.key, reason=error.message
                    )
                    fail(step, unknown, error)
                    continue
                if live is None or live["metadata"]["uid"] != step.live["metadata"]["uid"]:
                    waiting.remove(step)
                    step.result = "done"
                    done(step)
                elif time.monotonic() > deadline:
                    waiting.remove(step)
                    remains = say(
                        "{object} still exists after {timeout} s: {blockers}",
                        object=step.key,
                        timeout=f"{timeout:.0f}",
                        blockers=_held_by(live),
                    )
                    fail(step, remains)
            if waiting:
                names = [step.key.name for step in waiting]
                tell(say("waiting until {names} and everything in them is gone", names=names))
                time.sleep(_POLL)
    except KeyboardInterrupt:
        for step in waiting:
            fail(step, say("{object}: interrupted: Kubernetes continues the deletion", object=step.key))
        raise


def _held_by(namespace: Object) -> str:
    """Return the namespace controller's messages about remaining content. Source:
    ``namespace/deletion/status_condition_utils.go``.
    """
    conditions = (namespace.get("status") or {}).get("conditions") or []
    said = [item["message"] for item in conditions if item.get("status") == "True" and item.get("message")]
    return "; ".join(said) or say("Kubernetes continues the deletion")
