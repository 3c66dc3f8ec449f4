"""A plan: for each object what will be done to it, and why. Computed once, then printed or carried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpuctl.apply.plan.overwritten_foreign_fields import LostField
from gpuctl.apply.state.compare import Change
from gpuctl.apply.state.field_paths import named
from gpuctl.apply.state.takeover import Claims
from gpuctl.kube.api_errors import ClusterError, NotThere
from gpuctl.language.display_text import first_few
from gpuctl.objects.api_resources import TRAININGS, Key, Object
from gpuctl.objects.queueing import is_defaulted, queue_of, was_admitted

Action = Literal["create", "replace", "update", "unchanged", "prune", "delete", "skip"]
Result = Literal["planned", "done", "failed", "restored", "rolled-back", "not-run"]
Method = Literal["post", "apply", "patch", "put", "delete", "labels", "none"]

ACTIONS: tuple[Action, ...] = ("create", "replace", "update", "unchanged", "prune", "delete", "skip")
DELETING = frozenset({"replace", "prune", "delete"})
_NAMED = 4
# Finalizers that Kubernetes removes by itself.
_OF_KUBERNETES = frozenset(
    {"foregroundDeletion", "orphan", "kubernetes", "service.kubernetes.io/load-balancer-cleanup"}
)
WRITING = DELETING | {"create", "update"}


class EvictedJob(NamedTuple):
    """Somebody's pods that a plan's pods would evict. ``runtime`` is for how long they run, None when they do not;
    ``owner`` whose they are, as far as their labels say.

    ``seen`` is whether whoever asked may know whose they are; those of whom that is not so are one, without names, with
    the priority of the most important and the runtime of the longest.
    """

    namespace: str
    job: str
    priority: int
    pods: tuple[str, ...]
    runtime: str | None
    owner: str | None = None
    seen: bool = True

    def __str__(self) -> str:
        state = f"running for {self.runtime}" if self.runtime else "not running yet"
        if not self.seen:
            return f"work in other namespaces ({state})"
        pods = "1 pod" if len(self.pods) == 1 else f"{len(self.pods)} pods"
        owner = f"owner {self.owner}, " if self.owner else ""
        return f"{self.job} in {self.namespace} ({owner}{pods}, {state})"


class Wait(NamedTuple):
    """The reason why pods of a workload will wait after it is created: ``cause`` is ``quota``, ``queue`` or ``room``.

    ``likelihood`` is 1 if they wait in every order of pods, None if the order decides.
    """

    cause: str
    message: str
    likelihood: float | None = 1.0

    def __str__(self) -> str:
        return f"{'may' if self.likelihood is None else 'will'} wait: {self.message}"


@dataclass
class Step:
    """What is done to one object.

    ``desired`` is the object to send (for ``patch`` the patch), ``live`` the one that is there. ``method`` is how it is
    sent. ``running`` says what a user loses by it (``running for 3h``), None when nothing. ``finished`` is set if it
    replaces or prunes an ended training (``finished 3h ago (Complete): runs again``). ``applied_by`` is who
    has applied it last, if that is not the caller. ``checkpoint`` is how what
    runs saves its progress before (``python save.py (at most 2m)``), ``saved`` are the uids of the pods that have, once
    it did; ``unsaved`` tells that it could and does not, as which pods a lower number of replicas ends is not known.
    ``expired`` tells that there is no live object as its ttl has presumably removed it. ``adopt``
    takes over fields that other managers hold. ``companion_of`` is the workload that a deleted Service or
    autoscaler belonged to. ``tried`` tells that the server has accepted ``desired`` in a dry-run already, ``queued``
    that Kueue will hold the workload back, so that its pods come when there is quota for them. ``verdict`` is what
    ``fit`` says of the pods that come (None: not asked), ``victims`` are whom they would evict, ``waits`` what they
    would wait for. ``lost`` is what others put into the live object and a replacement drops; ``dependents`` names the
    objects that garbage collection deletes with it, ``unseen`` the kinds that may not be looked through for them.
    ``restorable`` is the live object as it is created again where its successor cannot be; None before the plan is
    carried out. ``shown`` is the difference, before and after, of a step that the service tells of; None: it is made of
    ``live`` and ``desired``. ``claims`` are fields to take over from other field managers before it is written.
    """

    action: Action
    key: Key
    reason: str = ""
    desired: Object | None = None
    live: Object | None = None
    method: Method = "none"
    changes: list[Change] = field(default_factory=list)
    title: str = ""
    running: str | None = None
    finished: str | None = None
    applied_by: str | None = None
    checkpoint: str | None = None
    saved: list[str] = field(default_factory=list)
    unsaved: bool = False
    shared: bool = False
    expired: bool = False
    adopt: bool = False
    companion_of: Key | None = None
    passed_dry_run: bool = False
    queued: bool = False
    verdict: str | None = None
    victims: list[EvictedJob] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    lost: list[LostField] = field(default_factory=list)
    dependents: list[Key] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    restorable: Object | None = None
    result: Result = "planned"
    error: str | None = None
    shown: tuple[Object | None, Object | None] | None = None
    claims: Claims | None = None

    @property
    def deletes(self) -> bool:
        """Whether a live object goes away by it."""
        return self.action in DELETING and self.live is not None

    @property
    def side_effects(self) -> list[str]:
        """What goes with a replacement beside its pods, in a few words: names only."""
        said = []
        if self.lost:
            fields = (f"{named(one.path)} ({one.manager})" for one in self.lost)
            said.append(f"loses {first_few(fields, _NAMED)}")
        if self.dependents:
            said.append(
                "garbage collection deletes " + ", ".join(f"{key.resource.title}/{key.name}" for key in self.dependents)
            )
        if self.unseen:
            said.append(f"whether any {' or '.join(self.unseen)} depend on it could not be seen")
        return said

    @property
    def blocking_finalizers(self) -> str:
        """The finalizers that hold up the deletion of the live object, in a few words; "" if there are none."""
        if not self.deletes or self.live is None:
            return ""
        names = [name for name in self.live["metadata"].get("finalizers") or [] if name not in _OF_KUBERNETES]
        return f"is gone only without the finalizer{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""

    @property
    def waiting(self) -> str:
        """What its pods would wait for, in a few words; "" when for nothing."""
        return "; ".join(map(str, self.waits))

    @property
    def is_journalled(self) -> bool:
        """Whether the old object must not get lost: something comes in its place, or it goes with its workload."""
        return self.deletes and (self.action == "replace" or self.companion_of is not None)


@dataclass
class Plan:
    """All steps, in the order in which they are carried out.

    ``errors`` forbid carrying it out; ``existing`` are the objects that are there and should not be. So do the rights
    that are ``lacking`` and the objects that a GitOps controller has ``tracked``, but not a look at it.
    ``notes`` are worth knowing; ``confirm`` are further reasons to ask first. ``interrupted`` is the signal
    that stopped it on the way (0: none); ``outage`` tells that the cluster failed, or did not allow it, ``unfinished``
    that a journal stays. ``recovery`` is what is done first about what killed runs left; its ``create`` steps bring
    objects back. ``turns`` are workloads that compete: those of one list are created one after another.
    """

    steps: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    existing: list[Key] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    tracked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    confirm: list[str] = field(default_factory=list)
    set_name: str | None = None
    interrupted: int = 0
    outage: bool = False
    unfinished: bool = False
    recovery: list[Step] = field(default_factory=list)
    turns: list[list[Key]] = field(default_factory=list)

    @property
    def obstacles(self) -> list[str]:
        """All that forbids carrying it out."""
        return list(dict.fromkeys([*self.errors, *self.tracked, *self.lacking]))

    @property
    def writes(self) -> bool:
        """Whether anything would change."""
        return any(step.action in WRITING for step in self.steps)

    @property
    def questions(self) -> list[str]:
        """What somebody has to confirm before the plan is carried out."""
        asked = [f"creates {step.key}: {step.reason}" for step in self.recovery if step.action == "create"]
        asked += [question for step in self.steps if (question := _question(step)) is not None]
        return asked + self.confirm

    @property
    def courtesies(self) -> list[str]:
        """What is asked where somebody can be asked, and done where nobody can: it was told by name."""
        return [
            f"deletes {step.title or step.key} in {step.key.namespace}: "
            f"{step.running}{_cost(step)}{_saving(step)}{_applier(step)}"
            for step in self.steps
            if step.action == "delete" and step.running is not None
        ]

    @property
    def summary(self) -> dict[str, int]:
        """Action -> number of steps, for the actions that occur."""
        counts = {action: sum(step.action == action for step in self.steps) for action in ACTIONS}
        return {action: number for action, number in counts.items() if number}


def _question(step: Step) -> str | None:
    if step.action == "prune":
        lost = f"{step.running}{_cost(step)}{_saving(step)}" if step.running else step.finished
        return f"prunes {step.title or step.key} ({step.key})" + (f": {lost}{_applier(step)}" if lost else "")
    if step.action == "replace" and (step.running is not None or step.finished is not None or step.dependents):
        loses = [f"{step.running}{_cost(step)}{_saving(step)}"] if step.running is not None else []
        loses += [step.finished] if step.finished is not None else []
        loses += [f"applied by {step.applied_by}"] if step.applied_by is not None else []
        more = filter(None, (step.blocking_finalizers, step.waiting))
        return f"replaces {step.title} in {step.key.namespace}: " + "; ".join([*loses, *step.side_effects, *more])
    if step.action == "update" and step.key.kind in ("Deployment", "StatefulSet") and step.live is not None:
        ready = (step.live.get("status") or {}).get("readyReplicas") or 0
        for change in step.changes:
            if change.path == "spec.replicas" and isinstance(change.new, int) and change.new < ready:
                ended = ready - change.new
                pods = "pod" if ended == 1 else "pods"
                counts = f"from {change.old} to {change.new}: ends {ended} ready {pods}"
                unsaved = ", whose checkpoints are not run" if step.unsaved else ""
                return f"scales {step.title} in {step.key.namespace} {counts}{unsaved}"
    return None


def _applier(step: Step) -> str:
    """Who has applied it last, if that is not the caller."""
    return f"; applied by {step.applied_by}" if step.applied_by is not None else ""


def _cost(step: Step) -> str:
    """What ending it costs."""
    kind = step.live["kind"] if step.live is not None else step.key.kind
    if kind in TRAININGS:
        again = step.action == "replace" and step.live is not None and was_admitted(step.live)
        queue = ""
        if again and step.desired is not None and step.live is not None:
            queue = queue_of(step.live if is_defaulted(step.live, step.desired) else step.desired)
        lost = ", its progress is lost" if step.checkpoint is None else ", its progress since its checkpoint is lost"
        return lost + (f", and it waits in Kueue's queue {queue} again" if queue else "")
    return ", it stops serving meanwhile" if step.action == "replace" else ", it stops serving"


def _saving(step: Step) -> str:
    """What is done before it ends."""
    return f"; checkpoint runs before: {step.checkpoint}" if step.checkpoint is not None else ""


class NoSuchJob(NotThere):
    """There is no job of a name, or there are several."""


class SeveralJobs(NoSuchJob):
    """There are several jobs of a name, where one is meant."""


class ForeignJob(NoSuchJob):
    """The job of a name is somebody else's to delete: made by other means, or by a GitOps controller."""


class Refused(ClusterError):
    """A plan cannot be made, or cannot be carried out; nothing was changed."""

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message, "nothing was changed")
        self.plan = plan


class Declined(Refused):
    """The user did not confirm the plan."""


class ConfirmationMissing(Refused):
    """The plan needs a confirmation, and there is no user to ask."""


class AlreadyExists(Refused):
    """What was to be created is there already; nothing was changed."""


class RightsMissing(Refused):
    """The user lacks rights that the plan needs; nothing was changed."""
