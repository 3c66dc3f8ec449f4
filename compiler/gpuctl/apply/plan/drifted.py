"""What differs between documents and a cluster, since when and by whom. Reads only: nothing is asked as a dry-run.

An apply restores some of it and leaves the rest: what others added to our objects is no difference to it, and stays.
Here it is told. What the controllers of Kubernetes and Kueue write as a matter of course is told apart.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from gpuctl.apply.plan.decide import KEPT
from gpuctl.apply.plan.losses import ADMISSION, RETURNING, is_hidden, lost_fields, written_by
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.planner import make_plan, title_of
from gpuctl.apply.plan.request import Request
from gpuctl.apply.state.compare import identity_path, is_pod_metadata, list_identities
from gpuctl.apply.state.field_holders import FieldHolder, Holdings, holders_of, holdings_of
from gpuctl.apply.state.live_state import read
from gpuctl.apply.state.records import PART_OF, Records, is_controlled, stamp
from gpuctl.apply.state.workload import finished
from gpuctl.backend.api_resources import OPTIONAL, RESOURCES, WORKLOADS, Key, Object, key_of, labels_of
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import MANAGER, Session

What = Literal["differs", "gone", "unnamed"]
# Kinds that sets have; a node, a namespace and a priority class are nobody's alone.
_OF_SETS = (*WORKLOADS, "Service", "ConfigMap", "HorizontalPodAutoscaler", "ResourceQuota", "LimitRange")
_SHARED = frozenset({"Namespace", "PriorityClass", "Node"})
# Maps to which webhooks add; of other maps a key that we did not write is a default of the API server.
_OPEN_MAPS = frozenset({"labels", "annotations", "nodeSelector"})


class DriftedField(NamedTuple):
    """A field: ``live`` is the value in the cluster, ``wanted`` that of the document; None stands for absent.

    ``holders`` are those who set it, the last one last; nobody, where a field was taken out. ``is_added`` tells that
    the document does not speak of it, so that an apply leaves it alone.
    """

    path: str
    live: Any
    wanted: Any
    holders: tuple[FieldHolder, ...]
    is_added: bool = False


@dataclass
class DriftedObject:
    """An object: it ``differs``, is ``gone``, or is of ours and no document has it any more (``unnamed``).

    ``fields`` are those that differ or were added, ``expected`` those that a controller sets as a matter of course.
    """

    what: What
    key: Key
    title: str = ""
    reason: str = ""
    fields: list[DriftedField] = field(default_factory=list)
    expected: list[DriftedField] = field(default_factory=list)

    @property
    def since(self) -> str:
        """When the first of those who hold what differs last wrote; "" where that is not known."""
        return min((holder.time for one in self.fields for holder in one.holders if holder.time), default="")


@dataclass
class Drift:
    """``objects`` are those that drifted, ``expected`` those in which a controller alone writes something else;
    ``problems`` are what kept it from being told, ``same`` is the number of objects without any difference."""

    objects: list[DriftedObject] = field(default_factory=list)
    expected: list[DriftedObject] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same: int = 0


def find_drift(session: Session, request: Request) -> Drift:
    """Compare what documents ask for with what is there.

    :param request: decided without the API server's dry-runs, which take the right to write.
    """
    plan = make_plan(session, replace(request, offline=True, create_namespace=True))
    wanted = {key_of(item.object): stamp(item.object, request.keys, None) for item in request.lowered}
    titles = {key_of(item.object): title_of(item.document) for item in request.lowered}
    drift = Drift(problems=list(plan.errors), notes=plan.notes)
    # What is not ours is in no list of ours.
    taken = read(session, [step.key for step in plan.steps if step.action == "create" and step.live is None])
    for step in plan.steps:
        found = _drifted(step, wanted.get(step.key), request.keys)
        if found is not None and step.key in taken:
            found.what, found.reason = "differs", "is there, and is not gpuctl's"
        if found is None:
            drift.same += step.action == "unchanged"
            continue
        found.title = titles.get(step.key, step.title)
        is_expected = step.action == "unchanged" and not found.fields
        (drift.expected if is_expected else drift.objects).append(found)
    drift.objects += _unnamed(session, plan.steps, wanted)
    drift.notes += [f"{step.key}: {step.reason}" for step in plan.steps if step.expired]
    kept = [str(step.key) for step in plan.steps if step.reason.startswith(KEPT) and not step.expired]
    if kept:
        more = f" and {len(kept) - 3} more" if len(kept) > 3 else ""
        drift.notes.append(
            f"{', '.join(kept[:3])}{more}: kept as an earlier gpuctl or platform made it, so only what others added is "
            "told, not what they took out; --relower replaces it"
        )
    return drift


def _drifted(step: Step, wanted: Object | None, keys: Records) -> DriftedObject | None:
    """What drifted of an object that documents name, or that its job has no more."""
    if step.action == "create":
        return DriftedObject("gone", step.key, reason="is not there")
    if step.action in ("delete", "prune"):
        return DriftedObject("unnamed", step.key, reason=step.reason)
    if step.live is None or step.action == "skip":
        return None
    holdings = holdings_of(step.live)
    changed = [
        DriftedField(change.path, change.old, change.new, holders_of(change.path, holdings)) for change in step.changes
    ]
    found = DriftedObject("differs", step.key, reason=step.reason, fields=changed)
    if wanted is not None and step.key.kind not in _SHARED:
        paths = [one.path for one in changed]
        added = _added(step.live, wanted, paths, holdings, keys)
        # An apply patches labels and annotations of a finished training, and cannot patch those of its pod template.
        is_over = finished(step.live) is not None
        found.fields += (one for one in added if not (is_over and is_pod_metadata(one.path)))
        found.expected += [
            DriftedField(one.path, one.value, one.new, holders_of(one.path, holdings), is_added=one.new is None)
            for one in written_by(step.live, wanted, RETURNING)
            if one.path not in paths
        ]
    return found if found.fields or found.expected or step.action in ("replace", "update") else None


def _added(
    live: Object, wanted: Object, changed: Collection[str], holdings: Sequence[Holdings], keys: Records
) -> Iterator[DriftedField]:
    """What others put into an object, and what a webhook did as it was created: the API server calls that ours."""
    told: set[str] = set()
    for one in lost_fields(live, wanted, None, changed):
        if not one.manager.startswith(MANAGER) and not _is_record(one.path, keys):
            told.add(one.path)
            yield DriftedField(one.path, one.value, one.new, holders_of(one.path, holdings), is_added=True)
    for path, value in _injected(wanted, live, "", ""):
        if path in told or is_hidden(path, live["kind"], [*changed, *told]) or _is_record(path, keys):
            continue
        holders = holders_of(path, holdings)
        if all(holder.manager == MANAGER for holder in holders):
            time = min((holder.time for holder in holders if holder.time), default="")
            yield DriftedField(path, value, None, (FieldHolder(ADMISSION, "", time),), is_added=True)


def _is_record(path: str, keys: Records) -> bool:
    """Whether a path is a label or annotation that a command of ours writes, such as a pause or a set."""
    match = re.search(r"\[([^]]+)\]\Z", path)
    return match is not None and (keys.is_record(match[1]) or match[1] == keys.document)


def _injected(wanted: Any, live: Any, path: str, name: str) -> Iterator[tuple[str, Any]]:
    """What a live object has beyond ours where the API server itself adds nothing: labels, items by key."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        for key, value in live.items():
            if key == "status" or (path == "metadata" and key not in _OPEN_MAPS):
                continue
            where = identity_path(path, key)
            if key in wanted:
                yield from _injected(wanted[key], value, where, key)
            elif name in _OPEN_MAPS:
                yield where, value
            elif key in _OPEN_MAPS or (isinstance(value, list) and list_identities(key, value) is not None):
                yield from _injected({} if isinstance(value, dict) else [], value, where, key)
    elif isinstance(wanted, list) and isinstance(live, list):
        names = list_identities(name, wanted, live)
        if names is None:
            return
        ours = dict(zip(names[0], wanted, strict=True))
        for identity, item in zip(names[1], live, strict=True):
            where = f"{path}[{identity[0]}]"
            if identity in ours:
                yield from _injected(ours[identity], item, where, "")
            else:
                yield where, item


def _unnamed(session: Session, steps: Iterable[Step], wanted: Collection[Key]) -> list[DriftedObject]:
    """Members of the sets that the documents' objects are in which no document has any more."""
    live = [step.live for step in steps if step.live is not None and step.key.kind not in _SHARED]
    sets = sorted({labels_of(obj)[PART_OF] for obj in live if PART_OF in labels_of(obj)})
    if not sets:
        return []
    known = {step.key for step in steps} | set(wanted)
    namespaces = sorted({key_of(obj).namespace for obj in live})
    found = []
    for kind in _OF_SETS:
        for obj in _members(session, kind, f"{PART_OF} in ({','.join(sets)})", namespaces):
            key = Key(kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
            if key not in known and not is_controlled(obj):
                found.append(DriftedObject("unnamed", key, reason="is in the set, and no document has it"))
    return found


def _members(session: Session, kind: str, labels: str, namespaces: Sequence[str]) -> list[Object]:
    """The metadata of all objects with these labels, in all namespaces or in those that are known."""
    try:
        return session.list_metadata(RESOURCES[kind], labels=labels)
    except ApiError as error:
        if error.is_missing and kind in OPTIONAL:
            return []
        if not error.lacks_permission:
            raise
    return [obj for name in namespaces for obj in session.list_metadata(RESOURCES[kind], name, labels=labels)]
