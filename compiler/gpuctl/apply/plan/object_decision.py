"""The decision about a single object, from the wanted and the live one. Sends no requests.

A decision that needs a dry-run is a :class:`PendingDecision`; :func:`decide_with_answer` completes it with the server's
answer.
"""

from __future__ import annotations

import copy

from gpuctl.apply.plan.claim_steps import existing_claim
from gpuctl.apply.plan.decision_inputs import (
    DecisionOptions,
    DecisionRefused,
    InOtherSet,
    PendingDecision,
    Target,
    WorkloadFacts,
    ignored_fields,
    metadata_changes,
    reason_of,
    reason_without_changes,
    with_carried_fields,
    without_records,
)
from gpuctl.apply.plan.plan import Method, Step
from gpuctl.apply.plan.random_suffix import random_suffix
from gpuctl.apply.plan.workload_steps import replacement, workload_step
from gpuctl.apply.state.compare import FieldOutcome, compare
from gpuctl.apply.state.managed_fields import Tree, applied_fields, foreign_managers, owned_fields, union, unstated
from gpuctl.hints import ADOPT_OBJECT, OR_RELOWER, kubectl_line
from gpuctl.kube.session import MANAGER
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import (
    CLAIM,
    CREATED_ONCE,
    POSTED,
    ROUTES,
    Key,
    Object,
    annotations_of,
    identity_of_shared,
    labels_of,
)
from gpuctl.objects.autoscalers import KEDA_PAUSE
from gpuctl.objects.ownership_metadata import PART_OF, is_ours
from gpuctl.release import __version__

_LONG_NAME = 30
# Kinds whose objects are never deleted or replaced.
_PERMANENT = frozenset({"CustomResourceDefinition", "PersistentVolume"})


def decide(target: Target, live: Object | None, options: DecisionOptions) -> Step | PendingDecision:
    """Return the step for a target, or a decision that needs a dry-run first.

    :raises DecisionRefused: the user must resolve a problem first.
    """
    desired, key = target.desired, target.key
    if live is None:
        is_posted = key.kind in POSTED or key.kind in CREATED_ONCE or key.kind == CLAIM
        method: Method = "post" if is_posted else "apply"
        return Step("create", key, desired=desired, method=method, title=target.title, shared=target.shared)
    if key.kind in CREATED_ONCE:
        return _created_once(target, live)
    if key.kind == "Namespace":
        return _namespace(target, live)
    if key.kind == CLAIM:
        return existing_claim(target, live)
    _refuse_others(target, live, options)
    if _is_kept(target, live, options):
        return _with_records(kept_step(key, live, target.title, options), target.desired, live, options)
    if key.kind in POSTED:
        return _workload(target, live, options)
    return _in_place(target, live, options)


def decide_with_answer(
    pending: PendingDecision, answer: Object | None, options: DecisionOptions, former: Tree | None = None
) -> Step:
    """Return the step for a workload.

    :param answer: the object as the server would create it; None if the server was not asked.
    :param former: the fields that its document stated before. None if unknown: without an answer no removal is then
        detected, and with one none of labels and annotations that admission adds to every new object.
    """
    target, live, want = pending.target, pending.live, pending.target.desired
    have = annotations_of(live).get(options.keys.hash)
    same = have == annotations_of(want)[options.keys.hash]
    # With an equal hash the document removed nothing, and admission added gpuctl's other fields. But another tool may
    # have left fields behind.
    ours = target.taken if same else owned_fields(live, adopted=have is None)
    if answer is None:
        stated = {} if former is None else union([former, target.taken])
        ours = {**stated, "f:metadata": ours.get("f:metadata") or {}}
    ignored = ignored_fields(target, live, options)
    wanted = want if answer is None else _without_removed(answer, pending.probe, former or {})
    compared = compare(target.key.kind, wanted, live, ours=ours, stated=want, ignored=ignored)
    return workload_step(target, live, options, compared, WorkloadFacts(ours, answer, same))


def metadata_added(answer: Object, sent: Object) -> list[tuple[str, str]]:
    """Return the labels and annotations that admission added to an object, as the part of metadata and the key."""
    parts = (("labels", labels_of), ("annotations", annotations_of))
    return [(part, key) for part, read in parts for key in read(answer) if key not in read(sent)]


def _without_removed(answer: Object, sent: Object, former: Tree) -> Object:
    """Return an answer without the labels and annotations that the document stated before and admission adds now.

    The document removes them. If admission undoes that, the update fails and names them.
    """
    stated = former.get("f:metadata") or {}
    gone = [(part, key) for part, key in metadata_added(answer, sent) if f"f:{key}" in (stated.get(f"f:{part}") or {})]
    metadata = dict(answer["metadata"])
    for part in {part for part, _ in gone}:
        metadata[part] = {key: value for key, value in metadata[part].items() if (part, key) not in gone}
    return {**answer, "metadata": metadata}


def _created_once(target: Target, live: Object) -> Step:
    have, want = identity_of_shared(live), identity_of_shared(target.desired)
    if have != want and target.key.kind == "ResourceFlavor":
        raise DecisionRefused(
            say(
                "ResourceFlavor {name} has the node labels {have} in the cluster and {want} here: set `gpu.types` in "
                "platform.yaml to the cluster's labels, or change the flavor while no job uses it ({command})",
                name=target.key.name,
                command=kubectl_line("edit resourceflavor", target.key.name),
                have=have,
                want=want,
            )
        )
    if have != want:
        raise DecisionRefused(
            say(
                "PriorityClass {name} has the value {have} in the cluster and {want} here, and such a value cannot "
                "change: set `priorities` in platform.yaml to the cluster's value, or to another class name",
                name=target.key.name,
                have=have,
                want=want,
            )
        )
    return Step("unchanged", target.key, desired=target.desired, live=live, title=target.title, shared=True)


def _namespace(target: Target, live: Object) -> Step:
    """Return a step without changes: an existing namespace is not taken over."""
    if live["metadata"].get("deletionTimestamp"):
        raise DecisionRefused(say("namespace {name} is being deleted: wait until it is gone", name=target.key.name))
    return Step("unchanged", target.key, desired=target.desired, live=live, title=target.title, shared=True)


def _refuse_others(target: Target, live: Object, options: DecisionOptions) -> None:
    key = target.key
    if not is_ours(live) and not options.request.planning.adopt:
        raise DecisionRefused(
            say(
                "{object} exists already and is not gpuctl's (it lacks the label app.kubernetes.io/managed-by=gpuctl); "
                "{hint}",
                object=key,
                hint=ADOPT_OBJECT,
            )
        )
    other = labels_of(live).get(PART_OF)
    if other is not None and options.part_of is not None and other != options.part_of:
        raise InOtherSet(other)


def _is_kept(target: Target, live: Object, options: DecisionOptions) -> bool:
    """Return True if only gpuctl or the platform has changed since the object was made, and its document has not.

    A route follows the platform: another one restarts nothing.
    """
    if target.key.kind in ROUTES:
        return False
    have = annotations_of(live).get(options.keys.hash)
    want = annotations_of(target.desired)[options.keys.hash]
    return have is not None and have != want and target.same_document and not options.request.planning.relower


def kept_step(key: Key, live: Object, title: str, options: DecisionOptions) -> Step:
    """Return the step for an object that stays unchanged though its document is lowered differently now."""
    by = annotations_of(live).get(options.keys.lowered_by, say("an older version"))
    why = say("kept, lowered by gpuctl {version}{option}", version=by, option=OR_RELOWER)
    if by == __version__:
        why = say("kept: the platform's or a pool's settings changed, the document did not{option}", option=OR_RELOWER)
    return joined_to_set(Step("unchanged", key, why, live=live, title=title, kept=True), live, options)


def _with_records(step: Step, desired: Object, live: Object, options: DecisionOptions) -> Step:
    """Let a workload that stays unchanged get the address of its new route, and the new number of jobs of its sweep."""
    keys = options.keys
    for key, reason in (
        (keys.url, say("has another address")),
        (keys.sweep_size, say("its sweep has another number of jobs")),
    ):
        have, want = annotations_of(live).get(key), annotations_of(desired).get(key)
        if have == want or want is None:
            continue
        step.action, step.method = "update", "patch"
        step.changes = [*step.changes, FieldOutcome(f"metadata.annotations[{key}]", have, want)]
        metadata = (step.desired or {}).get("metadata") or {"uid": live["metadata"]["uid"]}
        step.desired = {"metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), key: want}}}
        step.reason = clauses(reason, step.reason)
    return step


def joined_to_set(step: Step, live: Object, options: DecisionOptions) -> Step:
    """Let an unchanged object join the set that is applied."""
    if options.part_of is None or labels_of(live).get(PART_OF) == options.part_of:
        return step
    step.action, step.method = "update", "patch"
    step.changes = [FieldOutcome(f"metadata.labels[{PART_OF}]", None, options.part_of)]
    step.desired = {"metadata": {"uid": live["metadata"]["uid"], "labels": {PART_OF: options.part_of}}}
    step.reason = clauses(say("joins the set"), step.reason)
    return step


def _workload(target: Target, live: Object, options: DecisionOptions) -> Step | PendingDecision:
    if live["metadata"].get("deletionTimestamp"):
        return replacement(target, live, options, [], say("it is being deleted"), WorkloadFacts())
    desired = target.desired
    if annotations_of(live).get(options.keys.hash) == annotations_of(desired)[options.keys.hash]:
        ignored = ignored_fields(target, live, options)
        compared = compare(target.key.kind, desired, live, ours=target.taken, ignored=ignored)
        if not compared.changes or (not target.taken and _is_as_created(desired, live)):
            compared.outcomes = compared.metadata
            return workload_step(target, live, options, compared, WorkloadFacts())
    return PendingDecision(target, live, dry_run_copy(with_carried_fields(target, live, options)))


def _is_as_created(desired: Object, live: Object) -> bool:
    """Return True if the spec is unchanged since gpuctl created the object.

    ``metadata.generation`` starts at 1 and grows with each change of the spec. At 1, differences from gpuctl's text
    were made by the server or a webhook during admission.
    """
    return live["metadata"].get("generation") == 1 and not foreign_managers(desired, live)


def dry_run_copy(desired: Object) -> Object:
    """Return a copy under a temporary name with the same prefix: a dry-run under the object's own name is a conflict.

    Policies may check the prefix of a name. The copy of a long name has the same length, because limits apply to it.
    """
    result = copy.deepcopy(desired)
    name = result["metadata"]["name"]
    suffix = "-" + random_suffix()
    result["metadata"]["name"] = name[: max(len(name), _LONG_NAME) - len(suffix)].rstrip("-.") + suffix
    return result


def _in_place(target: Target, live: Object, options: DecisionOptions) -> Step:
    """Return the step for kinds that are updated by server-side apply."""
    desired, key = target.desired, target.key
    known = options.keys.hash in annotations_of(live)
    is_leaving = bool(live["metadata"].get("deletionTimestamp"))
    if key.kind == "Service" and (is_leaving or _is_headless(desired) != _is_headless(live)):
        changes = compare(key.kind, desired, live).changes
        why = (
            say("it is being deleted") if is_leaving else say("a Service cannot become headless or stop being headless")
        )
        step = replacement(target, live, options, changes, why, WorkloadFacts())
        step.method = "apply"
        return step
    if is_leaving:
        raise DecisionRefused(say("{object} is being deleted: wait until it is gone", object=key))
    tree = applied_fields(live, MANAGER)
    if _would_end_pause(live, tree, options):
        desired = with_carried_fields(target, live, options, again=False)
    compared = compare(key.kind, desired, live, ours=tree)
    changes, metadata = compared.changes, metadata_changes(compared, options)
    bookkeeping = all(change.path.endswith(f"[{options.keys.lowered_by}]") for change in metadata)
    if not changes and bookkeeping and not unstated(_stated(desired), _unmarked_tree(tree, options)):
        return Step("unchanged", key, live=live, desired=desired, title=target.title, shared=target.shared)
    if key.kind in _PERMANENT:
        return Step("skip", key, say("is never changed by gpuctl"), live=live, title=target.title)
    shown = [*changes, *without_records(metadata, options)]
    return Step(
        "update",
        key,
        target.because(reason_of(shown) if shown else reason_without_changes(known=known)),
        desired=_keeping_set(desired, live),
        live=live,
        method="apply",
        changes=shown,
        title=target.title,
        shared=target.shared,
        adopt=options.request.planning.adopt,
        claims=target.claims,
    )


def _is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def _would_end_pause(live: Object, tree: Tree, options: DecisionOptions) -> bool:
    """Return True if a server-side apply would remove or overwrite the pause of a CronJob or autoscaler.

    It removes fields that the last apply stated, such as those of an object that was created paused. A pause that was
    set later needs no statement, which could undo a resume between the plan and the apply.

    :param tree: the fields of the last apply.
    """
    if live["kind"] == "HorizontalPodAutoscaler":
        return options.keys.paused in annotations_of(live)
    held = (tree.get("f:metadata") or {}).get("f:annotations") or {}
    return not held.keys().isdisjoint({f"f:{options.keys.paused}", f"f:{KEDA_PAUSE}"})


def _keeping_set(desired: Object, live: Object) -> Object:
    """Return the object with the live object's set label: an apply without ``--set`` would remove it."""
    if PART_OF not in labels_of(live) or PART_OF in labels_of(desired):
        return desired
    metadata = desired["metadata"]
    labels = {**(metadata.get("labels") or {}), PART_OF: labels_of(live)[PART_OF]}
    return {**desired, "metadata": {**metadata, "labels": labels}}


def _stated(desired: Object) -> Object:
    return {key: value for key, value in desired.items() if key != "apiVersion"}


def _unmarked_tree(tree: Object, options: DecisionOptions) -> Object:
    """Return a manager's fields without the set's label, which only an apply of a set states, and the user's name."""
    metadata = dict(tree.get("f:metadata") or {})
    if "f:annotations" in metadata:
        name = f"f:{options.keys.applied_by}"
        metadata["f:annotations"] = {key: below for key, below in metadata["f:annotations"].items() if key != name}
    labels = {key: value for key, value in (metadata.get("f:labels") or {}).items() if key != f"f:{PART_OF}"}
    metadata["f:labels"] = labels
    return {**tree, "f:metadata": metadata} if "f:metadata" in tree else tree
