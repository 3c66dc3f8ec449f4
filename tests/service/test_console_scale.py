"""The console before 500 nodes and 2,400 pods: lists are loaded in pages, and nothing downloads everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.browser import Visit, visiting
from support.large_cluster import JOBS, NAMESPACES, NODES, POOL, WAITING, WIDE, WIDE_PODS, large_cluster
from support.real_parts import control_plane_binaries
from support.served import serving

pytestmark = pytest.mark.slow
API = "/api/v1/"


class Seen(NamedTuple):
    """What the browser loaded and built for a page: paths of requests, bytes of their answers, elements, table rows."""

    requests: list[str]
    size: int
    elements: int
    rows: int


@pytest.fixture(scope="module")
def visit(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    """An administrator before the large cluster."""
    directory: Path = tmp_path_factory.mktemp("large")
    users: dict[str, Any] = {"admin": ("admin", None, None)}
    with (
        large_cluster(control_plane_binaries()) as plane,
        serving(directory, plane.kubeconfig(), users) as served,
        visiting(browser, served) as made,
    ):
        served.until("/jobs", lambda value: value["total"] == JOBS + 2, pageSize=1)
        yield made.log_in()


def look_at(visit: Visit, address: str, text: str) -> Seen:
    """Open a page and wait until it shows a text and nothing is loading."""
    page, answers = visit.page, list[Any]()

    def note(answer: Any) -> None:
        answers.append(answer)

    # The requests of the page before end.
    visit.open("/nowhere")
    page.get_by_role("heading", name="There is no such page").wait_for()
    page.on("response", note)
    visit.open(address)
    visit.see(text)
    page.wait_for_selector("text=Loading …", state="detached")
    page.wait_for_load_state("networkidle")
    page.remove_listener("response", note)
    found = [answer for answer in answers if API in answer.url]
    count = "document.querySelectorAll('{}').length"
    return Seen(
        [answer.url.partition(API)[2].partition("?")[0] for answer in found],
        sum(len(answer.body()) for answer in found),
        page.evaluate(count.format("*")),
        page.evaluate(count.format("tbody tr")),
    )


@pytest.mark.parametrize(
    ("address", "text", "rows", "size"),
    [
        # Three lists of 20, and the pools and types.
        ("/overview", "All 300 running jobs", 50, 60_000),
        ("/jobs", f"1–50 of {JOBS + 2:,}", 50, 40_000),
        ("/jobs?page=20", f"951–{JOBS:,} of {JOBS + 2:,}", 50, 40_000),
        (f"/jobs/{NAMESPACES[0]}/{WIDE}", f"{WIDE}-0000", 100, 200_000),
        (f"/jobs/{NAMESPACES[1]}/{WAITING}", "Jobs that hold what it lacks", 20, 200_000),
        ("/nodes", f"1–50 of {NODES}", 50, 40_000),
        ("/nodes/gpu-000", "gpuctl describe node gpu-000", 40, 40_000),
        ("/pools", "gpuctl get gpu-types", 5, 20_000),
        (f"/pools/{POOL}", f"gpuctl describe pool {POOL}", 60, 40_000),
        ("/quotas", "gpuctl get namespaces", 20, 20_000),
        ("/new", "As in a shell", 0, 40_000),
    ],
)
def test_pages_load_a_part_of_a_large_cluster(visit: Visit, address: str, text: str, rows: int, size: int) -> None:
    seen = look_at(visit, address, text)
    assert seen.rows <= rows
    assert seen.size <= size
    assert len(seen.requests) <= 12, seen.requests
    assert seen.elements <= 200 + 30 * max(50, rows)


def test_unchanged_job_is_not_explained_again(visit: Visit) -> None:
    """The reason for which a job waits is computed from all pods; its own state is not."""
    page, paths = visit.page, []
    look_at(visit, f"/jobs/{NAMESPACES[0]}/{WIDE}", f"{WIDE}-0000")
    page.on("request", lambda request: paths.append(request.url.partition(API)[2].partition("?")[0]))
    for _ in range(2):
        with page.expect_response(lambda response: f"name={WIDE}" in response.url):
            pass
    assert f"jobs/{WIDE}/details" not in paths


def test_rows_of_a_wide_job_are_shown_in_pages(visit: Visit) -> None:
    look_at(visit, f"/jobs/{NAMESPACES[0]}/{WIDE}", f"{WIDE}-0000")
    visit.see(f"Page 1 of {WIDE_PODS // 100}, {WIDE_PODS} in all")
    visit.page.get_by_role("button", name="Next").click()
    visit.see(f"{WIDE}-0100")
    assert visit.page.locator("tbody tr").count() == 100
