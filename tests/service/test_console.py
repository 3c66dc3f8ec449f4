"""The web console in a real browser, before a real control plane."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl_usage.store.database import open_database
from properties.scale import part_of
from support.browser import BLOCKED, PAGES, Visit, visiting
from support.cluster_tools import Place, training
from support.served import Served, serving

UNKNOWN = {"gpuUsed", "gpuFree", "gpuUnavailable", "cpuUsed", "memoryUsed", "runningJobs", "used"}
"""Fields of answers about nodes and pools that are null without the right to read pods."""


def test_login_shows_the_overview_and_logout_ends_it(visit: Visit) -> None:
    page = visit.page
    page.goto(visit.served.url)
    page.fill("#token", visit.served.tokens["vera"])
    page.press("#token", "Enter")
    page.get_by_role("heading", name="Overview").wait_for()
    page.reload()
    page.get_by_role("heading", name="Overview").wait_for()
    assert page.evaluate("[...Object.keys(localStorage)].sort()") == ["gpuctl.language", "gpuctl.theme"]
    assert page.evaluate("document.cookie") == ""
    assert "History" not in page.locator("nav.menu").inner_text()
    page.click("text=Log out")
    page.wait_for_selector("#token")
    assert "History" in visit.log_in("admin").page.locator("nav.menu").inner_text()


def test_ended_session_says_so_and_the_next_login_returns_to_the_page(visit: Visit) -> None:
    page = visit.log_in("vera").page
    visit.open("/nodes")
    page.get_by_role("heading", name="Nodes").wait_for()
    page.context.clear_cookies()
    # Not a button of the page, which may reload by itself before.
    visit.open("/pools")
    visit.see("Your session has ended.")
    page.locator("#token:focus").wait_for()
    page.keyboard.type(visit.served.tokens["vera"])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Pools").wait_for()
    visit.troubles.clear()


def test_page_sends_no_request_while_its_user_logs_out(visit: Visit) -> None:
    """Its answer would be 401, and the page would say that the session has ended."""
    page = visit.log_in("vera").page
    visit.open("/nodes")
    page.get_by_role("heading", name="Nodes").wait_for()
    # A request that was sent before the logout may be answered after it.
    page.wait_for_load_state("networkidle")

    def slowly(route: Any) -> None:
        answer = route.fetch()
        time.sleep(1.5)
        route.fulfill(response=answer)

    page.route("**/console/session", slowly)
    refresh = "setTimeout(() => document.querySelector('.age button').click(), 500)"
    page.evaluate(f"addEventListener('click', () => {refresh}, {{once: true}})")
    page.click("text=Log out")
    page.wait_for_selector("#token")
    assert page.get_by_text("Your session has ended.").count() == 0


def test_tab_follows_a_login_of_another_tab(visit: Visit, served: Served) -> None:
    page = visit.log_in("vera").page
    other = page.context.new_page()
    other.goto(served.url)
    other.click("text=Log out")
    other.fill("#token", served.tokens["viktor"])
    other.press("#token", "Enter")
    other.locator(".user").get_by_text("viktor").wait_for()
    page.evaluate("dispatchEvent(new Event('focus'))")
    page.locator(".user").get_by_text("viktor").wait_for()
    other.click("text=Log out")
    other.wait_for_selector("#token")
    page.evaluate("dispatchEvent(new Event('focus'))")
    visit.see("Your session has ended.")
    visit.troubles.clear()


def test_console_works_without_storage_and_with_a_wrong_clock(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training("fresh"))
    served.until_running("fresh", place.namespace)
    page = visit.page
    page.add_init_script(
        """Object.defineProperty(window, "localStorage", {get() { throw new DOMException("blocked", "SecurityError"); }});
        const right = Date.now;
        Date.now = () => right() + 7_200_000;"""
    )
    visit.log_in().open(f"/jobs?namespace={place.namespace}")
    ages = page.locator("td[data-head=Age] time")
    ages.filter(has_text=re.compile(r"^\d+ (s|min)$")).wait_for()
    page.click("text=中文")
    page.get_by_role("heading", name="任务").wait_for()


@pytest.mark.parametrize("name", ["nowhere", "constructor"])
def test_address_of_no_page_says_so(visit: Visit, name: str) -> None:
    """Each object of JavaScript has a property ``constructor``."""
    page = visit.log_in().page
    visit.open(f"/{name}")
    page.get_by_role("heading", name="There is no such page").wait_for()
    visit.open(f"/jobs?status={name}")
    page.get_by_role("heading", name="Jobs").wait_for()


def test_wrong_token_is_an_error_beside_the_field(visit: Visit) -> None:
    visit.page.goto(visit.served.url)
    visit.page.fill("#token", "wrong")
    visit.page.click("form button")
    visit.see("the token is missing, invalid or expired")
    # The browser notes the status of the answer.
    [trouble] = visit.troubles
    assert "401" in trouble
    visit.troubles.clear()


def test_status_is_one_word_in_the_list_the_overview_and_the_page_of_a_job(
    visit: Visit, place: Place, served: Served
) -> None:
    place.apply(training("first"), training("second", job={"after": ["first"]}))
    served.until("/jobs", lambda value: value["total"] == 2, namespace=place.namespace)
    visit.log_in().open(f"/jobs?namespace={place.namespace}&status=pending")
    visit.see("Waiting", ".status")
    assert visit.page.locator("select[name=status] option:checked").inner_text() == "All waiting"
    visit.open("/overview")
    row = visit.page.locator("tr", has_text=f"{place.namespace}/second")
    assert row.locator(".status").first.inner_text() == "Waiting"
    # `fit` has no verdict about a job that waits for another one.
    row.locator("td.none[data-head='Would it fit?']").wait_for()
    visit.open(f"/jobs/{place.namespace}/second")
    visit.see("Waiting", ".summary .status")


def test_job_list_without_filters_says_that_there_is_no_job(visit: Visit) -> None:
    visit.log_in("nora").open("/jobs")
    visit.see("There is no job that you may see.")
    visit.open("/jobs?status=failed")
    visit.see("No job matches.")


def test_job_list_has_its_filters_in_the_address(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training("one"), training("two"))
    served.until_running("one", place.namespace)
    page = visit.log_in().page
    visit.open(f"/jobs?namespace={place.namespace}")
    visit.see("one")
    visit.see("two")
    visit.see(f"gpuctl get jobs -n {place.namespace} --jobs")
    page.fill("input[name=name]", "two")
    page.press("input[name=name]", "Enter")
    page.locator("tbody tr").nth(1).wait_for(state="detached")
    assert f"#/jobs?namespace={place.namespace}&name=two" in page.url
    page.reload()
    page.locator("tbody tr").first.wait_for()
    assert page.locator("tbody tr").count() == 1
    page.select_option("select[name=status]", "failed")
    visit.see("No job matches.")
    page.go_back()
    visit.see("two")
    assert page.locator("select[name=status]").input_value() == ""
    page.go_back()
    visit.see("one")
    assert page.locator("input[name=name]").input_value() == ""


def test_job_page_explains_a_waiting_job(visit: Visit, place: Place, served: Served) -> None:
    place.apply(BLOCKED, flags=("--no-probe",))
    why = served.until("/jobs/stuck/why", lambda value: value["cause"], namespace=place.namespace)
    visit.log_in().open(f"/jobs/{place.namespace}/stuck")
    visit.see(why["cause"])
    assert visit.page.title() == f"{place.namespace}/stuck · Jobs · gpuctl"
    visit.see(why["message"])
    visit.see(f"gpuctl why training/stuck -n {place.namespace}")
    visit.page.click("text=Events")
    visit.see("gpuctl describe job training/stuck")
    visit.page.click("nav.tabs >> text=Document")
    visit.see("kind: training")


@pytest.mark.slow
def test_job_page_links_the_jobs_that_it_waits_for(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training("first"), training("second", job={"after": ["first"]}))
    served.until("/jobs/second/why", lambda value: value["cause"] == "waiting-for-jobs", namespace=place.namespace)
    page = visit.log_in().page
    visit.open(f"/jobs/{place.namespace}/second")
    row = page.get_by_role("table", name="Jobs that must end first").locator("tbody tr")
    assert "has not ended" in row.inner_text()
    row.get_by_role("link", name="first").click()
    page.get_by_role("heading", name="first").wait_for()


def test_cause_fix_evidence_and_verdict_are_in_chinese(browser: Any, place: Place, served: Served) -> None:
    place.apply(BLOCKED, flags=("--no-probe",))
    why = served.until("/jobs/stuck/why", lambda value: value["cause"] == "gpu-shortage", namespace=place.namespace)
    with visiting(browser, served, locale="zh-CN") as visit:
        visit.log_in().open(f"/jobs/{place.namespace}/stuck")
        visit.see("等待中", ".summary")
        visit.see("因此永远放不下", ".why")
        visit.see("分散到更多节点", ".why .fix")
        visit.page.click(".why summary")
        visit.see("资源池 drill：有", ".why")
        visit.see("，共 ", ".why li")
        assert why["message"] not in visit.page.locator(".why").inner_text()
        visit.open("/")
        visit.see("没有节点能接受它的 Pod", ".reason")


def test_logs_follow_and_are_searched(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training(resources={"nodes": 2}))
    pods = sorted(place.running("train", pods=2))
    for pod in pods:
        place.plane.write_log(place.namespace, pod, f"first of {pod}\n")
    served.until_running("train", place.namespace, 2)
    page = visit.log_in().page
    visit.open(f"/jobs/{place.namespace}/train?tab=logs")
    for pod in pods:
        visit.see(f"first of {pod}", ".log")
    visit.see("Following")
    place.plane.write_log(place.namespace, pods[0], f"first of {pods[0]}\nnow <b>this</b>\n")
    visit.see("now <b>this</b>", ".log")
    place.plane.write_log(
        place.namespace, pods[0], "\x1b[1;31mERROR\x1b[0m \x1b]0;title\x07of \x1b[38;5;9m256\x1b[m\n 1%\r100%\n"
    )
    visit.see("ERROR of 256", ".log")
    assert page.locator(".log .sgr-31.bold").all_inner_texts() == ["ERROR"]
    assert page.locator(".log .line").filter(has_text="100%").inner_text().endswith(" 100%")
    page.locator(".log .line").filter(has_text=" 1%").wait_for(state="detached")
    page.fill("input[name=search]", "error of")
    page.locator(".log mark").wait_for()
    page.fill("input[name=search]", "THIS")
    page.locator(".log .line").nth(1).wait_for(state="detached")
    assert page.locator(".log mark").all_inner_texts() == ["this"]
    page.fill("input[name=search]", "")
    page.select_option("select[name=pod]", pods[1])
    page.locator(".log .line").filter(has_text="now").wait_for(state="detached")
    visit.see(f"--pod {pods[1]} --tail 500 --follow")


def test_hidden_page_keeps_no_more_lines_of_a_followed_log(visit: Visit, place: Place, served: Served) -> None:
    """A browser draws no frames of a hidden page, here none at all."""
    place.apply(training())
    [pod] = place.running("train")
    served.until_running("train", place.namespace)
    line = {"pod": pod, "container": "main", "timestamp": "2026-01-01T00:00:00Z", "text": "x"}
    body = f"data: {json.dumps(line)}\n\n" * 25_000
    page = visit.log_in().page
    page.route("**/logs?*", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body))
    page.evaluate(
        """() => {
            const push = Array.prototype.push;
            [window.read, window.most] = [0, 0];
            window.requestAnimationFrame = () => 1;
            Array.prototype.push = function (...items) {
                const length = push.apply(this, items);
                if (items[0]?.container) {
                    window.read += 1;
                    window.most = Math.max(window.most, length);
                }
                return length;
            };
        }"""
    )
    page.evaluate(f"location.hash = '#/jobs/{place.namespace}/train?tab=logs'")
    end = time.monotonic() + 60
    while page.evaluate("window.read") < 25_000:
        assert time.monotonic() < end
        page.wait_for_timeout(50)
    assert page.evaluate("window.most") <= 20_001
    visit.troubles.clear()


@pytest.mark.slow
def test_log_of_long_lines_is_shown_at_its_end_on_a_phone(browser: Any, place: Place, served: Served) -> None:
    place.apply(training())
    [pod] = place.running("train")
    lines = [f"step {number} {'word ' * 40}" for number in range(400)]
    place.plane.write_log(place.namespace, pod, "".join(f"{line}\n" for line in lines))
    served.until_running("train", place.namespace)
    with visiting(browser, served, viewport={"width": 390, "height": 800}) as visit:
        visit.log_in().open(f"/jobs/{place.namespace}/train?tab=logs")
        visit.see("step 399 ", ".log")
        left = "log => log.scrollHeight - log.clientHeight - log.scrollTop"
        visit.page.wait_for_function(f"({left})(document.querySelector('.log')) < 30")


def test_amounts_of_each_role_are_shown(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training())
    served.until_running("train", place.namespace)
    roles = [{"name": name, "pods": pods, "resources": {"gpu": pods, "cpu": 2}} for name, pods in (("a", 3), ("b", 1))]

    def with_roles(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "roles": roles})

    page = visit.log_in().page
    visit.open(f"/jobs/{place.namespace}/train")
    visit.see("Each pod", ".facts")
    page.route("**/details?*", with_roles)
    page.reload()
    visit.see("Each pod of a, 3 in all", ".facts")
    visit.see("3 GPU, 2 CPU", ".facts")


def test_job_with_many_pods_is_shown_in_pages(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training())
    served.until_running("train", place.namespace)

    def multiply(route: Any) -> None:
        answer = route.fetch()
        value = answer.json()
        [pod] = value["pods"]
        value["pods"] = [{**pod, "pod": f"train-{number}"} for number in range(5000)]
        route.fulfill(response=answer, json=value)

    page = visit.log_in().page
    page.route("**/details?*", multiply)
    visit.open(f"/jobs/{place.namespace}/train")
    visit.see("train-99")
    assert page.locator("tbody tr").count() == 100
    page.get_by_role("button", name="Next").click()
    visit.see("train-199")


def test_amounts_that_may_not_be_read_are_dashes(visit: Visit) -> None:
    """Without the right to read pods, their use is null: a zero would say that nothing is used."""

    def without_pods(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=_with(answer.json(), UNKNOWN, None))

    page = visit.log_in().page
    page.route(re.compile("/api/v1/(pools|nodes|gpu-types|quotas)"), without_pods)
    visit.open_anew("/overview")
    assert visit.see("GPUs free", ".tiles").inner_text().startswith("–")
    assert set(page.locator("td[data-head=Free]").all_inner_texts()) == {"–"}
    for address in ("/pools/drill", "/nodes/drill-0"):
        visit.open(address)
        visit.see("– / ", ".facts")
        assert "null" not in page.inner_text(".facts")
    visit.see("not visible", ".empty")


@pytest.mark.slow
def test_array_shows_how_many_pods_have_succeeded(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training("many", array={"size": 4, "parallelism": 2}))
    served.until_running("many", place.namespace, 2)
    visit.log_in().open(f"/jobs/{place.namespace}/many")
    visit.see("0/4 succeeded, 2 of 2 pods run", ".summary")


def test_curve_has_gaps_only_where_steps_are_missing(visit: Visit) -> None:
    """The first week of a period is shorter than the others."""
    page = visit.log_in().page
    call = """async (times) => {
      const main = document.querySelector("script[type=module]").src;
      return (await import(new URL("chart.js", main))).withGaps(times, [times]);
    }"""
    weeks = [5, 6, 13, 20, 27]
    assert page.evaluate(call, weeks) == [weeks, weeks]
    assert page.evaluate(call, [1, 2, 3, 6, 7]) == [[1, 2, 3, 5, 6, 7], [1, 2, 3, None, 6, 7]]


def test_chart_is_drawn_in_a_browser_whose_language_is_not_valid(visit: Visit) -> None:
    page = visit.page
    page.add_init_script("Object.defineProperty(Navigator.prototype, 'language', {get: () => 'C'})")
    visit.log_in()
    page.evaluate(
        """async () => {
          const main = document.querySelector("script[type=module]").src;
          const names = ["chart.js", "parts.js", "vendor/preact.js"];
          const [{ Chart }, { html }, { render }] = await Promise.all(names.map((name) => import(new URL(name, main))));
          const series = [{ label: "GPUs", colour: "--good", values: [1, 2] }];
          const place = document.body.appendChild(document.createElement("div"));
          render(html`<${Chart} label="x" unit="GPU" times=${[60, 120]} series=${series} from=${60} to=${120} />`, place);
        }"""
    )
    page.locator(".chart canvas").wait_for()


@pytest.mark.slow
def test_overview_says_when_a_waiting_job_fits(visit: Visit, place: Place, served: Served) -> None:
    place.apply(BLOCKED, flags=("--no-probe",))
    served.until("/jobs/stuck/why", lambda value: value["cause"], namespace=place.namespace)
    by = (datetime.now(timezone.utc) + timedelta(hours=3.5)).isoformat()

    def opened(route: Any) -> None:
        # Not the answer to a request of another test, which does not have the job.
        answer = route.fetch(url=route.request.url.replace("maxAge=30", "maxAge=0"))
        route.fulfill(response=answer, json=_with(answer.json(), {"opening"}, {"by": by, "takenAt": by, "after": []}))

    visit.page.route("**/api/v1/fit?*", opened)
    visit.log_in().open("/overview")
    visit.see("room in 3 h at the latest")


def test_job_of_another_namespace_is_not_shown(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training("mine"))
    served.until_running("mine", place.namespace)
    visit.log_in("otto").open(f"/jobs/{place.namespace}/mine")
    visit.see("No permission")
    visit.see("403 Forbidden")
    visit.open("/elsewhere")
    visit.page.get_by_role("link", name="To the overview").click()
    visit.page.get_by_role("heading", name="Overview").wait_for()


def walk(visit: Visit, addresses: Iterable[str]) -> None:
    """Show pages one after another; the browser reports requests that failed."""
    for address in addresses:
        visit.open(address)
        visit.page.wait_for_selector("h1")
        visit.page.wait_for_selector("text=/Loading …|Checking …/", state="detached")
        visit.page.wait_for_timeout(300)
        assert (address, visit.troubles) == (address, [])


def test_pages_of_a_fresh_service_make_no_request_that_fails(
    plane: ControlPlane, place: Place, tmp_path: Path, browser: Any
) -> None:
    """Until a collector has begun, and before the first snapshot and the first hour, nothing asks for usage."""
    place.apply(BLOCKED, flags=("--no-probe",))
    path = tmp_path / "usage.db"
    users: dict[str, Any] = {"admin": ("admin", None, None)}
    with serving(tmp_path, plane.kubeconfig(), users, usage_database=str(path)) as own:
        own.until("/jobs", lambda value: value["total"], namespace=place.namespace)
        with visiting(browser, own) as visit:
            pages = [address.replace("NAMESPACE", place.namespace) for address in part_of(PAGES, 3)]
            walk(visit.log_in(), pages)
            visit.open("/overview")
            visit.see("no usage of this cluster has been collected yet", "#main section:last-of-type")
            database = open_database(str(path))
            cluster = database.put_cluster(plane.get("namespace", "kube-system")["metadata"]["uid"], "demo")
            walk(visit, ["/overview", "/usage", "/jobs"])
            visit.open("/overview")
            database.put_changes(cluster, time.time())
            # Without a reload of the page.
            visit.see("No job has held idle GPUs for an hour.")
            walk(visit, [*pages, *(f"/usage?by={unit}" for unit in ("workload", "node", "model", "label"))])
            database.close()


@pytest.mark.parametrize(
    "user", ["otto", *(pytest.param(name, marks=pytest.mark.slow) for name in ("vera", "paula", "viktor", "nora"))]
)
def test_pages_ask_for_nothing_that_a_token_may_not_see(visit: Visit, place: Place, served: Served, user: str) -> None:
    place.apply(BLOCKED, flags=("--no-probe",))
    served.until("/jobs", lambda value: value["total"], namespace=place.namespace)
    sees_job = user in ("vera", "paula")
    pages = [address.replace("NAMESPACE", place.namespace) for address in PAGES if sees_job or "/jobs/" not in address]
    walk(visit.log_in(user), pages)


def test_page_of_an_object_that_is_gone_makes_no_request_that_fails(visit: Visit, place: Place, served: Served) -> None:
    visit.log_in()
    for address in (f"/jobs/{place.namespace}/gone", "/nodes/gone", "/pools/gone", "/queues/gone"):
        visit.open(address)
        visit.see("404 N")
    place.apply(training("brief"))
    served.until_running("brief", place.namespace)
    visit.open(f"/jobs/{place.namespace}/brief?tab=logs&pod=gone")
    visit.see("404 NotFound")
    visit.open(f"/jobs/{place.namespace}/brief?tab=events")
    visit.see("gpuctl describe job training/brief")
    place.gpuctl("delete", "job", "brief", "--yes")
    visit.see("there is no job brief")
    visit.see(f"All jobs in {place.namespace}")


@pytest.mark.parametrize(
    ("locale", "colours", "width"), [("en", "light", 1280), pytest.param("zh-CN", "dark", 390, marks=pytest.mark.slow)]
)
def test_pages_have_no_barriers(
    browser: Any, served: Served, place: Place, locale: str, colours: str, width: int
) -> None:
    """Each page, by axe-core, and without scrolling sideways."""
    place.apply(BLOCKED, flags=("--no-probe",))
    served.until("/jobs/stuck/why", lambda value: value["cause"], namespace=place.namespace)
    size = {"width": width, "height": 800}
    with visiting(browser, served, locale=locale, color_scheme=colours, viewport=size) as visit:
        visit.page.goto(served.url)
        visit.page.wait_for_selector("#token")
        assert visit.barriers() == []
        visit.log_in()
        for address in part_of(PAGES, 3):
            visit.open(address.replace("NAMESPACE", place.namespace))
            visit.page.wait_for_selector("h1")
            visit.page.wait_for_selector("text=/Loading …|正在加载/", state="detached")
            assert (address, visit.barriers()) == (address, [])
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, address
            assert visit.page.evaluate("document.documentElement.lang") == ("zh-CN" if locale != "en" else "en")


def test_jobs_of_one_name_in_two_namespaces_are_never_mixed(
    visit: Visit, place: Place, served: Served, api: Api
) -> None:
    other = f"{place.namespace[:50]}-b"
    api.create_namespace(other)
    place.apply(training("same"), training("same-train"), training("same", job={"namespace": other}))
    theirs = Place(place.plane, api, other, place.directory, None)
    for each in (place, theirs):
        [pod] = each.running("same")
        served.until_running("same", each.namespace)
        place.plane.write_log(each.namespace, pod, f"log of {each.namespace}\n")
    page = visit.log_in().page
    visit.open("/jobs?name=same")
    for each in (place, theirs):
        page.locator("tbody tr").filter(has_text=f"{each.namespace}/same").first.wait_for()
    page.get_by_role("link", name=f"{other}/same", exact=True).click()
    visit.see(other, "h1")
    page.click("nav.tabs >> text=Logs")
    visit.see(f"log of {other}", ".log")
    # From one page to the other by the address: nothing of the first is left.
    visit.open(f"/jobs/{place.namespace}/same?tab=logs")
    visit.see(f"log of {place.namespace}", ".log")
    assert f"log of {other}" not in page.locator("main").inner_text()
    assert other not in page.locator(".command code").all_inner_texts()[-1]
    page.get_by_role("button", name="Pause", exact=True).click()
    visit.see(place.namespace, "dialog")
    page.locator("dialog .buttons button").nth(1).and_(page.locator(":enabled")).click()
    page.locator("dialog").get_by_text("Done.").wait_for()
    page.keyboard.press("Escape")
    visit.see("paused", ".summary")
    assert served.get("/jobs/same", namespace=other)["status"] == "running"
    # The id of a job that does not exist may look like one of another job.
    place.gpuctl("delete", "job", "same-train", "--yes")
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    visit.open(f"/jobs/{place.namespace}/same-train")
    page.get_by_role("link", name="same", exact=True).wait_for()
    assert page.url.endswith("/same-train")
    api.clear(other)


MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"
"""Text that a browser must not interpret."""


@pytest.mark.parametrize("width", part_of([1280, 390], 2))
def test_foreign_texts_are_shown_as_text_and_do_not_widen_the_page(
    browser: Any, served: Served, place: Place, width: int
) -> None:
    """Of a document, a log and an event: markup, and words that are longer than the page."""
    word = "w" * 3000
    environment = {"env": [{"name": "TEXT", "value": MARKUP}, {"name": "WORD", "value": word}]}
    about = {"description": f"{MARKUP} {word}", "annotations": {"example.com/note": f"{MARKUP} {word}"}}
    place.apply(training("odd", job=about, environment=environment))
    [pod] = place.running("odd")
    served.until_running("odd", place.namespace)
    place.plane.write_log(place.namespace, pod, f"{MARKUP} {word}\n")
    uid = place.get("Pod", pod)["metadata"]["uid"]
    about = {"kind": "Pod", "name": pod, "namespace": place.namespace, "uid": uid, "apiVersion": "v1"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "odd", "namespace": place.namespace}}
    text = {"reason": "Odd", "message": f"{MARKUP} {word[:900]}", "type": "Warning"}
    place.create({**event, **text, "involvedObject": about, "lastTimestamp": "2026-01-01T00:00:00Z"})
    with visiting(browser, served, viewport={"width": width, "height": 800}) as visit:
        page = visit.log_in().page
        page.on("dialog", lambda dialog: visit.troubles.append(dialog.message))
        for tab, within in (("logs", ".log"), ("events", "table"), ("document", "pre"), ("history", "main")):
            visit.open(f"/jobs/{place.namespace}/odd?tab={tab}")
            if tab != "history":
                visit.see(MARKUP, within)
            assert page.locator("main img, main b").count() == 0, tab
            assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
        visit.open(f"/new?namespace={place.namespace}")
        visit.until_document()
        visit.write_document(f"kind: training\n{MARKUP}: {word}\n")
        page.locator(".finding.error").first.wait_for()
        assert page.locator("main img, main b").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def _with(value: Any, names: set[str], new: Any) -> Any:
    """Return JSON with another value for the fields of some names."""
    if isinstance(value, list):
        return [_with(item, names, new) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: new if name in names else _with(item, names, new) for name, item in value.items()}
