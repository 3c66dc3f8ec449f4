"""The options of an apply request: documents, checks, and the set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuctl.apply.plan.batch_fit import BatchFit
from gpuctl.apply.state.git_repository import Checkout
from gpuctl.backend.lowering_context import Lowered
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import Records

MaySee = Callable[[str, str], bool]
"""Return True if the caller may see the job or pod with this namespace and name."""


def may_see_all(namespace: str, name: str) -> bool:
    """Return True: the caller may see every job."""
    return True


@dataclass(frozen=True)
class ApplyRequest:
    """A request to apply or compare documents.

    ``relower`` replaces objects of unchanged documents that this gpuctl lowers differently. ``adopt`` takes over
    foreign objects and fields. ``rolling`` changes Deployments and StatefulSets in place (None: as the document or
    platform states). ``create_only`` refuses existing objects. ``part_of`` is the id of the set. ``offline`` decides
    without dry-runs. ``compare`` only compares: fields that other managers hold are not an obstacle.

    ``no_probe`` turns refusals of pod dry-runs into notes. ``create_namespace`` also creates a namespace that no
    document names. ``unread`` are the files that may hold documents and were not read. ``mark`` is written on created
    objects; an object that has it was created by an earlier attempt of this request, and stays. ``sees`` returns True
    if the caller may see a job: other jobs that would be evicted have no names in the plan.

    ``queue`` creates workloads even if a quota has no room for their pods. ``confirm`` are questions to confirm before
    anything is written. ``rerun`` also creates trainings that their ttl has removed. ``instead`` are objects to create
    in place of the lowered ones. ``batch`` runs ``fit`` for this request together with the others of a batch.
    """

    lowered: list[Lowered]
    keys: Records
    relower: bool = False
    adopt: bool = False
    rolling: bool | None = None
    create_only: bool = False
    part_of: str | None = None
    offline: bool = False
    compare: bool = False
    platform_rolling: bool = False
    no_probe: bool = False
    create_namespace: bool = False
    gpu_resources: frozenset[str] = frozenset()
    settings: Settings = field(default_factory=Settings)
    unread: tuple[str, ...] = ()
    mark: str | None = None
    sees: MaySee = may_see_all
    queue: bool = False
    confirm: tuple[str, ...] = ()
    rerun: bool = False
    instead: Mapping[Key, Object] = field(default_factory=dict)
    batch: BatchFit | None = None


class CheckOptions(NamedTuple):
    """Options of the checks of a plan: the platform's label keys, and the names of GPU resources.

    ``lenient`` turns refusals of pod dry-runs into notes (``--no-probe``). With ``queue`` workloads may wait for a
    quota. ``sees`` returns True if a job that holds quota may be named. ``batch`` has the ``fit`` answers of all jobs
    of a batch.
    """

    keys: Records
    gpu_resources: frozenset[str]
    lenient: bool = False
    queue: bool = False
    sees: MaySee = may_see_all
    batch: BatchFit | None = None

    @classmethod
    def of(cls, request: ApplyRequest) -> CheckOptions:
        """Return the options in a request."""
        no_probe, queue = request.no_probe, request.queue
        return cls(request.keys, request.gpu_resources, no_probe, queue, request.sees, request.batch)


@dataclass(frozen=True)
class SetOptions:
    """Options of ``--set``: its name and namespace, the sources of its documents, and limits of pruning.

    ``allow_skipped`` prunes although files that may hold documents were not read. ``checkout`` is the commit that the
    documents were read from (None: not a single commit); ``allow_older`` allows an ancestor of the set's last commit.
    """

    name: str
    namespace: str
    sources: tuple[str, ...]
    prune: bool = False
    allow_source: bool = False
    allow_empty: bool = False
    allow_skipped: bool = False
    allow_older: bool = False
    checkout: Checkout | None = None
