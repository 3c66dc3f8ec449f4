"""`get queues`, `describe queue`, and the same through the service: Kueue's queues with their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from support.browser import chromium, visiting
from support.cluster_tools import GPU, Place, training
from support.deployments import DEPLOY
from support.queues import Queues
from support.remote import Remote
from support.served import Served, serving


class Busy(NamedTuple):
    """A queue that has borrowed all GPUs of its cohort: `first` and `second` run, `third` and `fourth` wait."""

    name: str
    lender: str


@pytest.fixture
def busy(queue_place: Place, queues: Queues) -> Busy:
    cohort = queues.name("lab")
    lender = queues.cluster_queue("lender", 1, flavor=queues.flavor(), cohortName=cohort)
    name = queues.cluster_queue("team", 1, flavor=queues.name("any"), cohortName=cohort)
    queues.local_queue("team", name)
    queues.use("team")
    for job in ("first", "second"):
        queue_place.apply(training(job))
        queues.admitted(job)
    for job, priority in (("third", "low"), ("fourth", "high")):
        document = training(job)
        document["job"]["priority"] = priority
        queue_place.apply(document)
    queues.waits("third", "fourth")
    queues.counted("team", name, waiting=2, admitted=2)
    return Busy(name, lender)


@pytest.fixture
def service(queue_place: Place, busy: Busy, tmp_path: Path) -> Iterator[Served]:
    """A service whose users see all, the namespace of the queue, and another one."""
    (directory := tmp_path / "service").mkdir()
    users: dict[str, Any] = {
        "admin": ("admin", None, None),
        "anna": ("user", (queue_place.namespace,), None),
        "otto": ("user", ("elsewhere",), None),
        "paul": ("user", None, ("another-pool",)),
    }
    with serving(directory, queue_place.plane.kubeconfig(), users) as running:
        yield running


def test_queue_lists_its_quota_its_jobs_in_order_and_that_it_is_stopped(
    queue_place: Place, busy: Busy, queues: Queues
) -> None:
    place = queue_place
    found = place.gpuctl("get", "queues", "-o", "json").value
    # The lender has no LocalQueue in the namespace.
    [queue] = found["items"]
    assert (queue["name"], queue["status"], queue["waitingJobs"], queue["admittedJobs"]) == (busy.name, "active", 2, 2)
    [local] = queue["localQueues"]
    assert (local["namespace"], local["name"], local["status"]) == (place.namespace, "team", "active")
    [gpus] = [item for item in queue["resources"] if item["name"] == "gpu"]
    assert (gpus["resource"], gpus["total"], gpus["used"], gpus["borrowed"], gpus["free"]) == (GPU, 1, 2, 1, 0)
    everywhere = place.anywhere("get", "queues", "-o", "json").value["items"]
    assert {busy.name, busy.lender} <= {item["name"] for item in everywhere}
    header, row = place.gpuctl("get", "queues").out.splitlines()
    assert header.split() == ["NAME", "COHORT", "STATUS", "WAITING", "ADMITTED", "CPU", "MEMORY", "GPU"]
    assert (row.split()[:5], row.split()[-1]) == ([busy.name, queue["cohort"], "active", "2", "2"], "2/1")
    detail = place.anywhere("describe", "queue", busy.name, "-o", "json").value
    assert [(job["position"], job["name"], job["gpu"]) for job in detail["waiting"]] == [
        (1, "fourth", 1),
        (2, "third", 1),
    ]
    assert [job["name"] for job in detail["admitted"]] == ["first", "second"]
    text = place.anywhere("describe", "queue", busy.name).out
    assert text.index("fourth") < text.index("third") < text.index("Admitted, the oldest first:") < text.index("first")
    position = place.gpuctl("why", "third", "-o", "json").value["numbers"]["position"]
    assert position == detail["waiting"][1]["position"]
    assert place.anywhere("describe", "queue", "nowhere", code=None).err.startswith("error: there is no queue nowhere")
    queues.change(busy.name, {"stopPolicy": "Hold"})
    [queue] = place.gpuctl("get", "queues", "-o", "json").value["items"]
    assert (queue["status"], queue["reason"]) == ("stopped", "stopPolicy Hold")


def test_service_shows_queues_to_those_who_can_use_them(queue_place: Place, busy: Busy, service: Served) -> None:
    place = queue_place
    path = f"/queues/{busy.name}"
    assert service.get(path) == place.anywhere("describe", "queue", busy.name, "-o", "json").value
    page = service.get(path, page=2, pageSize=1)
    assert [job["name"] for job in (*page["waiting"], *page["admitted"])] == ["third", "second"]
    assert [item["name"] for item in service.get("/queues", "anna")["items"]] == [busy.name]
    assert service.get(path, "anna")["waiting"] == service.get(path)["waiting"]
    assert service.get("/queues", "otto")["items"] == []
    hidden = service.get(path, "otto", status=404)
    assert hidden["message"] == service.get("/queues/nowhere", "otto", status=404)["message"].replace(
        "nowhere", busy.name
    )
    assert busy.lender not in str(hidden)
    # Jobs of other pools use the quota, and are not shown.
    narrow = service.get(path, "paul")
    assert (narrow["waiting"], narrow["admitted"], narrow["waitingJobs"]) == ([], [], 0)
    assert narrow["resources"] == service.get(path)["resources"]


def test_user_of_one_namespace_sees_its_local_queues(
    queue_place: Place, busy: Busy, queues: Queues, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with the role of deploy/rbac in one namespace: the ClusterQueue is not visible."""
    place = queue_place
    with (DEPLOY / "rbac" / "viewer.yaml").open() as file:
        place.grant("onlooker", [rule for item in yaml.safe_load_all(file) for rule in item.get("rules") or ()])
    (directory := tmp_path / "cluster-users").mkdir()
    with serving(directory, place.plane.kubeconfig(), {}, auth="kubernetes") as running:
        running.tokens = dict(place.plane.tokens)
        served = running.get("/queues", "onlooker")["items"]
        detail = running.get(f"/queues/{busy.name}", "onlooker")
        assert [item["name"] for item in running.get("/queues", "nobody")["items"]] == []
        assert busy.lender in {item["name"] for item in running.get("/queues", "admin")["items"]}
    assert any(
        note.startswith("Kueue's clusterqueues may not be read (this needs `list` on them") for note in detail["notes"]
    )
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("onlooker")))
    found = place.gpuctl("get", "queues", "-o", "json").value
    assert found["items"] == served
    assert [item["name"] for item in served] == [busy.name]
    own = place.gpuctl("describe", "queue", busy.name, "-o", "json").value
    assert {**own, "notes": []} == {**detail, "notes": []}
    assert (own["status"], own["resources"], own["cohort"], own["waitingJobs"]) == ("active", None, None, 2)
    [local] = own["localQueues"]
    assert [item["used"] for item in local["resources"] if item["name"] == "gpu"] == [2]
    assert [job["name"] for job in own["waiting"]] == ["fourth", "third"]
    row = place.gpuctl("get", "queues").out.splitlines()[1].split()
    assert (row[0], row[2], row[-1]) == (busy.name, "active", "2/?")
    text = place.gpuctl("describe", "queue", busy.name)
    assert "Quota: not known: Kueue's clusterqueues may not be read" in text.out
    assert f"positions in queues count only the jobs of {place.namespace}" in text.err
    assert "ahead of it" not in text.out + text.err


@pytest.mark.slow
def test_command_line_through_the_service_prints_the_same(
    queue_place: Place, busy: Busy, service: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, remote = queue_place, Remote(queue_place, service, tmp_path / "config", monkeypatch)
    remote.login()
    for arguments in (
        ("get", "queues", busy.name, busy.lender),
        ("get", "queues", "-n", place.namespace, "-o", "json"),
        ("describe", "queue", busy.name, "-o", "json"),
        ("describe", "queue", "nowhere"),
    ):
        ours, theirs = (run(*arguments, code=None) for run in (place.anywhere, remote.typed))
        assert (theirs.out, theirs.code) == (ours.out, ours.code), arguments


@pytest.mark.slow
def test_console_leads_from_a_waiting_job_to_whom_it_waits_for(queue_place: Place, busy: Busy, service: Served) -> None:
    with chromium() as browser, visiting(browser, service) as visit:
        page = visit.log_in(address="/overview").page
        page.locator("#waiting + * a, section[aria-labelledby=waiting] a").filter(has_text="third").click()
        visit.see("Jobs ahead of it")
        page.locator("main a").filter(has_text="fourth").first.click()
        page.get_by_role("heading", level=1).get_by_text("fourth").wait_for()
        visit.see("Jobs that hold what it lacks")
        page.locator(".why a").filter(has_text="first").click()
        page.get_by_role("heading", level=1).get_by_text("first").wait_for()
        visit.open("/queues")
        visit.see("1 borrowed")
        page.get_by_role("link", name=busy.name).click()
        visit.see(f"gpuctl describe queue {busy.name}")
        table = page.get_by_role("table", name="Waiting jobs")
        table.locator("tbody tr").nth(1).wait_for()
        assert [row.split("\t")[0].strip() for row in table.locator("tbody tr").all_inner_texts()] == ["1", "2"]
        assert visit.barriers() == []
