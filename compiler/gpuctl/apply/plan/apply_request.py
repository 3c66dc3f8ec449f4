"""The options of an apply request: documents, checks, and the set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpuctl.apply.plan.batch_fit import BatchFit
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.state.applyset import set_id
from gpuctl.apply.state.git_repository import Checkout
from gpuctl.backend.lowering_context import Lowered
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import Records, records

MaySee = Callable[[str, str], bool]
"""Return True if the caller may see the job or pod with this namespace and name."""


def may_see_all(namespace: str, name: str) -> bool:
    """Return True: the caller may see every job."""
    return True


@dataclass(frozen=True)
class SetOptions:
    """The set that documents form: its namespace, the sources of its documents, and the options of its pruning.

    ``checkout`` is the commit that the documents were read from (None: not a single commit).
    """

    namespace: str
    sources: tuple[str, ...]
    planning: PlanOptions
    checkout: Checkout | None = None

    @property
    def name(self) -> str:
        """Return the name of the set."""
        return self.planning.set_name or ""

    @cached_property
    def id(self) -> str:
        """Return the value of its members' part-of label."""
        return set_id(self.name, self.namespace)


@dataclass(frozen=True)
class ApplyRequest:
    """A request to apply or compare documents, or to check a plan that is made of none.

    ``offline`` decides without dry-runs. ``compare`` only compares: fields that other managers hold are not an
    obstacle. ``unread`` are the files that may hold documents and were not read. ``mark`` is written on created
    objects; an object that has it was created by an earlier attempt of this request, and stays. ``sees`` returns True
    if the caller may see a job: other jobs that would be evicted have no names in the plan.

    ``confirm`` are questions to confirm before anything is written. ``rerun`` also creates trainings that their ttl has
    removed. ``instead`` are objects to create in place of the lowered ones. ``batch`` runs ``fit`` for this request
    together with the others of a batch.
    """

    lowered: list[Lowered] = field(default_factory=list)
    settings: Settings = field(default_factory=Settings)
    planning: PlanOptions = field(default_factory=PlanOptions)
    set_options: SetOptions | None = None
    offline: bool = False
    compare: bool = False
    unread: tuple[str, ...] = ()
    mark: str | None = None
    sees: MaySee = may_see_all
    confirm: tuple[str, ...] = ()
    rerun: bool = False
    instead: Mapping[Key, Object] = field(default_factory=dict)
    batch: BatchFit | None = None

    @cached_property
    def keys(self) -> Records:
        """Return the platform's label and annotation keys."""
        return records(self.settings)

    @property
    def part_of(self) -> str | None:
        """Return the id of the set, None without one."""
        return self.set_options.id if self.set_options is not None else None
