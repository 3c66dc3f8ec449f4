"""The documentation's site: ``make site`` builds it, and it works from files in both languages."""

from __future__ import annotations

import json
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.pages import ROOT

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "form": "action"}
NOT_LOADED_RELATIONS = frozenset({"canonical", "next", "prev"})


class Page(HTMLParser):
    """The links, the loaded resources and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.language = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if identifier := attributes.get("id"):
            self.anchors.add(identifier)
        if tag == "html":
            self.language = attributes.get("lang") or ""
        if tag == "a" and (link := attributes.get("href")):
            self.links.append(link)
        target = attributes.get(LOADED.get(tag, ""))
        if target and attributes.get("rel") not in NOT_LOADED_RELATIONS:
            self.loaded.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; without MkDocs the tests are skipped, in CI it is installed."""
    if not (ROOT / ".venv-docs" / ".ready").exists() and not os.environ.get("CI"):
        pytest.skip("MkDocs is missing: `make site` installs it")
    output = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(["make", "site", f"SITE={output}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """The built pages by path."""
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


pytestmark = pytest.mark.slow


def test_links_and_anchors_of_the_site_exist(site: Path, pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link == "javascript:void(0)":
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if not target.is_file() or site not in target.parents:
                broken.append(f"{path.relative_to(site)}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.relative_to(site)}: {link}: no such heading")
    assert broken == []


def test_the_site_loads_nothing_from_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    outside = {
        f"{path.relative_to(site)}: {target}"
        for path, page in pages.items()
        for target in page.loaded
        if urlsplit(target).scheme not in ("", "data") or target.startswith("//")
    }
    assert outside == set()
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")) == [], style


def test_loaded_files_exist(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for target in page.loaded:
            if urlsplit(target).scheme == "":
                file = Path(os.path.normpath(path.parent / unquote(urlsplit(target).path)))
                assert file.exists(), f"{path.relative_to(site)}: {target}"


def test_both_languages_have_each_page(site: Path, pages: dict[Path, Page]) -> None:
    chinese = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.zh-CN.md")}
    assert len(chinese) >= 20
    for name in chinese:
        page = str(name).replace(".zh-CN.md", ".html").replace("README.html", "index.html")
        assert pages[site / page].language == "en"
        assert pages[site / "zh" / page].language == "zh"
        # The switch in the header leads to the same page.
        assert os.path.relpath(site / "zh" / page, (site / page).parent) in pages[site / page].links
        assert os.path.relpath(site / page, (site / "zh" / page).parent) in pages[site / "zh" / page].links


def test_each_page_is_there_as_markdown(site: Path) -> None:
    listed = re.findall(r"^- \[.+\]\((\S+)\)$", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) >= 50
    for name in listed:
        text = (site / name).read_text(encoding="utf-8")
        assert text.startswith("# ")
        assert (site / name).with_suffix(".html").exists()
        assert not re.search(r"^<!-- (run|printed|file:)", text, re.MULTILINE)


@pytest.mark.parametrize(("directory", "words"), [("", ["gpu-shortage", "sbatch"]), ("zh", ["资源", "sbatch"])])
def test_search_works_without_a_server(site: Path, directory: str, words: list[str]) -> None:
    """The index is a script, because a page opened from a file may not read other files."""
    script = (site / directory / "search" / "search_index.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("var __index = "))
    text = " ".join(entry["title"] + entry["text"] for entry in index["docs"])
    for word in words:
        assert word in text
