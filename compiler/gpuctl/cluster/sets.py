"""A run of a set: whether it may go on from these sources, what it prunes, and when its parent is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuctl.cluster import applyset
from gpuctl.cluster.applyset import ApplySet
from gpuctl.cluster.connection import Connection
from gpuctl.cluster.errors import ApiError, ClusterError
from gpuctl.cluster.lease import set_lease
from gpuctl.cluster.plan import Plan, Step
from gpuctl.cluster.provenance import refused
from gpuctl.cluster.records import PART_OF, Records, is_controlled, is_ours, is_shared
from gpuctl.cluster.resources import Key, Object, Resource, key_of
from gpuctl.cluster.workload import running

if TYPE_CHECKING:
    from gpuctl.cluster.operations import SetOptions
    from gpuctl.cluster.planner import Request


@dataclass
class SetRun:
    """One apply of a set. ``parent`` is its Secret as it is, ``recorded`` what that says (None: a new set)."""

    options: SetOptions
    label_prefix: str
    parent: Object | None
    recorded: ApplySet | None
    wanted: ApplySet = field(init=False)

    @classmethod
    def read(cls, connection: Connection, options: SetOptions, request: Request) -> SetRun:
        """Look the set up.

        :raises ClusterError: the Secret is no set of ours, or remembers other sources.
        """
        key = Key("Secret", options.namespace, options.name)
        parent = connection.get(key)
        prefix = request.keys.hash.rpartition("/")[0]
        recorded = applyset.parse_parent(parent, label_prefix=prefix) if parent is not None else None
        if recorded is not None and not options.allow_source:
            why = refused(recorded.sources, options.sources)
            if why is not None:
                raise ClusterError(f"set {options.name}: {why}")
        run = cls(options, prefix, parent, recorded)
        run.wanted = applyset.exact(options.name, options.namespace, [], options.sources)
        return run

    @property
    def id(self) -> str:
        """The value of its members' label."""
        return applyset.identity(self.options.name, self.options.namespace)

    @property
    def lease(self) -> Key:
        """The lease that keeps two applies of the set apart."""
        return Key("Lease", self.options.namespace, set_lease(self.options.name))

    @property
    def superset(self) -> ApplySet:
        """What is there and what is to come."""
        return applyset.superset(self.recorded, self.wanted)

    @property
    def final(self) -> ApplySet:
        """What stands at the end: without a prune, members that were not applied are still in it."""
        return self.wanted if self.options.prune else self.superset

    @property
    def is_settled(self) -> bool:
        """Whether the parent says already what it is to say."""
        return self.recorded == self.final

    def cover(self, request: Request) -> None:
        """Take in the objects that are applied."""
        members = [item.object for item in request.lowered if not item.shared]
        self.wanted = applyset.exact(self.options.name, self.options.namespace, members, self.options.sources)

    def write(self, connection: Connection, state: ApplySet) -> None:
        """Write the parent, unless it says so already."""
        if self.recorded == state:
            return
        secret = applyset.parent_object(state, existing=self.parent, label_prefix=self.label_prefix)
        self.parent = connection.create(secret) if self.parent is None else connection.replace(secret)
        self.recorded = state


def plan_prune(connection: Connection, run: SetRun, keys: Records, plan: Plan) -> list[Step]:
    """Steps that delete members which are no longer wanted.

    Never an object that a controller made, a shared one, one that is not ours, or one of another set.
    """
    wanted = {step.key for step in plan.steps}
    gone = {key_of(step.live) for step in plan.steps if step.deletes and step.live is not None}
    steps = []
    for obj in _members(connection, run):
        key = key_of(obj)
        if key in wanted or key in gone or is_controlled(obj) or is_shared(obj, keys) or not is_ours(obj):
            continue
        title = f"{obj['metadata'].get('labels', {}).get(keys.job_type, '')}/{key.name}".removeprefix("/")
        reason = f"no longer in the set {run.options.name}"
        steps.append(Step("prune", key, reason, live=obj, method="delete", title=title, running=running(obj)))
    return sorted(steps, key=lambda step: step.key)


def _members(connection: Connection, run: SetRun) -> Iterable[Object]:
    if run.recorded is None:
        return []
    selector = f"{PART_OF}={run.id}"
    tasks = [
        (resource, namespace)
        for resource in applyset.resources_of(run.superset)
        for namespace in (sorted(run.superset.all_namespaces) if resource.namespaced else [None])
    ]

    def members(task: tuple[Resource, str | None]) -> list[Object]:
        resource, namespace = task
        try:
            return connection.list_objects(resource, namespace, labels=selector)[0]
        except ApiError as error:
            if error.is_missing:
                return []
            raise

    return [obj for group in connection.each(members, tasks) for obj in group]
