"""The snapshot of a cluster as a JSON document: what ``fit`` needs, and no secrets.

Of pods only the fields that scheduling and quotas use are kept: no commands, variables or annotations. Quantities are
written as in Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property

from gpuctl.objects.api_resources import Object

KIND = "ClusterSnapshot"
VERSION = 5


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment. The lists hold plain dicts, see :data:`gpuctl.capacity.snapshot.snapshot_schema.SCHEMA`.

    - ``finished``: Jobs and JobSets that have ended.
    - ``unreadable``: lists that the user may not read; they are empty.
    - ``kueue``: the readable lists of Kueue's objects, by plural name; None if Kueue is not installed or was not
      checked.
    """

    taken_at: str
    nodes: list[Object]
    pods: list[Object]
    namespaces: list[Object] = field(default_factory=list)
    priority_classes: list[Object] = field(default_factory=list)
    runtime_classes: list[Object] = field(default_factory=list)
    quotas: list[Object] = field(default_factory=list)
    limit_ranges: list[Object] = field(default_factory=list)
    budgets: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)
    storage_classes: list[Object] = field(default_factory=list)
    csi_nodes: list[Object] = field(default_factory=list)
    attachments: list[Object] = field(default_factory=list)
    csi_drivers: list[Object] = field(default_factory=list)
    storage_capacities: list[Object] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)
    job_sets: list[Object] = field(default_factory=list)
    finished: list[Object] = field(default_factory=list)
    device_classes: list[Object] = field(default_factory=list)
    resource_slices: list[Object] = field(default_factory=list)
    resource_claims: list[Object] = field(default_factory=list)
    resource_claim_templates: list[Object] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    kueue: Object | None = None

    @cached_property
    def claims_by_name(self) -> Mapping[tuple[str, str], Object]:
        """The claims by namespace and name."""
        return {(item["namespace"], item["name"]): item for item in self.claims}

    @cached_property
    def volumes_by_name(self) -> Mapping[str, Object]:
        """The volumes by name."""
        return {item["name"]: item for item in self.volumes}

    @cached_property
    def jobs_by_name(self) -> Mapping[tuple[str, str], Object]:
        """The unfinished Jobs by namespace and name."""
        return {(item["namespace"], item["name"]): item for item in self.jobs}

    @cached_property
    def sets_by_name(self) -> Mapping[tuple[str, str], Object]:
        """The unfinished JobSets by namespace and name."""
        return {(item["namespace"], item["name"]): item for item in self.job_sets}

    @cached_property
    def final_sets(self) -> frozenset[tuple[str, str]]:
        """The JobSets that restart no Job, and whose resources no queue gives to another job."""
        found = (key for key, item in self.sets_by_name.items() if not ({"restarts", "unsure", "queued"} & item.keys()))
        return frozenset(found)

    def lacks(self, *names: str) -> list[str]:
        """Return those of some lists, by their JSON names, that could not be read."""
        return [name for name in names if name in self.unreadable]


def render(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON, one line for each item, so that snapshots can be compared."""
    value = {json_name(name): item for name, item in asdict(snapshot).items()}
    parts = [f'"kind": "{KIND}"', f'"version": {VERSION}']
    queues = value.pop("kueue")
    parts += [f'"{name}": {_listed(item)}' for name, item in value.items()]
    if queues is not None:
        lists = (f'"{name}": {_listed(item)}' for name, item in queues.items())
        parts.append('"kueue": {' + ",\n ".join(lists) + "}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def _listed(item: object) -> str:
    if not isinstance(item, list):
        return json.dumps(item)
    lines = (json.dumps(entry, ensure_ascii=False, sort_keys=True) for entry in item)
    return "[" + ",".join(f"\n  {line}" for line in lines) + ("\n ]" if item else "]")


def json_name(name: str) -> str:
    """Return a field's name in the document: ``limit_ranges`` is ``limitRanges``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
