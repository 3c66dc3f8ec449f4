"""The verdicts on idle jobs: those that ``gpuctl usage idle`` warns about or pauses. Times are seconds since 1970."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

from gpuctl.acts import pausing
from gpuctl.hints import JobHint
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.durations import HOUR, rough_duration
from gpuctl.objects.timestamps import format_timestamp, seconds_of


class IdleVerdict(str, Enum):
    """The action for an idle job."""

    WARN = "warn"
    PAUSE = "pause"
    WARNED = "warned already"
    UNKNOWN = "unknown"
    """The current utilization is not measured, or the activity of a notebook is not known."""
    EXCEPTED = "excepted"
    FOREIGN = "not gpuctl's"

    @property
    def is_to_do(self) -> bool:
        """Return True if the job is to be warned about or paused."""
        return self in {IdleVerdict.WARN, IdleVerdict.PAUSE}


class IdleJob(NamedTuple):
    """A workload that holds idle GPUs, or a notebook at one of its limits.

    :param name: name of the job for `gpuctl pause`; of a foreign workload its own name.
    :param owner: owner from labels; None if no label names one.
    :param since: start of the idle time, seconds since 1970; ``hours``: its length. Of a notebook at the end of its
        lifetime: the start of its pod.
    :param live: the workload object; None if gpuctl did not create it.
    :param limit: the field of the document that sets the limit; "" for the platform's policy.
    :param cause: of a notebook, why it is warned about, paused, or neither.
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
    limit: str = ""
    cause: str = ""

    @property
    def uid(self) -> str | None:
        """Return the uid of the workload object; None if gpuctl did not create it."""
        return None if self.live is None else str(self.live["metadata"]["uid"])

    @property
    def reason(self) -> str:
        """Return why the job is idle, for the object and its owner."""
        if self.cause:
            return self.cause
        number = f"{self.gpus:g} GPU{' has' if self.gpus == 1 else 's have'}"
        return f"{number} been idle for {rough_duration(self.hours * HOUR)}, since {format_timestamp(self.since)}"

    @property
    def message(self) -> str:
        """Return the message to the owner."""
        tracker = pausing.pause_undone_by(self.live) if self.live is not None else None
        if tracker is not None:
            return f"{self.reason}; {tracker} sets its replicas: scale it down in its repository to free them"
        if self.verdict is IdleVerdict.PAUSE:
            return f"{self.reason}: the job is paused; {JobHint('resume', self.name, self.namespace)} continues it"
        if self.limit:
            return self.reason
        return f"{self.reason}; {JobHint('pause', self.name, self.namespace)} frees them"

    @property
    def event(self) -> str:
        """Return the reason of the event for the owner."""
        if self.limit == "max_lifetime":
            return "LifetimeEnded" if self.verdict is IdleVerdict.PAUSE else "LifetimeEnds"
        return "PausedIdle" if self.verdict is IdleVerdict.PAUSE else "GPUsIdle"


class IdleJudgement(NamedTuple):
    """The idle workloads of a cluster. ``has_rules``: the platform has a policy, or a notebook has limits."""

    cluster: str
    jobs: list[IdleJob]
    has_rules: bool


def warned_at(live: Object, mark: str) -> float:
    """Return the time of the last warning about a job, from its annotation ``mark``; 0 without one."""
    return seconds_of(annotations_of(live).get(mark, "")) or 0.0


def webhook_body(job: IdleJob, cluster: str) -> dict[str, Any]:
    """Return the body of the webhook request."""
    return {
        "cluster": cluster,
        "namespace": job.namespace,
        "kind": job.kind,
        "name": job.name,
        "owner": job.owner,
        "gpus": job.gpus,
        "idleSince": format_timestamp(job.since),
        "idleHours": round(job.hours, 2),
        "action": job.verdict.value,
        "message": job.message,
    }
