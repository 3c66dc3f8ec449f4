"""Prerequisites (`job.after`) of the trainings that a plan creates: their order, and those that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from gpuctl.apply.plan.object_decision import dry_run_copy
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.state.live_state import OURS
from gpuctl.hints import STARTER, JobHint
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.discovery import serves
from gpuctl.kube.scope import Scope, is_absent
from gpuctl.kube.session import Session
from gpuctl.language.prerequisite_text import describe_prerequisite
from gpuctl.language.sentences import Template, say
from gpuctl.language.spelling import did_you_mean
from gpuctl.objects.api_resources import RESOURCES, TRAININGS, Object, annotations_of, key_of, labels_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import ADMISSION_GATES, Ends, ends_of, is_waiting, judge, prerequisites_of
from gpuctl.objects.queueing import queue_of
from gpuctl.objects.sweep_ends import with_stated_size
from gpuctl.objects.sweep_names import job_name

_NO_GATE = "invalid"
"""A name that no admission gate can have: it lacks a domain."""
_CREATING = ("create", "replace")
_MISSING = Template("{job} would wait for ever: there is no job {name} in {namespace}; {hint}")
_MAY_BE_HIDDEN = Template("{job} waits for {name} in {namespace}, which does not exist, or you may not see it; {hint}")


def order_by_prerequisites(plan: Plan, keys: Records) -> None:
    """Let each training be written after its prerequisites in the plan: an old run of them must not release it.

    New jobs of a sweep come after the first one states the new number of jobs.
    """
    steps = [step for step in plan.steps if step.key.kind in TRAININGS and step.desired is not None]
    named: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        for name in _names(step, keys):
            named.setdefault((step.key.namespace, name), []).append(step)
    waiting = [step for step in steps if _prerequisites(step, keys) or _is_added(step, keys)]
    # No way without a circle is longer; the linker rejects circles.
    for _ in waiting:
        moved = False
        for step in waiting:
            before = [
                other for name in _prerequisites(step, keys) for other in named.get((step.key.namespace, name), ())
            ]
            if _is_added(step, keys):
                first = job_name(labels_of(_main(step))[keys.sweep], 0)
                before += [one for one in named.get((step.key.namespace, first), ()) if one.action == "update"]
            turn = 1 + max((other.turn for other in before), default=-1)
            moved, step.turn = moved or turn > step.turn, max(turn, step.turn)
        if not moved:
            return


def check_prerequisites(session: Session, plan: Plan, keys: Records) -> None:
    """Report the prerequisites of new trainings that exist neither in the plan nor in the cluster. Note what the
    trainings wait for.
    """
    waiting = [step for step in plan.steps if step.action in _CREATING and _prerequisites(step, keys)]
    for namespace in sorted({step.key.namespace for step in waiting}):
        try:
            live = _readable_trainings(session, namespace)
        except ApiError as error:
            if not error.lacks_permission:
                raise
            plan.notes.append(
                say(
                    "whether the jobs to wait for exist in {namespace} is unknown: {error}",
                    namespace=namespace,
                    error=error.message,
                )
            )
            continue
        ends = ends_of(_after_plan(live, plan, namespace, keys), keys)
        for step in waiting:
            if step.key.namespace == namespace:
                _report(plan, step, ends, keys)


def _after_plan(live: Iterable[Object], plan: Plan, namespace: str, keys: Records) -> Iterator[Object]:
    """Yield the trainings of a namespace as they are after the plan."""
    steps = {step.key: step for step in plan.steps if step.key.namespace == namespace and step.key.kind in TRAININGS}
    for obj in live:
        step = steps.get(key_of(obj))
        if step is None or step.action not in (*_CREATING, "delete", "prune"):
            stated = annotations_of(step.desired).get(keys.sweep_size) if step is not None and step.desired else None
            yield with_stated_size(obj, keys.sweep_size, int(stated)) if stated else obj
    yield from (step.desired for step in steps.values() if step.action in _CREATING and step.desired is not None)


def check_admission_gates(session: Session, plan: Plan, keys: Records) -> None:
    """Report an error if Kueue would start a new training in a queue before its prerequisites have ended.

    Kueue's webhook rejects an invalid gate only if it observes gates (feature AdmissionGatedBy).
    """
    new = (step for step in plan.steps if step.action in _CREATING and _prerequisites(step, keys))
    queued = next((step.desired for step in new if step.desired is not None and queue_of(step.desired)), None)
    if queued is None:
        return
    probe = dry_run_copy(queued)
    probe["metadata"]["annotations"] = {**annotations_of(probe), ADMISSION_GATES: _NO_GATE}
    if probe["metadata"]["namespace"] in plan.new_namespaces:
        # Nothing can be created in a missing namespace. Kueue's webhook checks gates in all namespaces alike.
        probe["metadata"]["namespace"] = "default"
    try:
        session.create(probe, dry_run=True)
    except ApiError:
        # Without the right to create it, or against another rule, the step itself fails.
        return
    plan.errors.append(
        say(
            "{object} would start at once: no Kueue of this cluster observes admission gates, which hold back a job in "
            "the queue {queue} until others have ended; Kueue 0.19 or newer does",
            object=key_of(queued),
            queue=queue_of(queued),
        )
    )


def note_dependents(session: Session, plan: Plan, keys: Records) -> None:
    """Note the trainings that wait for a job which the plan deletes for good."""
    leaving = [step for step in plan.steps if step.action in ("delete", "prune") and step.key.kind in TRAININGS]
    gone = {(step.key.namespace, name): step for step in leaving for name in _names(step, keys)}
    deleted = {step.key for step in leaving}
    for namespace in sorted({step.key.namespace for step in leaving}):
        read = partial(Scope(session, namespace).all_if_allowed, labels=OURS)
        live = list(chain.from_iterable(filter(None, session.each(read, sorted(TRAININGS)))))
        left = [obj for obj in live if key_of(obj) not in deleted]
        ends = ends_of(left, keys)
        for obj in left:
            for one in judge(obj, ends, keys) if is_waiting(obj, keys) else ():
                if (namespace, one.name) in gone and (one.state == "missing" or one.absent_jobs):
                    plan.notes.append(
                        say(
                            "{job} in {namespace} waits for {name}, and would not start",
                            job=labels_of(obj).get("app"),
                            namespace=namespace,
                            name=one.name,
                        )
                    )


def _readable_trainings(session: Session, namespace: str) -> list[Object]:
    """Return the trainings of a namespace.

    :raises ApiError: the user may not list a kind. RBAC answers so, too, for a kind that is not installed.
    """

    def listed(kind: str) -> list[Object]:
        try:
            return session.list_objects(RESOURCES[kind], namespace, labels=OURS)[0]
        except ApiError as error:
            if is_absent(kind, error) and not serves(session, RESOURCES[kind]):
                return []
            raise

    return list(chain.from_iterable(session.each(listed, sorted(TRAININGS))))


def _prerequisites(step: Step, keys: Records) -> dict[str, str]:
    # The object of a patch has no kind; the live one is changed in place then.
    return prerequisites_of(step.desired, keys.after) if step.desired is not None and "kind" in step.desired else {}


def _names(step: Step, keys: Records) -> list[str]:
    """Return the name of a training and of its sweep."""
    labels = labels_of(_main(step))
    return [labels[key] for key in ("app", keys.sweep) if key in labels]


def _main(step: Step) -> Object:
    """Return the object that a step writes; of a patch, the live one."""
    obj = step.live if step.desired is None or "kind" not in step.desired else step.desired
    return obj if obj is not None else {"metadata": {}}


def _is_added(step: Step, keys: Records) -> bool:
    """Return True for a step that creates a job of a sweep."""
    return step.action == "create" and keys.sweep in labels_of(_main(step))


def _report(plan: Plan, step: Step, ends: Ends, keys: Records) -> None:
    assert step.desired is not None
    states = judge(step.desired, ends, keys)
    where, title = step.key.namespace, step.title or str(step.key)
    expired = {other.key.name for other in plan.steps if other.expired and other.key.namespace == where}
    for one in states:
        if one.state == "missing" and one.absent_jobs:
            again: str = say("apply the document of {name} again", name=one.name)
            again += say(", or {command} if a ttl has removed it", command=JobHint("rerun", one.absent_jobs[0], where))
            plan.notes.append(
                say(
                    "{job} does not start: {missing}; {again}",
                    job=title,
                    missing=describe_prerequisite(one),
                    again=again,
                )
            )
        elif one.state == "missing" and one.name not in expired:
            near = did_you_mean(one.name, sorted(name for namespace, name in ends if namespace == where))
            template, hint = _MISSING, say("add its document, or remove the name")
            if one.may_be_hidden:
                template, hint = (
                    _MAY_BE_HIDDEN,
                    say("ask an administrator, who sees all pools, about {name}", name=one.name),
                )
            plan.errors.append(say(template, job=title, name=one.name, namespace=where, hint=near or hint))
        elif one.state == "missing":
            plan.notes.append(
                say(
                    "{job} waits until {name} runs again: its ttl has removed it, and whether it had succeeded is "
                    "unknown; {command} runs it",
                    job=title,
                    name=one.name,
                    command=JobHint("rerun", one.name, where),
                )
            )
        elif one.state == "unmet":
            plan.notes.append(say("{object} cannot start: {reason}", object=title, reason=describe_prerequisite(one)))
    left = [one.name for one in states if one.state != "met"]
    if left:
        plan.notes.append(say("{job} starts after {names:few}; {starter}", job=title, names=left, starter=STARTER))
