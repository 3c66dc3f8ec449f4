"""Trainings that their ttl has removed: an apply of the same document does not run them again.

The cluster does not record that a removed Job had finished. Known are the document that was applied last and when (the
history), that the object is gone, and that gpuctl has not deleted it. If its ttl may have passed since, the plan
creates nothing, and its reason names these facts.

Any user who may create Secrets in a namespace can write the history of its jobs, and of no others. At worst a forged
entry makes a training of this namespace wait for `gpuctl rerun`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.last_applied import document_objects
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.state.compare import compare, in_place_paths
from gpuctl.apply.state.field_paths import is_pod_metadata
from gpuctl.apply.state.live_state import COMPANIONS
from gpuctl.apply.state.past_documents import PastDocument, job_of_secret, read_history, without_credentials
from gpuctl.hints import JobHint
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import RESOURCES, TRAININGS, Key, Object, key_of
from gpuctl.objects.durations import format_duration, parse_duration
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.timestamps import parse_timestamp

# Fields whose change does not rerun an existing training, so that it does not rerun a removed one either.
_IN_PLACE = ("labels", "annotations", "description", "ttl", "checkpoint")
_FEW = 20


def keep_expired(
    session: Session, plan: Plan, steps: dict[Key, Step], request: ApplyRequest, interrupted: Collection[Key]
) -> None:
    """Turn the creation of trainings that their ttl has presumably removed into steps without changes.

    A Service or hostfile of such a training is not created either. Reads only.

    :param interrupted: the objects that an interrupted run may have deleted: their ttl has removed none of them.
    """
    if request.planning.create_only or request.rerun:
        return
    absent: dict[str, dict[str, Step]] = {}
    for step in steps.values():
        if step.action == "create" and step.key not in interrupted and _ttl(step) is not None:
            absent.setdefault(step.key.namespace, {})[step.key.name] = step
    for namespace, jobs in sorted(absent.items()):
        try:
            secrets = _history(session, namespace, sorted(jobs), request.keys.history)
        except ApiError as error:
            if not error.lacks_permission:
                raise
            plan.notes.append(
                say(
                    "whether trainings in {namespace} have run before is unknown, they are created: {error}",
                    namespace=namespace,
                    error=error.message,
                )
            )
            continue
        found = []
        for name, step in jobs.items():
            own = [secret for secret in secrets if job_of_secret(secret, request.keys) == name]
            past = next((one for one in read_history(own, name, request.keys) if one.invalid_reason is None), None)
            if past is not None:
                found.append((step, past))
        now = session.server_time() if found else 0.0
        for step, past in found:
            _decide(plan, steps, step, past, request, now)


def _ttl(step: Step) -> int | None:
    """Return the seconds after which Kubernetes deletes the finished training; None if it keeps it."""
    if step.key.kind not in TRAININGS or step.desired is None:
        return None
    found = step.desired["spec"].get("ttlSecondsAfterFinished")
    return found if isinstance(found, int) else None


def _history(session: Session, namespace: str, names: list[str], label: str) -> list[Object]:
    labels = f"{label} in ({','.join(names)})" if len(names) <= _FEW else label
    return session.list_objects(RESOURCES["Secret"], namespace, labels=labels)[0]


def _decide(
    plan: Plan, steps: dict[Key, Step], step: Step, past: PastDocument, request: ApplyRequest, now: float
) -> None:
    """Keep a training if its ttl has presumably removed it.

    :param past: the document that was applied last.
    :param now: the time by the API server's clock, seconds since the epoch.
    """
    assert step.desired is not None
    embedded = document_of(step.desired, request.keys.document)
    document, credentials = without_credentials(embedded or {})
    if embedded is None or past.deleted or not _is_same_run(step.key, document, past.document, request.settings):
        return
    ttl = parse_duration(str((past.document.get("job") or {}).get("ttl"))) or _ttl(step) or 0
    if _seconds_since(past.when, now) < ttl:
        # Removed before its ttl, so not by Kubernetes.
        return
    if credentials or past.masked:
        plan.notes.append(
            say(
                "{job} is created again though its ttl has presumably removed it: whether its document is the same is "
                "unknown, as the history does not keep {names}; refer to a Secret there",
                job=step.title,
                names=list(credentials or past.masked),
            )
        )
        return
    step.action, step.method, step.desired, step.expired = "unchanged", "none", None, True
    step.reason = say(
        "kept: applied on {time} UTC and gone since; presumably it finished and its ttl ({ttl}) removed it; {command} "
        "runs it again",
        time=past.when[:16].replace("T", " "),
        ttl=format_duration(ttl),
        command=JobHint("rerun", step.key.name, step.key.namespace),
    )
    for key in list(_created_beside(steps.values(), step)):
        del steps[key]


def _created_beside(steps: Iterable[Step], main: Step) -> Iterator[Key]:
    for step in steps:
        is_of_job = step.title == main.title and step.key.namespace == main.key.namespace
        if is_of_job and step.key.kind in COMPANIONS and step.action == "create":
            yield step.key


def _is_same_run(key: Key, new: dict[str, Any], old: dict[str, Any], settings: Settings) -> bool:
    """Return True if two documents are equal, or yield equal pods."""
    if _essence(new) == _essence(old):
        return True
    after, before = (
        next((obj for obj in document_objects(document, key.namespace, settings) or () if key_of(obj) == key), None)
        for document in (new, old)
    )
    if after is None or before is None:
        return False
    changes = (*compare(key.kind, after, before).changes, *compare(key.kind, before, after).changes)
    in_place = in_place_paths(after)
    return all(change.path in in_place or is_pod_metadata(change.path) for change in changes)


def _essence(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the fields that change in place."""
    job = {key: value for key, value in (document.get("job") or {}).items() if key not in _IN_PLACE}
    return {**{key: value for key, value in document.items() if key != "placement"}, "job": job}


def _seconds_since(when: str, now: float) -> float:
    """Return the seconds since a time of the API server (RFC 3339); -1 if it is invalid."""
    try:
        then = parse_timestamp(when)
    except ValueError:
        return -1
    return now - then.timestamp()
