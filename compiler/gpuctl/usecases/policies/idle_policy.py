"""The platform's policy for idle GPUs (``usage.idle``), and the limits of notebooks: warn owners of jobs, or pause the
jobs.

The collector's database says which uids are idle, the cluster which jobs have them now. Only jobs created by gpuctl are
changed, and only if they still have the uid that was idle. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuctl.acts import pausing
from gpuctl.apply.run.checkpointing import checkpoint_target, run_checkpoints
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.kube.api_errors import ClusterError, NotPossible, NotThere
from gpuctl.kube.cluster_identity import read_cluster_uid
from gpuctl.kube.session import Session
from gpuctl.kube.webhook_request import post
from gpuctl.language.amount_fields import percent
from gpuctl.language.usage_block import UsageIdle
from gpuctl.objects.api_resources import Object, key_of, labels_of
from gpuctl.objects.durations import HOUR, parse_duration, rough_duration
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.jobs.job_objects import Job, read_jobs_without_pods
from gpuctl.reading.jobs.pausable_jobs import pausable_jobs
from gpuctl.usecases.policies.idle_verdicts import IdleJob, IdleJudgement, IdleVerdict, warned_at, webhook_body
from gpuctl.usecases.policies.notebook_policy import GpuUse, has_limits, notebooks_at_limits
from gpuctl.usecases.queries.read_context import ReadContext

if TYPE_CHECKING:
    from gpuctl_usage.answers.idle_gpu_answers import IdleWorkload
    from gpuctl_usage.store.database import Database

MAX_WRITE_AGE = 30 * 60.0
"""Maximum age of the collector's last write, seconds: a job may have become busy since."""
MAX_SNAPSHOT_AGE = 10 * 60.0
"""Maximum age of the last snapshot, seconds: the collector takes one every 5 minutes."""
MAX_IDLE_HOUR_AGE = 90 * 60.0
"""Maximum age of a job's last idle hour, seconds: hours are summed up shortly after their end."""
LONGEST_SAVING = 300.0
"""Maximum seconds to wait for a job's checkpoint before the next job is handled."""
MEASURED = 0.9
"""Minimum measured share of each hour, 0 to 1."""


class _Usage(NamedTuple):
    """The idle time and the current use of all workloads with GPUs in a collected cluster."""

    cluster: str
    idle: list[IdleWorkload]
    use: GpuUse


def judge_idle_jobs(database: Database | None, reader: ReadContext, policy: UsageIdle | None) -> IdleJudgement:
    """Return the idle workloads with the action for each, those with the most idle GPU time first, then the notebooks
    at a limit of their documents.

    :param database: None: the use of GPUs is unknown, so that only notebooks are judged.
    :param policy: None: only notebooks are judged.
    :raises NotThere: the database has no usage of this cluster.
    :raises NotPossible: the collector is behind, so the idle workloads are unknown.
    """
    jobs, now = read_jobs_without_pods(reader.scope, reader.keys), reader.scope.session.server_time()
    usage = _Usage("", [], GpuUse({}, {}, UsageIdle().below, "no usage database is set"))
    try:
        usage = usage if database is None else _read_usage(database, reader, policy or UsageIdle(), now)
    except (NotThere, NotPossible) as error:
        if policy is not None:
            raise
        usage = usage._replace(use=usage.use._replace(unknown=error.message))
    names = pausable_jobs(jobs, reader.keys)
    notebooks = list(notebooks_at_limits(reader, jobs, names, usage.use, now))
    own = {job.uid for job in notebooks if job.verdict is IdleVerdict.PAUSE}
    idle = [] if policy is None else _idle_by_policy(jobs, names, usage, policy, reader.keys)
    has_rules = policy is not None or has_limits(jobs, reader.keys)
    return IdleJudgement(usage.cluster, [*(job for job in idle if job.uid not in own), *notebooks], has_rules)


def _read_usage(database: Database, reader: ReadContext, policy: UsageIdle, now: float) -> _Usage:
    from gpuctl_usage.answers.idle_gpu_answers import IdleRule, idle_workloads
    from gpuctl_usage.answers.name_answers import cluster_of
    from gpuctl_usage.answers.snapshot_answers import latest_utilization

    found = cluster_of(database, read_cluster_uid(reader.scope.session))
    if found is None:
        raise NotThere("the database has no usage of this cluster", "name the one that is collected from it")
    if found.last_seen is None or now - found.last_seen > MAX_WRITE_AGE:
        said = "never" if found.last_seen is None else f"{rough_duration(now - found.last_seen)} ago"
        raise NotPossible(
            f"idle jobs are unknown: the collector last wrote usage data {said}",
            "check that `gpuctl usage collect` runs",
        )
    rule = IdleRule(below=percent(policy.below), coverage=MEASURED, after=1.0)
    namespaces = None if reader.scope.namespace is None else [reader.scope.namespace]
    idle = idle_workloads(database, found.name, now - HOUR, now, rule=rule, namespaces=namespaces)
    used = latest_utilization(database, found.name, now - MAX_SNAPSHOT_AGE)
    # A job that is busy now is not idle, whatever its last hours were.
    current = [
        item
        for item in idle
        if now - item.until <= MAX_IDLE_HOUR_AGE and (used.get(item.workload.uid) or 0.0) < percent(policy.below)
    ]
    times = {item.workload.uid: item.until - item.since for item in current}
    return _Usage(found.name, current, GpuUse(times, used, policy.below))


def _idle_by_policy(
    jobs: list[Job], names: Mapping[str, str], usage: _Usage, policy: UsageIdle, keys: Records
) -> list[IdleJob]:
    after = float(parse_duration(policy.after) or 0)
    lives = {str(job.workload["metadata"]["uid"]): job.workload for job in jobs if job.workload is not None}
    found = []
    for item in usage.idle:
        uid = item.workload.uid
        # A job that has ended or is paused frees its GPUs soon.
        if item.until - item.since < after or (uid in lives and uid not in names):
            continue
        job = _judged(item, names, lives, policy, keys.idle)
        if job.verdict.is_to_do and usage.use.used.get(uid) is None:
            job = job._replace(verdict=IdleVerdict.UNKNOWN)
        found.append(job)
    return found


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
        (item.until - item.since) / HOUR,
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
    return IdleVerdict.WARNED if warned_at(live, mark) >= since else IdleVerdict.WARN


def act_on(
    reader: ReadContext, job: IdleJob, cluster: str, webhook: str | None, audit: Callable[[IdleJob, str], None]
) -> None:
    """Warn the owner of a job or pause it, and report that to a webhook.

    :param audit: called with the result, ``done`` or an error, before the webhook is.
    :raises ClusterError: the action or the webhook failed.
    """
    try:
        _warn_or_pause(reader, job)
    except ClusterError as error:
        audit(job, error.message)
        raise
    audit(job, "done")
    if webhook is not None:
        post(webhook, webhook_body(job, cluster))


def _warn_or_pause(reader: ReadContext, job: IdleJob) -> None:
    """Pause a job, or annotate it with the time of the warning, and create an event.

    A job is checkpointed before it is paused: idle GPUs are no reason to lose its progress.

    :raises ClusterError: the API server rejects it, the job has ended, or its checkpoint failed.
    """
    session, now = reader.scope.session, reader.scope.session.server_time()
    assert job.live is not None
    if job.verdict is IdleVerdict.PAUSE:
        run_checkpoints(
            session,
            [checkpoint_target(job.live, reader.keys)],
            reader.keys,
            RunCallbacks(longest_checkpoint=LONGEST_SAVING),
        )
        pausing.pause(session, job.live, reader.keys, job.reason)
    else:
        # The uid makes the patch fail for a job that was recreated and may not be idle.
        metadata = {"uid": job.live["metadata"]["uid"], "annotations": {reader.keys.idle: format_timestamp(now)}}
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
        "reason": job.event,
        "message": job.message,
        "source": {"component": "gpuctl"},
        "firstTimestamp": format_timestamp(now),
        "lastTimestamp": format_timestamp(now),
        "count": 1,
    }
    session.request("POST", f"/api/v1/namespaces/{key.namespace}/events", body=event)
