"""The pods and containers of a job that a user means: for logs, exec and port-forward."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import NotThere
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, annotations_of, labels_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.role_jobs import role_of
from gpuctl.objects.workload_state import gets_requests
from gpuctl.reading.jobs.job_objects import INDEX, JOB_LABELS, Identity, Job
from gpuctl.reading.jobs.status import is_ready, pod_status

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_POD_INDEX = "apps.kubernetes.io/pod-index"


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
    running = list(filter(_runs, pods))
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


def select_pods(job: Job, text: str | None) -> list[Object]:
    """Return the pods of a job, or only the one that ``text`` means.

    :param text: a pod's name, its index in the job, its role, its role and index as ``worker-1``, or the end or middle
        of its name, such as its :func:`short_name`. If several pods have one index, as after retries, the newest is
        returned.
    :raises NotThere: no pod or several pods match.
    """
    if text is None:
        return job.pods
    wanted = text.rpartition("/")[2]
    tests: tuple[Callable[[Object, str], bool], ...] = (
        lambda pod, name: name == wanted,
        lambda pod, name: _index_of(pod) == (wanted.lstrip("0") or "0") if wanted.isdecimal() else False,
        lambda pod, name: wanted in _names_in_role(pod),
        lambda pod, name: name.endswith(f"-{wanted}"),
        lambda pod, name: name.startswith(f"{job.identity.object_name}-{wanted}-"),
    )
    for test in tests:
        found = [pod for pod in job.pods if test(pod, pod["metadata"]["name"])]
        if found:
            break
    places = {(labels_of(pod).get(JOB_LABELS[0]), _index_of(pod)) for pod in found}
    if len(found) > 1 and len(places) == 1 and places != {(None, None)}:
        found = found[-1:]
    if len(found) != 1:
        title, names = job.identity.title, [pod["metadata"]["name"] for pod in found or job.pods]
        raise NotThere(
            say("{job} has several pods {name}", job=title, name=wanted)
            if found
            else say("{job} has no pod {name}", job=title, name=wanted),
            (say("write one of {names}", names=names) if found else say("it has {names}", names=names))
            if names
            else say("it has no pods"),
        )
    return found


@lru_cache(maxsize=1024)
def short_name(pod: str, identity: Identity) -> str:
    """Return the part of a pod's name that is unique in its job, without the job's and ReplicaSet's names.

    `logs` prints it before each line, and :func:`select_pods` accepts it.
    """
    rest = pod.removeprefix(f"{identity.object_name}-")
    match = re.fullmatch(r"[a-z0-9]{6,10}-([a-z0-9]{5})", rest)
    return match[1] if match else rest


def _index_of(pod: Object) -> str | None:
    """Return the index of a pod of an indexed Job or a StatefulSet, and of a leader that of its replica; None for other
    pods.
    """
    if not gets_requests(pod):
        return None
    return labels_of(pod).get(INDEX) or annotations_of(pod).get(INDEX) or labels_of(pod).get(_POD_INDEX)


def _names_in_role(pod: Object) -> tuple[str, ...]:
    """Return the pod's role, and the role with the pod's index; empty without roles."""
    role = role_of(pod)
    return () if role is None else (role, f"{role}-{_index_of(pod)}")


def select_container(pod: Object, name: str | None) -> str:
    """Return the named container; without a name the default one by annotation, or the first.

    :raises NotThere: the pod has no such container.
    """
    spec = pod["spec"]
    names = [item["name"] for item in spec["containers"]]
    others = [item["name"] for item in (spec.get("initContainers") or []) + (spec.get("ephemeralContainers") or [])]
    if name is None:
        default = annotations_of(pod).get(DEFAULT_CONTAINER)
        return str(default if default in names else names[0])
    if name not in names + others:
        raise NotThere(
            say("pod {pod} has no container {name}", pod=pod["metadata"]["name"], name=name),
            say("it has {names}", names=[*names + others]),
        )
    return name


def _runs(pod: Object) -> bool:
    """Return True if a pod runs, or at least its own container while another one fails, such as a sidecar."""
    status = pod.get("status") or {}
    states = {item["name"]: item.get("state") or {} for item in status.get("containerStatuses") or []}
    if pod_status(pod).phase == "running":
        return any("running" in state for state in states.values())
    lasts = status.get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    return lasts and "running" in states.get(select_container(pod, None), {})


def _preference(pod: Object, *, ready: bool) -> tuple[bool, bool, list[tuple[int, str]]]:
    """Return the sort key of a running pod: leaders first, then ready ones, then by number: 10 comes after 9."""
    return not gets_requests(pod), ready and not is_ready(pod), _numbered(pod["metadata"]["name"])


def _numbered(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
