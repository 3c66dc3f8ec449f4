"""A real browser for the pages of the console. What the browser reports about a page fails the test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.cluster_tools import training
from support.missing_parts import missing
from support.served import Served

TOOLS = Path(__file__).resolve().parents[1] / "browser_tools"
PATIENCE = 60_000
"""Milliseconds until a page shows what it should, on a busy machine."""
BLOCKED = training("stuck", resources={"gpu": 100})
"""A job that waits: no node has so many GPUs."""
_JOB = "/jobs/NAMESPACE/stuck"
PAGES = [
    "/overview",
    "/jobs",
    _JOB,
    *(f"{_JOB}?tab={tab}" for tab in ("logs", "events", "use", "document", "history")),
    "/new",
    "/nodes",
    "/nodes/drill-0",
    "/pools",
    "/pools/drill",
    "/quotas",
    "/queues",
    "/usage",
    "/history",
]
"""Addresses of all pages, with the parts of the page of the blocked job."""
_SIZE = {"width": 1280, "height": 800}
_REPORTED = 5000
"""Milliseconds until a page reports a request that failed at once."""


def tools() -> Path:
    """Return the directory of axe-core and TypeScript; without npm the test is skipped, in CI it fails."""
    if shutil.which("npm") is None:
        missing("npm is missing: it installs the programs that check the console")
    result = subprocess.run([TOOLS / "build"], capture_output=True, text=True, check=False)
    if result.returncode:
        missing(f"{TOOLS / 'build'} failed: {result.stderr}")
    return Path(result.stdout.strip()) / "node_modules"


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser of Playwright; without its parts the test is skipped, in CI it fails."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("playwright is missing: `make setup` installs it")
    program = shutil.which("chromium")
    if program is None:
        missing("chromium is missing: `apt-get install chromium`")
    # Its sandbox does not work for root, whom containers of CI use.
    # Pages of one profile and one service share a process, see :class:`Profile`.
    flags = ["--process-per-site", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield browser
        finally:
            browser.close()


def _form(url: str) -> str:
    """Return the path and the query of a request, without times."""
    parts = urlsplit(url)
    query = [f"{name}={value}" for name, value in parse_qsl(parts.query) if not name.endswith("_time")]
    return f"{parts.path} {' '.join(sorted(query))}".strip()


class Visit:
    """A page of the console that a user is logged in to. ``troubles`` is what the browser has reported."""

    def __init__(self, served: Served, page: Any) -> None:
        from playwright.sync_api import TimeoutError as Timeout

        self.served = served
        self.page = page
        self._timeout = Timeout
        self.troubles: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.troubles.append(f"exception: {error}"))
        page.on("requestfailed", self._note_failure)
        page.on("request", self._note_request)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _note_failure(self, request: Any) -> None:
        # The page ends requests whose answers it no longer needs.
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"{request.url}: {request.failure}")

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith((self.served.url, "data:", "blob:")):
            self.troubles.append(f"a request to another host: {request.url}")

    def log_in(self, name: str = "admin", address: str = "/nowhere") -> Visit:
        """Log in as a user of the service, without the form, and open a page: by default one that asks for nothing."""
        begun = self.page.context.request.post(
            f"{self.served.url}/console/session", data={"token": self.served.tokens[name]}
        )
        assert begun.ok, begun.text()
        # Another part after `#` alone would not load the page.
        self.page.goto("about:blank")
        self.open(address)
        self.page.wait_for_selector("nav.menu")
        return self

    def open(self, address: str) -> Visit:
        """Open a page of the console by the part of its address after `#`."""
        self.page.goto(f"{self.served.url}/#{address}")
        return self

    def open_anew(self, address: str) -> Visit:
        """Open a page as after a reload of the tab, and wait until nothing is loading."""
        self.open(address)
        self.page.reload()
        self.page.wait_for_selector("h1")
        self.page.wait_for_selector("text=/Loading …|正在加载/", state="detached")
        return self

    def unreported_failures(self, address: str) -> list[str]:
        """Let each request of a page fail, one after another; return those of which the page says nothing."""
        sent: list[str] = []

        def note(request: Any) -> None:
            if "/api/v1/" in request.url:
                sent.append(_form(request.url))

        # The page before may still send a request.
        self.page.goto("about:blank")
        self.page.on("request", note)
        self.open_anew(address)
        # Requests that wait for the answer to another one.
        self.page.wait_for_timeout(700)
        self.page.remove_listener("request", note)
        assert sent, address
        unreported = []
        for form in dict.fromkeys(sent):
            self._break(form)
            self.open_anew(address)
            try:
                self.page.locator(".problem").get_by_text(f"broken: {form}").first.wait_for(timeout=_REPORTED)
            except self._timeout:
                unreported.append(form)
            self.page.unroute_all()
        # The browser notes each status.
        self.troubles = [trouble for trouble in self.troubles if "503" not in trouble]
        return unreported

    def _break(self, form: str) -> None:
        value = {"error": "ServiceUnavailable", "message": f"broken: {form}"}
        self.page.route(lambda url: _form(url) == form, lambda route: route.fulfill(status=503, json=value))

    def see(self, text: str, within: str = "main") -> Any:
        """Wait until the page shows a text; return its element."""
        found = self.page.locator(within).get_by_text(text).first
        found.wait_for()
        return found

    @property
    def editor(self) -> Any:
        """The editor of documents: CodeMirror's field, or the text area without it."""
        return self.page.get_by_role("textbox", name="Documents in YAML", exact=True)

    def until_document(self) -> None:
        """Wait for the editor and the document to start from, which comes with the pools."""
        self.page.locator(".cm-line").nth(9).wait_for()

    def write_document(self, text: str) -> None:
        """Replace the text of the editor."""
        self.editor.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)

    def document(self) -> str:
        """Return the text of the editor. The document must be short: a line that is not in view may be missing."""
        return "\n".join(self.page.locator(".cm-line").all_text_contents())

    def barriers(self) -> list[str]:
        """Return what axe-core finds on the page: rule, and elements."""
        # It stays until the page is loaded again; reading it costs more than what it does.
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate((tools() / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.page.evaluate("tags => axe.run({runOnly: tags})", tags)
        return [
            f"{item['id']}: {', '.join(node['html'][:200] for node in item['nodes'])}" for item in found["violations"]
        ]


@contextmanager
def visiting(browser: Any, served: Served, **options: Any) -> Iterator[Visit]:
    """Yield a page in a new profile of the browser; fail if the browser has reported anything."""
    context = _profile(browser, options)
    try:
        visit = Visit(served, context.new_page())
        yield visit
        assert visit.troubles == []
    finally:
        context.close()


def _profile(browser: Any, options: Mapping[str, Any]) -> Any:
    return browser.new_context(**{"viewport": _SIZE, "locale": "en", **options})


class Profile:
    """A profile of the browser for several visits of one service, each of which finds it without stored data.

    It costs half as much as a new one for each: the page that stays open keeps the process that runs the next pages.
    """

    def __init__(self, browser: Any, served: Served) -> None:
        self._served = served
        self._context = _profile(browser, {})
        self._open_page = self._context.new_page()
        self._open_page.goto(f"{served.url}/readyz")

    @contextmanager
    def visiting(self) -> Iterator[Visit]:
        """Yield a page; fail if the browser has reported anything."""
        try:
            visit = Visit(self._served, self._context.new_page())
            yield visit
            assert visit.troubles == []
        finally:
            for page in self._context.pages:
                if page is not self._open_page:
                    page.close()
            self._context.clear_cookies()
            self._open_page.evaluate("localStorage.clear()")

    def close(self) -> None:
        """Close all pages."""
        self._context.close()
