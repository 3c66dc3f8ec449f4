"""Find the smallest document changes with which jobs fit. Each change is compiled and judged beside all other jobs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

from gpuctl.backend.canonical_form import canonical
from gpuctl.capacity.devices.gpu_inventory import gpu_inventory
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.fit.suggestions import (
    Candidates,
    FieldChange,
    Fields,
    JobName,
    RequestedResources,
    Suggestion,
    candidates,
)
from gpuctl.capacity.fit.verdicts import LACKING, STARTS
from gpuctl.capacity.scheduler.scheduler_model import units
from gpuctl.capacity.snapshot.planned_node_labels import labels_by_node, with_removed_labels
from gpuctl.capacity.snapshot.pod_requests import amounts
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.compilation import Compilation
from gpuctl.frontend.document import Document
from gpuctl.frontend.source import Source
from gpuctl.language.resources_block import Resources
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.prerequisites import as_released
from gpuctl.objects.quantities import parse_quantity
from gpuctl.objects.scheduled_jobs import with_runs
from gpuctl.usecases.documents.compiling import platform_source

Compile = Callable[[list[Source], Source, str], "Compilation | None"]
"""Compile sources with a platform and a namespace; None if they are not valid."""


def suggest(
    compilation: Compilation, snapshot: Snapshot, answers: Sequence[Fit], compiled: Compile
) -> dict[JobName, list[Suggestion]]:
    """Return for each job that does not fit the smallest change of each kind with which it fits."""
    lacking = {(item.demand.namespace, item.demand.name) for item in answers if item.verdict in LACKING}
    found: dict[JobName, list[Suggestion]] = {}
    for document in compilation.documents:
        if isinstance(document.model, Workload) and (document.namespace, document.model.job.name) in lacking:
            trial = _Trial(compilation, snapshot, document, answers, compiled)
            found[trial.name] = [item for kind in trial.candidates() if (item := trial.first(kind)) is not None]
    return found


class _Trial:
    """One document that is changed and judged again."""

    def __init__(
        self,
        compilation: Compilation,
        snapshot: Snapshot,
        document: Document,
        answers: Sequence[Fit],
        compiled: Compile,
    ) -> None:
        assert isinstance(document.model, Workload)
        self.name = document.namespace, document.model.job.name
        self._compilation = compilation
        self._snapshot = snapshot
        self._document = document
        self._compile = compiled
        self._data = canonical(document)
        own = next(item for item in answers if (item.demand.namespace, item.demand.name) == self.name)
        self._scarce = _scarce(own, snapshot)
        self._before = {(item.demand.namespace, item.demand.name): item.verdict for item in answers}
        others = [item.object for item in compilation.lowered if item.document is not document]
        self._others = with_removed_labels(snapshot, others, records(compilation.settings))
        shared = [item for item in compilation.documents if not isinstance(item.model, Workload)]
        self._beside = [_source(place, canonical(item)) for place, item in enumerate(shared) if item.kind != "platform"]
        self._platform = platform_source(compilation.settings)

    def candidates(self) -> list[Candidates]:
        """Return the changes to try, by kind."""
        resources, settings = self._document.model.resources, self._compilation.settings  # type: ignore[union-attr]
        number = getattr(resources, "nodes", None)
        asked = RequestedResources(
            resources.pool,
            resources.gpu,
            self._document.gpu_types,
            # An elastic training takes fewer nodes by itself.
            number if isinstance(number, int) else None,
            resources.gpu_share is not None,
            self._scarce,
            _amount(resources, self._scarce),
        )
        return list(candidates(asked, gpu_inventory(self._snapshot, settings, labels_by_node(self._others))))

    def first(self, kind: Candidates) -> Suggestion | None:
        """Return the smallest change of a kind with which the job fits, or None."""
        place = _first(len(kind.fields), lambda index: self._fits(kind.fields[index]), graded=kind.is_graded)
        return None if place is None else Suggestion(kind.kind, [*self._changes(kind.fields[place])])

    def _fits(self, fields: Fields) -> bool:
        resources = {**(self._data.get("resources") or {}), **fields}
        changed = {**self._data, "resources": {key: value for key, value in resources.items() if value is not None}}
        objects = self._compiled(changed)
        if objects is None:
            return False
        verdicts = {
            (item.demand.namespace, item.demand.name): item.verdict
            for item in fit(self._snapshot, as_released(with_runs([*self._others, *objects])))
        }
        worse = (name for name, was in self._before.items() if was in STARTS and verdicts.get(name) not in STARTS)
        return verdicts.get(self.name) == "fits" and not any(worse)

    def _compiled(self, changed: Object) -> list[Object] | None:
        """Return the objects of the changed document; None if it is not valid."""
        mine = Source("changed.json", json.dumps(changed))
        found = self._compile([*self._beside, mine], self._platform, self.name[0])
        if found is None:
            return None
        return [item.object for item in found.lowered if item.document.file == mine.name]

    def _changes(self, fields: Fields) -> list[FieldChange]:
        resources = self._data.get("resources") or {}
        return [
            FieldChange(f"resources.{key}", resources.get(key), value, self._document.span(("resources", key)))
            for key, value in fields.items()
            if resources.get(key) != value
        ]


def _scarce(answer: Fit, snapshot: Snapshot) -> str:
    """Return memory or cpu if a pod requests more than any node has, otherwise the resource with the least room."""
    nodes = [units(amounts(item["allocatable"])) for item in snapshot.nodes]
    for resource in ("memory", "cpu"):
        if answer.balance.per_pod.get(resource, 0) > max((node.get(resource, 0) for node in nodes), default=0):
            return resource
    return answer.balance.scarce


def _amount(resources: Resources, resource: str) -> int:
    """Return the requested memory in Gi, or cores, rounded up; 0 for other resources."""
    asked = parse_quantity({"memory": resources.memory, "cpu": resources.cpu}.get(resource) or "0") or 0
    return math.ceil(asked / 2**30 if resource == "memory" else asked)


def _first(number: int, fits: Callable[[int], bool], *, graded: bool) -> int | None:
    """Return the first index that fits. With ``graded``, all later ones fit too, so a binary search is used."""
    if not graded:
        return next((place for place in range(number) if fits(place)), None)
    least, most, found = 0, number - 1, None
    while least <= most:
        middle = (least + most) // 2
        if fits(middle):
            found, most = middle, middle - 1
        else:
            least = middle + 1
    return found


def _source(place: int, data: Object) -> Source:
    return Source(f"beside-{place}.json", json.dumps(data))
