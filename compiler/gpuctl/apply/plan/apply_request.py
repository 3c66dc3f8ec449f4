"""What a command was asked to bring about, and as which set."""

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
"""From the namespace and name of a job or pod whether whoever asked may see it."""


def may_see_all(namespace: str, name: str) -> bool:
    """Return True: the caller may see every job."""
    return True


@dataclass(frozen=True)
class ApplyRequest:
    """A request to apply or compare documents.

    ``create_only`` refuses what exists, ``offline`` decides without the server's dry-runs, ``compare``
    only compares: fields that other managers hold are no obstacle. ``rolling`` changes
    Deployments and StatefulSets in place (None: as the document or platform says). ``no_probe`` makes notes of what is
    refused to pods that are tried; ``create_namespace`` creates also a namespace that no document names. ``unread`` are
    the files that may hold documents and were not read. ``mark`` is written on what is created; what has it already was
    created by this very request, and stays as it is. ``sees`` decides which jobs the caller may see: other jobs that
    would be evicted have no names in the plan. ``queue`` creates workloads also where a quota has no room for their
    pods. ``confirm`` has to be confirmed before anything is written. ``rerun`` creates also trainings that their ttl
    has removed. ``instead`` are objects that are created as they are, in place of what the documents are lowered to.
    ``batch`` judges its workloads together with those of the other requests of a batch.
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
    """Options of the checks of a plan: the keys of the platform's records, and the resources that are GPUs.

    ``lenient`` makes a note of what is refused to the pods that are tried (``--no-probe``), not an error. With
    ``queue`` workloads may wait for a quota; ``sees`` decides which jobs that hold it may be named. ``batch`` has
    the answers of ``fit`` for all jobs of a batch.
    """

    keys: Records
    gpu_resources: frozenset[str]
    lenient: bool = False
    queue: bool = False
    sees: MaySee = may_see_all
    batch: BatchFit | None = None

    @classmethod
    def of(cls, request: ApplyRequest) -> CheckOptions:
        """What a request says of it."""
        no_probe, queue = request.no_probe, request.queue
        return cls(request.keys, request.gpu_resources, no_probe, queue, request.sees, request.batch)


@dataclass(frozen=True)
class SetOptions:
    """``--set``: its name and namespace, what its documents came from, and what may be pruned.

    ``allow_skipped`` prunes although files were not read that may hold documents. ``checkout`` is the commit that the
    documents were read from (None: of no single commit); ``allow_older`` lets it be an ancestor of the set's last one.
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
