"""How a cluster differs from documents, as JSON: ``drift``, and what its webhook is told."""

from __future__ import annotations

from typing import Any

from gpuctl.apply.plan.drifted import Drift, DriftedField, DriftedObject
from gpuctl.language.masking import masked_pair, redact


def drift_answer(drift: Drift, server: str, cluster: str | None, revision: str) -> dict[str, Any]:
    """Return the whole report, without credentials.

    ``drifted`` is null if objects could not be compared and the others have not drifted; ``wanted`` is null if the
    documents do not state the field.
    """
    counts = {what: sum(one.what == what for one in drift.objects) for what in ("differs", "gone", "unnamed")}
    return {
        "drifted": True if drift.objects else None if drift.problems else False,
        "cluster": cluster,
        "server": server,
        "revision": revision or None,
        "objects": [_object(one) for one in drift.objects],
        "expected": [_object(one) for one in drift.expected],
        "problems": [redact(problem) for problem in drift.problems],
        "notes": [redact(note) for note in drift.notes],
        "summary": {**counts, "same": drift.same},
    }


def _object(one: DriftedObject) -> dict[str, Any]:
    return {
        "what": one.what,
        "apiVersion": one.key.resource.api_version,
        "kind": one.key.kind,
        "namespace": one.key.namespace or None,
        "name": one.key.name,
        "document": one.title or None,
        "reason": one.reason or None,
        "since": one.since or None,
        "fields": [_field(field) for field in one.fields],
        "expectedFields": [_field(field) for field in one.expected],
    }


def _field(field: DriftedField) -> dict[str, Any]:
    live, wanted = masked_pair(field.live, field.wanted, field.path)
    by = [
        {"manager": one.manager, "operation": one.operation or None, "time": one.time or None} for one in field.holders
    ]
    return {"path": field.path, "live": live, "wanted": wanted, "added": field.is_added, "by": by}


def drift_code(drift: Drift, *, fail: bool) -> int:
    """The exit code: 0, or where that is asked for 1 of a drift and 2 where it could not be told."""
    return 0 if not fail else 2 if drift.problems else 1 if drift.objects else 0
