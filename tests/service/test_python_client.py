"""The Python SDK against the running service."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuctl_sdk import (
    AsyncClient,
    Client,
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    Retrying,
    ServiceError,
    Unauthorized,
)
from support.cluster_tools import POOL, Place, compute, image, inference, training
from support.flaky_proxy import FlakyProxy, flaky
from support.served import Served

README = Path(__file__).resolve().parents[2] / "sdk" / "python" / "README.md"
FAST_RETRIES = Retrying(attempts=4, pause=0.01, longest=0.02)


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.url, served.tokens["admin"]) as found:
        yield found


@pytest.fixture
def proxy(served: Served) -> Iterator[FlakyProxy]:
    with flaky(served.url) as found:
        yield found


def in_namespace(place: Place, document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "job": {**document["job"], "namespace": place.namespace}}


def test_client_covers_the_life_of_a_job(client: Client, place: Place) -> None:
    """Created from a mapping, found, paused, resumed, updated and deleted."""
    checked = client.create_jobs(in_namespace(place, training("a")), dry_run=True)
    assert (checked.job_id, checked.status, place.names()) == (None, "validated", set())
    made = client.create_jobs(in_namespace(place, training("a")))
    assert (made.name, made.namespace, made.pool, made.status) == ("a", place.namespace, POOL, "pending")
    assert made.job_id is not None
    assert client.wait_for_job(made.job_id, "running", every=0.1, timeout=60) == "running"
    found = client.get_job(made.job_id)
    assert (found.name, found.resources.gpu, found.k8s_resources.job_name) == (
        "a",
        training("a")["resources"]["gpu"],
        "a",
    )
    assert client.pause_job("a", namespace=place.namespace).status == "paused"
    assert client.resume_job(made.job_id).status == "resumed"
    changed = client.update_job(made.job_id, in_namespace(place, training("a", environment=image("v2"))), dry_run=True)
    assert (changed.status, changed.plan.summary["replace"]) == ("validated", 1)
    assert client.delete_job(made.job_id, force=True).status == "terminating"
    place.until(lambda: "Job/a" not in place.names(), "the job to be deleted")


def test_client_iterates_over_pages(client: Client, place: Place) -> None:
    several = [in_namespace(place, inference(name)) for name in "abcde"]
    batch = client.create_job_batch([*several, "kind: nonsense\n"])
    assert [item.name for item in batch.success] == list("abcde")
    assert [(item.index, item.error) for item in batch.failed] == [(5, "InvalidDocuments")]
    page = client.list_jobs(namespace=place.namespace, page=2, page_size=2)
    assert (page.total, len(page.items)) == (5, 2)
    everything = list(client.all_jobs(namespace=place.namespace, page_size=2))
    assert sorted(item.name for item in everything) == list("abcde")
    assert [item.job_id for item in everything[2:4]] == [item.job_id for item in page.items]
    assert {item.job_id for item in everything} == {item.job_id for item in batch.success}


def test_client_raises_errors_as_exceptions(served: Served, client: Client, place: Place) -> None:
    """Each exception has the fields of the error answer."""
    with pytest.raises(NotFound, match="there is no job") as lost:
        client.get_job("not-there")
    assert (lost.value.error, bool(lost.value.request_id)) == ("NotFound", True)
    with pytest.raises(InvalidRequest) as invalid:
        client.create_jobs("kind: training\nversion: v0.1\n")
    assert all({"code", "message"} <= item.keys() for item in invalid.value.details)
    assert invalid.value.details
    client.create_jobs(in_namespace(place, compute("a")))
    with pytest.raises(Conflict) as exists:
        client.create_jobs(in_namespace(place, compute("a")))
    assert exists.value.error == "AlreadyExists"
    assert "a" in {item["name"] for item in exists.value.details}
    with Client(served.url, served.tokens["anna"]) as anna, pytest.raises(Forbidden):
        anna.create_jobs(in_namespace(place, compute("b")))
    with Client(served.url, "gpuctl_wrong") as nobody, pytest.raises(Unauthorized):
        nobody.list_jobs()
    assert client.check_right(resource="jobs", action="create", pool=POOL).allowed


def test_client_reads_and_labels_nodes(client: Client) -> None:
    """Keys contain a slash."""
    node, key = f"{POOL}-0", "example.com/sdk-python"
    try:
        assert client.set_node_label(node, key=key, value="a").label.value == "a"
        with pytest.raises(Conflict) as conflict:
            client.set_node_label(node, key=key, value="b")
        assert conflict.value.error == "LabelConflict"
        report = client.set_label_of_nodes(key=key, value="b", node_names=[node, "not-there"], overwrite=True)
        assert (report.success, [item.error for item in report.failed]) == ([node], ["NodeNotFound"])
        assert client.get_node_label(node, key).label.value == "b"
        place = client.all_nodes_with_label(key=key, page_size=1)
        assert [(item.node_name, item.label_value) for item in place] == [(node, "b")]
    finally:
        client.delete_node_label(node, key)
    with pytest.raises(NotFound, match="has no label"):
        client.get_node_label(node, key)
    assert client.get_node(node).resources.gpu_total == 64
    assert POOL in {pool.name for pool in client.list_pools().items}


@pytest.mark.parametrize("trouble", [[503, 503], ["refused", 429], ["cut"]])
def test_retried_creation_happens_once(
    served: Served, place: Place, proxy: FlakyProxy, trouble: list[int | str]
) -> None:
    """Also if the request succeeded and its answer was lost."""
    proxy.plan = list(trouble)
    with Client(proxy.url, served.tokens["admin"], retrying=FAST_RETRIES) as client:
        made = client.create_jobs(in_namespace(place, training("a")))
        again = client.create_jobs(in_namespace(place, training("b")), idempotency_key=place.namespace)
        assert client.create_jobs(in_namespace(place, training("b")), idempotency_key=place.namespace) == again
    assert proxy.failed == len(trouble)
    ids = {made.job_id, again.job_id}
    served.until("/jobs", lambda value: {item["jobId"] for item in value["items"]} == ids, namespace=place.namespace)


@pytest.mark.slow
def test_client_gives_up_after_its_attempts(served: Served, proxy: FlakyProxy) -> None:
    proxy.plan = [503] * 9
    with (
        Client(proxy.url, served.tokens["admin"], retrying=FAST_RETRIES) as client,
        pytest.raises(ServiceError, match="away"),
    ):
        client.list_jobs()
    assert proxy.failed == FAST_RETRIES.attempts


def test_asyncio_client(served: Served, place: Place) -> None:
    async def work() -> list[str]:
        async with AsyncClient(served.url, served.tokens["admin"]) as client:
            made = await asyncio.gather(*(client.create_jobs(in_namespace(place, compute(name))) for name in "abc"))
            assert await client.wait_for_job(made[0].job_id or "", "running", every=0.1, timeout=60) == "running"
            with pytest.raises(NotFound):
                await client.delete_job("not-there")
            return [job.name async for job in client.all_jobs(namespace=place.namespace, page_size=2)]

    assert sorted(asyncio.run(work())) == list("abc")


def test_client_follows_logs_over_a_broken_connection(served: Served, place: Place, proxy: FlakyProxy) -> None:
    """Over a connection that breaks: each line once, until the job ends."""
    with Client(proxy.url, served.tokens["admin"], retrying=FAST_RETRIES) as client:
        made = client.create_jobs(in_namespace(place, training("a")))
        assert made.job_id is not None
        client.wait_for_job(made.job_id, "running", every=0.1, timeout=60)
        [pod] = place.running("a")
        expected = [f"line {number}" for number in range(30)]
        place.plane.write_log(place.namespace, pod, "".join(f"{text}\n" for text in expected[:10]))
        assert client.get_job_logs(made.job_id, tail=2).logs == expected[8:10]
        texts: list[str] = []
        with client.follow_logs(made.job_id) as lines:
            for line in lines:
                assert (line.pod, line.container) == (pod, "main")
                texts.append(line.text)
                if len(texts) in (10, 20):
                    proxy.cut_all()
                    written = expected[len(texts) : len(texts) + 10]
                    place.plane.write_log(place.namespace, pod, "".join(f"{text}\n" for text in written))
                elif len(texts) == 30:
                    place.plane.annotate(place.namespace, pod, outcome="complete")
        assert texts == expected
        with pytest.raises(NotFound):
            list(client.follow_logs("not-there"))


def test_readme_code_runs(served: Served, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples in order, without that of logs, which needs a job that ends."""
    monkeypatch.setenv("GPUCTL_URL", served.url)
    monkeypatch.setenv("GPUCTL_TOKEN", served.tokens["admin"])
    monkeypatch.setenv("GPUCTL_NAMESPACE", place.namespace)
    blocks = re.findall(r"^(<!-- [^\n]*-->\n)?```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    examples = [text for mark, text in blocks if not mark]
    assert len(examples) == len(blocks) - 1 == 5
    names: dict[str, Any] = {}
    for text in examples:
        exec(compile(text.replace("training-pool", POOL), str(README), "exec"), names)
    assert {"Job/readme-sft", "Deployment/readme-web"} <= place.names()
