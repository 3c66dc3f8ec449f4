"""A real browser for the pages of the console. What the browser reports about a page fails the test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.missing_parts import missing
from support.served import Served

TOOLS = Path(__file__).resolve().parents[1] / "browser_tools"
PATIENCE = 60_000
"""Milliseconds until a page shows what it should, on a busy machine."""
_SIZE = {"width": 1280, "height": 800}


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
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page of the console that a user is logged in to. ``troubles`` is what the browser has reported."""

    def __init__(self, served: Served, page: Any) -> None:
        self.served = served
        self.page = page
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

    def log_in(self, name: str = "admin") -> Visit:
        """Log in as a user of the service."""
        self.page.goto(self.served.url)
        self.page.fill("#token", self.served.tokens[name])
        self.page.click("button[type=submit], form button")
        self.page.wait_for_selector("nav.menu")
        return self

    def open(self, address: str) -> Visit:
        """Open a page of the console by the part of its address after `#`."""
        self.page.goto(f"{self.served.url}/#{address}")
        return self

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
        self.page.evaluate((tools() / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
        tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        found = self.page.evaluate("tags => axe.run({runOnly: tags})", tags)
        return [
            f"{item['id']}: {', '.join(node['html'][:200] for node in item['nodes'])}" for item in found["violations"]
        ]


@contextmanager
def visiting(browser: Any, served: Served, **options: Any) -> Iterator[Visit]:
    """Yield a page in a new profile of the browser; fail if the browser has reported anything."""
    context = browser.new_context(**{"viewport": _SIZE, "locale": "en", **options})
    try:
        visit = Visit(served, context.new_page())
        yield visit
        assert visit.troubles == []
    finally:
        context.close()
