"""Failures of the service, the cluster and the network: the console shows them, and continues when they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from control_plane.processes import free_ports
from gpuctl_server.access.tokens import read_tokens, write_tokens
from properties.scale import part_of
from support.browser import BLOCKED, PAGES, Visit, visiting
from support.cluster_tools import Place, training
from support.served import Served, serving


def test_lists_show_an_error_in_place_of_data(visit: Visit) -> None:
    visit.log_in().open("/jobs?pool=" + "x" * 300)
    visit.see("400 InvalidRequest")
    assert visit.page.locator("table").count() == 0


def test_each_failed_request_of_a_page_is_reported(visit: Visit, place: Place, served: Served) -> None:
    """Also those beside the main one, such as the values of filters: nothing is silently missing."""
    place.apply(BLOCKED, flags=("--no-probe",))
    served.until("/jobs/stuck/why", lambda value: value["cause"], namespace=place.namespace)
    visit.log_in()
    # Without a database the page of usage sends no request.
    for address in part_of((item for item in PAGES if item != "/usage"), 7):
        where = address.replace("NAMESPACE", place.namespace)
        assert (address, visit.unreported_failures(where)) == (address, [])


ANSWERS: list[tuple[dict[str, Any] | None, str]] = [
    ({"status": 500, "json": {"error": "InternalError", "message": "see the log"}}, "500 InternalError"),
    ({"status": 502, "body": "<html>Bad Gateway</html>", "content_type": "text/html"}, "HTTP 502 Bad Gateway"),
    ({"status": 200, "body": "<html>Log in</html>", "content_type": "text/html"}, "The answer is not one of"),
    (None, "The service cannot be reached."),
]


@pytest.mark.parametrize(("answer", "text"), part_of(ANSWERS, 4))
def test_failure_is_shown_and_the_page_recovers(visit: Visit, answer: dict[str, Any] | None, text: str) -> None:
    page = visit.log_in().page
    page.route("**/api/v1/quotas", lambda route: route.fulfill(**answer) if answer else route.abort("connectionreset"))
    visit.open("/quotas")
    visit.see(text)
    assert page.locator("table").count() == 0
    page.unroute_all()
    # Without a click: the request is sent again.
    visit.see("gpuctl get quotas")
    assert page.locator(".problem").count() == 0
    visit.troubles.clear()


def test_one_failure_of_several_parts_is_one_notice(visit: Visit) -> None:
    page = visit.log_in(address="/overview").page
    page.route("**/api/v1/**", lambda route: route.abort("connectionreset"))
    page.reload()
    visit.see("No data: see the error on this page.")
    assert page.get_by_text("The service cannot be reached.").count() == page.locator(".problem").count() == 1
    assert visit.barriers() == []
    page.unroute_all()
    page.get_by_text("see the error on this page").first.wait_for(state="detached")
    page.locator(".problem").wait_for(state="detached")
    visit.troubles.clear()


def test_focus_moves_to_the_heading_when_its_button_is_gone(visit: Visit) -> None:
    page = visit.log_in().page
    page.route("**/api/v1/quotas", lambda route: route.abort("connectionreset"))
    visit.open("/quotas")
    visit.see("The service cannot be reached.")
    page.unroute_all()
    page.get_by_role("button", name="Try again").focus()
    page.keyboard.press("Enter")
    visit.see("gpuctl get quotas")
    page.locator("h1:focus").wait_for()
    visit.troubles.clear()


@pytest.mark.slow
def test_slow_answer_is_announced_and_then_shown(visit: Visit) -> None:
    page, held = visit.log_in().page, list[Any]()
    page.route("**/api/v1/nodes?*", lambda route: held.append(route))
    visit.open("/nodes")
    visit.see("The service has not answered for 5 s.")
    held.pop().continue_()
    visit.see("drill-0")


@pytest.mark.slow
def test_page_recovers_when_the_service_is_replaced(plane: ControlPlane, tmp_path: Path, browser: Any) -> None:
    [port] = free_ports(1)
    settings: Any = {"port": str(port)}
    with (
        serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}, **settings) as own,
        visiting(browser, own) as visit,
    ):
        visit.log_in().open("/nodes")
        visit.see("drill-0")
        entries = read_tokens(tmp_path / "tokens.json")
        own.process.kill()
        own.process.wait()
        visit.see("they cannot be loaded again. The service cannot be reached.")
        visit.see("drill-0")
        with serving(tmp_path, plane.kubeconfig(), {}, **settings):
            write_tokens(tmp_path / "tokens.json", entries)
            visit.page.locator(".problem").wait_for(state="detached")
            visit.see("drill-0")
        visit.troubles.clear()


@pytest.mark.slow
def test_followed_log_names_a_node_that_does_not_answer_and_continues(
    visit: Visit, place: Place, served: Served
) -> None:
    node = f"{place.namespace}-silent"
    place.plane.add_node(node, labels={"runwhere.ai/pool": place.namespace}, gpus=1)
    place.plane.wait_for_nodes()
    try:
        place.apply(training(resources={"pool": place.namespace}))
        [pod] = place.running("train")
        place.plane.write_log(place.namespace, pod, "before\n")
        served.until_running("train", place.namespace)
        port = place.plane.get("node", node)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        _move_kubelet(place, node, 1)
        page = visit.log_in().page
        visit.open(f"/jobs/{place.namespace}/train?tab=logs")
        visit.see(f"node {node} does not answer: connection refused")
        # A second follower of the same log is told, too.
        page.reload()
        visit.see(f"node {node} does not answer: connection refused")
        assert visit.barriers() == []
        _move_kubelet(place, node, port)
        visit.see("before", ".log")
        visit.see(f"the log of {pod} continues")
        page.get_by_text("does not answer").wait_for(state="detached")
        place.plane.write_log(place.namespace, pod, "after\n")
        visit.see("after", ".log")
        assert page.locator(".log .line").count() == 2
    finally:
        place.plane.kubectl("delete", "node", node)


def _move_kubelet(place: Place, node: str, port: int) -> None:
    """Let the API server look for the kubelet of a node at another port."""
    value = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}}
    place.plane.kubectl("patch", "node", node, "--subresource=status", "-p", json.dumps(value))


def test_followed_log_says_that_the_api_server_is_away_and_continues(
    visit: Visit, place: Place, served: Served
) -> None:
    place.apply(training())
    [pod] = place.running("train")
    place.plane.write_log(place.namespace, pod, "first\n")
    served.until_running("train", place.namespace)
    page = visit.log_in().page
    visit.open(f"/jobs/{place.namespace}/train?tab=logs")
    visit.see("first", ".log")
    place.plane.stop_api_server(kill=True)
    try:
        visit.see("Interrupted; trying again:")
        place.plane.write_log(place.namespace, pod, "second\n")
    finally:
        place.plane.start_api_server()
    visit.see("second", ".log")
    page.get_by_text("Interrupted; trying again:").wait_for(state="detached")
    assert page.locator(".log .line").all_inner_texts() == ["first", "second"]
    served.until("/jobs", lambda value: value["total"] >= 1, namespace=place.namespace)
    visit.troubles.clear()


@pytest.mark.parametrize("broken", part_of(["connection", "answer"], 2))
def test_followed_log_continues_after_the_connection_to_the_service_broke(
    visit: Visit, place: Place, served: Served, broken: str
) -> None:
    place.apply(training())
    [pod] = place.running("train")
    place.plane.write_log(place.namespace, pod, "first\n")
    served.until_running("train", place.namespace)
    page = visit.log_in().page
    ends: list[Any] = []

    def cut(route: Any) -> None:
        """Answer with the first line of the stream alone, then not at all."""
        ends.append(route)
        if len(ends) == 1:
            line = {"pod": pod, "container": "main", "timestamp": "2026-01-01T00:00:00Z", "text": "early"}
            body = f"data: {json.dumps(line)}\n\n"
            route.fulfill(status=200, content_type="text/event-stream", body=body)
        elif broken == "connection":
            route.abort("connectionrefused")
        else:
            route.fulfill(status=503, json={"error": "ServiceUnavailable", "message": "the cluster is away"})

    page.route("**/logs?*", cut)
    visit.open(f"/jobs/{place.namespace}/train?tab=logs")
    visit.see("early", ".log")
    visit.see("The service cannot be reached." if broken == "connection" else "the cluster is away")
    visit.see("Interrupted; trying again", ".log-state")
    page.unroute_all()
    visit.see("first", ".log")
    visit.see("and continues where it was")
    visit.see("Following", ".log-state")
    assert page.locator(".log .line").all_inner_texts() == ["early", "first"]
    visit.troubles.clear()
