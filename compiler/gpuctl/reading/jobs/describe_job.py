"""The data of `describe job`: status, timeline, addresses, events, and the cause if the job does not run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.kube.scope import Scope
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.label_names import URL
from gpuctl.objects.ownership_metadata import Records
from gpuctl.reading.jobs.events_of_jobs import RepeatedEvent, merge_repeated
from gpuctl.reading.jobs.job_addresses import Addresses, job_addresses
from gpuctl.reading.jobs.job_facts import JobFacts, conditions_of, job_facts, services_of
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.job_rows import platform_keys, with_claimed_gpus
from gpuctl.reading.jobs.timeline import Stage, timeline
from gpuctl.reading.why.evidence import gather, read_events
from gpuctl.reading.why.explanation import Explanation, explain


class JobHistory(NamedTuple):
    """A job's past: the stages of each pod by pod name, the workload's conditions, and events (None if they may not be
    read).
    """

    timeline: dict[str, list[Stage]]
    conditions: list[Object]
    events: list[RepeatedEvent] | None


@dataclass(frozen=True)
class JobDetail(JobFacts):
    """The data that `describe job` shows.

    :param notify: the annotation of `job.notify`, which any user may have written; None without one.
    """

    answer: Explanation
    timeline: dict[str, list[Stage]]
    access: Addresses
    events: list[RepeatedEvent] | None
    notify: str | None

    @property
    def has_trouble(self) -> bool:
        """Return True if something keeps the job from running."""
        return not self.answer.is_well


def read_job_detail(scope: Scope, job: Job, keys: Records, settings: Settings) -> JobDetail:
    """Read everything about a job. Add a note for what may not be read."""
    evidence = gather(scope, job, keys, settings)
    local = Scope(scope.session, job.identity.namespace)
    services = services_of(local, job, keys)
    for note in local.notes:
        scope.note(note)
    names = with_claimed_gpus(platform_keys(settings, keys), scope, [job]).by_clock_of(scope.session)
    facts = job_facts(job, services, evidence.scaler, names, settings)
    told = _history(job, evidence.events)
    return JobDetail(
        **vars(facts),
        answer=explain(evidence),
        timeline=told.timeline,
        access=job_addresses(job, services, evidence.nodes, settings.label(URL)),
        events=told.events,
        notify=annotations_of(job.workload or {"metadata": {}}).get(keys.notify),
    )


def read_job_history(scope: Scope, job: Job) -> JobHistory:
    """Read a job's timeline, conditions and events, without searching for a cause. Add a note if events may not be
    read.
    """
    local = Scope(scope.session, job.identity.namespace)
    found = _history(job, read_events(local, job))
    for note in local.notes:
        scope.note(note)
    return found


def _history(job: Job, events: Iterable[Object] | None) -> JobHistory:
    events = None if events is None else list(events)
    about: dict[str, list[Object]] = {pod["metadata"]["name"]: [] for pod in job.pods}
    for event in events or []:
        about.get((event.get("involvedObject") or {}).get("name") or "", []).append(event)
    stages = {name: timeline(pod, about[name]) for pod in job.pods for name in [pod["metadata"]["name"]]}
    return JobHistory(stages, conditions_of(job), None if events is None else merge_repeated(events))
