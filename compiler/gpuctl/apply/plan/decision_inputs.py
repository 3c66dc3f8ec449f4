"""The inputs of the decision about one object, and the text of its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.state.compare import Comparison, FieldOutcome
from gpuctl.apply.state.field_paths import named, steps_of
from gpuctl.apply.state.managed_fields import Tree
from gpuctl.apply.state.takeover import Claimed, Claims
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.api_resources import SERVICES, Key, Object, key_of
from gpuctl.objects.elastic_jobs import SIZE_PATHS, is_within_bounds
from gpuctl.objects.ownership_metadata import PART_OF, Records
from gpuctl.objects.queueing import is_paused
from gpuctl.objects.recreated_objects import carried_over


@dataclass(frozen=True)
class DecisionOptions:
    """The options of a decision.

    ``rolling`` updates Deployments and StatefulSets in place. ``autoscaled`` are workloads whose replicas a foreign
    autoscaler sets. A ``shared`` object is in no set.
    """

    request: ApplyRequest
    rolling: bool = False
    autoscaled: frozenset[Key] = frozenset()
    shared: bool = False

    @property
    def part_of(self) -> str | None:
        """Return the id of the set that the object is in, None without one."""
        return None if self.shared else self.request.part_of

    @property
    def keys(self) -> Records:
        """Return the platform's label and annotation keys."""
        return self.request.keys


class Target(NamedTuple):
    """An object to send, and the state of its document in the cluster.

    ``title`` names the document (``training/x``). ``same_document`` is set if the live main object was made from an
    equal document. ``claims`` are the fields to take over from the live object, ``claimed`` the result of that.
    """

    desired: Object
    shared: bool
    title: str
    same_document: bool
    claims: Claims | None = None
    claimed: Claimed | None = None

    @property
    def key(self) -> Key:
        """Return the object's key."""
        return key_of(self.desired)

    @property
    def taken(self) -> Tree:
        """Return the fields that other managers hold and gpuctl takes over."""
        return self.claimed.fields if self.claimed is not None else {}

    def because(self, reason: str) -> str:
        """Return a step's reason, extended by the fields that stay because another manager has changed them."""
        kept = str(self.claimed) if self.claimed is not None else ""
        return clauses(reason, kept)


class PendingDecision(NamedTuple):
    """A decision that needs a dry-run: the live object differs, maybe only by defaults of the server.

    ``probe`` is the object to create with ``dryRun=All``.
    """

    target: Target
    live: Object
    probe: Object


class WorkloadFacts(NamedTuple):
    """Facts about a workload in addition to the live and the wanted object.

    ``ours`` are the fields of the live object that gpuctl stated. ``answer`` is the wanted object with the server's
    defaults. ``same`` is set if the live object was made from an equal object.
    """

    ours: Tree | None = None
    answer: Object | None = None
    same: bool = False


class DecisionRefused(Exception):
    """A problem that the user must resolve before anything is changed; ``str()`` describes it."""


class InOtherSet(DecisionRefused):
    """The object is in another set; ``str()`` is the id of that set."""


def with_carried_fields(target: Target, live: Object, options: DecisionOptions, *, again: bool = True) -> Object:
    return carried_over(target.desired, live, options.keys, autoscaled=target.key in options.autoscaled, again=again)


def ignored_fields(target: Target, live: Object, options: DecisionOptions) -> tuple[str, ...]:
    """Return the paths that an autoscaler or a pause sets, the number of replicas, or a scaling: that of nodes."""
    if target.key.kind not in SERVICES:
        return SIZE_PATHS if is_within_bounds(target.desired, live) else ()
    others = is_paused(live, options.keys) or target.key in options.autoscaled
    return ("spec.replicas",) if others or "replicas" not in target.desired["spec"] else ()


def metadata_changes(compared: Comparison, options: DecisionOptions) -> list[FieldOutcome]:
    """Return the changes of labels and annotations, without the removal of records of other commands."""
    is_lasting = options.keys.is_lasting
    return [one for one in compared.metadata if one.new is not None or not is_lasting(steps_of(one.path)[-1])]


def without_records(metadata: list[FieldOutcome], options: DecisionOptions) -> list[FieldOutcome]:
    """Return the changes without gpuctl's own records, which differ in every update."""
    hidden = tuple(
        f"[{key}]"
        for key in (options.keys.hash, options.keys.lowered_by, options.keys.applied_by, options.keys.document)
    )
    return [change for change in metadata if not change.path.endswith(hidden)]


def reason_without_changes(*, known: bool) -> str:
    """Return the reason of a step that writes only records: of an object that gpuctl has applied before (``known``), or
    of one that it adopts.
    """
    return say("records the document; nothing else changes") if known else say("adopted: nothing else changes")


def reason_of(changes: list[FieldOutcome]) -> str:
    """Return the names of the first few fields that differ."""
    if [change.path for change in changes] == [f"metadata.labels[{PART_OF}]"]:
        return say("joins the set")
    # Environment variables come last: they often follow from another field, which is more informative.
    ordered = sorted(changes, key=lambda change: ".env[" in change.path)
    # The templates of a LeaderWorkerSet have the same fields.
    return say("{fields:few}", fields=list(dict.fromkeys(named(change.path) for change in ordered)))
