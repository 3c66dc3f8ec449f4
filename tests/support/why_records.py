"""The evidence of ``gpuctl why`` for jobs on the control plane, recorded for tests of its rules without one.

``WHY_RECORDS=DIRECTORY pytest tests/cluster/test_why.py tests/cluster/test_queues.py tests/cluster/test_after.py``
writes the evidence of each cause; nothing in the files is written by hand.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.kube.configuration import open_session
from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.prerequisites import Prerequisite
from gpuctl.reading.jobs.job_lookup import find_job
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.queues.queue_position import KueueLists
from gpuctl.reading.why.evidence import Evidence, gather

RECORDED = Path(__file__).parents[1] / "unit" / "recorded-why"
# Field of `Evidence` -> its key in a record.
_PARTS = {
    "events": "events",
    "nodes": "nodes",
    "claims": "claims",
    "quotas": "quotas",
    "namespace_pods": "neighbours",
    "kueue_workload": "admission",
    "scaler": "scaler",
    "services": "services",
    "endpoint_slices": "slices",
    "preemptors": "preemptors",
}


def _written(snapshot: Snapshot) -> dict[str, Any]:
    """Without the lists that came later and are empty: most records are older."""
    later = {"storage_classes", "csi_nodes", "attachments", "device_classes", "resource_slices", "finished", "missing"}
    return {name: item for name, item in asdict(snapshot).items() if item or name not in later}


def dump(evidence: Evidence, cause: str) -> str:
    """Return evidence as JSON, with the resulting cause. Fields that only the API server needs are left out."""
    value = {
        "cause": cause,
        "identity": [part for part in evidence.job.identity if part],
        "workload": evidence.job.workload,
        "pods": evidence.job.pods,
        "now": evidence.now.isoformat(),
        "snapshot": None if evidence.snapshot is None else _written(evidence.snapshot),
        "logs": [[pod, container, lines] for (pod, container), lines in evidence.logs.items()],
        **_device_claims(evidence),
        **_prerequisites(evidence),
        **{key: getattr(evidence, name) for name, key in _PARTS.items()},
    }
    if evidence.kueue is not None:
        value["kueue"] = evidence.kueue._asdict()
    return json.dumps(_trimmed(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"


def _device_claims(evidence: Evidence) -> dict[str, Any]:
    found = [[*key, item] for key, item in evidence.device_claims.items()]
    return {"device_claims": found} if found else {}


def _prerequisites(evidence: Evidence) -> dict[str, Any]:
    # No rule reads what is recorded on the job.
    found = [one._asdict() | {"record": None} for one in evidence.job.prerequisites]
    return {"prerequisites": found} if found else {}


def load(path: Path) -> tuple[Evidence, str]:
    """Return recorded evidence, and the cause at that time."""
    value = json.loads(path.read_text())
    settings = Settings()
    prerequisites = [Prerequisite(**item) for item in value.get("prerequisites", [])]
    evidence = Evidence(
        Job(Identity(*value["identity"]), value["workload"], value["pods"], prerequisites=prerequisites),
        records(settings),
        settings,
        datetime.fromisoformat(value["now"]),
        snapshot=None if value["snapshot"] is None else Snapshot(**value["snapshot"]),
        kueue=KueueLists(**value["kueue"]) if "kueue" in value else None,
        device_claims={(kind, name): item for kind, name, item in value.get("device_claims", [])},
        logs={(pod, container): lines for pod, container, lines in value["logs"]},
        # A record may be older than a part.
        **{name: value[key] for name, key in _PARTS.items() if key in value},
    )
    return evidence, value["cause"]


def record(namespace: str, name: str, cause: str) -> None:
    """Keep what an answer rests on, if that is wanted."""
    directory = os.environ.get("WHY_RECORDS")
    if directory is None:
        return
    settings = Settings()
    session = open_session()
    scope = Scope(session, namespace)
    keys = records(settings)
    job, _ = find_job(scope, name, keys)
    text = dump(gather(scope, job, keys, settings), cause)
    session.close()
    (Path(directory) / f"{cause}.{name}.json").write_text(text)


def _trimmed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _trimmed(item) for key, item in value.items() if key not in ("managedFields", "images")}
    return [_trimmed(item) for item in value] if isinstance(value, list) else value
