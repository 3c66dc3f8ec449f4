"""Autoscalers of services: HorizontalPodAutoscalers, and KEDA's ScaledObjects, from which KEDA creates one."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.quantities import whole_number

AUTOSCALERS = frozenset({"HorizontalPodAutoscaler", "ScaledObject"})
SCALED = frozenset({"Deployment", "LeaderWorkerSet"})
"""Kinds of workloads that gpuctl gives an autoscaler."""
KEDA_PAUSE = "autoscaling.keda.sh/paused-replicas"
"""Annotation of a ScaledObject with the number of pods that KEDA keeps. KEDA would start a paused service again."""


def replica_range(scaler: Object) -> tuple[int, int]:
    """Return the minimum and maximum number of pods, with the defaults of the two kinds."""
    spec = scaler["spec"]
    if scaler["kind"] == "ScaledObject":
        return int(spec.get("minReplicaCount") or 0), int(spec.get("maxReplicaCount", 100))
    return 1 if spec.get("minReplicas") is None else int(spec["minReplicas"]), int(spec["maxReplicas"])


def pause_patch(scaler: Object, mark: str) -> Object | None:
    """Return the patch that keeps an autoscaler from starting a service with 0 pods; None if it starts none.

    A HorizontalPodAutoscaler does so only with `minReplicas: 0`, so that it gets 1 until the service is resumed.
    Source: ``pkg/controller/podautoscaler/horizontal.go``, reconcileAutoscaler.
    """
    if scaler["kind"] == "ScaledObject":
        is_paused = annotations_of(scaler).get(KEDA_PAUSE) == "0"
        return None if is_paused else {"metadata": {"annotations": {KEDA_PAUSE: "0"}}}
    if replica_range(scaler)[0]:
        return None
    return {"metadata": {"annotations": {mark: "0"}}, "spec": {"minReplicas": 1}}


def resume_patch(scaler: Object, mark: str) -> Object | None:
    """Return the patch that undoes :func:`pause_patch`; None if the autoscaler is not paused.

    The mark states the minimum. Anyone may have written another text: the minimum that is paused is then 0.
    """
    annotations = annotations_of(scaler)
    if scaler["kind"] == "ScaledObject":
        return {"metadata": {"annotations": {KEDA_PAUSE: None}}} if KEDA_PAUSE in annotations else None
    if mark not in annotations:
        return None
    return {"metadata": {"annotations": {mark: None}}, "spec": {"minReplicas": whole_number(annotations[mark]) or 0}}


def keep_paused(desired: Object, live: Object, mark: str) -> None:
    """Carry the pause of a live autoscaler over to the object to be applied, with the minimum of its document."""
    annotations = annotations_of(live)
    kept = {KEDA_PAUSE: annotations[KEDA_PAUSE]} if KEDA_PAUSE in annotations else {}
    if mark in annotations and desired["kind"] != "ScaledObject":
        kept[mark] = str(replica_range(desired)[0])
        desired["spec"]["minReplicas"] = 1
    if kept:
        desired["metadata"]["annotations"] = {**annotations_of(desired), **kept}
