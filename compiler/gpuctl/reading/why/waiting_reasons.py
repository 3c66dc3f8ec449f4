"""Explain in one sentence each why many jobs wait; lists are read once for all jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import cached_property
from typing import NamedTuple

from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.kube.kueue import waiting_workload
from gpuctl.kube.scope import Scope
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.pod_specs import mounted_claims
from gpuctl.reading.jobs.job_objects import Identity, Job, creation_failures, missing_pods
from gpuctl.reading.queues.queue_position import KueueLists, read_kueue
from gpuctl.reading.why import never_fits, scheduling_checks
from gpuctl.reading.why.evidence import Evidence, SchedulingInput, is_unscheduled, read_snapshot
from gpuctl.reading.why.finding import most_urgent
from gpuctl.reading.why.pending_pods import group_identical, scheduling_inputs


class WaitingReason(NamedTuple):
    """The reason why a job waits. Each field is a sentence, "" if it does not apply.

    :param summary: the cause to remove first.
    :param not_created: why the controller cannot create pods.
    :param not_scheduled: why created pods have no node.
    """

    summary: str
    not_created: str
    not_scheduled: str


class WaitingReasons:
    """Explains why jobs wait. A list is read once, when the first job needs it."""

    def __init__(self, scope: Scope, keys: Records, settings: Settings) -> None:
        self._scope = scope
        self._keys = keys
        self._settings = settings

    def of(self, jobs: Iterable[Job]) -> dict[Identity, WaitingReason]:
        """Return the reasons of the jobs that wait."""
        waiting = [job for job in jobs if self._waits(job)]
        unplaced = [pod for job in waiting for pod, _ in group_identical(_unplaced(job))]
        snapshot = self._snapshot if unplaced else None
        known = scheduling_inputs(snapshot, unplaced) if snapshot is not None else {}
        failures = creation_failures(self._scope, [job for job in waiting if missing_pods(job)])
        found = {}
        for job in waiting:
            newest = job.of_newest_run()
            active = newest if newest.workload is job.active else job
            evidence = self._evidence(active, snapshot, known, failures.get(job.identity))
            unmade = most_urgent((never_fits.queued(evidence), never_fits.refused(evidence)))
            unplaced_by = scheduling_checks.unscheduled(evidence)
            whole = most_urgent((unmade, unplaced_by))
            if whole is not None:
                told = (item.message if item is not None else "" for item in (whole, unmade, unplaced_by))
                found[job.identity] = WaitingReason(*told)
        return found

    def _waits(self, job: Job) -> bool:
        return job.status(self._keys).word == "Queued" or bool(missing_pods(job)) or bool(_unplaced(job))

    def _evidence(
        self,
        job: Job,
        snapshot: Snapshot | None,
        known: dict[tuple[str, str], SchedulingInput],
        failures: list[Object] | None,
    ) -> Evidence:
        namespace, lacks = job.identity.namespace, missing_pods(job)
        is_queued = job.workload is not None and job.status(self._keys).word == "Queued"
        kueue = self._kueue if is_queued else None
        admission = None
        if kueue and job.workload is not None:
            admission = waiting_workload(kueue.workloads or [], job.workload, job.pods)
        return Evidence(
            job,
            self._keys,
            self._settings,
            self._now,
            events=failures,
            snapshot=snapshot,
            claims=self._claims_of(namespace, _unplaced(job)),
            quotas=self._quotas.get(namespace, []) if lacks and self._quotas is not None else None,
            kueue_workload=admission,
            kueue=kueue,
            scheduling_inputs=known,
            skips_suggestions=True,
        )

    def _claims_of(self, namespace: str, pods: Iterable[Object]) -> dict[str, Object | None]:
        names = {name for pod in pods for name in mounted_claims(pod["spec"])}
        if not names or self._claims is None:
            return {}
        return {name: self._claims.get((namespace, name)) for name in names}

    @cached_property
    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._scope.session.server_time(), timezone.utc)

    @cached_property
    def _quotas(self) -> Mapping[str, list[Object]] | None:
        listed = self._scope.all_if_allowed("ResourceQuota", why=say("the numbers are taken from the refusal"))
        found: dict[str, list[Object]] = {}
        for item in listed or []:
            found.setdefault(item["metadata"]["namespace"], []).append(item)
        return None if listed is None else found

    @cached_property
    def _claims(self) -> Mapping[tuple[str, str], Object] | None:
        listed = self._scope.all_if_allowed("PersistentVolumeClaim", why=say("whether they exist is unknown"))
        if listed is None:
            return None
        return {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in listed}

    @cached_property
    def _kueue(self) -> KueueLists:
        return read_kueue(self._scope)

    @cached_property
    def _snapshot(self) -> Snapshot | None:
        return read_snapshot(self._scope)


def _unplaced(job: Job) -> list[Object]:
    return [pod for pod in job.pods if is_unscheduled(pod) and not pod["metadata"].get("deletionTimestamp")]
