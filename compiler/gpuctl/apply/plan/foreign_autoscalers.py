"""Autoscalers that are not gpuctl's: an apply leaves to them the replicas that they set."""

from __future__ import annotations

from collections.abc import Collection

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.plan_draft import PlanDraft
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, SERVICES, Key, Object, controller_of, key_of
from gpuctl.objects.ownership_metadata import is_ours


def keep_autoscaled_replicas(session: Session, draft: PlanDraft, request: ApplyRequest) -> None:
    """Leave replicas to the foreign autoscalers that set them, and note it."""
    moved = {}
    for item in request.lowered:
        key, spec = key_of(item.object), item.object.get("spec") or {}
        live = draft.live.objects.get(key)
        if live is not None and key.kind in SERVICES and "replicas" in spec:
            have = (live.get("spec") or {}).get("replicas", 1)
            if have != spec["replicas"]:
                moved[key] = (have, spec["replicas"])
    scalers = _foreign_autoscalers(session, moved, draft.plan.notes)
    draft.autoscaled = frozenset(scalers)
    for key, scaler in sorted(scalers.items()):
        have, says = moved[key]
        draft.plan.notes.append(
            say(
                "{object} keeps its replicas ({have}, the document states {stated}): the HorizontalPodAutoscaler "
                "{scaler}, which is not gpuctl's, sets them",
                object=key,
                have=have,
                stated=says,
                scaler=scaler,
            )
        )


def _foreign_autoscalers(session: Session, services: Collection[Key], notes: list[str]) -> dict[Key, str]:
    """Return the name of the autoscaler that is not gpuctl's, for each of these services that has one.

    :param notes: a note on each namespace whose autoscalers may not be read is added.
    """
    found = {}
    for namespace in sorted({key.namespace for key in services}):
        try:
            scalers, _ = session.list_objects(RESOURCES["HorizontalPodAutoscaler"], namespace)
        except ApiError as error:
            if not error.lacks_permission:
                raise
            notes.append(
                say("autoscalers in {namespace} could not be read: {error}", namespace=namespace, error=error.message)
            )
            continue
        for scaler in scalers:
            key = _target(scaler)
            if key in services and not _is_of_job(scaler, key.name):
                found[key] = scaler["metadata"]["name"]
    return found


def _is_of_job(scaler: Object, name: str) -> bool:
    """Return True for the autoscaler of a job's document. KEDA's have the labels of its ScaledObject."""
    owner = controller_of(scaler) or {}
    return is_ours(scaler) and name in (scaler["metadata"]["name"], owner.get("name"))


def _target(scaler: Object) -> Key:
    """Return the workload that an autoscaler scales; its group counts, its version does not
    (``scaleForResourceMappings``).
    """
    target = scaler["spec"].get("scaleTargetRef") or {}
    group = str(target.get("apiVersion", "")).rpartition("/")[0]
    kind = str(target.get("kind", ""))
    is_known = kind in SERVICES and group == RESOURCES[kind].group
    return Key(kind if is_known else "", scaler["metadata"]["namespace"], str(target.get("name", "")))
