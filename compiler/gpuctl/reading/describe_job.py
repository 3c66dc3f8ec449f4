"""Everything about one job: what it is, how far it has come, how it is reached, and why it is not running."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuctl.apply.state.records import Records
from gpuctl.backend.api_resources import Object, annotations_of, labels_of
from gpuctl.backend.emitter import emit_object
from gpuctl.backend.lift import lift
from gpuctl.capacity.pod_requests import pod_requests, pod_templates
from gpuctl.capacity.quota_sum import format_amount
from gpuctl.kube.scope import Scope
from gpuctl.language.masking import masked
from gpuctl.language.settings import Settings
from gpuctl.reading.access import Addresses, access
from gpuctl.reading.event_rows import event_order, event_time
from gpuctl.reading.job_rows import Job, Row, job_row, labels, pod_row
from gpuctl.reading.status import sentence
from gpuctl.reading.timeline import Stage, timeline
from gpuctl.reading.why.answer import Answer, explain
from gpuctl.reading.why.evidence import gather


@dataclass(frozen=True)
class AlikeEvents:
    """An event, or several of the same words: ``count`` of them, the last at ``time``."""

    type: str
    reason: str
    about: str
    message: str
    count: int
    time: str


@dataclass(frozen=True)
class JobDetail:
    """A job as ``describe`` shows it. ``document`` is None where it cannot be read from the objects."""

    job: Job
    row: Row
    pods: list[Row]
    restarts: dict[str, int]
    answer: Answer
    timeline: dict[str, list[Stage]]
    access: Addresses
    events: list[AlikeEvents] | None
    document: dict[str, Any] | None
    description: str | None
    resources: dict[str, Any]
    images: list[str]

    @property
    def text(self) -> str | None:
        """The document as YAML, without credentials."""
        return emit_object(masked(self.document)) if self.document is not None else None

    @property
    def started_at(self) -> str | None:
        """When the first container began; of a job whose pods are gone, when its controller did."""
        begun = [stage.time for stages in self.timeline.values() for stage in stages if stage.name == "started"]
        return min(begun) if begun else None if self.pods or self.row.status.phase == "pending" else self.row.started_at

    @property
    def has_trouble(self) -> bool:
        """Whether anything keeps it from running, so that the answer is of interest."""
        return not self.answer.is_well

    @property
    def conditions(self) -> list[Object]:
        """Those of the workload."""
        return list(((self.job.workload or {}).get("status") or {}).get("conditions") or [])


def describe(scope: Scope, job: Job, keys: Records, settings: Settings) -> JobDetail:
    """Read everything about a job; what may not be read is noted."""
    names = labels(settings, keys)
    evidence = gather(scope, job, keys, settings)
    identity, workload = job.identity, job.workload
    local = Scope(scope.session, identity.namespace)
    selector = f"app={identity.name},{keys.job_type}={identity.kind}"
    services = local.maybe("Service", labels=selector, why="how it is reached is not known") or []
    for note in local.notes:
        scope.note(note)
    events = evidence.events
    about: dict[str, list[Object]] = {pod["metadata"]["name"]: [] for pod in job.pods}
    for event in events or []:
        about.get((event.get("involvedObject") or {}).get("name") or "", []).append(event)
    scaler = evidence.scaler
    # Another autoscaler's numbers are no part of the document.
    own = [scaler] if scaler is not None and scaler["metadata"]["name"] == identity.name else []
    companions = [*services, *own]
    template = _template(job)
    containers = (template.get("spec") or {}).get("containers") or []
    return JobDetail(
        job,
        job_row(job, names),
        [pod_row(pod, identity, names) for pod in job.pods],
        {pod["metadata"]["name"]: _restarts(pod) for pod in job.pods},
        explain(evidence),
        {name: timeline(pod, about[name]) for pod in job.pods for name in [pod["metadata"]["name"]]},
        access(identity.name, identity.namespace, services, job.pods, evidence.nodes),
        None if events is None else alike(events),
        None if workload is None else _document(workload, companions, settings),
        annotations_of(workload).get(settings.label("description")) if workload is not None else None,
        _resources(job, template, settings, names.gpus, names.gpu_type),
        list(dict.fromkeys(item["image"] for item in containers if item.get("image"))),
    )


def _template(job: Job) -> Object:
    """The pod that there are most of."""
    if job.workload is None:
        return job.pods[-1] if job.pods else {}
    templates = pod_templates(job.workload)
    return max(templates, key=lambda item: item[1])[0] if templates else {}


def _resources(job: Job, template: Object, settings: Settings, gpus: frozenset[str], gpu_type: str) -> dict[str, Any]:
    """Of one pod, as the document asks for it; ``memory`` is text as the REST API has it."""
    spec = template.get("spec") or {}
    asked = pod_requests(spec) if spec else {}
    cpu, memory = asked.get("cpu"), asked.get("memory")
    return {
        "gpu": int(sum(amount for name, amount in asked.items() if name in gpus)),
        "gpuType": (spec.get("nodeSelector") or {}).get(gpu_type),
        "cpu": None if cpu is None else int(cpu) if cpu.denominator == 1 else float(cpu),
        "memory": None if memory is None else format_amount("memory", memory),
        "memoryBytes": None if memory is None else int(memory),
    }


def _restarts(pod: Object) -> int:
    return sum(int(item.get("restartCount") or 0) for item in (pod.get("status") or {}).get("containerStatuses") or [])


def _document(workload: Object, companions: Iterable[Object], settings: Settings) -> dict[str, Any] | None:
    try:
        documents = lift([workload, *companions], settings)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        # Lifting is for what lowering makes; a workload may have been changed into anything by anybody.
        return None
    wanted = labels_of(workload).get(settings.label("job-type"))
    return next((item for item in documents if item.get("kind") == wanted), None)


def alike(events: Iterable[Object]) -> list[AlikeEvents]:
    """Events with those of the same words about the same object counted as one, the newest last."""
    found: dict[tuple[str, str, str], AlikeEvents] = {}
    # What is told again is put in anew: the order is that of the last of each.
    for event in sorted(events, key=event_order):
        on = event.get("involvedObject") or {}
        about = f"{(on.get('kind') or '').lower()}/{on.get('name')}"
        message, reason = sentence(event.get("message")), sentence(event.get("reason"))
        number = int((event.get("series") or {}).get("count") or event.get("count") or 1)
        before = found.pop((about, reason, message), None)
        count = number + (before.count if before is not None else 0)
        found[about, reason, message] = AlikeEvents(
            event.get("type") or "Normal", reason, about, message, count, event_time(event)
        )
    return list(found.values())
