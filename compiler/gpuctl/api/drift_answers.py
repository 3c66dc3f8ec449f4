"""JSON of ``drift``, which is also sent to its webhook: how a cluster differs from documents."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.error_meanings import UNDETERMINED
from gpuctl.api.json_values import change_values
from gpuctl.apply.plan.drift_detection import Drift, DriftedField, DriftedObject
from gpuctl.apply.state.managed_fields import FieldHolder
from gpuctl.language.masking import masked_pair, redact


class DriftManager(ApiModel):
    """A field manager that wrote a field."""

    manager: str
    operation: str | None = Field(description="Apply or Update.")
    time: str | None = Field(description="The time of its last write to any of its fields.")

    @classmethod
    def of(cls, holder: FieldHolder) -> DriftManager:
        """Return the JSON model of a field manager."""
        return cls(manager=holder.manager, operation=holder.operation or None, time=holder.time or None)


class DriftField(ApiModel):
    """A field of an object, without credentials."""

    path: str
    live: Any = Field(description="The value in the cluster.")
    wanted: Any = Field(description="The value of the documents; null if they do not set the field.")
    added: bool = Field(description="True if the documents do not set the field; apply then keeps it.")
    by: list[DriftManager]

    @classmethod
    def of(cls, field: DriftedField) -> DriftField:
        """Return the JSON model of a field."""
        live, wanted = masked_pair(field.live, field.wanted, field.path)
        by = list(map(DriftManager.of, field.holders))
        return cls(path=field.path, live=live, wanted=wanted, added=field.is_added, by=by)


class DriftObject(ApiModel):
    """An object that differs, is missing, or is in no document."""

    what: Literal["differs", "gone", "unnamed"]
    api_version: str
    kind: str
    namespace: str | None
    name: str
    document: str | None
    reason: str | None
    since: str | None
    fields: list[DriftField]
    document_changes: list[dict[str, Any]] = Field(
        description="The fields of the document that differ from the applied one, each with `path`, `from` and `to`."
    )
    expected_fields: list[DriftField] = Field(description="Fields that controllers are expected to write.")

    @classmethod
    def of(cls, one: DriftedObject) -> DriftObject:
        """Return the JSON model of an object."""
        return cls(
            what=one.what,
            api_version=one.key.resource.api_version,
            kind=one.key.kind,
            namespace=one.key.namespace or None,
            name=one.key.name,
            document=one.title or None,
            reason=one.reason or None,
            since=one.since or None,
            fields=list(map(DriftField.of, one.fields)),
            document_changes=change_values(one.document_changes),
            expected_fields=list(map(DriftField.of, one.expected)),
        )


class DriftSummary(ApiModel):
    """Counts of objects."""

    differs: int
    gone: int
    unnamed: int
    same: int


class DriftAnswer(ApiModel):
    """``gpuctl drift -o json``, without credentials."""

    drifted: bool | None = Field(description="Null if objects could not be compared and the others have not drifted.")
    cluster: str | None
    server: str
    revision: str | None
    objects: list[DriftObject]
    expected: list[DriftObject]
    problems: list[str]
    notes: list[str]
    summary: DriftSummary

    @classmethod
    def of(cls, drift: Drift, server: str, cluster: str | None, revision: str) -> DriftAnswer:
        """Return the JSON model of a comparison."""
        found = [one.what for one in drift.objects]
        return cls(
            drifted=True if drift.objects else None if drift.problems else False,
            cluster=cluster,
            server=server,
            revision=revision or None,
            objects=list(map(DriftObject.of, drift.objects)),
            expected=list(map(DriftObject.of, drift.expected)),
            problems=list(map(redact, drift.problems)),
            notes=list(map(redact, drift.notes)),
            summary=DriftSummary(
                differs=found.count("differs"),
                gone=found.count("gone"),
                unnamed=found.count("unnamed"),
                same=drift.same,
            ),
        )


def drift_code(drift: Drift, *, fail: bool) -> int:
    """Return the exit code: 0, or with ``fail`` 1 for a drift and 2 if objects could not be compared."""
    return 0 if not fail else UNDETERMINED if drift.problems else 1 if drift.objects else 0
