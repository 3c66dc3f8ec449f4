"""A run of a set: the check of its sources, the objects it prunes, and the writes of its parent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpuctl.apply.plan.apply_request import ApplyRequest, SetOptions
from gpuctl.apply.plan.gitops_tracking import tracked_by
from gpuctl.apply.plan.plan import Plan, Refused, Step
from gpuctl.apply.plan.pool_labels import pool_leave_steps, users_of, warn_about_users
from gpuctl.apply.plan.quota_queue_notes import check_queue_deletions
from gpuctl.apply.state import applyset
from gpuctl.apply.state.applyset import ApplySet
from gpuctl.apply.state.git_repository import Commit, compare_commits
from gpuctl.apply.state.managed_fields import owned_fields
from gpuctl.apply.state.provenance import list_sources, source_mismatch
from gpuctl.hints import kubectl_line
from gpuctl.kube.api_errors import ApiError, Changed, ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Key, Object, Resource, key_of
from gpuctl.objects.companion_names import pool_of
from gpuctl.objects.ownership_metadata import PART_OF, Records, is_controlled, is_ours, is_shared, main_title, set_lease

_SHORT = 10


@dataclass
class SetRun:
    """One apply of a set. ``parent`` is its live Secret, ``recorded`` the set in it (None: a new set). ``notes`` are
    added to the plan.
    """

    options: SetOptions
    parent: Object | None
    recorded: ApplySet | None
    notes: list[str] = field(default_factory=list)
    wanted: ApplySet = field(init=False)

    @classmethod
    def read(cls, session: Session, options: SetOptions) -> SetRun:
        """Read the set.

        :raises Refused: the set was applied from other sources, or from a newer commit.
        :raises NotOurSet: the Secret is not a set of gpuctl.
        """
        key = Key("Secret", options.namespace, options.name)
        try:
            parent = session.get(key)
        except ApiError as error:
            if not error.lacks_permission:
                raise
            raise ClusterError(error.message, say("give the namespace of the set with -n NAMESPACE")) from None
        recorded = applyset.parse_parent(parent) if parent is not None else None
        if recorded is not None and not options.planning.allow_source:
            why = source_mismatch(recorded.sources, options.sources)
            if why is not None:
                raise Refused(say("set {set}: {reason}", set=options.name, reason=why))
        run = cls(options, parent, recorded)
        run.wanted = applyset.exact_set(options.name, options.namespace, [], options.sources)
        if recorded is not None and recorded.commit is not None and not options.planning.allow_older:
            run.notes += _order_of_commits(options, recorded.commit)
        return run

    @property
    def lease(self) -> Key:
        """Return the lease that prevents two concurrent applies of the set."""
        return Key("Lease", self.options.namespace, set_lease(self.options.name))

    @property
    def superset(self) -> ApplySet:
        """Return the union of the recorded and the wanted set."""
        return applyset.superset(self.recorded, self.wanted)

    @property
    def final(self) -> ApplySet:
        """Return the set after the run. Without a prune it keeps members that were not applied."""
        members = self.wanted if self.options.planning.prune else self.superset
        recorded = self.recorded.commit if self.recorded is not None else None
        checkout = self.options.checkout
        return members._replace(commit=checkout.commit if checkout is not None else recorded)

    @property
    def is_settled(self) -> bool:
        """Return True if the parent records the final set already."""
        return self.recorded == self.final

    def include_members(self, request: ApplyRequest, plan: Plan) -> None:
        """Include the objects that are applied, and those that are kept."""
        members = [item.object for item in request.lowered if not item.shared]
        members += [step.live for step in plan.steps if step.live is not None and not step.shared and not step.deletes]
        self.wanted = applyset.exact_set(self.options.name, self.options.namespace, members, self.options.sources)
        if self.parent is None and plan.writes:
            plan.notes.append(
                say(
                    "the set {set} is new: it is kept in the Secret {set} of namespace {namespace}; from another "
                    "context give `-n {namespace}`",
                    set=self.options.name,
                    namespace=self.options.namespace,
                )
            )

    def keep(self, steps: Iterable[Step]) -> None:
        """Keep members that were to be pruned."""
        kinds = {applyset.group_kind(step.live) for step in steps if step.live is not None}
        self.wanted = self.wanted._replace(group_kinds=self.wanted.group_kinds | kinds)

    def write(self, session: Session, state: ApplySet) -> None:
        """Write the parent if it differs.

        :raises Changed: another run has written it since it was read.
        """
        if self.recorded == state:
            return
        secret = applyset.parent_object(state, existing=self.parent)
        try:
            self.parent = session.create(secret) if self.parent is None else session.replace(secret)
        except ApiError as error:
            if not error.is_conflict:
                raise
            raise Changed(
                say("the set {set} was changed by another run", set=self.options.name), say("run again")
            ) from None
        self.recorded = state


def _order_of_commits(options: SetOptions, recorded: Commit) -> list[str]:
    """Return a note if it is unknown whether the documents are older than the commit that the set was last applied
    from.

    :raises Refused: they are older.
    """
    then, checkout = recorded.id[:_SHORT], options.checkout
    unknown = say(
        "whether this run is older than the last one of the set {set}, from commit {commit}, is unknown",
        set=options.name,
        commit=then,
    )
    if checkout is None:
        return [
            say(
                "{unknown}: its documents are of no single commit, or git does not read their directory",
                unknown=unknown,
            )
        ]
    if recorded.repository != checkout.commit.repository:
        return []
    order = compare_commits(checkout, recorded.id)
    if order.is_older:
        raise Refused(
            say(
                "set {set}: it was last applied from commit {commit}, and {head}, which is checked out here, is an "
                "ancestor of it: check out the newer commit, or add `--allow-older` to go back",
                set=options.name,
                commit=then,
                head=checkout.commit.id[:_SHORT],
            )
        )
    return [say("{unknown}: {reason}", unknown=unknown, reason=order.unknown)] if order.unknown else []


def plan_prune(session: Session, run: SetRun, request: ApplyRequest, plan: Plan) -> list[Step]:
    """Return steps that delete members which are no longer wanted, and remove the label of a pruned pool from its
    nodes.

    Never pruned: objects that a controller made, shared objects, foreign objects, and members of another set. Neither
    are objects that Argo CD or Flux track, and copies of a member with its labels. If files were not read, the missing
    documents may be in them: then the plan has an error.
    """
    keys = request.keys
    wanted = {step.key for step in plan.steps}
    gone = {key_of(step.live) for step in plan.steps if step.deletes and step.live is not None}
    steps = []
    for obj in _members(session, run):
        key = key_of(obj)
        if key in wanted or key in gone or is_controlled(obj) or is_shared(obj, keys) or not is_ours(obj):
            continue
        tracker = tracked_by(obj)
        if tracker is not None or not _has_joined(obj):
            why = (
                say("is managed by {tracker}", tracker=tracker)
                if tracker is not None
                else say("was not put into it by gpuctl")
            )
            plan.notes.append(
                say(
                    "{object} has the label of the set {set}, but {why}: it is not pruned",
                    object=key,
                    set=run.options.name,
                    why=why,
                )
            )
            continue
        reason = say("no longer in the set {set}", set=run.options.name)
        steps.append(Step("prune", key, reason, live=obj, method="delete", title=main_title(obj, keys)))
    steps.sort(key=lambda step: step.key)
    run.keep(check_queue_deletions(session, plan, steps))
    if steps and request.unread and not request.planning.allow_skipped:
        plan.errors.append(_unread_error(request.unread, len(steps)))
    gone.update(step.key for step in steps)
    return [*_leaving_nodes(session, keys, plan, steps, gone), *steps]


def _has_joined(obj: Object) -> bool:
    """Return True if gpuctl set the object's part-of label, according to its managed fields; a copy has another
    manager.
    """
    metadata = owned_fields(obj).get("f:metadata") or {}
    return f"f:{PART_OF}" in (metadata.get("f:labels") or {})


def _unread_error(files: tuple[str, ...], number: int) -> str:
    return say(
        "--prune would delete {number:object} that {number:is/are} in no document, and these were not read as "
        "documents: {files}; `gpuctl validate` says why. Correct, rename or remove them, or add --allow-skipped if "
        "none of them is meant",
        number=number,
        files=list_sources(files),
    )


def _leaving_nodes(
    session: Session, keys: Records, plan: Plan, pruned: Iterable[Step], gone: set[Key]
) -> Iterator[Step]:
    """Yield steps for nodes of pruned pools, unless the plan adds them to another pool."""
    wanted = {step.key for step in plan.steps}
    for step in pruned:
        pool = pool_of(step.live, keys) if step.live is not None else None
        if step.live is None or pool is None:
            continue
        step.title = f"pool/{pool}"
        users = users_of(session, pool, keys)
        warn_about_users(plan, pool, [name for key, name in users.items() if key not in gone])
        yield from (step for step in pool_leave_steps(session, pool, keys) if step.key not in wanted)


def _members(session: Session, run: SetRun) -> Iterable[Object]:
    if run.recorded is None:
        return []
    selector = f"{PART_OF}={run.options.id}"
    tasks = [
        (resource, namespace)
        for resource in applyset.resources_of(run.superset)
        for namespace in (sorted(run.superset.all_namespaces) if resource.namespaced else [None])
    ]

    def members(task: tuple[Resource, str | None]) -> list[Object]:
        resource, namespace = task
        try:
            return session.list_objects(resource, namespace, labels=selector)[0]
        except ApiError as error:
            if error.is_missing:
                return []
            raise

    return [obj for group in session.each(members, tasks) for obj in group]


def in_other_sets(session: Session, members: dict[Key, str]) -> Iterator[str]:
    """Yield an error for each other set that objects belong to.

    :param members: the objects, and the ids of their sets.
    """
    for identity in sorted(set(members.values())):
        keys = sorted(key for key, value in members.items() if value == identity)
        other = _set_title(session, identity, keys[0].namespace)
        yield (
            say(
                "{objects:few} {number:belongs/belong} to {set}; an object is in one set at most. To move {number:it, "
                "first take it/them, first take them} out: {commands:and}",
                objects=keys,
                number=len(keys),
                set=other,
                commands=[_removal_command(namespace, keys) for namespace in sorted({key.namespace for key in keys})],
            )
        )


def _removal_command(namespace: str, keys: Iterable[Key]) -> str:
    """Return the command that removes those of the objects that are in a namespace from their set."""
    objects = " ".join(f"{key.resource.title}/{key.name}" for key in keys if key.namespace == namespace)
    return kubectl_line("label", objects, f"-n {namespace}", f"{PART_OF}-")


def _set_title(session: Session, identity: str, namespace: str) -> str:
    """Return a set's name from its parent, or its id if the user may not read the parent."""
    for where in (None, session.namespace, namespace):
        with contextlib.suppress(ApiError):
            found, _ = session.list_objects(RESOURCES["Secret"], where, labels=f"{applyset.ID}={identity}")
            if found:
                return say(
                    "the set {name} of namespace {namespace}",
                    name=found[0]["metadata"]["name"],
                    namespace=found[0]["metadata"]["namespace"],
                )
    return say("another set ({set})", set=identity)
