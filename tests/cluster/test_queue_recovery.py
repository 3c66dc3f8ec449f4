"""Jobs in Kueue queues (admitted, waiting or paused) are restored as submitted if their replacement cannot be created."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Request, before, on, refuse
from properties.scale import part_of
from support.cluster_tools import PAUSED, Document, Place, image, training
from support.command import Command
from support.queues import Queues

KINDS = {"job": "Job", "jobset": "JobSet"}
FLAVOR = {"runwhere.ai/pool": "drill", "kubernetes.io/os": "linux"}
FailReplacement = Callable[[Document], str]


@pytest.fixture
def proxy(queue_proxy: Proxy) -> Proxy:
    """A proxy that all commands of the test go through."""
    return queue_proxy


def makes_v2(request: Request) -> bool:
    """Return True if a request creates the changed training."""
    created = request.is_write and request.method == "POST" and request.path.endswith(("/jobs", "/jobsets"))
    return created and b"registry.example.com/app:v2" in request.body


REFUSAL = on(
    makes_v2, refuse(403, "Forbidden", 'admission webhook "policy.example.com" denied the request: not on a Friday')
)


@pytest.fixture(params=part_of(["refused", "killed"], 2))
def fail_replacement(request: pytest.FixtureRequest, queue_place: Place, proxy: Proxy) -> FailReplacement:
    """Return a function that applies a change whose new object is refused, and returns the warnings of the apply. The
    old object is restored in the same run, or by `gpuctl recover` after the run was killed behind its delete.
    """
    place = queue_place

    def refused(document: Document) -> str:
        proxy.reset(REFUSAL)
        applied = place.apply(document, flags=("--yes",), code=1)
        assert "not on a Friday; the old one was created again" in applied.out
        return applied.err

    def killed(document: Document) -> str:
        arguments = ("apply", "-f", place.file(document), "-n", place.namespace, "--yes")
        running: list[Command] = []
        proxy.reset(on(makes_v2, before(lambda: running[0].process.kill())))
        running.append(Command(*arguments))
        assert running[0].end() == -9, running[0].err
        proxy.reset(REFUSAL)
        said = place.gpuctl("recover", "--yes").out
        assert "the old object was created again, because the new one is refused: " in said
        return running[0].err.decode()

    return {"refused": refused, "killed": killed}[request.param]


def statuses(place: Place) -> dict[str, str]:
    """Return the status of each job."""
    return {row["name"]: row["status"] for row in place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]}


def is_settled(place: Place, proxy: Proxy, document: Document) -> bool:
    """Return True if another apply of the document writes nothing."""
    proxy.reset()
    assert set(place.plan(document).actions.values()) == {"unchanged"}
    place.apply(document)
    return proxy.writes() == []


@pytest.mark.slow
@pytest.mark.parametrize("backend", KINDS)
def test_restored_job_is_admitted_to_any_flavor(
    queue_place: Place, queues: Queues, proxy: Proxy, fail_replacement: FailReplacement, backend: str
) -> None:
    """Node selector and tolerations that Kueue injected are removed, so any flavor can admit the restored job."""
    place, kind = queue_place, KINDS[backend]
    flavor = queues.flavor("labelled", FLAVOR, tolerations=[{"key": "special", "operator": "Exists"}])
    queues.team(gpus=2, backend=backend, flavor=flavor)
    document = training(resources={"nodes": 2})
    place.apply(document)
    queues.admitted("train", kind=kind)
    place.until(lambda: statuses(place) == {"train": "Running"}, "it to run")
    spec = place.get(kind, "train")["spec"]
    template = (spec["replicatedJobs"][0]["template"]["spec"] if backend == "jobset" else spec)["template"]
    assert template["spec"]["nodeSelector"] == FLAVOR
    before = place.uid(kind, "train")
    fail_replacement(training(resources={"nodes": 2}, environment=image("v2")))
    assert place.uid(kind, "train") != before
    queues.admitted("train", kind=kind)
    pods = queues.workload("train", kind)["spec"]["podSets"][0]["template"]
    assert pods["spec"]["nodeSelector"] == {"runwhere.ai/pool": "drill"}
    assert not any(item.get("key") == "special" for item in pods["spec"].get("tolerations") or [])
    metadata = pods.get("metadata") or {}
    assert not any("kueue" in key for part in ("labels", "annotations") for key in metadata.get(part) or {})
    place.until(lambda: statuses(place) == {"train": "Running"}, "it to run again")
    assert is_settled(place, proxy, document)


def test_restored_job_waits_in_the_queue_again(
    queue_place: Place, queues: Queues, proxy: Proxy, fail_replacement: FailReplacement
) -> None:
    place = queue_place
    queues.team(gpus=1)
    place.apply(training("first"))
    place.running("first")
    place.apply(training("second"))
    queues.waits("second")
    fail_replacement(training("second", environment=image("v2")))
    queues.waits("second")
    assert statuses(place) == {"first": "Running", "second": "Queued"}
    assert is_settled(place, proxy, training("second"))
    place.gpuctl("delete", "job", "first", "--yes")
    place.running("second")


@pytest.mark.slow
@pytest.mark.parametrize("backend", KINDS)
def test_restored_job_stays_paused(
    queue_place: Place, queues: Queues, proxy: Proxy, fail_replacement: FailReplacement, backend: str
) -> None:
    """The pause is stored in Kueue's Workload, which is deleted with the object: Kueue would start the restored job."""
    place, kind = queue_place, KINDS[backend]
    queues.team(gpus=2, backend=backend)
    document = training(resources={"nodes": 2})
    place.apply(document)
    queues.admitted("train", kind=kind)
    place.gpuctl("pause", "train")
    place.until(lambda: not place.pods("train"), "the pods to go")
    fail_replacement(training(resources={"nodes": 2}, environment=image("v2")))
    assert PAUSED in place.get(kind, "train")["metadata"]["annotations"]
    queues.waits("train", kind=kind)
    assert statuses(place) == {"train": "Paused"}
    assert not place.pods("train")
    assert is_settled(place, proxy, document)
    place.gpuctl("resume", "train")
    place.until(lambda: statuses(place) == {"train": "Running"}, "it to run")
    assert is_settled(place, proxy, document)


@pytest.mark.slow
def test_apply_warns_about_the_flavor_without_workload_rights(
    queue_plane: ControlPlane, queue_place: Place, queues: Queues, proxy: Proxy, fail_replacement: FailReplacement
) -> None:
    """The restored job keeps the node selector of its flavor; apply warns about it before it deletes anything."""
    place = queue_place
    queues.team(gpus=2, flavor=queues.flavor("labelled", FLAVOR))
    place.apply(training())
    queues.admitted("train")
    before = place.uid("Job", "train")
    place.grant("alice", "edit")
    proxy.kubeconfig(place.directory / "through-proxy", token=queue_plane.tokens["alice"])
    said = fail_replacement(training(environment=image("v2")))
    assert place.uid("Job", "train") != before
    assert (
        f"warning: you may not list Kueue's workloads there: if job.batch/train in {place.namespace} is created again as it "
        "was, it keeps to the nodes of the flavor that it was admitted to\n"
    ) in said
    queues.admitted("train")
    assert place.get("Job", "train")["spec"]["template"]["spec"]["nodeSelector"] == FLAVOR
    place.until(lambda: statuses(place) == {"train": "Running"}, "it to run again")
