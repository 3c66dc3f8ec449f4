"""Autoscalers of services: HorizontalPodAutoscalers, and KEDA's ScaledObjects, from which KEDA creates one."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object, annotations_of

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
    """Return the patch that undoes :func:`pause_patch`; None if the autoscaler is not paused."""
    annotations = annotations_of(scaler)
    if scaler["kind"] == "ScaledObject":
        return {"metadata": {"annotations": {KEDA_PAUSE: None}}} if KEDA_PAUSE in annotations else None
    if mark not in annotations:
        return None
    return {"metadata": {"annotations": {mark: None}}, "spec": {"minReplicas": int(annotations[mark])}}


def keep_paused(desired: Object, live: Object, mark: str) -> None:
    """Carry the pause of a live autoscaler over to the object that is to be applied."""
    annotations = annotations_of(live)
    kept = {key: annotations[key] for key in (KEDA_PAUSE, mark) if key in annotations}
    if not kept:
        return
    desired["metadata"]["annotations"] = {**annotations_of(desired), **kept}
    if mark in kept:
        desired["spec"]["minReplicas"] = 1
