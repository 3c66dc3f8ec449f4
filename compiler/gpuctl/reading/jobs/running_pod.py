"""Select the pod of a job for exec and port-forward: the named one, or the first that runs."""

from __future__ import annotations

import re

from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import NotThere
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.workload_state import gets_requests
from gpuctl.reading.jobs.job_objects import Job
from gpuctl.reading.jobs.status import is_ready, pod_status
from gpuctl.reading.logs.log_streams import select_pods


class NoPodRunning(NotThere):
    """No pod of the job runs; the message gives their status."""


def running_pod(job: Job, text: str | None, keys: Records, *, ready: bool = False) -> tuple[Object, int]:
    """Return the pod, and the number of running pods of the job.

    :param ready: prefer a pod that is ready.
    :raises NoPodRunning: the named pod, or every pod, is not running.
    :raises NotThere: the name matches no pod, or several.
    """
    pods = select_pods(job, text)
    title = job.identity.title
    why = JobHint("why", job.identity.name, job.identity.namespace)
    running = [pod for pod in pods if pod_status(pod).phase == "running" and _has_started(pod)]
    if running:
        running.sort(key=lambda pod: _preference(pod, ready=ready))
        return running[0], len(running)
    if not pods:
        status = job.status(keys)
        raise NoPodRunning(say("{title} has no pods: {word}", title=title, word=status.described), str(why))
    newest = pods[-1]
    status = pod_status(newest)
    others = say(" (and {pods} more)", pods=len(pods) - 1) if len(pods) > 1 else ""
    hint = say("{command} shows what it printed", command=why._replace(action="logs"))
    raise NoPodRunning(
        say(
            "pod {pod} of {job} does not run: {status}{others}",
            pod=newest["metadata"]["name"],
            job=title,
            status=status.described,
            others=others,
        ),
        hint if status.phase in ("succeeded", "failed") else say("{command} shows the cause", command=why),
    )


def _has_started(pod: Object) -> bool:
    states = (pod.get("status") or {}).get("containerStatuses") or []
    return any("running" in (item.get("state") or {}) for item in states)


def _preference(pod: Object, *, ready: bool) -> tuple[bool, bool, list[tuple[int, str]]]:
    """Return the sort key of a running pod: leaders first, then ready ones, then by number: 10 comes after 9."""
    return not gets_requests(pod), ready and not is_ready(pod), _numbered(pod["metadata"]["name"])


def _numbered(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
