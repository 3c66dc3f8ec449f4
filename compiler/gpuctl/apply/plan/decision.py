"""What a decision about one object rests on: the target, what is wished, what is known; and how it is put in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.apply.state.compare import Change
from gpuctl.apply.state.field_paths import named
from gpuctl.apply.state.managed_fields import Tree
from gpuctl.apply.state.takeover import Claimed, Claims
from gpuctl.language.wording import first_few
from gpuctl.objects.api_resources import Key, Object, annotations_of, key_of
from gpuctl.objects.ownership_metadata import PART_OF, Records
from gpuctl.objects.workload_state import carried_over

RECORDED = "records the document; nothing else changes"
ADOPTED = "adopted: it is as it should be"


@dataclass(frozen=True)
class Wish:
    """How decisions are to be made.

    ``relower`` replaces what only a newer gpuctl would lower otherwise; ``adopt`` takes over objects and fields that
    others hold; ``part_of`` is the id of the set that is applied; ``autoscaled`` are the workloads whose replicas an
    autoscaler of somebody else sets; ``compare`` only compares: fields that other managers hold are no obstacle.
    """

    keys: Records
    relower: bool = False
    adopt: bool = False
    part_of: str | None = None
    rolling: bool = False
    autoscaled: frozenset[Key] = frozenset()
    compare: bool = False


class Target(NamedTuple):
    """An object as it will be sent, and what of its document is already in the cluster.

    ``title`` names the document (``training/x``); ``same_document`` tells that the live main object was made from an
    equal one. ``claims`` is what to take over of the live object, ``claimed`` the outcome of that.
    """

    desired: Object
    shared: bool
    title: str
    same_document: bool
    claims: Claims | None = None
    claimed: Claimed | None = None

    @property
    def key(self) -> Key:
        """The object's key."""
        return key_of(self.desired)

    @property
    def taken(self) -> Tree:
        """The fields that other managers hold and gpuctl takes over."""
        return self.claimed.fields if self.claimed is not None else {}

    def because(self, reason: str) -> str:
        """Return a step's reason, with the fields that stay because another manager has changed them."""
        kept = str(self.claimed) if self.claimed is not None else ""
        return "; ".join(filter(None, (reason, kept)))


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


def carried(target: Target, live: Object, wish: Wish, *, again: bool = True) -> Object:
    return carried_over(target.desired, live, wish.keys, autoscaled=target.key in wish.autoscaled, again=again)


def ignored_fields(target: Target, live: Object, wish: Wish) -> tuple[str, ...]:
    """Replicas belong to the autoscaler, the document's or somebody else's, and to the pause while there is one."""
    if target.key.kind not in ("Deployment", "StatefulSet"):
        return ()
    others = wish.keys.paused in annotations_of(live) or target.key in wish.autoscaled
    return ("spec.replicas",) if others or "replicas" not in target.desired["spec"] else ()


def without_records(metadata: list[Change], wish: Wish) -> list[Change]:
    """Without our own records: they change with everything else."""
    hidden = tuple(
        f"[{key}]" for key in (wish.keys.hash, wish.keys.lowered_by, wish.keys.applied_by, wish.keys.document)
    )
    return [change for change in metadata if not change.path.endswith(hidden)]


def reason_of(changes: list[Change]) -> str:
    """Return the names of the first few fields that differ."""
    if [change.path for change in changes] == [f"metadata.labels[{PART_OF}]"]:
        return "joins the set"
    # Many variables follow from another field, which says more.
    return first_few(named(change.path) for change in sorted(changes, key=lambda change: ".env[" in change.path))
