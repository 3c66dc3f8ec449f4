"""What Kueue had admitted, waits or is paused comes back as it was handed in, where its successor cannot be created."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Request, Upstream, before, on, refuse
from support.cluster_tools import PAUSED, Document, Place, image, training
from support.command import Command
from support.queues import Queues

KINDS = {"job": "Job", "jobset": "JobSet"}
FLAVOR = {"runwhere.ai/pool": "drill", "kubernetes.io/os": "linux"}
Lose = Callable[[Document], str]


@pytest.fixture
def proxy(queue_plane: ControlPlane, queue_place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy that all commands of the test go through."""
    upstream = Upstream(queue_plane.port, queue_plane.directory / "certificates" / "apiserver.crt")
    with Proxy(queue_plane, upstream) as running:
        monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig(queue_place.directory / "through-proxy")))
        yield running
    upstream.close()


def makes_v2(request: Request) -> bool:
    """Whether a request creates the changed training."""
    created = request.is_write and request.method == "POST" and request.path.endswith(("/jobs", "/jobsets"))
    return created and b"registry.example.com/app:v2" in request.body


REFUSAL = on(
    makes_v2, refuse(403, "Forbidden", 'admission webhook "policy.example.com" denied the request: not on a Friday')
)


@pytest.fixture(params=["refused", "killed"])
def lose(request: pytest.FixtureRequest, queue_place: Place, proxy: Proxy) -> Lose:
    """Applies a change whose new object is refused, in one run, or by the recovery of a run killed after its delete; what
    the apply warned of."""
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


def rows(place: Place) -> dict[str, str]:
    """Job -> status word."""
    return {row["name"]: row["status"] for row in place.gpuctl("get", "jobs", "--jobs", "-o", "json").value["items"]}


def is_settled(place: Place, proxy: Proxy, document: Document) -> bool:
    """Whether another apply of a document writes nothing."""
    proxy.reset()
    assert set(place.plan(document).actions.values()) == {"unchanged"}
    place.apply(document)
    return proxy.writes() == []


@pytest.mark.slow
@pytest.mark.parametrize("backend", KINDS)
def test_what_was_admitted_is_admitted_again(
    queue_place: Place, queues: Queues, proxy: Proxy, lose: Lose, backend: str
) -> None:
    """By any flavor: the nodes and tolerations that Kueue gave it go with its admission."""
    place, kind = queue_place, KINDS[backend]
    flavor = queues.flavor("labelled", FLAVOR, tolerations=[{"key": "special", "operator": "Exists"}])
    queues.team(gpus=2, backend=backend, flavor=flavor)
    document = training(resources={"nodes": 2})
    place.apply(document)
    queues.admitted("train", kind=kind)
    place.until(lambda: rows(place) == {"train": "Running"}, "it to run")
    spec = place.get(kind, "train")["spec"]
    template = (spec["replicatedJobs"][0]["template"]["spec"] if backend == "jobset" else spec)["template"]
    assert template["spec"]["nodeSelector"] == FLAVOR
    before = place.uid(kind, "train")
    lose(training(resources={"nodes": 2}, environment=image("v2")))
    assert place.uid(kind, "train") != before
    queues.admitted("train", kind=kind)
    pods = queues.workload("train", kind)["spec"]["podSets"][0]["template"]
    assert pods["spec"]["nodeSelector"] == {"runwhere.ai/pool": "drill"}
    assert not any(item.get("key") == "special" for item in pods["spec"].get("tolerations") or [])
    metadata = pods.get("metadata") or {}
    assert not any("kueue" in key for part in ("labels", "annotations") for key in metadata.get(part) or {})
    place.until(lambda: rows(place) == {"train": "Running"}, "it to run again")
    assert is_settled(place, proxy, document)


def test_what_waited_waits_again(queue_place: Place, queues: Queues, proxy: Proxy, lose: Lose) -> None:
    place = queue_place
    queues.team(gpus=1)
    place.apply(training("first"))
    place.running("first")
    place.apply(training("second"))
    queues.waits("second")
    lose(training("second", environment=image("v2")))
    queues.waits("second")
    assert rows(place) == {"first": "Running", "second": "Queued"}
    assert is_settled(place, proxy, training("second"))
    place.gpuctl("delete", "job", "first", "--yes")
    place.running("second")


@pytest.mark.slow
@pytest.mark.parametrize("backend", KINDS)
def test_what_is_paused_stays_paused(
    queue_place: Place, queues: Queues, proxy: Proxy, lose: Lose, backend: str
) -> None:
    """The mark of a pause is Kueue's Workload, which goes with the object: Kueue would start the new one."""
    place, kind = queue_place, KINDS[backend]
    queues.team(gpus=2, backend=backend)
    document = training(resources={"nodes": 2})
    place.apply(document)
    queues.admitted("train", kind=kind)
    place.gpuctl("pause", "train")
    place.until(lambda: not place.pods("train"), "the pods to go")
    lose(training(resources={"nodes": 2}, environment=image("v2")))
    assert PAUSED in place.get(kind, "train")["metadata"]["annotations"]
    queues.waits("train", kind=kind)
    assert rows(place) == {"train": "Paused"}
    assert not place.pods("train")
    assert is_settled(place, proxy, document)
    place.gpuctl("resume", "train")
    place.until(lambda: rows(place) == {"train": "Running"}, "it to run")
    assert is_settled(place, proxy, document)


@pytest.mark.slow
def test_who_may_not_read_workloads_is_told_where_the_old_one_may_run(
    queue_plane: ControlPlane, queue_place: Place, queues: Queues, proxy: Proxy, lose: Lose
) -> None:
    """Nothing gets lost but that it might run elsewhere, and that is said before anything is deleted."""
    place = queue_place
    queues.team(gpus=2, flavor=queues.flavor("labelled", FLAVOR))
    place.apply(training())
    queues.admitted("train")
    before = place.uid("Job", "train")
    place.grant("alice", "edit")
    proxy.kubeconfig(place.directory / "through-proxy", token=queue_plane.tokens["alice"])
    said = lose(training(environment=image("v2")))
    assert place.uid("Job", "train") != before
    assert (
        f"warning: you may not list Kueue's workloads there: if job.batch/train in {place.namespace} is created again as it "
        "was, it keeps to the nodes of the flavor that it was admitted to\n"
    ) in said
    queues.admitted("train")
    assert place.get("Job", "train")["spec"]["template"]["spec"]["nodeSelector"] == FLAVOR
    place.until(lambda: rows(place) == {"train": "Running"}, "it to run again")
