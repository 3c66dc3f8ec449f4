"""The web console in a real browser, before a real control plane."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.browser import BLOCKED, PAGES, Visit, visiting
from support.cluster_tools import Place, training
from support.served import Served


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
    page.click("text=Log out")
    page.wait_for_selector("#token")


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


def test_wrong_token_is_an_error_beside_the_field(visit: Visit) -> None:
    visit.page.goto(visit.served.url)
    visit.page.fill("#token", "wrong")
    visit.page.click("form button")
    visit.see("the token is missing, invalid or expired")
    # The browser notes the status of the answer.
    [trouble] = visit.troubles
    assert "401" in trouble
    visit.troubles.clear()


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


def test_cause_has_its_meaning_in_chinese(browser: Any, place: Place, served: Served) -> None:
    place.apply(BLOCKED, flags=("--no-probe",))
    why = served.until("/jobs/stuck/why", lambda value: value["cause"] == "gpu-shortage", namespace=place.namespace)
    with visiting(browser, served, locale="zh-CN") as visit:
        visit.log_in().open(f"/jobs/{place.namespace}/stuck")
        visit.see("没有节点有足够的空闲 GPU：", ".why")
        visit.see(why["message"], ".why")


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


def test_job_of_another_namespace_is_not_shown(visit: Visit, place: Place, served: Served) -> None:
    place.apply(training("mine"))
    served.until_running("mine", place.namespace)
    visit.log_in("otto").open(f"/jobs/{place.namespace}/mine")
    visit.see("403 Forbidden")
    visit.troubles.clear()


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
        for address in PAGES:
            visit.open(address.replace("NAMESPACE", place.namespace))
            visit.page.wait_for_selector("h1")
            visit.page.wait_for_selector("text=/Loading …|正在加载/", state="detached")
            assert (address, visit.barriers()) == (address, [])
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width, address
            assert visit.page.evaluate("document.documentElement.lang") == ("zh-CN" if locale != "en" else "en")
