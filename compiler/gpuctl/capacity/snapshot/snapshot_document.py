"""The snapshot of a cluster as a JSON document: what ``fit`` needs, and no secrets.

Of pods only the fields that scheduling and quotas use are kept: no commands, variables or annotations. Quantities are
written as in Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from gpuctl.capacity.snapshot.snapshot_schema import SCHEMA
from gpuctl.language.display_text import shorten, visible
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


class DamagedSnapshot(ValueError):
    """A text is not a snapshot, or a damaged one. ``hint``: what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


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


def load(text: str, name: str = "the snapshot") -> Snapshot:
    """Parse a snapshot that :func:`render` wrote.

    :param name: the name of the file, for messages.
    :raises DamagedSnapshot: the text is not a snapshot, or a damaged one; the message says where.
    """
    hint = "make a new one with `gpuctl snapshot > cluster.json`"
    try:
        # A number with a fraction is at most a quantity, whose text is exact.
        value = json.loads(text, parse_float=str, parse_constant=str)
    except ValueError as error:
        raise DamagedSnapshot(f"{name} is not JSON: {error}", hint) from None
    except RecursionError:
        raise DamagedSnapshot(f"{name} is not a snapshot: it is nested too deeply", hint) from None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise DamagedSnapshot(f"{name} is not a snapshot: its `kind` is not {KIND}", hint)
    version = value.get("version")
    if version != VERSION:
        raise DamagedSnapshot(f"{name} has version {json.dumps(version)}; this gpuctl reads version {VERSION}", hint)
    try:
        damage = next(map(_damage, _validator().iter_errors(value)), None)
    except UnicodeEncodeError:
        damage = "it has text that is not Unicode"
    if damage is not None:
        raise DamagedSnapshot(f"{name} is damaged: {damage}", hint)
    known = {json_name(item): item for item in Snapshot.__dataclass_fields__}
    found = {known[key]: item for key, item in value.items() if key in known}
    return Snapshot(**found)


@lru_cache(maxsize=1)
def _validator() -> Draft202012Validator:
    return Draft202012Validator(SCHEMA, validate_formats=True)


def _damage(error: ValidationError) -> str:
    """Return where a document does not match the schema, and how."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    keyword, found = error.kind.name, error.kind.value
    if keyword == "required":
        text = f"{path}.{found} is missing"
    elif keyword == "additionalProperties":
        text = f"{path}.{found[0]} is not a field of a snapshot"
    else:
        part: Any = SCHEMA
        for step in error.schema_path[:-1]:
            part = part[step]
        text = f"{path}: {shorten(json.dumps(error.instance), 60)} is not {part['title']}"
    return visible(text.removeprefix("."))


def json_name(name: str) -> str:
    """Return a field's name in the document: ``limit_ranges`` is ``limitRanges``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
