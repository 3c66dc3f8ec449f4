"""A plan in the making: the documents' objects, the live objects, and the steps so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from gpuctl.apply.plan.last_applied import LastApplied
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.state.live_state import COMPANIONS, LiveState
from gpuctl.backend.lowering_context import Lowered
from gpuctl.frontend.document import Document
from gpuctl.objects.api_resources import (
    WORKLOADS,
    Key,
    labels_of,
)
from gpuctl.objects.companion_names import is_companion_name


@dataclass
class PlanDraft:
    """A plan in the making, and the live state that it is based on.

    ``last`` are the last applied versions of live objects. ``own`` are objects that an earlier attempt of the same
    request has created. ``hashes`` are cached hashes of objects. ``unchanged_documents`` are the ids of documents whose
    live main object was made from an equal one. ``in_other_sets`` maps objects to the ids of the sets they belong to.
    ``autoscaled`` are the workloads whose replicas a foreign autoscaler sets.
    """

    plan: Plan
    live: LiveState
    last: LastApplied
    own: frozenset[Key] = frozenset()
    hashes: dict[Key, str] = field(default_factory=dict)
    steps: dict[Key, Step] = field(default_factory=dict)
    unchanged_documents: frozenset[int] = frozenset()
    in_other_sets: dict[Key, str] = field(default_factory=dict)
    autoscaled: frozenset[Key] = frozenset()

    @cached_property
    def companions(self) -> dict[tuple[str, str], list[Key]]:
        """Namespace and name of a job -> the live objects with the names of its companions."""
        found: dict[tuple[str, str], list[Key]] = {}
        for key, obj in sorted(self.live.objects.items()):
            job = labels_of(obj).get("app", "")
            if key.kind in COMPANIONS and is_companion_name(key.kind, key.name, job):
                found.setdefault((key.namespace, job), []).append(key)
        return found

    def workload(self, namespace: str, name: str) -> Step | None:
        """Return the step of the workload with a name."""
        for kind in WORKLOADS:
            step = self.steps.get(Key(kind, namespace, name))
            if step is not None:
                return step
        return None


def documents_of(lowered: Iterable[Lowered]) -> list[Document]:
    """Return the documents of lowered objects, each once, in order."""
    return list({id(item.document): item.document for item in lowered}.values())


def jobs_of(lowered: Iterable[Lowered]) -> dict[str, set[str]]:
    """Return the names of the jobs among the documents, by namespace."""
    jobs: dict[str, set[str]] = {}
    for document in documents_of(lowered):
        if document.is_workload:
            jobs.setdefault(document.namespace, set()).add(document.name)
    return jobs


def title_of(document: Document) -> str:
    """Return a document's name in messages: ``training/x``."""
    return f"{document.kind}/{document.name}" if document.name else document.kind
