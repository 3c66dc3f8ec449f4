"""The platform's policy for idle GPUs (``usage.idle``): warn the owners of jobs, or pause the jobs.

The collector's database says which uids are idle, the cluster which jobs have them now. Only jobs created by gpuctl are
changed, and only if they still have the uid that was idle. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuctl.acts import pausing
from gpuctl.apply.run.checkpointing import checkpoint_target, run_checkpoints
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import NotPossible, NotThere
from gpuctl.kube.session import Session
from gpuctl.language.fields import percent
from gpuctl.language.platform_document import UsageIdle
from gpuctl.objects.api_resources import Key, Object, annotations_of, key_of, labels_of
from gpuctl.objects.durations import parse_duration, rough_duration
from gpuctl.reading.gpu_time import to_rfc3339
from gpuctl.reading.job_rows import read_jobs_without_pods
from gpuctl.reading.pausable_jobs import pausable_jobs
from gpuctl.usecases.read_context import ReadContext

if TYPE_CHECKING:
    from gpuctl_usage.answers.waste_answers import IdleWorkload
    from gpuctl_usage.store.database import Database

FRESH = 30 * 60.0
"""Maximum age of the collector's last write, seconds: a job may have become busy since."""
NOW = 10 * 60.0
"""Maximum age of the last snapshot, seconds: the collector takes one every 5 minutes."""
CURRENT = 90 * 60.0
"""Maximum age of a job's last idle hour, seconds: hours are summed up shortly after their end."""
LONGEST_SAVING = 300.0
"""Maximum seconds to wait for a job's checkpoint before the next job is handled."""
MEASURED = 0.9
"""Minimum measured share of each hour, 0 to 1."""


class IdleVerdict(str, Enum):
    """The action for an idle job."""

    WARN = "warn"
    PAUSE = "pause"
    WARNED = "warned already"
    UNKNOWN = "unknown"
    """The current utilization is not measured."""
    EXCEPTED = "excepted"
    FOREIGN = "not gpuctl's"

    @property
    def is_to_do(self) -> bool:
        """Return True if the job is to be warned about or paused."""
        return self in {IdleVerdict.WARN, IdleVerdict.PAUSE}


class IdleJob(NamedTuple):
    """A workload that holds idle GPUs.

    :param name: name of the job for `gpuctl pause`; of a foreign workload its own name.
    :param owner: owner from labels; None if no label names one.
    :param since: start of the idle time, seconds since 1970; ``hours``: its length.
    :param live: the workload object; None if gpuctl did not create it.
    """

    namespace: str
    kind: str
    name: str
    owner: str | None
    gpus: float
    since: float
    hours: float
    verdict: IdleVerdict
    live: Object | None

    @property
    def message(self) -> str:
        """Return the message to the owner."""
        number = f"{self.gpus:g} GPU{' has' if self.gpus == 1 else 's have'}"
        said = f"{number} been idle for {rough_duration(self.hours * 3600)}, since {to_rfc3339(self.since)}"
        tracker = pausing.pause_undone_by(self.live) if self.live is not None else None
        if tracker is not None:
            return f"{said}; {tracker} sets its replicas: scale it down in its repository to free them"
        if self.verdict is IdleVerdict.PAUSE:
            return f"{said}: the job is paused; {JobHint('resume', self.name, self.namespace)} continues it"
        return f"{said}; {JobHint('pause', self.name, self.namespace)} frees them"


class IdleJudgement(NamedTuple):
    """The idle workloads of a cluster."""

    cluster: str
    jobs: list[IdleJob]


def judge_idle_jobs(database: Database, reader: ReadContext, policy: UsageIdle, now: float) -> IdleJudgement:
    """Return the idle workloads with the action for each, those with the most idle GPU time first.

    :raises NotThere: the database has no usage of this cluster.
    :raises NotPossible: the collector is behind, so the idle workloads are unknown.
    """
    from gpuctl_usage.answers.name_answers import cluster_of
    from gpuctl_usage.answers.snapshot_answers import latest_utilization
    from gpuctl_usage.answers.waste_answers import IdleRule, idle_workloads

    system = reader.scope.session.get_metadata(Key("Namespace", "", "kube-system"))
    found = cluster_of(database, str((system or {"metadata": {}})["metadata"].get("uid", "")))
    if found is None:
        raise NotThere("the database has no usage of this cluster", "name the one that is collected from it")
    if found.last_seen is None or now - found.last_seen > FRESH:
        said = "never" if found.last_seen is None else f"{rough_duration(now - found.last_seen)} ago"
        raise NotPossible(
            f"idle jobs are unknown: the collector last wrote usage data {said}",
            "check that `gpuctl usage collect` runs",
        )
    after = float(parse_duration(policy.after) or 0)
    rule = IdleRule(below=percent(policy.below), coverage=MEASURED, after=after)
    namespaces = None if reader.scope.namespace is None else [reader.scope.namespace]
    idle = idle_workloads(database, found.name, now - after, now, rule=rule, namespaces=namespaces)
    jobs = read_jobs_without_pods(reader.scope, reader.keys) if idle else []
    names = pausable_jobs(jobs, reader.keys)
    lives = {str(job.workload["metadata"]["uid"]): job.workload for job in jobs if job.workload is not None}
    # A job that has ended or is paused frees its GPUs soon.
    left = [item for item in idle if item.workload.uid in names or item.workload.uid not in lives]
    used = latest_utilization(database, found.name, now - NOW)
    # A job that is busy now is not idle, whatever its last hours were.
    current = [
        item
        for item in left
        if now - item.until <= CURRENT and (used.get(item.workload.uid) or 0.0) < percent(policy.below)
    ]
    judged = [_judged(item, names, lives, policy, reader.keys.idle) for item in current]
    return IdleJudgement(
        found.name,
        [
            job._replace(verdict=IdleVerdict.UNKNOWN)
            if job.verdict.is_to_do and used.get(item.workload.uid) is None
            else job
            for item, job in zip(current, judged, strict=True)
        ],
    )


def _judged(
    item: IdleWorkload, names: Mapping[str, str], lives: Mapping[str, Object], policy: UsageIdle, mark: str
) -> IdleJob:
    key, uid = item.workload, item.workload.uid
    live = lives.get(uid) if uid in names else None
    return IdleJob(
        key.namespace,
        key.kind if live is None else key_of(live).kind,
        names.get(uid, key.name),
        item.owner,
        sum(item.gpus.values()),
        item.since,
        (item.until - item.since) / 3600,
        _verdict(live, item.since, policy, mark),
        live,
    )


def _verdict(live: Object | None, since: float, policy: UsageIdle, mark: str) -> IdleVerdict:
    if live is None:
        return IdleVerdict.FOREIGN
    if not labels_of(live).keys().isdisjoint(policy.exceptions):
        return IdleVerdict.EXCEPTED
    # A GitOps controller would resume a paused job: warn the owner instead.
    if policy.then == "pause" and pausing.pause_undone_by(live) is None:
        return IdleVerdict.PAUSE
    return IdleVerdict.WARNED if _warned_at(live, mark) >= since else IdleVerdict.WARN


def _warned_at(live: Object, mark: str) -> float:
    try:
        return datetime.fromisoformat(annotations_of(live).get(mark, "").replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def warn_or_pause(reader: ReadContext, job: IdleJob, now: float) -> None:
    """Pause a job, or annotate it with the time of the warning, and create an event.

    A job is checkpointed before it is paused: idle GPUs are no reason to lose its progress.

    :raises ClusterError: the API server rejects it, the job has ended, or its checkpoint failed.
    """
    session = reader.scope.session
    assert job.live is not None
    if job.verdict is IdleVerdict.PAUSE:
        run_checkpoints(
            session,
            [checkpoint_target(job.live, reader.keys)],
            reader.keys,
            RunCallbacks(longest_checkpoint=LONGEST_SAVING),
        )
        pausing.pause(session, job.live, reader.keys)
    else:
        # The uid makes the patch fail for a job that was recreated and may not be idle.
        metadata = {"uid": job.live["metadata"]["uid"], "annotations": {reader.keys.idle: to_rfc3339(now)}}
        session.patch(key_of(job.live), {"metadata": metadata})
    _tell(session, job, now)


def _tell(session: Session, job: IdleJob, now: float) -> None:
    assert job.live is not None
    key, metadata = key_of(job.live), job.live["metadata"]
    event: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{key.name[:200]}.", "namespace": key.namespace},
        "involvedObject": {
            "apiVersion": job.live["apiVersion"],
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": metadata["uid"],
        },
        "type": "Warning",
        "reason": "PausedIdle" if job.verdict is IdleVerdict.PAUSE else "GPUsIdle",
        "message": job.message,
        "source": {"component": "gpuctl"},
        "firstTimestamp": to_rfc3339(now),
        "lastTimestamp": to_rfc3339(now),
        "count": 1,
    }
    session.request("POST", f"/api/v1/namespaces/{key.namespace}/events", body=event)


def webhook_body(job: IdleJob, cluster: str) -> dict[str, Any]:
    """Return the body of the webhook request."""
    return {
        "cluster": cluster,
        "namespace": job.namespace,
        "kind": job.kind,
        "name": job.name,
        "owner": job.owner,
        "gpus": job.gpus,
        "idleSince": to_rfc3339(job.since),
        "idleHours": round(job.hours, 2),
        "action": job.verdict.value,
        "message": job.message,
    }
