"""A plan: the action on each object, and its reason. It is computed once, then printed or carried out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpuctl.apply.plan.lost_work import running_for
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.apply.state.field_paths import named
from gpuctl.apply.state.takeover import Claims
from gpuctl.gitops.value_change import ValueChange
from gpuctl.hints import ListHint
from gpuctl.kube.api_errors import ClusterError, NotThere
from gpuctl.language.sentences import Template, clauses, say
from gpuctl.language.spelling import nearest, suggest_before
from gpuctl.objects.api_resources import SERVICES, TRAINING_FORMS, Key, Object
from gpuctl.objects.autoscalers import AUTOSCALERS
from gpuctl.objects.queueing import is_defaulted, queue_of, was_admitted

Action = Literal["create", "replace", "update", "unchanged", "prune", "delete", "skip"]
Result = Literal["planned", "done", "failed", "restored", "rolled-back", "not-run"]
Method = Literal["post", "apply", "patch", "put", "delete", "labels", "none"]

ACTIONS: tuple[Action, ...] = ("create", "replace", "update", "unchanged", "prune", "delete", "skip")
DELETING = frozenset({"replace", "prune", "delete"})
_NAMED = 4
# Finalizers that Kubernetes removes itself.
_OF_KUBERNETES = frozenset(
    {"foregroundDeletion", "orphan", "kubernetes", "service.kubernetes.io/load-balancer-cleanup"}
)
WRITING = DELETING | {"create", "update"}


class EvictedJob(NamedTuple):
    """A job, or another owner of pods, that a plan's pods would evict.

    ``runtime`` is how long its pods run, None if none runs yet. ``owner`` is the value of its owner label. ``seen`` is
    False if the caller may not see the job: all such jobs are merged into one without names, with the highest priority
    and the longest runtime.
    """

    namespace: str
    job: str
    priority: int
    pods: tuple[str, ...]
    runtime: str | None
    owner: str | None = None
    seen: bool = True

    def __str__(self) -> str:
        state = running_for(self.runtime) if self.runtime else say("not running yet")
        if not self.seen:
            return say("work in other namespaces ({state})", state=state)
        owner = say("owner {owner}, ", owner=self.owner) if self.owner else ""
        return say(
            "{job} in {namespace} ({owner}{pods:pod}, {state})",
            job=self.job,
            namespace=self.namespace,
            owner=owner,
            pods=len(self.pods),
            state=state,
        )


class Wait(NamedTuple):
    """The reason why pods of a workload will wait after it is created: ``cause`` is ``quota``, ``queue`` or ``room``.

    ``likelihood`` is 1 if they wait in every order of pods, None if the order decides.
    """

    cause: str
    message: str
    likelihood: float | None = 1.0

    def __str__(self) -> str:
        if self.likelihood is None:
            return say("may wait: {message}", message=self.message)
        return say("will wait: {message}", message=self.message)


@dataclass
class Step:
    """The action on one object.

    ``desired`` is the object to send (for ``patch`` the patch), ``live`` the existing one, ``method`` how it is sent.

    ``document_changes``: the differences between the live object's document and the new one, with masked credentials.

    ``running``: the work that a user loses (``running for 3h``), None if none. ``unfinished_run``: the newest one of a
    scheduled training that is deleted. ``finished``: set if the step replaces
    or prunes a finished training (``finished 3h ago (Complete): runs again``). ``applied_by``: the user who last
    applied it, if not the caller.

    ``checkpoint``: how the running pods save their progress first (``python save.py (at most 2m)``). ``saved``: uids of
    the pods whose checkpoint has run. ``unsaved``: there is a checkpoint, but it does not run, because it is unknown
    which pods a lower number of replicas ends.

    ``kept``: the object stays, though its document would be lowered differently now.

    ``expired``: there is no live object, because its ttl has presumably removed it. ``adopt``: take over fields of
    other managers. ``claims``: fields to take over from other managers first. ``companion_of``: the workload that a
    deleted Service or autoscaler belonged to. ``passed_dry_run``: the server has accepted ``desired`` in a dry-run.
    ``queued``: Kueue will suspend the workload until there is quota. ``turn``: workloads of a turn are written after
    those of the turns before it.

    ``verdict``: the ``fit`` verdict for its pods (None: not computed); ``victims``: the jobs they would evict;
    ``waits``: what they would wait for. ``lost``: fields of other managers that a replacement drops. ``dependents``:
    objects that garbage collection deletes with it; ``unseen``: kinds that could not be searched for them.

    ``restorable``: the live object as it can be created again if its successor cannot; None until the plan is carried
    out. ``shown``: the object before and after, if a service computed them; None: computed from ``live`` and
    ``desired``.
    """

    action: Action
    key: Key
    reason: str = ""
    desired: Object | None = None
    live: Object | None = None
    method: Method = "none"
    changes: list[FieldOutcome] = field(default_factory=list)
    document_changes: list[ValueChange] = field(default_factory=list)
    title: str = ""
    running: str | None = None
    unfinished_run: Object | None = None
    finished: str | None = None
    applied_by: str | None = None
    checkpoint: str | None = None
    saved: list[str] = field(default_factory=list)
    unsaved: bool = False
    kept: bool = False
    shared: bool = False
    expired: bool = False
    adopt: bool = False
    companion_of: Key | None = None
    passed_dry_run: bool = False
    queued: bool = False
    verdict: str | None = None
    victims: list[EvictedJob] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    lost: list[FieldOutcome] = field(default_factory=list)
    dependents: list[Key] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    restorable: Object | None = None
    result: Result = "planned"
    error: str | None = None
    shown: tuple[Object | None, Object | None] | None = None
    claims: Claims | None = None
    turn: int = 0

    @property
    def deletes(self) -> bool:
        """Return True if the step deletes a live object."""
        return self.action in DELETING and self.live is not None

    @property
    def side_effects(self) -> list[str]:
        """Return what else a replacement loses: fields and dependent objects, by name."""
        said: list[str] = []
        if self.lost:
            fields = [say("{name} ({detail})", name=named(one.path), detail=one.manager) for one in self.lost]
            said.append(say("loses {fields:few4}", fields=fields))
        if self.dependents:
            names = [f"{key.resource.title}/{key.name}" for key in self.dependents]
            said.append(say("garbage collection deletes {names}", names=names))
        if self.unseen:
            said.append(say("whether any {kinds:or} depend on it could not be checked", kinds=self.unseen))
        return said

    @property
    def blocking_finalizers(self) -> str:
        """Return a warning with the finalizers that block the deletion of the live object; "" without any."""
        if not self.deletes or self.live is None:
            return ""
        names = [name for name in self.live["metadata"].get("finalizers") or [] if name not in _OF_KUBERNETES]
        if not names:
            return ""
        return say("its deletion waits for the {number:finalizer/finalizers} {names}", number=len(names), names=names)

    @property
    def waiting(self) -> str:
        """Return what its pods would wait for; "" if they do not wait."""
        return say("{waits:;}", waits=self.waits)

    @property
    def is_journalled(self) -> bool:
        """Return True if the journal stores the old object: it is replaced, or deleted together with its workload."""
        return self.deletes and (self.action == "replace" or self.companion_of is not None)


@dataclass
class Plan:
    """All steps, in the order of execution. A plan has no lifetime: it is made again if an object has changed since.

    ``errors`` prevent execution; ``existing`` are the objects that exist though they are to be created. Missing rights
    (``lacking``) and objects that a GitOps controller manages (``tracked``) prevent it too, but not a preview.
    ``notes`` are warnings and hints. ``confirm`` are further questions. ``lacking_jobs`` are the titles of the jobs
    whose missing dependencies the notes name. ``can_queue``: the errors are full quotas, for which jobs can wait.

    ``interrupted`` is the signal that stopped the execution (0: none). ``outage``: the cluster failed, or denied a
    request. ``unfinished``: a journal is left. ``recovery``: the steps that first finish interrupted runs; their
    ``create`` steps create objects again. ``turns``: groups of competing workloads; those of a group are created one
    after another.
    """

    steps: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    existing: list[Key] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    tracked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    confirm: list[str] = field(default_factory=list)
    lacking_jobs: set[str] = field(default_factory=set)
    can_queue: bool = False
    set_name: str | None = None
    interrupted: int = 0
    outage: bool = False
    unfinished: bool = False
    recovery: list[Step] = field(default_factory=list)
    turns: list[list[Key]] = field(default_factory=list)

    @property
    def obstacles(self) -> list[str]:
        """Return everything that prevents execution."""
        return list(dict.fromkeys([*self.errors, *self.tracked, *self.lacking]))

    @property
    def writes(self) -> bool:
        """Return True if the plan changes anything."""
        return any(step.action in WRITING for step in self.steps)

    @property
    def is_done(self) -> bool:
        """Return True if every step succeeded."""
        return all(step.result == "done" for step in self.steps)

    @property
    def is_journalled(self) -> bool:
        """Return True if a journal can finish the plan: it replaces objects, or deletes some with their workload."""
        return any(step.is_journalled for step in self.steps)

    @property
    def new_namespaces(self) -> set[str]:
        """Return the namespaces that the plan creates."""
        return {step.key.name for step in self.steps if step.key.kind == "Namespace" and step.action == "create"}

    @property
    def succeeding_autoscalers(self) -> set[Key]:
        """Return the autoscalers that take the place of one of another kind, which the plan deletes before."""
        scalers = [step for step in self.steps if step.key.kind in AUTOSCALERS]
        gone = {(step.key.namespace, step.key.name) for step in scalers if step.deletes}
        created = {step.key for step in scalers if step.action == "create"}
        return {key for key in created if (key.namespace, key.name) in gone}

    @property
    def questions(self) -> list[str]:
        """Return the questions that the user must confirm before the plan is carried out."""
        asked: list[str] = [
            say("creates {object}: {reason}", object=step.key, reason=step.reason)
            for step in self.recovery
            if step.action == "create"
        ]
        asked += [question for step in self.steps if (question := _question(step)) is not None]
        return asked + self.confirm

    @property
    def courtesies(self) -> list[str]:
        """Return questions on deletions that the user requested by name: asked if possible, else assumed confirmed."""
        return [
            say(
                "deletes {job} in {namespace}: {lost}{applier}",
                job=step.title or step.key,
                namespace=step.key.namespace,
                lost=_running_work(step),
                applier=_applier(step),
            )
            for step in self.steps
            if step.action == "delete" and step.running is not None
        ]

    @property
    def summary(self) -> dict[str, int]:
        """Return action -> number of steps, for the actions that occur."""
        counts = {action: sum(step.action == action for step in self.steps) for action in ACTIONS}
        return {action: number for action, number in counts.items() if number}


def _question(step: Step) -> str | None:
    if step.action == "prune":
        lost, job = _running_work(step) if step.running else step.finished, step.title or step.key
        if not lost:
            return say("prunes {job} ({object})", job=job, object=step.key)
        return say(
            "prunes {job} ({object}): {lost}{applier}", job=job, object=step.key, lost=lost, applier=_applier(step)
        )
    if step.action == "replace" and (step.running is not None or step.finished is not None or step.dependents):
        loses = [_running_work(step)] if step.running is not None else []
        loses += [step.finished] if step.finished is not None else []
        loses += [say("applied by {name}", name=step.applied_by)] if step.applied_by is not None else []
        more = filter(None, (step.blocking_finalizers, step.waiting))
        return say(
            "replaces {job} in {namespace}: {effects:;}",
            job=step.title,
            namespace=step.key.namespace,
            effects=[*loses, *step.side_effects, *more],
        )
    if step.action == "update" and step.key.kind in SERVICES and step.live is not None:
        ready = (step.live.get("status") or {}).get("readyReplicas") or 0
        for change in step.changes:
            if change.path == "spec.replicas" and isinstance(change.new, int) and change.new < ready:
                unsaved = say(", whose checkpoints are not run") if step.unsaved else ""
                return say(
                    "scales {job} in {namespace} from {old} to {new}: ends {pods:ready pod}{unsaved}",
                    job=step.title,
                    namespace=step.key.namespace,
                    old=change.old,
                    new=change.new,
                    pods=ready - change.new,
                    unsaved=unsaved,
                )
    return None


def _applier(step: Step) -> str:
    """Return the user who last applied the object, if not the caller."""
    return say("; applied by {name}", name=step.applied_by) if step.applied_by is not None else ""


def _running_work(step: Step) -> str:
    """Return the running work that a step ends, what is lost with it, and the checkpoint that runs before."""
    return f"{step.running}{_cost(step)}{_saving(step)}"


def _cost(step: Step) -> str:
    """Return what is lost when the workload ends."""
    kind = step.live["kind"] if step.live is not None else step.key.kind
    if kind in TRAINING_FORMS:
        again = step.action == "replace" and step.live is not None and was_admitted(step.live)
        queue = ""
        if again and step.desired is not None and step.live is not None:
            queue = queue_of(step.live if is_defaulted(step.live, step.desired) else step.desired)
        lost = (
            say(", its progress is lost")
            if step.checkpoint is None
            else say(", its progress since its checkpoint is lost")
        )
        return lost + (say(", and it waits in Kueue's queue {queue} again", queue=queue) if queue else "")
    return say(", it stops serving until it is replaced") if step.action == "replace" else say(", it stops serving")


def _saving(step: Step) -> str:
    """Return the checkpoint that runs before the workload ends."""
    return (
        say("; checkpoint runs before: {checkpoint}", checkpoint=step.checkpoint) if step.checkpoint is not None else ""
    )


class NoSuchJob(NotThere):
    """No job, or several jobs, match a name."""


class SeveralJobs(NoSuchJob):
    """Several jobs match a name."""


class ForeignJob(NoSuchJob):
    """The job is not gpuctl's to delete: made by other means, or managed by a GitOps controller."""


def missing_job(
    message: Template, name: str, namespace: str | None, names: Iterable[str], more: str = ""
) -> tuple[str, str]:
    """Return the message and the hint for a name that no job has.

    :param message: the sentence, with ``{name}`` and ``{where}``.
    :param namespace: the namespace that was searched; None for all.
    :param names: names of existing jobs; the closest one is suggested.
    :param more: a further hint, as a clause.
    """
    where = (
        say("in namespace {namespace}", namespace=namespace) if namespace else say("in any namespace that you may read")
    )
    listing = say("{command} lists the existing ones", command=ListHint("jobs"))
    close = nearest(name, sorted(set(names)))
    return say(message, name=name, where=where), clauses(suggest_before(close, listing), more)


class Refused(ClusterError):
    """A plan cannot be made or carried out; nothing was changed."""

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message, say("nothing was changed"))
        self.plan = plan


class Declined(Refused):
    """The user did not confirm the plan."""


class ConfirmationMissing(Refused):
    """The plan needs a confirmation, and there is no user to ask."""


class AlreadyExists(Refused):
    """An object that is to be created exists already; nothing was changed."""


class RightsMissing(Refused):
    """The user lacks rights that the plan needs; nothing was changed."""
