"""What is to be done about one object, seen beside the live one. No requests are sent from here.

A decision may need the server's opinion: then it is :class:`Ask`, and :func:`settle` decides with the dry-run's answer.
"""

from __future__ import annotations

import copy
import secrets
import string
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from gpuctl.apply.plan.former import fields_of
from gpuctl.apply.plan.losses import lost_fields
from gpuctl.apply.plan.plan import Method, Step
from gpuctl.apply.state.compare import (
    IN_PLACE,
    Change,
    Tree,
    applied_fields,
    foreign_managers,
    metadata_changes,
    named,
    owned_fields,
    spec_changes,
    unstated,
)
from gpuctl.apply.state.field_merge import merge
from gpuctl.apply.state.queueing import is_held
from gpuctl.apply.state.records import PART_OF, Records, is_ours
from gpuctl.apply.state.workload import carried_over, finished, running
from gpuctl.backend.api_resources import QUEUE_LABEL, WORKLOADS, Key, Object, annotations_of, key_of, labels_of
from gpuctl.backend.generations import CHANGEABLE
from gpuctl.kube.connection import MANAGER

_RECORDED = "records the document; nothing else changes"
_ADOPTED = "adopted: it is as it should be"
_LONG_NAME = 30
_TOOLS = ("kubectl.kubernetes.io/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "meta.helm.sh/")
# Kinds that are never deleted and never replaced.
_PERMANENT = frozenset({"CustomResourceDefinition", "PersistentVolume", "PersistentVolumeClaim"})


@dataclass(frozen=True)
class Wish:
    """How decisions are to be made.

    ``relower`` replaces what only a newer gpuctl would lower otherwise; ``adopt`` takes over objects and fields that
    others hold; ``part_of`` is the id of the set that is applied; ``autoscaled`` are the workloads whose replicas an
    autoscaler of somebody else sets.
    """

    keys: Records
    relower: bool = False
    adopt: bool = False
    part_of: str | None = None
    rolling: bool = False
    autoscaled: frozenset[Key] = frozenset()


class Target(NamedTuple):
    """An object as it will be sent, and what of its document is already in the cluster.

    ``title`` names the document (``training/x``); ``same_document`` tells that the live main object was made from an
    equal one.
    """

    desired: Object
    shared: bool
    title: str
    same_document: bool

    @property
    def key(self) -> Key:
        """The object's key."""
        return key_of(self.desired)


class Ask(NamedTuple):
    """The live object differs as far as we can see, but only a dry-run can tell whether it means anything.

    ``probe`` is what to create with ``dryRun=All``.
    """

    target: Target
    live: Object
    probe: Object


class Knowledge(NamedTuple):
    """What is known of a workload beside the two objects.

    ``ours`` are the fields of the live one that we stated, ``answer`` is what the server would make of the new one,
    ``same`` tells that the live one was made from an equal object.
    """

    ours: Tree | None = None
    answer: Object | None = None
    same: bool = False


class DecisionRefused(Exception):
    """Something that must be cleared up before anything is done; ``str()`` says what."""


class OtherSet(DecisionRefused):
    """The object is in another set; ``str()`` is the id of that one."""


def decide(target: Target, live: Object | None, wish: Wish) -> Step | Ask:
    """The step for a target, or the question that has to be asked first. Raises :class:`DecisionRefused`."""
    desired, key = target.desired, target.key
    if live is None:
        method: Method = "post" if key.kind in WORKLOADS or key.kind == "PriorityClass" else "apply"
        return Step("create", key, desired=desired, method=method, title=target.title, shared=target.shared)
    if key.kind == "PriorityClass":
        return _priority_class(target, live)
    if key.kind == "Namespace":
        return _namespace(target, live)
    _refuse_others(target, live, wish)
    if _is_kept(target, live, wish):
        return kept(key, live, target.title, wish)
    if key.kind in WORKLOADS:
        return _workload(target, live, wish)
    return _in_place(target, live, wish)


def settle(ask: Ask, answer: Object, wish: Wish) -> Step:
    """The step for a workload, given what the server would make of it."""
    target, live = ask.target, ask.live
    known = wish.keys.hash in annotations_of(live)
    same = annotations_of(live).get(wish.keys.hash) == annotations_of(target.desired)[wish.keys.hash]
    # With an equal hash nothing can have been taken out of the document.
    ours = None if same else owned_fields(live, adopted=not known)
    changes = spec_changes(
        target.key.kind,
        answer,
        live,
        removed_from=ours,
        stated=target.desired,
        ignored=_ignored(target, live, wish),
    )
    return _workload_step(target, live, wish, changes, Knowledge(ours, answer, same))


def settle_alone(ask: Ask, former: Tree | None, wish: Wish) -> Step:
    """The step for a workload that the server may not be asked about.

    :param former: the fields that its document stated before (None: not known, so that removals are not seen).
    """
    target, live = ask.target, ask.live
    ignored = _ignored(target, live, wish)
    changes = spec_changes(target.key.kind, target.desired, live, removed_from=former, ignored=ignored)
    return _workload_step(target, live, wish, changes, Knowledge(former))


def _priority_class(target: Target, live: Object) -> Step:
    have, want = live.get("value"), target.desired["value"]
    if have != want:
        raise DecisionRefused(
            f"PriorityClass {target.key.name} has the value {have} in the cluster and {want} here, and such a "
            "value cannot change: set `priorities` in platform.yaml to the cluster's value, or to another class name"
        )
    return Step("unchanged", target.key, desired=target.desired, live=live, title=target.title, shared=True)


def _namespace(target: Target, live: Object) -> Step:
    """A namespace that is there is enough; one that somebody else made is not claimed."""
    if live["metadata"].get("deletionTimestamp"):
        raise DecisionRefused(f"namespace {target.key.name} is being deleted: wait until it is gone")
    return Step("unchanged", target.key, desired=target.desired, live=live, title=target.title, shared=True)


def _refuse_others(target: Target, live: Object, wish: Wish) -> None:
    key = target.key
    if not is_ours(live) and not wish.adopt:
        raise DecisionRefused(
            f"{key} is there already and is not gpuctl's (it lacks the label app.kubernetes.io/managed-by=gpuctl); "
            "rename the job, or take the object over with `gpuctl apply --adopt`"
        )
    other = labels_of(live).get(PART_OF)
    if other is not None and wish.part_of is not None and other != wish.part_of:
        raise OtherSet(other)


def _is_kept(target: Target, live: Object, wish: Wish) -> bool:
    """Whether only gpuctl or the platform changed since the object was made, not its document."""
    have = annotations_of(live).get(wish.keys.hash)
    want = annotations_of(target.desired)[wish.keys.hash]
    return have is not None and have != want and target.same_document and not wish.relower


def kept(key: Key, live: Object, title: str, wish: Wish) -> Step:
    """The step for an object that is left as it is though its document would be lowered otherwise now."""
    from gpuctl.release import __version__

    by = annotations_of(live).get(wish.keys.lowered_by, "an older version")
    why = f"kept, lowered by gpuctl {by}"
    if by == __version__:
        why = "kept: the platform's or a pool's settings changed, the document did not"
    return joined(Step("unchanged", key, f"{why}; --relower replaces it", live=live, title=title), live, wish)


def joined(step: Step, live: Object, wish: Wish) -> Step:
    """An object that is left alone still joins the set that is applied."""
    if wish.part_of is None or labels_of(live).get(PART_OF) == wish.part_of:
        return step
    step.action, step.method = "update", "patch"
    step.changes = [Change(f"metadata.labels[{PART_OF}]", None, wish.part_of)]
    step.desired = {"metadata": {"uid": live["metadata"]["uid"], "labels": {PART_OF: wish.part_of}}}
    step.reason = "joins the set" + (f"; {step.reason}" if step.reason else "")
    return step


def _workload(target: Target, live: Object, wish: Wish) -> Step | Ask:
    if live["metadata"].get("deletionTimestamp"):
        return _replacement(target, live, wish, [], "it is being deleted", Knowledge())
    desired = target.desired
    if annotations_of(live).get(wish.keys.hash) == annotations_of(desired)[wish.keys.hash]:
        ignored = _ignored(target, live, wish)
        if _is_as_created(desired, live) or not spec_changes(target.key.kind, desired, live, ignored=ignored):
            return _workload_step(target, live, wish, [], Knowledge())
    return Ask(target, live, probe(_carried_over(target, live, wish)))


def _is_as_created(desired: Object, live: Object) -> bool:
    """Proof that nobody touched the spec since we created it.

    ``metadata.generation`` starts at 1 and every later change of a spec raises it; what differs from our text was
    then put there by the server or a webhook as it accepted the object.
    """
    return live["metadata"].get("generation") == 1 and not foreign_managers(desired, live)


def _ignored(target: Target, live: Object, wish: Wish) -> tuple[str, ...]:
    """Replicas belong to the autoscaler, the document's or somebody else's, and to the pause while there is one."""
    if target.key.kind not in ("Deployment", "StatefulSet"):
        return ()
    others = wish.keys.paused in annotations_of(live) or target.key in wish.autoscaled
    return ("spec.replicas",) if others or "replicas" not in target.desired["spec"] else ()


def probe(desired: Object) -> Object:
    """The object under a temporary name that begins like its own: a dry-run under its own would be a conflict.

    Policies judge names by how they begin. A long name, which limits are on, keeps its length.
    """
    result = copy.deepcopy(desired)
    name = result["metadata"]["name"]
    suffix = "-" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(5))
    result["metadata"]["name"] = name[: max(len(name), _LONG_NAME) - len(suffix)].rstrip("-.") + suffix
    return result


def _workload_step(target: Target, live: Object, wish: Wish, changes: list[Change], knowledge: Knowledge) -> Step:
    kind = target.key.kind
    known = wish.keys.hash in annotations_of(live)
    owned, stays = owned_fields(live, adopted=not known), partial(_stays, wish.keys)
    metadata = metadata_changes(target.desired, live, owned, stays)
    in_place = (*IN_PLACE[kind], "spec.replicas") if kind in ("Deployment", "StatefulSet") else IN_PLACE[kind]
    queue = _lasting_queue(target.desired, live)
    if all(change.path in in_place for change in changes) and not (queue is not None and _may_move(live, wish)):
        if queue is not None:
            target = target._replace(desired=_in_queue(target.desired, queue))
            metadata = metadata_changes(target.desired, live, owned, stays)
        # The version alone is no reason to write.
        if not changes and all(change.path.endswith(f"[{wish.keys.lowered_by}]") for change in metadata):
            step = Step("unchanged", target.key, live=live, desired=target.desired, title=target.title)
            return _hint(step, live, queue)
        return _patch_step(target, live, wish, changes, metadata, known)
    if wish.rolling and kind in ("Deployment", "StatefulSet"):
        return _rolling_step(target, live, wish, _shown(metadata, wish), knowledge)
    return _replacement(target, live, wish, [*changes, *_shown(metadata, wish)], _why(changes), knowledge)


def _stays(keys: Records, name: str) -> bool:
    """Labels and annotations that are never removed: other commands', and those of tools that brought the object."""
    return keys.is_record(name) or name.startswith(_TOOLS)


def _hint(step: Step, live: Object, queue: str | None) -> Step:
    ended = finished(live)
    if ended:
        name = step.key.name
        step.reason = f"{ended}; `gpuctl rerun {name}` runs it again"
    elif queue is not None and not is_held(live):
        where = f"in Kueue's queue {queue}" if queue else "in no queue of Kueue"
        step.reason = f"stays {where} as long as it runs; --relower replaces it"
    return step


def _lasting_queue(desired: Object, live: Object) -> str | None:
    """The queue that a live training stays in whatever is wanted: one that is not suspended cannot move, says Kueue's
    webhook, and one that is kept out of its queue is not to start. None where its queue may change, or is as wanted."""
    if live["kind"] not in CHANGEABLE or labels_of(live).get(QUEUE_LABEL) == labels_of(desired).get(QUEUE_LABEL):
        return None
    fixed = is_held(live) or not (live.get("spec") or {}).get("suspend")
    return labels_of(live).get(QUEUE_LABEL, "") if fixed else None


def _may_move(live: Object, wish: Wish) -> bool:
    """Whether a training is replaced so that it gets into another queue."""
    return wish.relower and not is_held(live) and not finished(live)


def _in_queue(desired: Object, queue: str) -> Object:
    labels = {key: value for key, value in labels_of(desired).items() if key != QUEUE_LABEL}
    if queue:
        labels[QUEUE_LABEL] = queue
    return {**desired, "metadata": {**desired["metadata"], "labels": labels}}


def _patch_step(
    target: Target, live: Object, wish: Wish, changes: list[Change], metadata: list[Change], known: bool
) -> Step:
    patch: Object = {"metadata": {"uid": live["metadata"]["uid"]}}
    wanted = _carried_over(target, live, wish, again=False)["metadata"]
    for part in ("labels", "annotations"):
        values = dict(wanted.get(part) or {})
        values.update(dict.fromkeys(_removed(metadata, part)))
        patch["metadata"][part] = values
    if changes:
        fields = {change.path.removeprefix("spec."): change.new for change in changes}
        patch["spec"] = fields
    shown = [*changes, *_shown(metadata, wish)]
    reason = _why(shown) if shown else _RECORDED if known else _ADOPTED
    return Step(
        "update", target.key, reason, desired=patch, live=live, method="patch", changes=shown, title=target.title
    )


def _removed(metadata: list[Change], part: str) -> list[str]:
    keys = []
    for change in metadata:
        if change.new is None and change.path.startswith(f"metadata.{part}"):
            rest = change.path[len(f"metadata.{part}") :]
            keys.append(rest[1:-1] if rest.startswith("[") else rest[1:])
    return keys


def _rolling_step(target: Target, live: Object, wish: Wish, metadata: list[Change], knowledge: Knowledge) -> Step:
    """The live object with ours in it: what others hold stays, and where it is in the way that is a conflict."""
    desired = _carried_over(target, live, wish)
    adopted = wish.keys.hash not in annotations_of(live)
    merged = merge(
        knowledge.answer or desired,
        live,
        knowledge.ours,
        desired,
        adopted=adopted,
        ignored=() if wish.keys.paused in annotations_of(live) else _ignored(target, live, wish),
    )
    held = "; ".join(f"{path} is held by {' and '.join(names)}" for path, names in sorted(merged.conflicts.items()))
    if held and not wish.adopt:
        raise DecisionRefused(f"{target.key}: {held}; take it over with --adopt, or take it out of the document")
    obj = {**live, "spec": merged.spec}
    changes = [*spec_changes(target.key.kind, obj, live, removed_from=fields_of(live)), *metadata]
    return Step(
        "update",
        target.key,
        f"rolling: {_why(changes)}" + (f"; takes over what others hold: {held}" if held else ""),
        desired=_with_metadata(obj, desired, metadata),
        live=live,
        method="put",
        changes=changes,
        title=target.title,
    )


def _with_metadata(live: Object, desired: Object, changes: list[Change]) -> Object:
    """A live object with our labels and annotations, and without those that the changes take away."""
    passing = ("managedFields", "resourceVersion", "generation", "creationTimestamp")
    metadata = {key: value for key, value in live["metadata"].items() if key not in passing}
    for part in ("labels", "annotations"):
        gone = _removed(changes, part)
        old = {key: value for key, value in (metadata.get(part) or {}).items() if key not in gone}
        metadata[part] = {**old, **(desired["metadata"].get(part) or {})}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}


def _carried_over(target: Target, live: Object, wish: Wish, *, again: bool = True) -> Object:
    return carried_over(target.desired, live, wish.keys, autoscaled=target.key in wish.autoscaled, again=again)


def _replacement(
    target: Target, live: Object, wish: Wish, changes: list[Change], reason: str, knowledge: Knowledge
) -> Step:
    desired = _carried_over(target, live, wish)
    lost = lost_fields(
        live,
        desired,
        knowledge.answer,
        {change.path for change in changes},
        adopted=wish.keys.hash not in annotations_of(live),
        same=knowledge.same,
    )
    return Step(
        "replace",
        target.key,
        reason if is_ours(live) else f"is not gpuctl's; {reason}",
        desired=desired,
        live=live,
        method="post",
        changes=changes,
        lost=lost,
        title=target.title,
        running=running(live),
    )


def _in_place(target: Target, live: Object, wish: Wish) -> Step:
    """Kinds that server-side apply changes: compared at the paths we set, and at those we set before."""
    desired, key = target.desired, target.key
    known = wish.keys.hash in annotations_of(live)
    if key.kind == "Service" and _is_headless(desired) != _is_headless(live):
        changes = spec_changes(key.kind, desired, live)
        step = _replacement(target, live, wish, changes, "a Service's headlessness is fixed", Knowledge())
        step.method = "apply"
        return step
    tree = applied_fields(live, MANAGER)
    changes = spec_changes(key.kind, desired, live, removed_from=tree)
    metadata = metadata_changes(desired, live, tree, partial(_stays, wish.keys))
    bookkeeping = all(change.path.endswith(f"[{wish.keys.lowered_by}]") for change in metadata)
    if not changes and bookkeeping and not unstated(_without_records(desired), _without_records_tree(tree, wish)):
        return Step("unchanged", key, live=live, desired=desired, title=target.title, shared=target.shared)
    if key.kind in _PERMANENT:
        return Step("skip", key, "is never changed by gpuctl", live=live, title=target.title)
    shown = [*changes, *_shown(metadata, wish)]
    return Step(
        "update",
        key,
        _why(shown) if shown else _RECORDED if known else _ADOPTED,
        desired=_keeping_set(desired, live),
        live=live,
        method="apply",
        changes=shown,
        title=target.title,
        shared=target.shared,
        adopt=wish.adopt,
    )


def _is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def _keeping_set(desired: Object, live: Object) -> Object:
    """An apply without ``--set`` states the set's label again, or it would be removed as no longer stated."""
    if PART_OF not in labels_of(live) or PART_OF in labels_of(desired):
        return desired
    metadata = desired["metadata"]
    labels = {**(metadata.get("labels") or {}), PART_OF: labels_of(live)[PART_OF]}
    return {**desired, "metadata": {**metadata, "labels": labels}}


def _without_records(desired: Object) -> Object:
    return {key: value for key, value in desired.items() if key != "apiVersion"}


def _without_records_tree(tree: Object, wish: Wish) -> Object:
    """A manager's fields without the set's label, which only an apply of a set states."""
    metadata = dict(tree.get("f:metadata") or {})
    labels = {key: value for key, value in (metadata.get("f:labels") or {}).items() if key != f"f:{PART_OF}"}
    metadata["f:labels"] = labels
    return {**tree, "f:metadata": metadata} if "f:metadata" in tree else tree


def _shown(metadata: list[Change], wish: Wish) -> list[Change]:
    """Without our own records: they change with everything else."""
    hidden = tuple(f"[{key}]" for key in (wish.keys.hash, wish.keys.lowered_by, wish.keys.document))
    return [change for change in metadata if not change.path.endswith(hidden)]


def _why(changes: list[Change]) -> str:
    """The fields that differ, the first few by name."""
    if [change.path for change in changes] == [f"metadata.labels[{PART_OF}]"]:
        return "joins the set"
    # Many variables follow from another field, which says more.
    paths = [named(change.path) for change in sorted(changes, key=lambda change: ".env[" in change.path)]
    shown = ", ".join(paths[:3])
    return shown + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
