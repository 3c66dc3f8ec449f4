"""`fit` reads Kueue's configuration: Kueue is restarted with another one for these tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from control_plane import ControlPlane
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.kube.configuration import open_session
from support.cluster_tools import Object, Place
from support.queue_worlds import queue_job
from support.queues import Queues

CONFIG_MAP = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
LICENCE = "example.com/licence"
CONFIGURATION = {
    "resources": {"excludeResourcePrefixes": ["example.com/"]},
    "waitForPodsReady": {"timeout": "10m", "blockAdmission": True},
}


@pytest.fixture
def configured_kueue(queue_plane: ControlPlane) -> Iterator[None]:
    """Kueue with an excluded resource prefix, and with blocked admission until the pods of admitted jobs are ready."""
    path = queue_plane.directory / "kueue.json"
    was = path.read_text()
    _restart_kueue_with(queue_plane, json.dumps({**json.loads(was), **CONFIGURATION}))
    yield
    _restart_kueue_with(queue_plane, was)


def _restart_kueue_with(plane: ControlPlane, text: str) -> None:
    plane.stop_program("kueue")
    (plane.directory / "kueue.json").write_text(text)
    patch = {"data": {"controller_manager_config.yaml": text}}
    plane.requests.call("PATCH", CONFIG_MAP, patch, "application/merge-patch+json")
    plane.start_program("kueue")
    plane.wait_for_queues()


def _job(place: Place, name: str, **more: str) -> Object:
    job = queue_job(name, place.namespace, "team", 1)
    del job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
    for amounts in job["spec"]["template"]["spec"]["containers"][0]["resources"].values():
        amounts.update(more)
    return job


def _fit_of(place: Place, job: Object) -> Fit:
    session = open_session(kubeconfig=str(place.plane.kubeconfig()))
    [answer] = fit(take_snapshot(session), [job])
    session.close()
    return answer


@pytest.mark.slow
def test_fit_reads_excluded_resources_and_block_admission(
    queue_place: Place, configured_kueue: None, queues: Queues
) -> None:
    place = queue_place
    queues.team(gpus=4)
    # The first job requests a resource that no node has and the queue has no quota for.
    first, second = _job(place, "first", **{LICENCE: "1"}), _job(place, "second")
    assert _fit_of(place, first).admitted
    place.create(first)
    queues.admitted("first")
    answer = _fit_of(place, second)
    assert (answer.verdict, answer.certain) == ("unknown", False)
    assert "first waits until the pods of 1 admitted job are ready (waitForPodsReady.blockAdmission)" in answer.reason
    place.create(second)
    queues.waits("second")
    assert (
        "waiting for all admitted workloads to be in PodsReady condition"
        in queues.condition("second", "QuotaReserved")["message"]
    )
