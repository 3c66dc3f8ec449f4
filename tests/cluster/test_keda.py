"""Services that KEDA scales, without KEDA: what gpuctl writes, and how it pauses a service that another may start."""

from __future__ import annotations

import pytest

from fault_tools.proxy import Action, Proxy, Request, matching, on, refuse
from support.cluster_tools import PAUSED, Place, inference

KEDA_PAUSE = "autoscaling.keda.sh/paused-replicas"
PLATFORM = "prometheus: http://prometheus:9090\nautoscaling: {keda: true, scaleToZero: true}"
QUERY = {"query": "sum(waiting)", "target": 5}
SCALING = {"enabled": True, "minReplicas": 0, "maxReplicas": 3, "metric": QUERY}


def test_paused_service_stays_paused_under_keda(place: Place) -> None:
    place.platform(PLATFORM)
    document = inference(autoscaling=SCALING)
    place.apply(document, flags=("--wait",))
    assert place.get("ScaledObject", "serve")["spec"]["triggers"][0]["metadata"]["threshold"] == "5"
    place.gpuctl("pause", "serve")
    assert place.get("ScaledObject", "serve")["metadata"]["annotations"][KEDA_PAUSE] == "0"
    assert place.apply(document).out.count("unchanged") == 3
    assert "no drift" in place.gpuctl("drift", "-f", place.file(document)).err
    place.apply(inference(autoscaling={**SCALING, "maxReplicas": 4}))
    scaler = place.get("ScaledObject", "serve")
    assert (scaler["spec"]["maxReplicaCount"], scaler["metadata"]["annotations"][KEDA_PAUSE]) == (4, "0")
    place.gpuctl("resume", "serve")
    assert KEDA_PAUSE not in place.get("ScaledObject", "serve")["metadata"]["annotations"]
    place.running("serve")

    # KEDA stops the last pod.
    place.patch("Deployment", "serve", {"spec": {"replicas": 0}}, manager="keda-operator")
    place.until(lambda: not place.pods("serve"), "the pod to go")
    (row,) = place.gpuctl("get", "jobs", "serve", "--jobs", "-o", "json").value["items"]
    assert (row["status"], row["reason"]) == (
        "ScaledToZero",
        "its autoscaler has scaled it to 0; it starts when there is load",
    )
    assert "as `minReplicas: 0` in its document allows" in place.gpuctl("why", "serve").out
    assert "is not paused" in place.gpuctl("resume", "serve", code=1).err
    assert "unchanged deployment.apps/serve" in place.apply(inference(autoscaling={**SCALING, "maxReplicas": 4})).out

    # Without autoscaling, the HorizontalPodAutoscaler that KEDA made is not another tool's.
    place.apply(inference(service={"replicas": 1}), flags=("--yes",))
    assert not place.exists("ScaledObject", "serve")
    place.running("serve")


def test_interrupted_resume_is_repeated_or_undone(place: Place, proxy: Proxy) -> None:
    """While its ScaledObject is paused, KEDA keeps a service at 0 pods."""
    place.platform(PLATFORM)
    place.apply(inference(autoscaling=SCALING, service={"replicas": 2}))
    place.patch("Deployment", "serve", {"spec": {"replicas": 2}}, manager="keda-operator")

    def state() -> tuple[int, str | None, str | None]:
        """Return the replicas, and the marks of a pause on the Deployment and the ScaledObject."""
        deployment, scaler = place.get("Deployment", "serve"), place.get("ScaledObject", "serve")
        marks = [obj["metadata"]["annotations"] for obj in (deployment, scaler)]
        return deployment["spec"]["replicas"], marks[0].get(PAUSED), marks[1].get(KEDA_PAUSE)

    place.gpuctl("pause", "serve")
    assert state() == (0, "2", "0")
    proxy.reset(on(matching("PATCH", "/deployments/serve"), refuse(403, "Forbidden", "interrupted")))
    place.gpuctl("resume", "serve", code=3)
    proxy.reset()
    assert "paused    inference/serve" in place.gpuctl("pause", "serve").out
    assert state() == (0, "2", "0")
    place.gpuctl("resume", "serve")
    assert state() == (2, None, None)

    # An earlier version resumed the Deployment first.
    scaler = {"metadata": {"annotations": {KEDA_PAUSE: "0"}}}
    for replicas in (2, 0):
        place.patch("ScaledObject", "serve", scaler)
        place.patch("Deployment", "serve", {"spec": {"replicas": replicas}}, manager="keda-operator")
        assert "is resumed; its autoscaler sets its replicas" in place.gpuctl("resume", "serve").out
        assert state() == (replicas, None, None)


@pytest.mark.slow
def test_paused_inference_on_several_nodes_is_not_started_by_keda(place: Place) -> None:
    place.platform(f"{PLATFORM}\ninference: {{backend: lws}}")
    place.apply(inference(resources={"nodes": 2}, autoscaling=SCALING))
    place.gpuctl("pause", "serve")
    assert place.get("LeaderWorkerSet", "serve")["spec"]["replicas"] == 0
    assert place.get("ScaledObject", "serve")["metadata"]["annotations"][KEDA_PAUSE] == "0"
    place.gpuctl("resume", "serve")
    assert KEDA_PAUSE not in place.get("ScaledObject", "serve")["metadata"].get("annotations", {})


def test_new_scaled_object_does_not_start_a_paused_service(place: Place) -> None:
    place.platform(PLATFORM)
    place.apply(inference())
    place.gpuctl("pause", "serve")
    place.apply(inference(autoscaling={**SCALING, "minReplicas": 1}))
    assert place.get("ScaledObject", "serve")["metadata"]["annotations"][KEDA_PAUSE] == "0"
    document = inference(autoscaling=SCALING)
    assert "minReplicaCount" in place.apply(document).out
    assert place.get("ScaledObject", "serve")["metadata"]["annotations"][KEDA_PAUSE] == "0"
    assert place.apply(document).out.count("unchanged") == 3
    assert "no drift" in place.gpuctl("drift", "-f", place.file(document)).err
    place.gpuctl("resume", "serve")
    assert KEDA_PAUSE not in place.get("ScaledObject", "serve")["metadata"]["annotations"]
    assert place.apply(document).out.count("unchanged") == 3


@pytest.mark.slow
def test_paused_service_stays_paused_under_an_autoscaler_from_0(place: Place) -> None:
    place.platform(PLATFORM)
    metric = {"name": "depth", "external": True, "target": 5}
    document = inference(autoscaling={**SCALING, "metric": metric, "minReplicas": 1})
    place.apply(document, flags=("--wait",))
    place.gpuctl("pause", "serve")
    scaler = place.get("HorizontalPodAutoscaler", "serve")
    assert PAUSED not in scaler["metadata"]["annotations"], "an autoscaler with 1 pod at least starts nothing"
    place.gpuctl("resume", "serve")
    place.running("serve")


def test_scaled_object_takes_the_place_of_an_autoscaler(place: Place, proxy: Proxy) -> None:
    """KEDA's webhook refuses a ScaledObject while a HorizontalPodAutoscaler scales its workload, also in a dry-run, and
    learns of a deletion a moment later.
    """
    place.platform(PLATFORM)
    place.apply(inference(autoscaling={**SCALING, "minReplicas": 1, "metric": "queue"}))
    late = ["once"]
    reason = "the workload 'serve' of type 'apps/v1.Deployment' is already managed by the hpa 'serve'"
    denied = f'admission webhook "vscaledobject.kb.io" denied the request: {reason}'

    def webhook(request: Request) -> Action | None:
        if "/scaledobjects" not in request.path or request.method not in ("POST", "PATCH"):
            return None
        if place.exists("HorizontalPodAutoscaler", "serve") or ("dryRun" not in request.query and late and late.pop()):
            return refuse(403, "Forbidden", denied)
        return None

    proxy.policy = webhook
    document = inference(autoscaling={**SCALING, "minReplicas": 1})
    changed = place.apply(document, flags=("--yes", "-o", "json"))
    assert changed.actions["ScaledObject/serve"] == "create"
    assert changed.actions["HorizontalPodAutoscaler/serve"] == "delete"
    assert late == []
    assert not place.exists("HorizontalPodAutoscaler", "serve")
    assert place.apply(document).out.count("unchanged") == 3
    # Back again, no webhook is in the way.
    place.apply(inference(autoscaling={**SCALING, "minReplicas": 1, "metric": "queue"}), flags=("--yes",))
    assert not place.exists("ScaledObject", "serve")
