"""The contents of a namespace, lost with it: its jobs by name, its other objects by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpuctl.apply.plan.lost_work import lost_work, running_description
from gpuctl.kube.api_errors import ApiError, if_allowed
from gpuctl.kube.discovery import namespaced_kinds
from gpuctl.kube.session import Session
from gpuctl.language.display_text import count_text
from gpuctl.language.sentences import Sentence, clauses, say
from gpuctl.objects.api_resources import (
    OPTIONAL,
    RESOURCES,
    WORKLOADS,
    Object,
    Resource,
    annotations_of,
    controller_uid,
)
from gpuctl.objects.ownership_metadata import Records, is_controlled, main_title
from gpuctl.objects.scheduled_jobs import runs_of
from gpuctl.objects.workload_state import has_ended, pods_of_each

_NAMED = 5
_CONTENTS = ("PersistentVolumeClaim", "Service", "Secret", "ConfigMap")
_READ = (*WORKLOADS, "Pod", *_CONTENTS)
# Objects that every namespace has.
_BUILTIN = frozenset({("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")})
_IGNORED = frozenset(
    {("", "events"), ("events.k8s.io", "events"), ("", "endpoints"), ("coordination.k8s.io", "leases")}
)
"""Kinds whose objects are nothing to lose."""


class _Owners:
    """The objects of a namespace by uid, to find those at the ends of owner references."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._by_uid = {obj["metadata"]["uid"]: obj for obj in objects}

    def root(self, obj: Object) -> Object:
        """Return the object that controls an object, its controller, and so on; the object itself without any."""
        root, seen = obj, set[str]()
        while (owner := self._by_uid.get(controller_uid(root))) is not None:
            if owner["metadata"]["uid"] in seen:
                # References may be written by hand, and form a circle.
                return obj
            seen.add(owner["metadata"]["uid"])
            root = owner
        return root

    def is_root(self, obj: Object) -> bool:
        """Return True if no object of the namespace controls this one, so that it is not lost with another."""
        return self.root(obj) is obj


def namespace_contents(session: Session, name: str, keys: Records) -> str:
    """Return the names of a namespace's jobs, and the number of its other objects, as text.

    Objects are counted with the one that controls them. Jobs are workloads, and objects of other kinds that have pods,
    such as those of operators.
    """

    def read(kind: str) -> list[Object] | None:
        return if_allowed(lambda: session.list_objects(RESOURCES[kind], name)[0], None)

    found = dict(zip(_READ, session.each(read, _READ), strict=True))
    others, failed = _other_objects(session, name)
    lists = {kind: objects or [] for kind, objects in found.items()}
    owners = _Owners(obj for objects in (*lists.values(), *others.values()) for obj in objects)
    mains = [
        obj
        for kind in (*WORKLOADS, "Pod")
        for obj in lists[kind]
        if owners.is_root(obj) and not (kind == "Pod" and is_controlled(obj))
    ]
    now = session.server_time()
    works = [(obj, _running_work(obj, lists["Job"], found["Pod"], now)) for obj in mains]
    known = {pod["metadata"]["uid"] for own in pods_of_each(lists["Pod"], mains) for pod in own}
    pods_of: dict[str, list[Object]] = {}
    for pod in lists["Pod"]:
        if is_controlled(pod) and pod["metadata"]["uid"] not in known:
            pods_of.setdefault(owners.root(pod)["metadata"]["uid"], []).append(pod)
    foreign = [obj for objects in others.values() for obj in objects if obj["metadata"]["uid"] in pods_of]
    works += [(obj, lost_work(pods_of.pop(obj["metadata"]["uid"]), now)) for obj in foreign]
    works.sort(key=lambda work: work[1] is None)
    titles = [_title(obj, running, keys) for obj, running in works]
    parts = titles[:_NAMED]
    if rest := Counter(obj["kind"] for obj, _ in works[_NAMED:]):
        kinds = [count_text(number, kind.lower()) for kind, number in sorted(rest.items())]
        parts.append(say("{number} more ({kinds})", number=rest.total(), kinds=kinds))
    # Pods whose controllers could not be read.
    without = [pod for pods in pods_of.values() for pod in pods if owners.is_root(pod)]
    if without:
        parts.append(say("{pods:pod} of other controllers", pods=len(without)))
    named = {obj["metadata"]["uid"] for obj in foreign}
    counted = {RESOURCES[kind]: lists[kind] for kind in _CONTENTS} | {
        resource: [obj for obj in objects if owners.is_root(obj) and obj["metadata"]["uid"] not in named]
        for resource, objects in others.items()
    }
    for resource, objects in counted.items():
        number = sum((resource.plural, obj["metadata"]["name"]) not in _BUILTIN for obj in objects)
        if number:
            parts.append(f"{number} {_word(resource, number)}")
    unread = [RESOURCES[kind].plural for kind in _READ if found[kind] is None and kind not in OPTIONAL]
    if not parts and not unread and not failed:
        parts.append(say("nothing of note"))
    unsaved = [
        _title(obj, running, keys) for obj, running in works if running and keys.checkpoint in annotations_of(obj)
    ]
    return clauses(
        say("{parts}{unsaved}", parts=parts, unsaved=_not_saved(unsaved)),
        say("{objects} may not be read", objects=unread) if unread else "",
        say("{objects:few} could not be read", objects=failed) if failed else "",
    )


def _other_objects(session: Session, name: str) -> tuple[dict[Resource, list[Object]], list[str]]:
    """Return the metadata of a namespace's objects of all other kinds, and the kinds that could not be read."""
    served = if_allowed(lambda: namespaced_kinds(session), None)
    if served is None:
        return {}, [say("objects of other kinds")]
    left_out = _IGNORED.union((RESOURCES[kind].group, RESOURCES[kind].plural) for kind in _READ)
    kinds = [item for item in served.resources if (item.group, item.plural) not in left_out]

    def read(resource: Resource) -> list[Object] | None:
        try:
            # The kind of an item is that of its metadata.
            return [{**item, "kind": resource.kind} for item in session.list_metadata(resource, name)]
        except ApiError:
            return None

    lists = dict(zip(kinds, session.each(read, kinds), strict=True))
    failed = [_word(resource, 2) for resource, objects in lists.items() if objects is None]
    return {resource: objects for resource, objects in lists.items() if objects}, [
        *failed,
        *(f"*.{group}" for group in served.unknown),
    ]


def _word(resource: Resource, number: int) -> str:
    """Return the name of a kind for a number of objects, with the group if Kubernetes does not define it."""
    name = resource.plural if number > 1 else resource.kind.lower()
    is_custom = "." in resource.group and not resource.group.endswith("k8s.io")
    return f"{name}.{resource.group}" if is_custom else name


def _running_work(obj: Object, jobs: Iterable[Object], pods: list[Object] | None, now: float) -> Sentence | None:
    """Return how long a main object has run; None if no container has started.

    :param jobs: the Jobs of the namespace, with the runs of scheduled trainings.
    :param pods: the pods of the namespace; None if they may not be read: then the status of workloads is used.
    """
    if obj["kind"] == "Pod":
        return None if has_ended(obj) else lost_work([obj], now)
    workloads = runs_of(obj, jobs) or [obj]
    running = next(filter(None, (running_description(workload, now) for workload in workloads)), None)
    if running is None or pods is None:
        return running
    return lost_work((pod for own in pods_of_each(pods, workloads) for pod in own), now)


def _not_saved(titles: list[str]) -> str:
    """Return a warning for jobs whose checkpoints would run if each job were deleted by itself."""
    if not titles:
        return ""
    return say("; checkpoints are not run: the progress of {titles:few5} is lost", titles=titles)


def _title(obj: Object, running: Sentence | None, keys: Records) -> str:
    title = main_title(obj, keys)
    return say("{job} ({state})", job=title, state=running) if running else title
