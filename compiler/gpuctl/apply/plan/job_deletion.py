"""Plans that delete the objects of documents, or of a job given by name: exactly those that lowering creates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from gpuctl.apply.plan.gitops_tracking import tracked_by
from gpuctl.apply.plan.plan import ForeignJob, NoSuchJob, Plan, SeveralJobs, Step, missing_job
from gpuctl.apply.plan.plan_draft import jobs_of, title_of
from gpuctl.apply.plan.pool_labels import pool_leave_steps, users_of, warn_about_users
from gpuctl.apply.plan.quota_queue_notes import check_queue_deletions
from gpuctl.apply.plan.scheduled_run_plan import note_unfinished_runs
from gpuctl.apply.state.live_state import COMPANIONS, OURS, read_live_state
from gpuctl.backend.lowering_context import Lowered
from gpuctl.backend.object_order import deletion_rank
from gpuctl.hints import IN_NAMESPACE, OR_DELETE_FILE, kubectl_line
from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.names import is_label_value
from gpuctl.language.sentences import Template, say
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Key, Object, key_of, labels_of
from gpuctl.objects.companion_names import is_code_archive, is_companion_name
from gpuctl.objects.hashed_names import hashed_name_of, job_of_hashed_name, unhashed_name
from gpuctl.objects.ownership_metadata import Records, is_controlled, is_ours


def plan_document_deletion(
    session: Session, lowered: list[Lowered], keys: Records, *, keep_labels: bool = False
) -> Plan:
    """Plan ``delete -f``: delete gpuctl's objects of the documents by kind, name and namespace.

    Shared objects stay (namespaces, priority classes). A pool's labels are removed from its nodes; their GPU types
    stay.
    """
    own = [item for item in lowered if not item.shared]
    wanted = {key_of(item.object) for item in own}
    live = read_live_state(session, wanted, jobs_of(own), foreign=True)
    beside: dict[tuple[str, str | None], list[Object]] = {}
    for obj in live.objects.values():
        beside.setdefault((key_of(obj).namespace, labels_of(obj).get("app")), []).append(obj)
    steps: dict[Key, Step] = {}
    plan = Plan()
    foreign = _foreign_jobs(own, live.objects)
    for item in own:
        key = key_of(item.object)
        title, kind = title_of(item.document), item.document.kind
        name = item.document.name
        near = beside.get((key.namespace, name), []) if item.document.is_workload else []
        parts = _parts_of(near, keys, key.namespace, name, kind) if item.document.is_workload else []
        # Changed files have another archive than those that were applied.
        if key in live.objects or not (is_code_archive(item.object) or any(map(hashed_name_of, parts))):
            steps[key] = _step(key, live.objects.get(key), title, keys, kind)
        if key.kind in COMPANIONS and key in steps and steps[key].deletes and id(item.document) in foreign:
            reason = say("is used by {workload}, which is not gpuctl's", workload=foreign[id(item.document)])
            steps[key] = Step("skip", key, reason, title=title)
        for other in parts if key.kind in WORKLOADS else ():
            steps.setdefault(key_of(other), _step(key_of(other), other, title, keys, kind))
    for item in lowered:
        if item.document.kind == "pool" and item.object["kind"] == "ConfigMap":
            pool = labels_of(item.object)[keys.pool]
            if not keep_labels:
                # This includes nodes that `add node` has put into the pool, which the document does not list.
                try:
                    steps.update((step.key, step) for step in pool_leave_steps(session, pool, keys))
                except ApiError as error:
                    if not error.lacks_permission:
                        raise
                    plan.notes.append(
                        say("nodes of the pool {pool} keep its label: {error}", pool=pool, error=error.message)
                    )
            warn_about_users(plan, pool, users_of(session, pool, keys).values())
    note_unfinished_runs(steps.values(), live.objects.values())
    plan.steps = _in_order(steps.values())
    check_queue_deletions(session, plan, plan.steps)
    return plan


def _foreign_jobs(lowered: Iterable[Lowered], live: Mapping[Key, Object]) -> dict[int, Key]:
    """Return the live workloads that are not gpuctl's, by the ids of the documents that have their names."""
    found = {}
    for item in lowered:
        obj = live.get(key_of(item.object))
        if obj is not None and obj["kind"] in WORKLOADS and not is_ours(obj):
            found[id(item.document)] = key_of(obj)
    return found


def plan_job_deletion(session: Session, name: str, namespace: str | None, keys: Records) -> Plan:
    """Plan ``delete job NAME``. Without a namespace all namespaces that the user may read are searched.

    A training that a GitOps controller made may exist under several names with a hash. The job's name selects all of
    them, a name with a hash only that one.

    :raises NoSuchJob: no job or several jobs match.
    """
    scope = Scope(session, namespace)
    objects = _of_job(scope, name)
    mains = _mains(objects, keys, name)
    job = job_of_hashed_name(name)
    if not mains and job is not None:
        objects = [obj for obj in _of_job(scope, job) if hashed_name_of(obj) == name]
        mains = _mains(objects, keys, job)
    else:
        job = name
    if not mains:
        raise no_such_job(name, scope.searched, _names(session, scope.searched, keys), scope.elsewhere)
    places = sorted({(labels_of(obj)[keys.job_type], obj["metadata"]["namespace"]) for obj in mains})
    if len(places) > 1:
        listed = [say("{job} in {namespace}", job=f"{kind}/{name}", namespace=where) for kind, where in places]
        raise SeveralJobs(
            say("there are several jobs {name}: {jobs}", name=name, jobs=listed),
            say("say which {how}{more}", how=IN_NAMESPACE, more=OR_DELETE_FILE),
        )
    kind, place = places[0]
    title = f"{kind}/{job}"
    tracker = next(filter(None, map(tracked_by, mains)), None)
    if tracker is not None:
        raise ForeignJob(
            say(
                "{job} in {namespace} is managed by {tracker}, which would create it again",
                job=title,
                namespace=place,
                tracker=tracker,
            ),
            say("delete its document in the repository"),
        )
    steps = [_step(key_of(obj), obj, title, keys, kind) for obj in _parts_of(objects, keys, place, job, kind)]
    note_unfinished_runs(steps, objects)
    return Plan(steps=_in_order(steps))


def plan_leftover_deletion(session: Session, name: str, namespace: str | None, keys: Records) -> list[Step]:
    """Plan the deletion of companions whose workload is gone, for example after an interrupted deletion.

    A workload without gpuctl's label may still use them.
    """
    steps = []
    for obj in _of_job(Scope(session, namespace), name):
        kind, place = labels_of(obj).get(keys.job_type, ""), obj["metadata"]["namespace"]
        if obj["kind"] in COMPANIONS and _parts_of([obj], keys, place, name, kind):
            steps.append(_step(key_of(obj), obj, f"{kind}/{name}", keys, kind))
    places = {step.key.namespace for step in steps}
    mains = (Key(form, place, name) for form in WORKLOADS for place in places)
    return [] if any(if_allowed(partial(session.get, key), None) for key in mains) else steps


def _of_job(scope: Scope, name: str) -> list[Object]:
    if not is_label_value(name):
        # The API server refuses a selector of such a value.
        return []
    lists = scope.lists((*WORKLOADS, *COMPANIONS), labels=f"{OURS},app={name}")
    return [obj for found in lists for obj in found]


def _mains(objects: Iterable[Object], keys: Records, name: str) -> list[Object]:
    named = (obj for obj in objects if obj["kind"] in WORKLOADS and unhashed_name(obj) == name)
    return [obj for obj in named if keys.job_type in labels_of(obj)]


def check_is_ours(workload: Object, title: str) -> None:
    """Check that gpuctl made the main object of a job.

    :raises ForeignJob: another tool made it, such as an older gpuctl, or kubectl from a copy of gpuctl's object.
    """
    metadata, kind = workload["metadata"], RESOURCES[workload["kind"]].title
    named = {"job": title, "namespace": metadata["namespace"]}
    if not is_ours(workload):
        message = say("{job} in {namespace} is not gpuctl's: it has no label {label}", label=OURS, **named)
    elif labels_of(workload).get("app") != unhashed_name(workload):
        message = say(
            "{job} in {namespace} is not gpuctl's: the name of {object} differs from its label `app`",
            object=f"{kind}/{metadata['name']}",
            **named,
        )
    else:
        return
    command = kubectl_line("delete", kind, metadata["name"], f"-n {metadata['namespace']}")
    raise ForeignJob(message, say("{command} deletes it", command=command))


def _in_order(steps: Iterable[Step]) -> list[Step]:
    """Return the steps in the order of execution: workloads first, then their companions."""
    return sorted(
        steps, key=lambda step: (deletion_rank(step.key.kind), step.key.namespace, step.key.name, step.key.kind)
    )


def _step(key: Key, live: Object | None, title: str, keys: Records, kind: str) -> Step:
    if live is None:
        return Step("skip", key, say("does not exist"), title=title)
    if not is_ours(live) or is_controlled(live):
        return Step("skip", key, say("is not gpuctl's"), title=title)
    tracker = tracked_by(live)
    if tracker is not None:
        return Step(
            "skip", key, say("is managed by {tracker}: delete it in its repository", tracker=tracker), title=title
        )
    other = labels_of(live).get(keys.job_type, kind)
    if other != kind:
        return Step(
            "skip",
            key,
            say("belongs to {kind}/{name}", kind=other, name=labels_of(live).get("app", key.name)),
            title=title,
        )
    return Step("delete", key, live=live, method="delete", title=title)


def _parts_of(objects: Iterable[Object], keys: Records, namespace: str, name: str, kind: str) -> list[Object]:
    """Return the objects that lowering may have made for a job, by kind, name and labels."""
    result = []
    for obj in objects:
        metadata, labels = obj["metadata"], labels_of(obj)
        if metadata.get("namespace") != namespace or not is_companion_name(obj["kind"], unhashed_name(obj), name):
            continue
        if obj["kind"] not in (*WORKLOADS, *COMPANIONS) or not is_ours(obj) or is_controlled(obj):
            continue
        if labels.get("app") == name and labels.get(keys.job_type) == kind:
            result.append(obj)
    return result


def _names(session: Session, namespace: str | None, keys: Records) -> Iterator[str]:
    """Yield the names of the jobs that the user may read."""
    for kind in WORKLOADS:
        listed = if_allowed(partial(session.list_metadata, RESOURCES[kind], namespace, labels=keys.job_type), [])
        yield from (labels_of(item).get("app") or item["metadata"]["name"] for item in listed)


def no_such_job(name: str, namespace: str | None, names: Iterable[str] = (), more: str = "") -> NoSuchJob:
    """Return the error for a job that does not exist; see :func:`missing_job`."""
    return NoSuchJob(*missing_job(Template("there is no job {name} {where}"), name, namespace, names, more))
