"""The plan of a recovery: the steps for the journals in the cluster. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.run.journal_entries import JournalEntry
from gpuctl.apply.run.journal_secrets import Journal, MissingPart
from gpuctl.apply.run.lease import LeaseObserver, lease_holders
from gpuctl.apply.run.pod_privileges import privileges
from gpuctl.apply.run.terminating_namespaces import find_terminating, terminating_message
from gpuctl.apply.state.live_state import read_objects
from gpuctl.hints import JobHint, RecoverHint
from gpuctl.kube.api_errors import if_allowed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.objects.api_resources import Key, Object, annotations_of, forms_of
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, Records, is_ours, main_title
from gpuctl.objects.queueing import is_held


class RecoveryProblem(NamedTuple):
    """The reason why a namespace, or a journal in it, is not recovered. ``refused``: by a check, not by a failed
    request.
    """

    namespace: str
    message: str
    hint: str | None = None
    refused: bool = True
    journal: str = ""


@dataclass(frozen=True)
class RecoveryExclusions:
    """Objects that a recovery does not handle.

    ``replaced`` are objects that the current plan creates or changes itself. ``unwanted`` (key -> reason) are objects
    that it deletes or prunes: they are not created again.
    """

    replaced: frozenset[Key] = frozenset()
    unwanted: Mapping[Key, str] = field(default_factory=dict)

    def excludes(self, entry: JournalEntry) -> bool:
        """Return True if the current plan handles an entry."""
        return not self.replaced.isdisjoint({entry.key, entry.successor, entry.companion_of or entry.key})

    def keeps_journal(self, journal: Journal) -> bool:
        """Return True if a journal must stay until the current plan is carried out."""
        return any(map(self.excludes, journal.entries)) or any(loss.key in self.replaced for loss in journal.lost)

    def refusal_of(self, entry: JournalEntry) -> str | None:
        """Return why an entry's objects are not created again; None if they are."""
        keys = (entry.key, entry.successor, entry.companion_of)
        return next((why for key, why in self.unwanted.items() if key in keys), None)


@dataclass
class RecoveryPlan:
    """The valid journals, the steps to recover their objects, and the problems.

    Objects to create have the action ``create``; the other steps change nothing. ``fallbacks`` are the old objects to
    create if the server refuses the new ones. ``working`` maps namespaces to the user and process that may still be
    applying there. ``terminating`` are terminating namespaces, in which nothing can be created.
    """

    journals: list[Journal] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    problems: list[RecoveryProblem] = field(default_factory=list)
    fallbacks: dict[Key, Object] = field(default_factory=dict)
    working: dict[str, str] = field(default_factory=dict)
    terminating: frozenset[str] = frozenset()
    observer: LeaseObserver = field(default_factory=LeaseObserver)
    exclusions: RecoveryExclusions = field(default_factory=RecoveryExclusions)

    @property
    def created(self) -> frozenset[Key]:
        """Return the keys of the objects to create."""
        return frozenset(step.key for step in self.steps if step.action == "create")

    def runs_in_progress(self, namespaces: Collection[str] | None = None) -> list[str]:
        """Return a note for each namespace in which a run may still be working.

        :param namespaces: only these.
        """
        return [
            say(
                "{holder} may be applying in {namespace} at this moment: then it does the recovery itself",
                holder=who,
                namespace=namespace,
            )
            for namespace, who in self.working.items()
            if namespaces is None or namespace in namespaces
        ]


def plan_recovery(
    session: Session, keys: Records, found: Iterable[Journal], exclusions: RecoveryExclusions | None = None
) -> RecoveryPlan:
    """Plan the recovery of journals."""
    found = list(found)
    recovery_plan = RecoveryPlan(exclusions=exclusions or RecoveryExclusions())
    recovery_plan.terminating = find_terminating(session, {journal.namespace for journal in found})
    for journal in found:
        if journal.invalid_reason is None:
            recovery_plan.journals.append(journal)
        elif journal.namespace not in recovery_plan.terminating:
            recovery_plan.problems.append(
                RecoveryProblem(
                    journal.namespace,
                    say(
                        "a journal in {namespace} is not gpuctl's, and was ignored: {reason}",
                        namespace=journal.namespace,
                        reason=journal.invalid_reason,
                    ),
                    say("check it, and delete it if nothing is missing: {command}", command=journal.removal),
                )
            )
    entries = [entry for journal in recovery_plan.journals for entry in journal.entries]
    live = read_live(session, entries, {loss.key for journal in recovery_plan.journals for loss in journal.lost})
    for journal in recovery_plan.journals:
        if journal.namespace in recovery_plan.terminating:
            recovery_plan.steps += _farewells(journal, keys)
            continue
        steps = list(_steps(journal, live, keys, recovery_plan.exclusions))
        recovery_plan.steps += steps
        fallbacks = {entry.successor: entry.old for entry in journal.entries if entry.new is not None}
        recovery_plan.fallbacks = {**fallbacks, **recovery_plan.fallbacks}
        problem = incomplete_journal(journal, live, recovery_plan.exclusions)
        if problem is not None:
            recovery_plan.problems.append(problem)
        recovery_plan.problems += _taken(journal, live, recovery_plan.exclusions)
        # What a newer journal creates is not created by an older one of the same job.
        live.update((step.key, _as_created(step.desired)) for step in steps if step.desired is not None)
    recovery_plan.working = lease_holders(
        session, sorted({item.namespace for item in recovery_plan.journals}), recovery_plan.observer
    )
    return recovery_plan


def _as_created(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": ""}}


def _farewells(journal: Journal, keys: Records) -> Iterator[Step]:
    for entry in journal.entries:
        yield Step("skip", entry.successor, terminating_message(journal.namespace), title=_title(entry, keys))


def incomplete_journal(
    journal: Journal, live: Mapping[Key, Object], exclusions: RecoveryExclusions
) -> RecoveryProblem | None:
    """Return the problem of a journal with missing parts, if objects may be lost; else None."""
    if journal.whole:
        return None
    gone = [loss for loss in journal.lost if not loss.companion and not _is_there(loss, live)]
    gone = [loss for loss in gone if loss.key not in exclusions.replaced and loss.key not in exclusions.unwanted]
    untouched = all(is_untouched(entry, live.get(entry.key)) for entry in journal.entries)
    if not gone and (journal.committed or untouched):
        # It was being removed, or its write did not finish: nothing was deleted yet.
        return None
    text = say(
        "the journal {journal} in {namespace} is incomplete: Secret {missing:few8} is missing or damaged",
        journal=journal.id,
        namespace=journal.namespace,
        missing=list(journal.missing),
    )
    if gone:
        lost = say(
            ", and with it the objects to restore: {objects:few8}",
            objects=[loss.key for loss in gone],
        )
        hint = say(
            "apply the documents of all of these; or delete the rest of the journal: {command}",
            command=journal.removal,
        )
    else:
        lost = say("; its contents are unknown")
        hint = say("if no job is missing, delete the rest: {command}", command=journal.removal)
    return RecoveryProblem(journal.namespace, f"{text}{lost}", hint, journal=journal.id)


def _taken(journal: Journal, live: Mapping[Key, Object], exclusions: RecoveryExclusions) -> Iterator[RecoveryProblem]:
    for entry in journal.entries:
        why = name_conflict(entry, live)
        if why is not None and not exclusions.excludes(entry) and exclusions.refusal_of(entry) is None:
            hint = say(
                "delete or rename that object and run {recover}; or, if the job is not to be restored: {command}",
                recover=RecoverHint(),
                command=journal.removal,
            )
            yield RecoveryProblem(
                journal.namespace, say("{object} {reason}", object=entry.key, reason=why), hint, journal=journal.id
            )


def _is_there(loss: MissingPart, live: Mapping[Key, Object]) -> bool:
    obj = live.get(loss.key)
    return obj is not None and not obj["metadata"].get("deletionTimestamp")


def is_untouched(entry: JournalEntry, live: Object | None) -> bool:
    """Return True if the old object exists and is not being deleted."""
    return live is not None and live["metadata"]["uid"] == entry.uid and not live["metadata"].get("deletionTimestamp")


def name_conflict(entry: JournalEntry, live: Mapping[Key, Object]) -> str | None:
    """Return why an entry's object cannot be created again: a foreign object has its name. None if not."""
    for key in dict.fromkeys((entry.key, entry.successor)):
        obj = live.get(key)
        if obj is not None and obj["metadata"]["uid"] != entry.uid and not is_ours(obj):
            if key == entry.key:
                return say("cannot be created again: the existing object of this name is not gpuctl's")
            return say("cannot be created again: the existing {object} of this name is not gpuctl's", object=key)
    return None


def read_live(session: Session, entries: Iterable[JournalEntry], more: Iterable[Key] = ()) -> dict[Key, Object]:
    """Return the existing objects of entries, and of ``more``: old and new ones, workloads of companions.

    A later run may have created a job in another form. Forms that the user may not read count as absent.
    """
    wanted, forms = set(more), set[Key]()
    for entry in entries:
        wanted.update({entry.key, entry.successor, entry.companion_of or entry.key})
        forms.update(forms_of(entry.successor))
    others = sorted(forms - wanted)
    found = session.each(lambda key: if_allowed(lambda: session.get(key), None), others)
    ours = {key: obj for key, obj in zip(others, found, strict=True) if obj is not None and is_ours(obj)}
    return {**read_objects(session, sorted(wanted)), **ours}


def finished_outcome(
    entry: JournalEntry, live: Mapping[Key, Object], keys: Records
) -> tuple[Literal["new", "old"], Sentence] | None:
    """Return the object that a workload's entry has left and its message, if the entry is finished; else None.

    ``new`` is also an object of a later run, with which the old object's companions are not restored.
    """
    for key in forms_of(entry.successor):
        if key != entry.key and key in live:
            new = say("the new object exists")
            return "new", new if key == entry.successor else say("{object} takes its place", object=key)
    obj = live.get(entry.key)
    if obj is None or obj["metadata"]["uid"] == entry.uid:
        return None
    assert entry.new is not None
    resume = JobHint("resume", entry.key.name, entry.key.namespace)
    if FINISHED_INDEXES in annotations_of(obj):
        # An array is created suspended, and started when its status has the finished indexes.
        return "new", say("the new object exists, suspended; {command} starts it", command=resume)
    if _is_suspended_again(entry, obj, keys):
        return "old", say("had been created again, suspended; {command} starts it", command=resume)
    made = {key: value for key, value in annotations_of(entry.new).items() if key != FINISHED_INDEXES}
    if made.items() <= annotations_of(obj).items():
        return "new", say("the new object exists")
    if annotations_of(entry.old).get(keys.hash) == annotations_of(obj).get(keys.hash):
        return "old", say("had been created again")
    return "new", say("a later version exists")


def _is_suspended_again(entry: JournalEntry, obj: Object, keys: Records) -> bool:
    """Return True if an object is the old one of an entry, which had ended and was created again suspended.

    A rerun's new object has the same annotations; it is not suspended, or only by Kueue, which does not hold it back.
    """
    suspended = [bool(((item or {}).get("spec") or {}).get("suspend")) for item in (entry.old, entry.new, obj)]
    old, now = (
        (annotations_of(item).get(keys.hash), keys.paused in annotations_of(item), is_held(item))
        for item in (entry.old, obj)
    )
    return suspended == [True, False, True] and old == now


def stays_with(entry: JournalEntry, live: Mapping[Key, Object], keys: Records) -> bool:
    """Return True if the workload of a companion, which was to be changed in place, is unchanged."""
    main = live.get(entry.companion_of) if entry.companion_of is not None else None
    if main is None or entry.changed_from is None:
        return False
    return annotations_of(main).get(keys.hash) == entry.changed_from


def _steps(
    journal: Journal, live: Mapping[Key, Object], keys: Records, exclusions: RecoveryExclusions
) -> Iterator[Step]:
    began = say("an interrupted apply")
    mains = {entry.successor: entry for entry in journal.entries if entry.companion_of is None}
    for entry in journal.entries:
        if exclusions.excludes(entry):
            continue
        obj, key, title = live.get(entry.key), entry.successor, _title(entry, keys)
        refusal = exclusions.refusal_of(entry)
        if is_untouched(entry, obj):
            yield Step("unchanged", key, say("{began} had not yet deleted it", began=began), live=obj, title=title)
        elif (taken := name_conflict(entry, live)) is not None:
            yield Step("skip", key, say("{began} had deleted it; {taken}", began=began, taken=taken), title=title)
        elif entry.companion_of is not None:
            main = mains.get(entry.companion_of)
            if obj is not None and not obj["metadata"].get("deletionTimestamp"):
                yield Step("unchanged", key, say("exists"), live=obj, title=title)
            elif refusal is not None:
                yield Step(
                    "skip",
                    key,
                    say("{began} had deleted it; is not created again: {reason}", began=began, reason=refusal),
                    title=title,
                )
            elif (main is not None and is_untouched(main, live.get(main.key))) or stays_with(entry, live, keys):
                why = say(
                    "{began} had deleted it before it changed {object}{powers}",
                    began=began,
                    object=entry.companion_of,
                    powers=_powers(entry.old),
                )
                yield Step("create", key, why, desired=entry.old, method="post", title=title)
            else:
                yield Step(
                    "skip",
                    key,
                    say("is restored only with the old job{powers}", powers=_powers(entry.old)),
                    title=title,
                )
        elif (ended := finished_outcome(entry, live, keys)) is not None:
            yield Step("unchanged", key, ended[1], live=live.get(key), title=title)
        elif refusal is not None:
            yield Step(
                "skip",
                key,
                say("{began} had deleted it; is not created again: {reason}", began=began, reason=refusal),
                title=title,
            )
        else:
            assert entry.new is not None
            powers = _powers(entry.new)
            why = (
                say("{began} is deleting it{powers}", began=began, powers=powers)
                if obj is not None
                else say("{began} had deleted it{powers}", began=began, powers=powers)
            )
            more = [text for text in privileges(entry.old) if text not in privileges(entry.new)]
            if more:
                why = clauses(why, say("the old one, created if this is refused: {privileges}", privileges=more))
            yield Step("create", key, why, desired=entry.new, method="post", title=title)


def _powers(obj: Object) -> str:
    found = privileges(obj)
    return say("; has {privileges}", privileges=found) if found else ""


def _title(entry: JournalEntry, keys: Records) -> str:
    return main_title(entry.old if entry.new is None else entry.new, keys)
