"""Objects managed by Argo CD or Flux are not gpuctl's unless adopted; a manual copy of a gpuctl object is not either."""

from __future__ import annotations

import json
from typing import Any

import pytest

from properties.scale import part_of
from support.cluster_tools import Place, image, inference, training

ID = "argocd.argoproj.io/tracking-id"
FLUX = {f"kustomize.toolkit.fluxcd.io/{part}": part for part in ("name", "namespace")}
HELM = {f"helm.toolkit.fluxcd.io/{part}": part for part in ("name", "namespace")}
INSTANCE = "app.kubernetes.io/instance"
TRACKERS = {
    "argo": "Argo CD (application web)",
    "argo by label": "Argo CD (application web)",
    "flux": "Flux (Kustomization namespace/name)",
    "helm": "Flux (HelmRelease namespace/name)",
}


def track(place: Place, kind: str, name: str, tool: str) -> None:
    """Mark an object as a GitOps controller does."""
    group = {"Job": "batch", "Deployment": "apps", "Service": ""}[kind]
    marks: dict[str, Any] = {
        "argo": {"annotations": {ID: f"web:{group}/{kind}:{place.namespace}/{name}"}},
        "argo by label": {"labels": {INSTANCE: "web"}},
        "flux": {"labels": FLUX},
        "helm": {"labels": HELM},
    }[tool]
    manager = "argocd-controller" if tool.startswith("argo") else "kustomize-controller"
    place.patch(kind, name, {"metadata": marks}, manager=manager)


@pytest.mark.parametrize("tool", part_of(TRACKERS, 2))
def test_tracked_job_is_not_changed_deleted_or_pruned(place: Place, tool: str) -> None:
    place.apply(training("a"), training("b"), flags=("--set", "jobs"))
    track(place, "Job", "a", tool)
    before = place.records()
    assert place.apply(training("a"), training("b"), flags=("--set", "jobs")).out.count("unchanged") == 2
    told = place.gpuctl("diff", "-f", place.file(training("a", environment=image("v2"))), code=1)
    assert (
        f"note: this could not be applied: job.batch/a in {place.namespace} is managed by {TRACKERS[tool]}" in told.err
    )
    for changed in (training("a", environment=image("v2")), training("a", job={"description": "new"})):
        refused = place.apply(changed, flags=("--yes",), code=1)
        assert f"job.batch/a in {place.namespace} is managed by {TRACKERS[tool]}" in refused.err
        assert "take it over with --adopt" in refused.err
    skipped = place.gpuctl("delete", "-f", place.file(training("a")))
    assert skipped.out.startswith("skipped   job.batch/a")
    refused = place.gpuctl("delete", "job", "a", code=1)
    assert f"training/a in {place.namespace} is managed by {TRACKERS[tool]}" in refused.err
    pruned = place.apply(training("b"), flags=("--set", "jobs", "--prune", "--yes"))
    assert f"job.batch/a in {place.namespace} has the label of the set jobs, but is managed by" in pruned.err
    now = place.records()
    now.pop("Secret/jobs")
    before.pop("Secret/jobs")
    assert now == before


@pytest.mark.slow
@pytest.mark.parametrize("tool", TRACKERS)
def test_adopt_takes_over_a_tracked_job(place: Place, tool: str) -> None:
    place.apply(inference("b"))
    track(place, "Deployment", "b", tool)
    track(place, "Service", "svc-b", tool)
    uid = place.uid("Deployment", "b")
    preview = place.apply(inference("b"), flags=("--adopt", "--dry-run=server"))
    assert preview.out.count(f"taken over from {TRACKERS[tool]}") == 2
    place.apply(inference("b"), flags=("--adopt",))
    assert place.uid("Deployment", "b") == uid
    for obj in (place.get("Deployment", "b"), place.get("Service", "svc-b")):
        assert ID not in obj["metadata"].get("annotations", {})
        assert not {*FLUX, *HELM, INSTANCE} & obj["metadata"]["labels"].keys()
    place.apply(inference("b", environment=image("v2")), flags=("--yes",))
    assert place.uid("Deployment", "b") != uid


def test_tracked_service_of_a_job_is_kept(place: Place) -> None:
    place.apply(training("a", resources={"nodes": 2}))
    track(place, "Service", "a", "flux")
    place.apply(training("a", resources={"nodes": 1}), flags=("--yes",))
    assert place.exists("Service", "a")


@pytest.mark.slow
def test_tracking_annotation_of_another_object_is_ignored(place: Place) -> None:
    """Argo CD ignores such a copy, too."""
    place.apply(training("a"))
    place.patch("Job", "a", {"metadata": {"annotations": {ID: f"web:batch/Job:{place.namespace}/other"}}})
    place.apply(training("a", environment=image("v2")), flags=("--yes",))


@pytest.mark.slow
def test_instance_label_alone_is_no_tracking(place: Place) -> None:
    place.apply(training("a"))
    place.patch("Job", "a", {"metadata": {"labels": {INSTANCE: "web"}}})
    place.apply(training("a", environment=image("v2")), flags=("--yes",))


@pytest.mark.slow
def test_manual_copy_of_a_member_is_not_pruned(place: Place) -> None:
    """The copy has all labels of a member, but another name."""
    place.apply(training("a"), training("b"), flags=("--set", "jobs"))
    copy = json.loads(place.kubectl("get", "job", "b", "-o", "json"))
    labels = {key: value for key, value in copy["metadata"]["labels"].items() if "uid" not in key}
    spec = copy["spec"]
    spec.pop("selector")
    spec["template"]["metadata"]["labels"] = {"app": "b"}
    metadata = {"name": "copy", "labels": labels, "annotations": copy["metadata"]["annotations"]}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    place.kubectl("create", "-f", "-", input=json.dumps(made))
    done = place.apply(training("a"), flags=("--set", "jobs", "--prune", "--yes"))
    assert "pruned    job.batch/b" in done.out
    assert f"job.batch/copy in {place.namespace} has the label of the set jobs, but was not put into it" in done.err
    assert place.exists("Job", "copy")
    assert not place.exists("Job", "b")


@pytest.mark.slow
@pytest.mark.parametrize("tool", TRACKERS)
def test_tracked_service_is_not_paused_or_resumed(place: Place, tool: str) -> None:
    """The controller would scale a service up again; a training's manifest has no `suspend`, so it can be paused."""
    checkpoint = {"job": {"checkpoint": {"command": ["false"], "timeout": "5s"}}}
    place.apply(inference(**checkpoint), inference("paused"))
    place.running("serve", "paused")
    place.gpuctl("pause", "paused")
    for name in ("serve", "paused"):
        track(place, "Deployment", name, tool)
    before = place.records()
    # pause fails before it runs the checkpoint command, which would fail, too.
    refused = place.gpuctl("pause", "serve", code=1)
    assert refused.err.startswith(
        f"error: deployment.apps/serve in {place.namespace} is managed by {TRACKERS[tool]}, which sets its replicas and would"
    )
    assert place.gpuctl("pause", "serve", "-o", "json", code=1).value["error"]
    assert f"is managed by {TRACKERS[tool]}, which sets its replicas" in place.gpuctl("resume", "paused", code=1).err
    now = place.records()
    assert {key: now[key] for key in ("Deployment/serve", "Deployment/paused")} == {
        key: before[key] for key in ("Deployment/serve", "Deployment/paused")
    }


@pytest.mark.slow
def test_tracked_training_can_be_paused(place: Place) -> None:
    place.apply(training("a"))
    place.running("a")
    track(place, "Job", "a", "argo")
    (answer,) = place.gpuctl("pause", "a", "-o", "json").value["items"]
    assert answer["message"].endswith(
        "; Argo CD (application web) does not undo this, unless its manifest sets `suspend`"
    )
    assert place.gpuctl("resume", "a", "--json").value["items"][0]["status"] == "resumed"
