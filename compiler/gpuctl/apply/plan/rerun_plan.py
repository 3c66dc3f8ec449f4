"""The plan to run a finished training again: the same object with the same records."""

from __future__ import annotations

from gpuctl.apply.plan.lost_work import ended_word
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.hints import JobHint, kubectl_line
from gpuctl.kube.api_errors import NotPossible
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, annotations_of, key_of
from gpuctl.objects.array_jobs import count_indexes, is_array, other_indexes
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.ownership_metadata import FINISHED_INDEXES, Records
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.prerequisites import is_waiting, keep_released, prerequisites_of
from gpuctl.objects.queueing import as_submitted, release
from gpuctl.objects.recreated_objects import recreatable
from gpuctl.objects.scheduled_jobs import is_scheduled
from gpuctl.objects.workload_state import end_state


class NotRerunnable(NotPossible):
    """Only a finished training can be run again; nothing was changed."""


def plan_rerun(
    workload: Object, title: str, keys: Records, queued: Object | None = None, *, failed: bool = False
) -> Plan:
    """Plan to replace a finished Job or JobSet by itself; its old pods and logs are deleted.

    :param queued: its Kueue Workload, if any. The original node selector is restored instead of the one Kueue injected.
    :param failed: run only what has not succeeded: these indexes of an array, or a failed training.
    :raises NotRerunnable: the workload is a service, or has not ended; with ``failed``, it has succeeded.
    """
    key = key_of(workload)
    ended = _end_of(workload, title, keys)
    again = _not_succeeded(workload, title, ended) if failed else ""
    desired = recreatable(workload)
    # Without a request to run, an ended job is recreated suspended; here the user requests a run.
    desired["spec"].pop("suspend", None)
    release(desired)
    # The user requests a run: one that its prerequisites never released does not wait for them now.
    keep_released(desired, workload, keys)
    _relabel_pods(desired, keys)
    if queued is not None:
        as_submitted(desired, queued)
    reason = say("{ended}, runs again", ended=ended_word(ended))
    if again:
        size, done = workload["spec"]["completions"], workload["status"].get("completedIndexes")
        reason = say(
            "{ended}; {number} of {size} indexes run again: {indexes}",
            ended=ended_word(ended),
            number=count_indexes(again),
            size=size,
            indexes=again,
        )
        if done:
            desired["metadata"]["annotations"] = {**annotations_of(desired), FINISHED_INDEXES: done}
    return Plan([Step("replace", key, reason, desired=desired, live=workload, method="post", title=title)])


def _end_of(workload: Object, title: str, keys: Records) -> str:
    """Return how a training has ended.

    :raises NotRerunnable: it is a service or has a schedule, waits for others, or has not ended.
    """
    key = key_of(workload)
    if is_scheduled(workload):
        raise NotRerunnable(
            say("{job} in {namespace} runs again at its next time", job=title, namespace=key.namespace),
            say("{command} starts a run now", command=JobHint("run", key.name, key.namespace)),
        )
    if key.kind not in ("Job", "JobSet"):
        raise NotRerunnable(
            say(
                "{job} in {namespace} is not a training: it runs until it is deleted",
                job=title,
                namespace=key.namespace,
            ),
            say(
                "{command} restarts its pods",
                command=kubectl_line(f"rollout restart {key.resource.plural}/{key.name} -n {key.namespace}"),
            ),
        )
    if is_waiting(workload, keys):
        raise NotRerunnable(
            say(
                "{job} in {namespace} has not run yet: it waits for {names:few}",
                job=title,
                namespace=key.namespace,
                names=list(prerequisites_of(workload, keys.after)),
            ),
            say(
                "{command} shows what is left; applied without `job.after`, it starts",
                command=JobHint("why", key.name, key.namespace),
            ),
        )
    ended = end_state(workload)
    if ended is None:
        raise NotRerunnable(
            say("{job} in {namespace} has not ended", job=title, namespace=key.namespace),
            say("it can run again when it has finished, failed or was deleted"),
        )
    return ended


def _not_succeeded(workload: Object, title: str, ended: str) -> str:
    """Return the indexes of an ended array that have not succeeded, such as ``3,7-9``; "" for another failed training.

    :raises NotRerunnable: the training, or all of its indexes, have succeeded.
    """
    name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
    if not is_array(workload):
        if ended == "failed":
            return ""
        hint = say("{command} runs it again", command=JobHint("rerun", name, namespace))
        raise NotRerunnable(say("{job} in {namespace} has succeeded", job=title, namespace=namespace), hint)
    found = other_indexes(workload["status"].get("completedIndexes") or "", workload["spec"]["completions"])
    if not found:
        hint = say("{command} runs all of them again", command=JobHint("rerun", name, namespace))
        raise NotRerunnable(
            say("all indexes of {job} in {namespace} have succeeded", job=title, namespace=namespace), hint
        )
    return found


def _relabel_pods(desired: Object, keys: Records) -> None:
    """Set the labels and annotations of the pod templates from the object and its document.

    An apply may have patched those of the finished object, but could not patch its template.
    """
    document = document_of(desired, keys.document)
    if document is None:
        return
    job = document.get("job") or {}
    for template, _ in pod_templates(desired):
        metadata = template.setdefault("metadata", {})
        for part in ("labels", "annotations"):
            own = desired["metadata"].get(part) or {}
            stated = job.get(part) or {}
            named = {key for key in (*(metadata.get(part) or {}), *stated) if key in own}
            metadata[part] = {key: own[key] for key in sorted(named)}
            if not metadata[part]:
                del metadata[part]
