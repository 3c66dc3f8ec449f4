"""Pauses that a GitOps controller undoes."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.acts.pausing import pause_undone_by

FLUX = {"kustomize.toolkit.fluxcd.io/name": "jobs", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}


def workload(kind: str, *holders: tuple[str, str], labels: dict[str, str] | None = None) -> dict[str, Any]:
    entries = [
        {
            "manager": manager,
            "operation": "Update",
            "subresource": subresource,
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }
        for manager, subresource in holders
    ]
    metadata = {"name": "a", "namespace": "n", "labels": FLUX if labels is None else labels, "managedFields": entries}
    return {"kind": kind, "metadata": metadata, "spec": {}}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize(
    "holders",
    [[], [("kustomize-controller", "")], [("gpuctl", "")], [("kustomize-controller", ""), ("kubectl", "scale")]],
    ids=["unknown", "controller", "earlier pause", "controller and kubectl"],
)
def test_flux_undoes_a_pause_of_a_service(kind: str, holders: list[tuple[str, str]]) -> None:
    assert pause_undone_by(workload(kind, *holders)) == "Flux (Kustomization flux-system/jobs)"
    assert pause_undone_by(workload(kind, *holders, labels={})) is None


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_flux_keeps_replicas_set_by_an_autoscaler(kind: str) -> None:
    assert pause_undone_by(workload(kind, ("kube-controller-manager", "scale"))) is None


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_flux_keeps_a_pause_of_a_training(kind: str) -> None:
    assert pause_undone_by(workload(kind)) is None
