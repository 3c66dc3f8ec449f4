"""The console with the keyboard alone, from the login to a stopped job.

The way: log in; on the overview the job that waits; its cause and evidence; the list of jobs; New job; the document in
the editor; Tab out of the editor; the plan; apply; the log; pause. After each step the focus is on an element that shows
it, a new page has it at its heading, a dialog returns it, and axe-core finds nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.browser import BLOCKED, Visit, visiting
from support.cluster_tools import Place
from support.served import Served

FOCUS = """() => {
    const host = document.activeElement;
    const element = host.shadowRoot?.activeElement || host;
    const box = host.getBoundingClientRect();
    const inside = box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
    const shown = [element, host, host.parentElement].some((item) => item && getComputedStyle(item).outlineStyle !== "none");
    const title = element.getAttribute("aria-label") || element.labels?.[0]?.innerText || element.innerText || "";
    return {
        name: `${element.localName}: ${title.split("\\n")[0].trim()}`,
        visible: host !== document.body && box.width > 0 && box.height > 0 && inside && shown,
    };
}"""
"""Script: the element that has the focus, and whether a user sees that."""
MOST_STEPS = 120


class Keyboard:
    """A user who has only a keyboard."""

    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.page = visit.page
        self.way: list[str] = []

    def focus(self) -> str:
        """Return the element that has the focus; a user must see it."""
        found = self.page.evaluate(FOCUS)
        self.way.append(found["name"])
        assert found["visible"], f"the focus is not visible: {self.way[-4:]}"
        return str(found["name"])

    def at(self, name: str) -> None:
        """Wait until an element has the focus, as after a new page; it has no barriers."""
        self.page.wait_for_function(f"name => ({FOCUS})().name === name", arg=name)
        self.focus()
        self.page.wait_for_selector("text=Loading …", state="detached")
        assert self.visit.barriers() == []
        # Nothing that was loaded since has taken the focus.
        assert self.focus() == name

    def go(self, name: str, *, back: bool = False) -> None:
        """Press Tab, or Shift-Tab, until an element has the focus."""
        for _ in range(MOST_STEPS):
            self.page.keyboard.press("Shift+Tab" if back else "Tab")
            if self.focus() == name:
                return
        raise AssertionError(f"no {name} in {self.way}")

    def press(self, name: str, *, back: bool = False) -> None:
        """Go to a link or button and press it."""
        self.go(name, back=back)
        self.page.keyboard.press("Enter")

    def type(self, *lines: str) -> None:
        """Write lines, each at once: one event for each of their keys takes minutes on a busy machine."""
        for line in lines:
            self.page.keyboard.insert_text(line)
            self.page.keyboard.press("Enter")


@pytest.mark.parametrize("colours", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_jobs_are_made_followed_and_stopped_with_the_keyboard(
    browser: Any, served: Served, place: Place, colours: str
) -> None:
    place.apply(BLOCKED, flags=("--no-probe",))
    served.until("/jobs/stuck/why", lambda value: value["cause"] == "gpu-shortage", namespace=place.namespace)
    with visiting(browser, served, color_scheme=colours) as visit:
        keyboard, page = Keyboard(visit), visit.page
        page.goto(served.url)
        keyboard.at("input: Token")
        keyboard.type(served.tokens["admin"])
        keyboard.at("h1: Overview")
        visit.see("stuck")
        keyboard.press(f"a: {place.namespace}/stuck")
        keyboard.at(f"h1: {place.namespace}/stuck")
        visit.see("gpu-shortage", ".why")
        keyboard.press("summary: Evidence")
        visit.see("Ruled out", ".why")
        keyboard.focus()
        keyboard.press("a: Jobs", back=True)
        keyboard.at("h1: Jobs")
        keyboard.press("a: New job")
        keyboard.at("h1: New job")
        visit.until_document()
        keyboard.go("div: Documents in YAML")
        page.keyboard.press("ControlOrMeta+a")
        keyboard.type("kind: training", "version: v0.1", "job:", "name: keyed", f"namespace: {place.namespace}")
        page.keyboard.press("ControlOrMeta+[")
        keyboard.type(
            'environment: {image: "registry.example.com/a:v1", command: ["sleep", "1"]}',
            "resources: {pool: drill, gpu: 1, cpu: 1, memory: 1Gi}",
        )
        # The editor does not keep the focus, in either direction.
        page.keyboard.press("Tab")
        assert "Documents in YAML" not in keyboard.focus()
        keyboard.go("div: Documents in YAML", back=True)
        # The check of this document, not of one that was only begun.
        page.locator(".finding").filter(has_text=f"{place.namespace}/keyed").wait_for()
        keyboard.press("button: Apply …", back=True)
        visit.see("job/keyed", "dialog")
        keyboard.at("button: Cancel")
        keyboard.press("button: Apply")
        keyboard.at("button: Close")
        place.running("keyed")
        served.until_running("keyed", place.namespace)
        keyboard.press("a: Follow its logs", back=True)
        keyboard.at(f"h1: {place.namespace}/keyed")
        [pod] = place.pods("keyed")
        place.plane.write_log(place.namespace, pod, "a line\n")
        visit.see("a line", ".log")
        keyboard.go("div: Logs")
        page.keyboard.press("ArrowDown")
        keyboard.press("button: Pause", back=True)
        keyboard.at("button: Cancel")
        keyboard.press("button: Pause")
        keyboard.at("button: Close")
        page.keyboard.press("Enter")
        page.locator("dialog").wait_for(state="detached")
        visit.see("paused", ".summary")
        page.get_by_role("button", name="Resume", exact=True).wait_for()
        keyboard.focus()
        assert visit.barriers() == []
