"""The notebooks that have reached a limit of their documents: ``notebook.stop_after`` or ``notebook.max_lifetime``.

The activity comes from the last line of the notebook's sidecar. A notebook is not paused without recent activity data,
or without measurements of its GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gpuctl.acts import pausing
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.names import ACTIVITY_CONTAINER
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Object, annotations_of, controller_uid, key_of, labels_of
from gpuctl.objects.durations import HOUR, format_duration, rough_duration
from gpuctl.objects.label_names import owner_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.timestamps import format_timestamp, seconds_of
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.job_rows import PlatformKeys, gpus_of_pod, platform_keys, with_claimed_gpus
from gpuctl.reading.jobs.notebook_limits import LimitSeconds, limits_of, start_of
from gpuctl.reading.jobs.status import one_line
from gpuctl.usecases.policies.idle_verdicts import IdleJob, IdleVerdict, warned_at
from gpuctl.usecases.queries.read_context import ReadContext

_FRESH = 15 * 60.0
"""Maximum age of the sidecar's last line, seconds: it prints one every 5 minutes."""
_CLOCK_SKEW = 5 * 60.0
_LINE = 4096


class GpuUse(NamedTuple):
    """The use of GPUs by workloads.

    :param idle: uid -> seconds for which a workload's GPUs have been idle until now.
    :param used: uid -> utilization now in percent; None if it is not measured.
    :param below: utilization under which GPUs are idle.
    :param unknown: why all of this is unknown; "" if it is known.
    """

    idle: Mapping[str, float]
    used: Mapping[str, float | None]
    below: str
    unknown: str = ""

    def problem(self, uid: str) -> str:
        """Return why the use of a workload's GPUs is unknown; "" if it is known."""
        if self.unknown:
            return say("the use of its GPUs is unknown: {reason}", reason=self.unknown)
        return say("the use of its GPUs is not measured") if self.used.get(uid) is None else ""


class Activity(NamedTuple):
    """The last activity of a notebook; ``unknown``: why it is not known, "" if it is."""

    last: float
    unknown: str = ""


def has_limits(jobs: Iterable[Job], keys: Records) -> bool:
    """Return True if a job is a notebook with limits."""
    return any(
        job.identity.kind == "notebook" and job.workload is not None and any(limits_of(job.workload, keys))
        for job in jobs
    )


def notebooks_at_limits(
    reader: ReadContext, jobs: Iterable[Job], names: Mapping[str, str], use: GpuUse, now: float
) -> Iterator[IdleJob]:
    """Yield the notebooks that are to be warned about or paused, and those whose activity should be known and is not.

    :param names: uid of the workload -> name of the job, of the jobs that can be paused.
    """
    limited = [job for job in jobs if has_limits([job], reader.keys) and _uid(job) in names]
    if not limited:
        return
    pods = reader.scope.all("Pod", labels=f"{reader.keys.job_type}=notebook")
    running = {str(controller_uid(pod)): pod for pod in pods if start_of(pod) is not None}
    own = [replace(job, pods=[running[_uid(job)]]) for job in limited if _uid(job) in running]
    counted = with_claimed_gpus(platform_keys(reader.settings, reader.keys), reader.scope, own)
    for job in limited:
        pod = running.get(_uid(job))
        start = start_of(pod) if pod is not None else None
        if pod is not None and start is not None:
            judged = _judged(reader, job, pod, start, use, now, _gpus(pod, counted))
            if judged is not None:
                yield judged._replace(name=names[_uid(job)])


def _judged(
    reader: ReadContext, job: Job, pod: Object, start: float, use: GpuUse, now: float, gpus: float
) -> IdleJob | None:
    live = job.workload
    assert live is not None
    limits, keys = limits_of(live, reader.keys), reader.keys
    found = IdleJob(
        job.identity.namespace,
        key_of(live).kind,
        job.identity.name,
        owner_of(labels_of(live), annotations_of(live)),
        gpus,
        start,
        (now - start) / HOUR,
        IdleVerdict.PAUSE,
        live,
    )
    at_end = _lifetime(found, limits, now)
    if at_end is not None and at_end.verdict is IdleVerdict.PAUSE:
        return _for_tracker(at_end, keys)
    idle = _idle(reader, found, pod, limits.stop_after, use, now) if limits.stop_after is not None else None
    if idle is not None and idle.verdict is IdleVerdict.PAUSE:
        return _for_tracker(idle, keys)
    if at_end is not None and warned_at(live, keys.idle) >= limits.warned_from(start):
        at_end = at_end._replace(verdict=IdleVerdict.WARNED)
    return at_end or idle


def _lifetime(found: IdleJob, limits: LimitSeconds, now: float) -> IdleJob | None:
    """Return the notebook if its lifetime has ended or is about to."""
    end = limits.end(found.since)
    if limits.max_lifetime is None or now < limits.warned_from(found.since):
        return None
    if now >= end:
        field = f"`notebook.max_lifetime: {format_duration(int(limits.max_lifetime))}`"
        cause: str = say(
            "it ran for {duration}, since {time} ({field})",
            duration=rough_duration(now - found.since),
            time=format_timestamp(found.since),
            field=field,
        )
        return found._replace(limit="max_lifetime", cause=cause)
    cause = limits.lifetime_warning(found.since, now)
    return found._replace(limit="max_lifetime", cause=cause, verdict=IdleVerdict.WARN)


def _idle(
    reader: ReadContext, found: IdleJob, pod: Object, stop_after: float, use: GpuUse, now: float
) -> IdleJob | None:
    """Return the notebook if it was not used for ``stop_after``, or if that is unknown."""
    if now - found.since < stop_after:
        return None
    activity = read_activity(reader.scope.session, pod, now)
    reported = seconds_of(annotations_of(found.live or {}).get(reader.keys.last_used)) or 0.0
    last = max(activity.last, found.since, reported if reported <= now + _CLOCK_SKEW else 0.0)
    if not activity.unknown and now - last < stop_after:
        return None
    unknown, uid = activity.unknown, found.uid or ""
    if found.gpus and not unknown:
        unknown = use.problem(uid)
        if not unknown and use.idle.get(uid, 0.0) < stop_after:
            return None
    if unknown:
        cause = say("not paused by `notebook.stop_after`: {reason}", reason=unknown)
        return found._replace(limit="stop_after", verdict=IdleVerdict.UNKNOWN, cause=cause)
    field = f"`notebook.stop_after: {format_duration(int(stop_after))}`"
    cause = say(
        "no activity for {duration}, since {time} ({field})",
        duration=rough_duration(now - last),
        time=format_timestamp(last),
        field=field,
    )
    return found._replace(limit="stop_after", since=last, hours=(now - last) / HOUR, cause=cause)


def _for_tracker(found: IdleJob, keys: Records) -> IdleJob:
    """Return a warning in place of a pause that a GitOps controller would undo."""
    assert found.live is not None
    if pausing.pause_undone_by(found.live) is None:
        return found
    warned = warned_at(found.live, keys.idle) >= found.since
    return found._replace(verdict=IdleVerdict.WARNED if warned else IdleVerdict.WARN)


def read_activity(session: Session, pod: Object, now: float) -> Activity:
    """Return the last activity of a notebook as its sidecar reports it."""
    metadata = pod["metadata"]
    path = f"{RESOURCES['Pod'].path(metadata['namespace'], metadata['name'])}/log"
    query = {"container": ACTIVITY_CONTAINER, "tailLines": "1", "limitBytes": str(_LINE)}
    try:
        text = session.text(path, query)
    except ClusterError as error:
        return Activity(0.0, say("its activity cannot be read: {error}", error=one_line(error.message)))
    return parse_activity(text, now)


def parse_activity(text: str, now: float) -> Activity:
    """Return the activity in the last line of a sidecar. The owner of the notebook can make it print anything."""
    try:
        found = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Activity(0.0, say("its container {container} has reported nothing yet", container=ACTIVITY_CONTAINER))
    if "unknown" in found:
        return Activity(0.0, say("its activity is unknown: {reason}", reason=one_line(str(found["unknown"]))))
    printed, last = (seconds_of(found.get(name)) for name in ("time", "last_activity"))
    if printed is None or last is None or not now - _FRESH <= printed <= now + _CLOCK_SKEW:
        return Activity(
            0.0, say("its container {container} has reported nothing for 15 minutes", container=ACTIVITY_CONTAINER)
        )
    return Activity(now if found.get("busy") else min(last, now))


def _gpus(pod: Object, found: PlatformKeys) -> float:
    """Return the number of GPUs of a pod; one if its claims may be for GPUs, whose use then has to be known."""
    namespace, claims = pod["metadata"]["namespace"], pod["spec"].get("resourceClaims") or []
    templates = {(namespace, claim.get("resourceClaimTemplateName")) for claim in claims}
    return float(gpus_of_pod(pod, found) or not templates <= found.requested.keys())


def _uid(job: Job) -> str:
    return str((job.workload or {"metadata": {}})["metadata"].get("uid"))
