"""The differences between documents and a cluster, with their times and field managers. Sends no dry-runs.

An apply undoes some of them and keeps fields that other managers have added; here both are reported. Expected are
fields that controllers of Kubernetes and Kueue write, fields that admission adds to every new object, and those that
platform.yaml lists under ``drift.ignore``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.last_applied import LastApplied, kubectl_record
from gpuctl.apply.plan.members_without_document import find_members_without_document
from gpuctl.apply.plan.overwritten_foreign_fields import foreign_fields
from gpuctl.apply.plan.plan import Step
from gpuctl.apply.plan.plan_draft import title_of
from gpuctl.apply.plan.planner import make_plan
from gpuctl.apply.state.field_paths import is_pod_metadata, is_within, steps_of, value_at
from gpuctl.apply.state.live_state import read_objects
from gpuctl.apply.state.managed_fields import (
    ADMISSION,
    REWRITING_CONTROLLERS,
    FieldHolder,
    Holdings,
    fields_of,
    held_by_others,
    holders_of,
    holdings_of,
)
from gpuctl.gitops.value_change import ValueChange
from gpuctl.hints import OR_RELOWER
from gpuctl.kube.session import MANAGER, Session
from gpuctl.language.display_text import first_few
from gpuctl.language.drift_rules import BUILT_IN
from gpuctl.objects.api_resources import SHARED_KINDS, Key, Object, key_of
from gpuctl.objects.autoscalers import KEDA_PAUSE
from gpuctl.objects.elastic_jobs import SIZE_PATHS, is_within_bounds
from gpuctl.objects.ownership_metadata import Records, stamp
from gpuctl.objects.workload_state import end_state

What = Literal["differs", "gone", "unnamed"]
# Maps to which only webhooks add.
_OPEN_MAPS = frozenset({"labels", "annotations", "nodeSelector"})


class DriftedField(NamedTuple):
    """A field: ``live`` is its value in the cluster, ``wanted`` that of the document; None stands for absent.

    ``holders`` are the managers that set it, ordered by their last write; a removed field has none. ``is_added`` is set
    if the document does not state the field, so that an apply keeps it. ``is_by_controller`` is set if only controllers
    hold it that write their fields again into every new object.
    """

    path: str
    live: Any
    wanted: Any
    holders: tuple[FieldHolder, ...]
    is_added: bool = False
    is_by_controller: bool = False


@dataclass
class DriftedObject:
    """An object that ``differs``, is ``gone``, or is in a set without a document (``unnamed``).

    ``fields`` are those that differ or were added. ``document_changes``: the differences between the applied document
    and the given one. ``expected`` are differences that are not drift: see the module.
    """

    what: What
    key: Key
    title: str = ""
    reason: str = ""
    fields: list[DriftedField] = field(default_factory=list)
    expected: list[DriftedField] = field(default_factory=list)
    document_changes: list[ValueChange] = field(default_factory=list)

    @property
    def since(self) -> str:
        """Return the earliest of the last writes of the managers that hold a differing field; "" if unknown."""
        return min((holder.time for one in self.fields for holder in one.holders if holder.time), default="")


@dataclass
class Drift:
    """The result: ``objects`` have drifted; those in ``expected`` differ only in expected fields.

    ``problems`` prevented the comparison of objects. ``same`` is the number of objects without any difference.
    """

    objects: list[DriftedObject] = field(default_factory=list)
    expected: list[DriftedObject] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same: int = 0


def find_drift(session: Session, request: ApplyRequest, sources: Sequence[str] = ()) -> Drift:
    """Compare documents with the cluster.

    :param request: decided without dry-runs, which need the right to write.
    :param sources: the inputs of the documents, as sets record them. Members of a set that has other sources too are
        not searched for.
    """
    plan = make_plan(
        session, replace(request, offline=True, compare=True, planning=replace(request.planning, create_namespace=True))
    )
    wanted = {key_of(item.object): stamp(item.object, request.keys, None) for item in request.lowered}
    titles = {key_of(item.object): title_of(item.document) for item in request.lowered}
    drift = Drift(problems=list(plan.errors), notes=plan.notes)
    # The plan does not list objects without gpuctl's label.
    taken = read_objects(session, [step.key for step in plan.steps if step.action == "create" and step.live is None])
    compared = _Comparison(plan.steps, request)
    for step in plan.steps:
        found = compared.drifted(step, wanted.get(step.key))
        if found is not None and step.key in taken:
            found.what, found.reason = "differs", "exists, and is not gpuctl's"
        if found is None:
            drift.same += step.action in ("unchanged", "update")
            continue
        found.title = titles.get(step.key, step.title)
        found.document_changes = step.document_changes
        is_expected = not found.fields and (step.action in ("unchanged", "update") or bool(step.changes))
        (drift.expected if is_expected else drift.objects).append(found)
    members, notes = find_members_without_document(session, plan.steps, wanted, sources)
    drift.objects += [DriftedObject("unnamed", key, reason="is in the set, but in no document") for key in members]
    drift.notes += [f"{step.key}: {step.reason}" for step in plan.steps if step.expired] + notes
    kept = [str(step.key) for step in plan.steps if step.kept and not step.expired]
    if kept:
        drift.notes.append(
            f"{first_few(kept)}: kept as an earlier gpuctl or platform made it, so that fields which others "
            f"removed are not reported, only added ones{OR_RELOWER}"
        )
    return drift


class _Comparison:
    """The comparison of documents with live objects, one object at a time."""

    def __init__(self, steps: Iterable[Step], request: ApplyRequest) -> None:
        live = {key_of(step.live): step.live for step in steps if step.live is not None}
        self._last = LastApplied(live, request.lowered, request.settings, request.keys)
        self._items = {key_of(item.object): item for item in request.lowered}
        self._keys = request.keys
        self._rules = [*BUILT_IN, *request.settings.drift_rules]

    def drifted(self, step: Step, wanted: Object | None) -> DriftedObject | None:
        """Return the drift of an object that documents name, or that its job no longer has."""
        if step.action == "create":
            return DriftedObject("gone", step.key, reason="does not exist")
        if step.action in ("delete", "prune"):
            return DriftedObject("unnamed", step.key, reason=step.reason)
        if step.live is None or step.action == "skip":
            return None
        live, holdings = step.live, holdings_of(step.live)
        found = DriftedObject("differs", step.key, reason=step.reason)
        fields = [
            DriftedField(change.path, change.old, change.new, holders_of(change.path, holdings))
            for change in step.changes
        ]
        if wanted is not None and step.key.kind not in SHARED_KINDS:
            fields += self._added(live, wanted, [one.path for one in fields], holdings)
        for one in fields:
            (found.expected if self._is_expected(step.key.kind, one) else found.fields).append(one)
        return found if found.fields or found.expected or step.action == "replace" else None

    def _is_expected(self, kind: str, one: DriftedField) -> bool:
        managers = [holder.manager for holder in one.holders]
        is_of_rule = any(rule.covers(kind, one.path, managers) for rule in self._rules)
        return one.is_by_controller or managers == [ADMISSION] or is_of_rule

    def _added(
        self, live: Object, wanted: Object, changed: Collection[str], holdings: Sequence[Holdings]
    ) -> Iterator[DriftedField]:
        """Yield the fields that other managers or admission have set and the documents do not.

        Additions by admission have no manager, or the server attributes them to the sender of the object: to gpuctl,
        or to ``kubectl apply``, whose record contains what it sent.
        """
        claimed = self._last.claim(self._items[key_of(live)], live, wanted)[1].live
        by_kubectl = "kubectl-client-side-apply" if kubectl_record(live) is not None else None
        # An apply patches labels and annotations of a finished training, but cannot patch its pod template.
        is_over = end_state(live) is not None
        managers = [*held_by_others(claimed), (ADMISSION, fields_of(claimed))]
        for one in foreign_fields(claimed, wanted, managers, changed):
            if one.path in SIZE_PATHS and is_within_bounds(wanted, live):
                continue
            names = [name for name in one.managers if name != ADMISSION]
            holders = holders_of(one.path, holdings)
            if names and all(name.startswith(REWRITING_CONTROLLERS) for name in names):
                if not is_within(one.path, "metadata"):
                    yield DriftedField(*one[:3], holders, is_added=one.new is None, is_by_controller=True)
            elif one.is_default or _is_record(one.path, self._keys) or (is_over and is_pod_metadata(one.path)):
                continue
            elif names:
                if not any(name.startswith(MANAGER) for name in names):
                    by = _by_admission(holders) if names[0] == by_kubectl else holders
                    yield DriftedField(*one[:3], by, is_added=True)
            elif steps_of(one.path)[-1] == KEDA_PAUSE:
                # An autoscaler that was created for a paused service.
                continue
            elif all(holder.manager == MANAGER for holder in holders) and one.new is None and _is_open(one.path, live):
                yield DriftedField(*one[:3], _by_admission(holders), is_added=True)


def _by_admission(holders: Iterable[FieldHolder]) -> tuple[FieldHolder, ...]:
    time = min((holder.time for holder in holders if holder.time), default="")
    return (FieldHolder(ADMISSION, "", time),)


def _is_record(path: str, keys: Records) -> bool:
    """Return True for a label or annotation that a gpuctl command writes, such as a pause or a set."""
    name = steps_of(path)[-1]
    return keys.is_record(name) or name == keys.document


def _is_open(path: str, live: Object) -> bool:
    """Return True for an item of a list, or an entry of a map, to which the API server itself adds nothing."""
    around = steps_of(path)[:-1]
    is_item = isinstance(value_at(live, around), list) and not is_within(path, "metadata")
    return is_item or bool(_OPEN_MAPS.intersection(around[-1:]))
